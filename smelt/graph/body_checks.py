"""Checks of indices inside the bodies of loops and branches, carried out of them.

A loop gets one more state for each check, which keeps the worst that was found in any iteration; a branch gives what
its chosen body has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.dtypes import int64
from smelt.graph import build
from smelt.graph.checks import FINE, Check, checks_of
from smelt.graph.closed import bodies_of, branch, items, loop, open_body, parameter, parameter_types
from smelt.graph.node import Node, topological, with_sources
from smelt.graph.ops import CONTROL, Branch, Loop, Op

Found = dict[Node, Check]  # scalars that are FINE or an index outside its axis, and what to say then


class Checked(NamedTuple):
    """A graph that reports indices, also those of bodies."""

    roots: list[Node]
    checks: Found


def with_checks(roots: Sequence[Node]) -> Checked:
    """The graph, with loops and branches that give what their checks have found, and all checks."""
    order = topological(roots)
    if not any(node.op in CONTROL and node.leaf is None for node in order):
        return Checked(list(roots), checks_of(order))
    new: dict[Node, Node] = {}
    values: dict[Node, list[Node]] = {}  # of the loops and branches
    found: Found = {}
    for node in order:
        if node.leaf is not None:
            new[node] = node
        elif node.op is Op.ITEM:
            new[node] = values[node.sources[0]][node.attribute]
        else:
            new[node] = replaced = with_sources(node, tuple([new[source] for source in node.sources]))
            if node.op in CONTROL:
                values[node], more = _WITH_CHECKS[node.op](replaced)
                found |= more
    changed = [new[root] for root in roots]
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
    values = branch(attribute, node.sources[0], node.sources[1:])
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
    values = loop(attribute, [*node.sources[:states], *([fine] * more), *node.sources[states:]])
    kept = [*values[:states], *values[states + more :]]
    found = dict(zip(values[states : states + more], checks.values(), strict=True))
    # The test that ends the loop is not followed by an iteration.
    last = open_body(list(test.checks), [*kept[:states], *node.sources[states:]])
    return kept, found | dict(zip(last, test.checks.values(), strict=True))


def _host(node: Node) -> tuple[list[Node], Found]:
    return items(node), {}


_WITH_CHECKS: Final = {Op.LOOP: _loop, Op.BRANCH: _branch, Op.HOST: _host}
