"""Indices that must lie inside their axes: small reductions beside a graph, which say whether one did not.

A gather or scatter with `checked` is safe whatever its indices are; that one of them lies outside is reported after the
graph has run. Indices whose range the graph shows need no check. Checks inside the bodies of loops and branches are
carried out of them: a loop gets one more state for each, which keeps the worst that was found in any iteration; a
branch gives what its chosen body has found.

What a traced function does besides giving values stands beside a graph like a check: nodes to compute although no
result depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from smelt.dtypes import int64, uint64
from smelt.errors import IndexRangeError, Location, user_location
from smelt.graph import build, origins
from smelt.graph.closed import items, open_body, parameter, values_of
from smelt.graph.index import Index, IndexLike
from smelt.graph.node import Node, constant_value, shown, topological
from smelt.graph.ops import CONTROL, Branch, Loop, Op
from smelt.graph.ranges import Ranges
from smelt.graph.rewritten import bodies_of, rewritten
from smelt.graph.verify import parameter_types

FINE = int(int64.minimum)  # the value of a check that found nothing


class Check(NamedTuple):
    """What to say about an index outside its axis, and where the user wrote it."""

    name: str
    axis: int
    size: IndexLike
    location: Location | None

    def report(self, found: int) -> None:
        """Raise if a check has found an index."""
        if found == FINE:
            return
        allowed = f"allowed here: {-self.size} to {self.size - 1}." if isinstance(self.size, int) else ""
        raise IndexRangeError(
            f"{self.name}: index {found} is out of range for axis {self.axis} of size {self.size}",
            rule=allowed,
            location=self.location,
        )


Found = dict[Node, Check]  # scalars that are FINE or an index outside its axis, and what to say then
DONE = Check("an effect", 0, 0, None)  # of an effect, which has nothing to say


def written(node: Node, name: str) -> Node:
    """Note the user's line as the one that wrote a checked gather or scatter; `name` is the function called there."""
    if node.op is Op.COMPLEX:
        for part in node.sources:
            written(part, name)
    elif node.attribute.checked and node not in origins.written:
        origins.written[node] = origins.Written(name, user_location())
    return node


def checks_of(order: Iterable[Node]) -> Found:
    """For the nodes of a graph: scalars that are `FINE` or an index outside its axis, and what to say then."""
    found: Found = {}
    ranges = Ranges()
    for node in order:
        if (node.op is Op.GATHER or node.op is Op.SCATTER) and node.attribute.checked and node.leaf is None:
            name, location, batched = origins.written.get(node, origins.Written(node.op.value, None))
            first = 1 if node.op is Op.GATHER else 2
            for axis, (k, size) in enumerate(zip(node.attribute.axes, node.sources[0].shape, strict=True)):
                if k < 0 and not ranges.inside(node.sources[first - 1 - k], size):
                    check = Check(name, axis - batched, size, location)
                    found.setdefault(_worst(node.sources[first - 1 - k], size), check)
    return found


def _worst(index: Node, size: IndexLike) -> Node:
    """The largest index that lies outside, or `FINE`."""
    index, wrapped = _original(index)
    if index.dtype is uint64:
        index = build.minimum(index, build.const(int64.maximum, index.dtype))
    index = build.cast(index, int64)
    end = build.broadcast_to(build.size_node(size, int64), index.shape)
    start = build.neg(end) if wrapped else build.const(0, index.dtype)
    inside = build.bitwise_and(build.le(start, index), build.lt(index, end))
    # The smallest integer of all means that nothing was found.
    outside = build.maximum(index, build.const(FINE + 1, index.dtype))
    kept = build.where(inside, build.const(FINE, index.dtype), outside)
    return build.reduce("max", kept, tuple(range(kept.rank))) if kept.rank else kept


def _original(index: Node) -> tuple[Node, bool]:
    """The index as the user gave it, not repeated, and whether negative ones count from the end."""
    index = _bare(index)
    if index.op is Op.WHERE and index.leaf is None:
        condition, _, given = index.sources
        if condition.op is Op.BINARY and condition.attribute == "lt" and condition.sources[0] is given:
            zero = _bare(condition.sources[1])
            if zero.op is Op.CONST and constant_value(zero) == 0:
                return _bare(given), True
    return index, False


def _bare(node: Node) -> Node:
    """A node that is not merely repeated or seen in another shape."""
    return shown(node, {Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.ALIAS})


def wrapped(index: Node, size: IndexLike, ranges: Ranges) -> Node:
    """Negative indices counted from the end of an axis."""
    if ranges(index)[0] >= 0:
        return index
    if isinstance(size, Index) or size > index.dtype.maximum:
        index = build.cast(index, int64)
    count = build.cast(build.size_node(size, int64), index.dtype)
    negative = build.lt(index, build.const(0, index.dtype))
    return build.where(negative, build.add(index, build.broadcast_to(count, index.shape)), index)


# --- inside of loops and branches


class Checked(NamedTuple):
    """A graph that reports indices, also those of bodies."""

    roots: list[Node]
    checks: Found


def with_checks(roots: Sequence[Node]) -> Checked:
    """The graph, with loops and branches that give what their checks have found, and all checks."""
    values: dict[Node, list[Node]] = {}  # of the loops and branches
    found: Found = {}

    def change(node: Node, same: Node) -> Node:
        if node.leaf is not None:
            return node
        if node.op is Op.ITEM:
            return values[node.sources[0]][int(node.attribute)]
        if node.op in CONTROL:
            values[node], more = _WITH_CHECKS[node.op](same)
            found.update(more)
        return same

    changed = rewritten(roots, change)
    return Checked(changed, checks_of(topological(changed)) | found)


def _branch(node: Node) -> tuple[list[Node], Found]:
    """The values of a branch, and what it has found: nothing, on the side of the other body."""
    bodies = [with_checks(body) for body in bodies_of(node)]
    checks = [check for body in bodies for check in body.checks.values()]
    if not checks:
        return items(node), {}
    fine = build.const(FINE, int64)
    (true, yes), (false, no) = bodies
    attribute = Branch((*true, *yes, *([fine] * len(no))), (*false, *([fine] * len(yes)), *no))
    values = values_of(attribute, node.sources)
    return values[: len(true)], dict(zip(values[len(true) :], checks, strict=True))


def _loop(node: Node) -> tuple[list[Node], Found]:
    """The values of a loop, and the worst that its iterations and its last test have found."""
    loop_: Loop = node.attribute
    body = with_checks(loop_.body)
    test = Checked([], {}) if loop_.test is None else with_checks(loop_.test)
    checks = {**test.checks, **body.checks}
    if not checks:
        return items(node), {}
    states, more = loop_.states, len(checks)
    types = parameter_types(node)
    moved = [parameter(k if k < states else k + more, *kind) for k, kind in enumerate(types)]
    opened = open_body([*body.roots, *checks], moved)
    worst = [
        build.maximum(parameter(states + k, int64, ()), check) for k, check in enumerate(opened[len(body.roots) :])
    ]
    attribute = loop_._replace(
        body=(*opened[:states], *worst, *opened[states : len(body.roots)]),
        test=None if loop_.test is None else tuple(open_body(test.roots, moved)),
        states=states + more,
    )
    fine = build.const(FINE, int64)
    values = values_of(attribute, [*node.sources[:states], *([fine] * more), *node.sources[states:]])
    kept = [*values[:states], *values[states + more :]]
    found = dict(zip(values[states : states + more], checks.values(), strict=True))
    # The test that ends the loop is not followed by an iteration.
    last = open_body(list(test.checks), [*kept[:states], *node.sources[states:]])
    return kept, found | dict(zip(last, test.checks.values(), strict=True))


_WITH_CHECKS: Final[dict[Op, Callable[[Node], tuple[list[Node], Found]]]] = {
    Op.LOOP: _loop,
    Op.BRANCH: _branch,
    Op.HOST: lambda node: (items(node), {}),
}
