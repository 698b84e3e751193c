"""From a graph as it was written to one that is cut into kernels: rewritten, planned, with composites written out.

Loops and branches are simplified with it: their bodies like any graph, and what goes into them and comes out.

- What nobody reads is not computed: values of the node, states and slices that only lead to such, sources.
- A state that every iteration gives on as it is, is a constant.
- A source that takes no memory (a number, a count, a scalar of the call, views of these) is put into the bodies.
- A branch on a number is the body that it chooses.
- A loop does nothing that can be done after it for all iterations at once (`lighter.py`).
- A loop that another one repeats and adds to, as the way back of a gradient does, runs once for both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from smelt.compiler.clamped import compare_clamped
from smelt.compiler.lighter import lightened
from smelt.compiler.trace import Argument
from smelt.graph import (
    CONTROL,
    Branch,
    Loop,
    Node,
    Op,
    bodies_of,
    composites,
    constant_value,
    make,
    open_body,
    parameter,
    parameter_types,
    rewritten,
    shown,
    topological,
    with_bodies,
)
from smelt.graph.closed import items, values_of
from smelt.rewrite import rewrite

Plans = Callable[[Sequence[Node]], list[Node]]  # from a graph to the cheapest of those that are equal
Values = dict[int, Node]  # of a loop or branch, by number: those that are read


def simplify(roots: Sequence[Node], plan: Plans = list) -> list[Node]:
    """Rewrite, plan, write composites out, rewrite what they became, read masks off what is clamped; in bodies, too."""
    return _simplified(roots, plan, {})


def _simplified(roots: Sequence[Node], plan: Plans, known: dict[tuple[Node, ...], list[Node]]) -> list[Node]:
    """`known` has what was simplified, and what that became: a body is met again wherever what is around it is
    simplified again, which is at every level of those that are nested.
    """
    key = tuple(roots)
    if key not in known:
        found = known[key] = _simplified_once(roots, plan, known)
        known[tuple(found)] = found
    return list(known[key])


def _simplified_once(roots: Sequence[Node], plan: Plans, known: dict[tuple[Node, ...], list[Node]]) -> list[Node]:
    roots = rewrite(roots)
    planned = plan(roots)
    roots = roots if planned == roots else rewrite(planned)
    order = topological(roots)
    if any(node.op is Op.COMPOSITE for node in order):
        roots = rewrite(rewritten(roots, _written_out))
    roots = compare_clamped(roots, _is_free)
    bodies = any(node.op in CONTROL for node in order)
    if not bodies:
        return roots
    roots = _simple_bodies(roots, functools.partial(_simplified, plan=plan, known=known))
    lighter = lightened(roots)
    return roots if lighter == roots else _simplified(lighter, plan, known)


def _written_out(node: Node, same: Node) -> Node:
    """A composite written out, whose parts may be composites as well."""
    if node.op is not Op.COMPOSITE:
        return same
    [whole] = rewritten([composites.expand(same)], _written_out, {source: source for source in same.sources})
    return whole


def _simple_bodies(roots: Sequence[Node], simplify: Plans) -> list[Node]:
    """The graph with its loops and branches simplified. Sources come first, so they are in their last form."""
    order = topological(roots)
    run = _larger_loops(order)
    read: dict[Node, set[int]] = {}
    for node in order:
        if node.op is Op.ITEM:
            read.setdefault(run.get(node.sources[0], node.sources[0]), set()).add(node.attribute)
    values: dict[Node, Values] = {}

    def simple(node: Node, same: Node) -> Node:
        if node.op is Op.ITEM:
            return values[run.get(node.sources[0], node.sources[0])][node.attribute]
        chosen = run.get(node, node)
        if node.op in CONTROL and chosen not in values:
            attribute = with_bodies(chosen.attribute, [simplify(body) for body in bodies_of(chosen)])
            found = make(node.op, node.dtype, node.shape, same.sources, attribute)
            if node.op is Op.HOST:
                values[chosen] = dict(enumerate(items(found)))
            else:
                values[chosen] = (_loop if node.op is Op.LOOP else _branch)(found, sorted(read[chosen]), simplify)
        return same

    return rewritten(roots, simple)


def _larger_loops(order: Sequence[Node]) -> dict[Node, Node]:
    """For loops that another one repeats, that one: the same but for further ys."""
    alike: dict[object, list[Node]] = {}
    for node in order:
        if node.op is Op.LOOP:
            alike.setdefault((node.sources, node.attribute._replace(body=())), []).append(node)
    found: dict[Node, Node] = {}
    for loops in alike.values():
        largest = max(loops, key=lambda node: len(node.attribute.body))
        body = largest.attribute.body
        found |= {node: largest for node in loops if body[: len(node.attribute.body)] == node.attribute.body}
    return found


def _branch(node: Node, read: Sequence[int], simplify: Plans) -> Values:
    predicate, *operands = node.sources
    bodies = [[body[k] for k in read] for body in node.attribute]
    if predicate.op is Op.CONST:
        return dict(zip(read, open_body(bodies[not constant_value(predicate)], operands), strict=True))
    needed = [k for k in sorted(_parameters([*bodies[0], *bodies[1]])) if not _is_free(operands[k])]
    arguments = _arguments(node, needed, dict(enumerate(operands)))
    closed = [tuple(simplify(open_body(body, arguments))) for body in bodies]
    return dict(zip(read, values_of(Branch(*closed), [predicate, *(operands[k] for k in needed)]), strict=True))


def _loop(node: Node, read: Sequence[int], simplify: Plans) -> Values:
    body, test, states, constants, xs, length, reverse = node.attribute
    sources = node.sources
    passed = {j for j in range(states) if body[j].op is Op.PARAMETER and body[j].attribute == j}
    asked = set() if test is None else _parameters(test)
    live = _live(body, states, passed, {*read, *(k for k in asked if k < states)} - passed)
    values: Values = {j: sources[j] for j in read if j in passed}
    if not live:
        return values
    needed = _parameters([body[k] for k in live]) | asked
    kept = [k for k in live if k < states]
    first = states + constants
    fixed = [k for k in range(first) if k in needed and k not in kept and not _is_free(sources[k])]
    slices = [k for k in range(first, first + xs) if k in needed]
    free = {k: sources[k] for k in range(first) if k not in kept and _is_free(sources[k])}
    arguments = _arguments(node, [*kept, *fixed, *slices, first + xs], free)
    closed = tuple(simplify(open_body([body[k] for k in live], arguments)))
    asking = None if test is None else tuple(simplify(open_body(test, arguments)))
    attribute = Loop(closed, asking, len(kept), len(fixed), len(slices), length, reverse)
    found = values_of(attribute, [sources[k] for k in (*kept, *fixed, *slices)])
    return values | dict(zip(live, found, strict=True))


def _live(body: Sequence[Node], states: int, passed: set[int], wanted: Iterable[int]) -> list[int]:
    """The roots of a loop's body that are wanted, or that make states which these need."""
    live: set[int] = set()
    waiting = list(wanted)
    while waiting:
        root = waiting.pop()
        if root not in live:
            live.add(root)
            waiting += [k for k in _parameters([body[root]]) if k < states and k not in passed]
    return sorted(live)


def _parameters(roots: Sequence[Node]) -> set[int]:
    """The numbers of the parameters that a closed graph reads."""
    return {node.attribute for node in topological(roots) if node.op is Op.PARAMETER}


def _arguments(node: Node, kept: Sequence[int], free: dict[int, Node]) -> list[Node]:
    """What stands for each parameter of a body: one with its new number, or what takes no memory."""
    number = {k: at for at, k in enumerate(kept)}
    types = parameter_types(node)
    return [
        free[k] if k in free and k not in number else parameter(number.get(k, k), *types[k]) for k in range(len(types))
    ]


def _is_free(node: Node) -> bool:
    """Whether a node takes no memory: it may stand in a body as it is."""
    node = shown(node)
    if node.op is Op.LEAF:
        return isinstance(node.attribute, Argument) and node.attribute.kind == "scalar"
    return node.op is Op.CONST or node.op is Op.IOTA
