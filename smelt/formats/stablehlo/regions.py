"""Bodies of reductions, scatters and sorts: graphs of scalars, recognized or applied to whole tensors.

A body is read by the same rows as everything else, so a body that computes what a known function computes *is* that
function's graph: they are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from smelt.derive import batch
from smelt.dtypes import DType
from smelt.formats.stablehlo.elementwise import FUNCTIONS
from smelt.formats.stablehlo.rows import Call, Value, stand_in
from smelt.graph import ELEMENTWISE, Node, Op, Shape, build, made, pairs, product_of, topological


class Body(NamedTuple):
    """A graph of scalars: what it gives for its parameters."""

    parameters: list[Node]
    roots: list[Node]

    @property
    def dtypes(self) -> list[DType]:
        """Of what it gives."""
        return [root.dtype for root in self.roots]


def read_body(call: Call, dtypes: Sequence[DType], gives: Sequence[DType], k: int = 0) -> Body:
    """Region number k of an operation, whose arguments and results are scalars of these dtypes."""
    parameters = [stand_in(dtype, ()) for dtype in dtypes]
    return _checked(call, parameters, call.reading.region(call.region(k), parameters, call.scope), gives)


def read_function(call: Call, name: str, dtypes: Sequence[DType]) -> Body:
    """The same of a function: half of its arguments are what it gives."""
    parameters = [stand_in(dtype, ()) for dtype in dtypes]
    roots = call.reading.function(name, parameters, call.operation)
    return _checked(call, parameters, roots, dtypes[: len(dtypes) // 2])


def _checked(call: Call, parameters: list[Node], roots: Sequence[Value], gives: Sequence[DType]) -> Body:
    found = [(root.dtype, root.shape) if isinstance(root, Node) else None for root in roots]
    if found != [(dtype, ()) for dtype in gives]:
        call.wrong(f"its body should give scalars: {', '.join(map(str, gives))}")
    return Body(parameters, list(roots))


# What reductions, scans and scatters of the graph can do, by the function of two scalars.
_KNOWN: Final[dict[str, str]] = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
_KNOWN_ON_BOOLS: Final[dict[str, str]] = {"max": "or", "min": "and"}


def known(body: Body) -> str | None:
    """The reduction that a body of two scalars is: add, mul, max or min; of bools, or is max and and is min."""
    (a, b), roots = body.parameters, body.roots
    if len(roots) != 1 or a.dtype is not b.dtype:
        return None
    for op, name in (_KNOWN_ON_BOOLS if a.dtype.is_bool else {}).items():
        if roots[0] is FUNCTIONS[name](a, b) or roots[0] is FUNCTIONS[name](b, a):
            return op
    for op, name in _KNOWN.items():
        if (a.dtype.is_bool and op in ("add", "mul")) or (a.dtype.is_complex and op in ("max", "min")):
            continue
        if roots[0] is FUNCTIONS[name](a, b) or roots[0] is FUNCTIONS[name](b, a):
            return op
    return None


def split(body: Body, count: int) -> list[Body] | None:
    """A body of `count` pairs as one body for each, if no result depends on another pair."""
    if count == 1:
        return [body]
    parts: list[Body] = []
    for k, root in enumerate(body.roots):
        own = [body.parameters[k], body.parameters[count + k]]
        others = set(pairs.all_parts(body.parameters)) - set(pairs.all_parts(own))
        if others & set(topological([root], through_leaves=True)):
            return None
        parts.append(Body(own, [root]))
    return parts


def lifted(body: Body, arguments: Sequence[Node]) -> list[Node]:
    """What a body gives for whole tensors of one shape, element by element."""
    shape = arguments[0].shape
    parameters, arguments = pairs.all_parts(body.parameters), pairs.all_parts(arguments)
    roots = pairs.all_parts(body.roots)
    new = dict(zip(parameters, arguments, strict=True))
    order = topological(roots, through_leaves=True, known=new)
    dependent = set(parameters)
    for node in order:
        if not dependent.isdisjoint(node.sources):
            dependent.add(node)
    if any(node in dependent and node.op not in ELEMENTWISE for node in order):
        return pairs.in_pairs(body.dtypes, _batched(Body(parameters, roots), arguments, shape))
    for node in order:
        if node in dependent:
            sources = tuple([_spread(new.get(source, source), shape) for source in node.sources])
            new[node] = made(node.op, node.dtype, shape, sources, node.attribute)
    return pairs.in_pairs(body.dtypes, [_spread(new.get(root, root), shape) for root in roots])


def _spread(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else build.broadcast_to(node, shape)


def _batched(body: Body, arguments: Sequence[Node], shape: Shape) -> list[Node]:
    """Bodies with loops and the like, of real numbers: all elements are one batch."""
    size = product_of(shape)
    flat = [build.reshape(x, (size,)) for x in arguments]
    given = dict(zip(body.parameters, flat, strict=True))
    return [build.reshape(x, shape) for x in batch.batch(body.roots, given, size)]


Combine = Callable[[Sequence[Node], Sequence[Node]], list[Node]]


def combining(body: Body) -> Combine:
    """A body of pairs as a function of all left and all right tensors."""
    return lambda left, right: lifted(body, [*left, *right])


__all__ = ["Body", "Combine", "Op", "combining", "known", "lifted", "read_body", "read_function", "split"]
