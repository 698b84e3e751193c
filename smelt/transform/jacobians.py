"""Matrices of derivatives: `jacobian` and `hessian`. One pass for all rows, batched over the directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from smelt import tree
from smelt.derive import filled, zeros
from smelt.derive.batch import batch
from smelt.derive.jvp import push_forward
from smelt.derive.vjp import pull_back
from smelt.dtypes import int64
from smelt.errors import DTypeError
from smelt.graph import Node, build, product_of, row_major
from smelt.runtime import Placeholder
from smelt.tensor import imaginary, wrap
from smelt.tensor.derivatives import scalar_root
from smelt.transform.arguments import Derived, Variables, called_with, function_of, positions, tensor_nodes, variables

P = ParamSpec("P")


def jacobian(function: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Derived[P, Any]:
    """A function that gives all derivatives of a function's results by some of its arguments.

    A result of shape s has by an argument of shape a derivatives of shape s + a. Results and arguments may be trees:
    there is a tree like the argument in the place of each result.

    >>> import smelt as sm
    >>> sm.jacobian(lambda x: x[:2] * x[2])(sm.asarray([1.0, 2.0, 3.0])).tolist()
    [[3.0, 0.0, 1.0], [0.0, 3.0, 2.0]]
    """
    name = "jacobian"
    function_of(function, name)

    def derived(*args: Any, **kwargs: Any) -> Any:
        places, stand_ins = _variables(args, argnums, name)
        result = called_with(function, args, stand_ins, kwargs)
        roots, structure = tensor_nodes(result, name, "the value")
        inputs = [node for k in places for node in stand_ins[k].nodes]
        rows = [_rows(root, inputs) for root in roots]
        return tree.unflatten(structure, [_arranged(row, places, stand_ins, argnums) for row in rows])

    return Derived(function, derived, name)


def hessian(function: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Derived[P, Any]:
    """A function that gives all second derivatives of a scalar function: a tree like the argument in the place of each
    of its leaves, of shape (shape of one leaf) + (shape of the other).

    >>> import smelt as sm
    >>> sm.hessian(lambda x: x[0] ** 2 * x[1])(sm.asarray([1.0, 5.0])).tolist()
    [[10.0, 2.0], [2.0, 0.0]]
    """
    name = "hessian"
    function_of(function, name)

    def derived(*args: Any, **kwargs: Any) -> Any:
        places, stand_ins = _variables(args, argnums, name)
        root = scalar_root(called_with(function, args, stand_ins, kwargs), name)
        inputs = [node for k in places for node in stand_ins[k].nodes]
        slopes = filled(pull_back([root], [build.const(1, root.dtype)], inputs), inputs)
        columns = [_columns(slopes, x) for x in inputs]  # by the leaf of the second derivative, then the first
        rows = [[column[k] for column in columns] for k in range(len(inputs))]
        return _nested([_arranged(row, places, stand_ins, argnums) for row in rows], places, stand_ins, argnums)

    return Derived(function, derived, name)


def _variables(args: Any, argnums: int | Sequence[int], name: str) -> tuple[list[int], dict[int, Variables]]:
    places = positions(argnums, len(args), name)
    if any(any(imaginary(tree.flatten(args[k])[1])) for k in places):
        raise DTypeError(f"{name}: an argument is complex", hint="Write the function of sm.real(x) and sm.imag(x).")
    return places, {k: variables(args[k], name, f"argument {k}") for k in places}


def _basis(node: Node) -> Node:
    """All directions of a value: its shape, with one more axis in front that counts its elements."""
    count = product_of(node.shape)
    number = build.iota(count, int64)
    hit = build.eq(build.reshape(number, (count, 1)), build.reshape(number, (1, count)))
    return build.reshape(build.cast(hit, node.dtype), (count, *node.shape))


def _direction(node: Node) -> Node:
    return Placeholder(node.dtype, node.shape, row_major(node.shape)).node()


def _rows(root: Node, inputs: Sequence[Node]) -> list[Node]:
    """The derivatives of one result by every input, in reverse mode."""
    if not root.dtype.is_float:
        return [zeros((*root.shape, *x.shape), x) for x in inputs]
    direction = _direction(root)
    found = filled(pull_back([root], [direction], inputs), inputs)
    rows = batch(found, {direction: _basis(root)}, product_of(root.shape))
    return [build.reshape(row, (*root.shape, *x.shape)) for row, x in zip(rows, inputs, strict=True)]


def _columns(outputs: Sequence[Node], x: Node) -> list[Node]:
    """The derivatives of every output by one input, in forward mode."""
    direction = _direction(x)
    found = filled(push_forward(outputs, {x: direction}), outputs)
    columns = batch(found, {direction: _basis(x)}, product_of(x.shape))
    moved = [build.permute(column, (*range(1, column.rank), 0)) for column in columns]
    return [build.reshape(one, (*y.shape, *x.shape)) for one, y in zip(moved, outputs, strict=True)]


def _arranged(nodes: Sequence[Node], places: list[int], stand_ins: dict[int, Variables], argnums: Any) -> Any:
    return _nested([wrap(node) for node in nodes], places, stand_ins, argnums)


def _nested(values: Sequence[Any], places: list[int], stand_ins: dict[int, Variables], argnums: Any) -> Any:
    """One value for each leaf of the chosen arguments, as the arguments are built; None for constants among them."""
    rest = iter(values)
    rows = [[next(rest) if constant is None else None for constant in stand_ins[k].constants] for k in places]
    found = [tree.unflatten(stand_ins[k].structure, row) for k, row in zip(places, rows, strict=True)]
    return found[0] if isinstance(argnums, int) else tuple(found)
