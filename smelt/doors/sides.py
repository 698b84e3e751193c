"""Both sides of an equality as graphs, for some types of its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from smelt import runtime
from smelt.doors.compared import Array
from smelt.dtypes import DType
from smelt.egraph import Frozen
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import CONTROL, Node, Op, Shape, private_nodes, row_major, shape_text, topological
from smelt.graph import without_aliases as plain
from smelt.graph.interpret import interpret
from smelt.rewrite import rewrite
from smelt.runtime import Placeholder
from smelt.tensor import Tensor, wrap

Types = tuple[tuple[DType, Shape], ...]


class Sides(NamedTuple):
    """What is written and what it equals, over the variables: as the user has them, and as rewriting leaves them."""

    written: tuple[Frozen, Frozen]
    left: Frozen
    right: Frozen


def sides_of(function: Callable[..., Any], names: Sequence[str], types: Types, name: str) -> Sides:
    """Run a function on stand-ins of these types; raises for what cannot be one side of a rule."""
    with private_nodes():
        given = [Placeholder(dtype, shape, row_major(shape)).node() for dtype, shape in types]
        with runtime.tracing() as recorded:
            found = function(*[wrap(node) for node in given])
        if recorded.draws or recorded.effects:
            raise ArgumentError(f"{name}: it draws random numbers or has effects", rule="both sides are functions.")
        left, right = plain(_both(found, name))
        _check(left, right, given, names, name)
        simple = [rewrite([side])[0] for side in (left, right)]
        first, second, third, fourth = (_frozen(side, given) for side in (left, right, *simple))
        return Sides((first, second), third, fourth)


def _frozen(root: Node, given: Sequence[Node]) -> Frozen:
    return Frozen.of(topological([root], known=set(given)), given, [root])


def _both(found: Any, name: str) -> list[Node]:
    if not isinstance(found, tuple | list) or len(found) != 2 or not all(isinstance(x, Tensor) for x in found):
        shown = f"a tuple of {len(found)}" if isinstance(found, tuple) else type(found).__name__
        raise ArgumentError(
            f"{name}: it returns {shown}",
            rule="a rule returns two tensors: what is written, and what it equals.",
            hint="Write return (x @ w) * s, (x * s) @ w.",
        )
    return [side._node for side in found]


def _check(left: Node, right: Node, given: Sequence[Node], names: Sequence[str], name: str) -> None:
    if left.shape != right.shape:
        raise ShapeError(
            f"{name}: the left side has shape {shape_text(left.shape)}, the right side {shape_text(right.shape)}",
            rule="both sides must have the same shape.",
        )
    if left.dtype is not right.dtype:
        raise DTypeError(
            f"{name}: the left side is {left.dtype}, the right side {right.dtype}",
            rule="both sides must have the same dtype.",
        )
    bound = {node for node in topological([left]) if node.op is Op.LEAF}
    for side, root in (("left", left), ("right", right)):
        for node in topological([root]):
            if node.op in CONTROL:
                raise ArgumentError(
                    f"{name}: there is a loop, a branch or a callback on the {side} side",
                    rule="rules are about tensor operations.",
                )
            if node.op is Op.LEAF and node not in given:
                raise ArgumentError(
                    f"{name}: the {side} side reads a tensor that is not among the arguments",
                    rule="the variables of a rule are the arguments of its function.",
                    hint="Take it as an argument.",
                )
            if node.op is Op.LEAF and node not in bound:
                raise ArgumentError(
                    f"{name}: the right side reads {names[given.index(node)]}, which the left side does not bind",
                    rule="what a variable stands for is found on the left side.",
                )
    for node, variable in zip(given, names, strict=True):
        if node not in bound:
            raise ArgumentError(f"{name}: no side reads {variable}", hint="Leave the argument out.")


def interpreted(graph: Frozen, types: Types, arrays: Sequence[Array]) -> list[Array]:
    """What the reference interpreter gives for a graph over inputs of these types."""
    with private_nodes():
        leaves = list(leaves_of(types))
        return interpret(graph.over(leaves), dict(zip(leaves, arrays, strict=True)))


def leaves_of(types: Types) -> Iterator[Node]:
    """Leaves of these types, to compute or match with."""
    for dtype, shape in types:
        yield Placeholder(dtype, shape, row_major(shape)).node()
