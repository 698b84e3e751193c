"""Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from smelt import tree
from smelt.derive import filled
from smelt.derive.jvp import push_forward
from smelt.derive.vjp import pull_back
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Node, build, shape_text
from smelt.tensor import Tensor, conjugated, to_node, wrap
from smelt.tensor.derivatives import scalar_root
from smelt.transform.arguments import Derived, called_with, flattened, function_of, positions, tensor_nodes, variables
from smelt.transform.waiting import let_wait

P = ParamSpec("P")
A = TypeVar("A")  # the argument to differentiate by, and its gradient
T = TypeVar("T")
X = TypeVar("X")  # what comes along with the value


@overload
def value_and_grad(
    function: Callable[Concatenate[A, P], Tensor], argnums: Literal[0] = ..., has_aux: Literal[False] = ...
) -> Derived[Concatenate[A, P], tuple[Tensor, A]]: ...
@overload
def value_and_grad(
    function: Callable[Concatenate[A, P], tuple[Tensor, X]], argnums: Literal[0] = ..., *, has_aux: Literal[True]
) -> Derived[Concatenate[A, P], tuple[tuple[Tensor, X], A]]: ...
@overload
def value_and_grad(
    function: Callable[P, T], argnums: Sequence[int], has_aux: bool = ...
) -> Derived[P, tuple[T, tuple[Any, ...]]]: ...
@overload
def value_and_grad(function: Callable[P, T], argnums: int, has_aux: bool = ...) -> Derived[P, tuple[T, Any]]: ...
def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Derived[..., Any]:
    """A function that gives the value of a scalar function, and its gradient by some of the arguments.

    The gradient has the structure of the argument: a tensor, or a tuple, list or dictionary of them. With several
    `argnums` it is a tuple of gradients. With `has_aux` the function returns (value, something else), and so does the
    first result. An argument that the value does not depend on has a gradient of zeros.

    >>> import smelt as sm
    >>> value, slope = sm.value_and_grad(lambda x: (x**2).sum())(sm.asarray([1.0, 3.0]))
    >>> value.tolist(), slope.tolist()
    (10.0, [2.0, 6.0])
    """
    return Derived(function, _both(function, argnums, has_aux, "value_and_grad"), "value_and_grad")


def _both(
    function: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, name: str
) -> Callable[..., tuple[Any, Any]]:
    """`value_and_grad` under the name that the user called."""
    function_of(function, name)

    def derived(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        places = positions(argnums, len(args), name)
        stand_ins = {k: variables(args[k], name, f"argument {k}") for k in places}
        result = called_with(function, args, stand_ins, kwargs)
        value, auxiliary = _parted(result, name) if has_aux else (result, None)
        root = scalar_root(value, name)
        inputs = [node for k in places for node in stand_ins[k].nodes]
        found = iter(filled(pull_back([root], [build.const(1, root.dtype)], inputs), inputs))
        gradients = [stand_ins[k].like([next(found) for _ in stand_ins[k].nodes]) for k in places]
        gradient = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        let_wait(value)
        return ((value, auxiliary) if has_aux else value), gradient

    return derived


@overload
def grad(
    function: Callable[Concatenate[A, P], Tensor], argnums: Literal[0] = ..., has_aux: Literal[False] = ...
) -> Derived[Concatenate[A, P], A]: ...
@overload
def grad(
    function: Callable[Concatenate[A, P], tuple[Tensor, X]], argnums: Literal[0] = ..., *, has_aux: Literal[True]
) -> Derived[Concatenate[A, P], tuple[A, X]]: ...
@overload
def grad(function: Callable[P, Any], argnums: Sequence[int], has_aux: bool = ...) -> Derived[P, tuple[Any, ...]]: ...
@overload
def grad(function: Callable[P, Any], argnums: int, has_aux: bool = ...) -> Derived[P, Any]: ...
def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Derived[..., Any]:
    """A function that gives the gradient of a scalar function; see `value_and_grad`. With `has_aux` it gives (gradient,
    something else).

    >>> import smelt as sm
    >>> sm.grad(lambda x: x**3)(sm.asarray(2.0)).tolist()
    12.0
    >>> sm.grad(sm.grad(lambda x: x**3))(2.0).tolist()
    12.0
    """
    both = _both(function, argnums, has_aux, "grad")

    def derived(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return Derived(function, derived, "grad")


@overload
def vjp(
    function: Callable[..., T], *primals: Any, has_aux: Literal[False] = ...
) -> tuple[T, Callable[[T], tuple[Any, ...]]]: ...
@overload
def vjp(
    function: Callable[..., tuple[T, X]], *primals: Any, has_aux: Literal[True]
) -> tuple[T, Callable[[T], tuple[Any, ...]], X]: ...
def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at `primals`, and a function that pulls cotangents of the value back to them.

    The pullback takes a tree like the value, and gives a tuple with one tree for each primal. With `has_aux` there is
    a third result.

    >>> import smelt as sm
    >>> value, pullback = sm.vjp(lambda x, y: x * y, sm.asarray([1.0, 2.0]), sm.asarray([3.0, 4.0]))
    >>> [x.tolist() for x in pullback(sm.asarray([1.0, 10.0]))]
    [[3.0, 40.0], [1.0, 20.0]]
    """
    name = "vjp"
    stand_ins = [variables(primal, name, f"primal {k}") for k, primal in enumerate(primals)]
    result = called_with(function_of(function, "vjp"), primals, dict(enumerate(stand_ins)), {})
    value, auxiliary = _parted(result, name) if has_aux else (result, None)
    roots, structure = tensor_nodes(value, name, "the value")
    inputs = [node for one in stand_ins for node in one.nodes]

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = conjugated(structure, _matching(cotangents, roots, structure, name, "the cotangent"))
        pairs = [(root, ct) for root, ct in zip(roots, given, strict=True) if root.dtype.is_float]
        found = pull_back([root for root, _ in pairs], [ct for _, ct in pairs], inputs)
        values = iter(filled(found, inputs))
        return tuple(one.like([next(values) for _ in one.nodes]) for one in stand_ins)

    return (value, pullback, auxiliary) if has_aux else (value, pullback)


@overload
def jvp(
    function: Callable[..., T], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = ...
) -> tuple[T, T]: ...
@overload
def jvp(
    function: Callable[..., tuple[T, X]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[T, T, X]: ...
def jvp(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function at `primals`, and how it changes as they change by `tangents`. With `has_aux` there is a
    third result.

    >>> import smelt as sm
    >>> value, change = sm.jvp(sm.sin, (sm.asarray(0.0),), (sm.asarray(2.0),))
    >>> value.tolist(), change.tolist()
    (0.0, 2.0)
    """
    name = "jvp"
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise ArgumentError("jvp: primals and tangents must be tuples", hint="Write (x,) for a single argument.")
    if len(primals) != len(tangents):
        raise ArgumentError(f"jvp: there are {len(primals)} primals and {len(tangents)} tangents")
    stand_ins = [variables(primal, name, f"primal {k}") for k, primal in enumerate(primals)]
    changes: dict[Node, Node] = {}
    for k, (one, tangent) in enumerate(zip(stand_ins, tangents, strict=True)):
        given = _matching(tangent, one.every, one.structure, name, f"tangent {k}")
        variable = set(one.nodes)
        changes.update((node, change) for node, change in zip(one.every, given, strict=True) if node in variable)
    result = called_with(function, primals, dict(enumerate(stand_ins)), {})
    value, auxiliary = _parted(result, name) if has_aux else (result, None)
    roots, structure = tensor_nodes(value, name, "the value")
    found = filled(push_forward(roots, changes), roots)
    change = tree.unflatten(structure, [wrap(node) for node in found])
    return (value, change, auxiliary) if has_aux else (value, change)


# --- results


def _parted(result: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(f"{name}: with has_aux the function must return (value, something else)")
    return result[0], result[1]


def _matching(value: Any, nodes: Sequence[Node], structure: tree.Structure, name: str, what: str) -> list[Node]:
    """The nodes of a tree that must look like another one."""
    leaves, given = flattened(value)
    if given != structure:
        raise ArgumentError(f"{name}: {what} has the structure {given}", rule=f"it must be {structure}.")
    found: list[Node] = []
    for leaf, node in zip(leaves, nodes, strict=True):
        plain = isinstance(leaf, bool | int | float)
        got = build.const(leaf, node.dtype) if plain else to_node(leaf, f"{name}: {what}")
        if got.shape != node.shape:
            raise ShapeError(
                f"{name}: {what} has shape {shape_text(got.shape)}", rule=f"it must be {shape_text(node.shape)}."
            )
        if got.dtype is not node.dtype and node.dtype.is_float:
            raise DTypeError(f"{name}: {what} is {got.dtype}", rule=f"it must be {node.dtype}.")
        found.append(got)
    return found
