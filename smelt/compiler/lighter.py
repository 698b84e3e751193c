"""Loops that do less: what can be made of what they stack anyway is made after them, for all iterations at once.

- A y that is another y, a slice of an x, or elementwise in such: computed where it is read.
- A y that is the state before the iteration, where the state after it is a y: what is stacked, moved by one.
- A state that only sums up: one sum, mostly a product, of what is stacked. Step by step, all of it is read and written
  each time.

smelt's own ways back are written so. In what others print, a `scan` has the gradients of its weights as states, and
stacks whatever its way back reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from smelt.derive import batch, control, custom, sums
from smelt.graph import (
    ELEMENTWISE,
    VIEWS,
    Loop,
    Node,
    Op,
    build,
    constant_of,
    constant_value,
    items,
    open_body,
    parameter_types,
    rewritten,
    substituted,
    topological,
    users,
    values_of,
)


def lightened(roots: Sequence[Node]) -> list[Node]:
    """The graph with its loops doing less, the loops inside of bodies left as they are."""
    values: dict[Node, list[Node]] = {}

    def change(node: Node, same: Node) -> Node:
        if node.op is Op.ITEM and node.sources[0] in values:
            found: Node = values[node.sources[0]][node.attribute]
            return found
        if node.op is Op.LOOP and node.attribute.length is not None:
            values[node] = _lighter(same)
        return same

    return rewritten(roots, change)


class _Opened(NamedTuple):
    """A loop whose body is computed from stand-ins."""

    states: list[Node]
    constants: list[Node]
    xs: list[Node]
    step: Node  # the number of the iteration
    after: list[Node]  # the next states
    ys: list[Node]


def _opened(node: Node) -> _Opened:
    loop: Loop = node.attribute
    own = [custom.stand_in(*kind) for kind in parameter_types(node)]
    first = loop.states + loop.constants
    roots = open_body(loop.body, own)
    states, constants, xs = own[: loop.states], own[loop.states : first], own[first:-1]
    return _Opened(states, constants, xs, own[-1], roots[: loop.states], roots[loop.states :])


def _lighter(node: Node) -> list[Node]:
    """The values of a loop, from one that does less, if there is such."""
    loop: Loop = node.attribute
    assert loop.length is not None
    own = _opened(node)
    terms = {} if loop.length == 1 else dict(_terms(own))
    firsts = [node.sources[k] for k in terms]
    chosen, more = sums.afterwards(list(terms.values()), [*own.xs, *own.ys], own.constants, firsts)
    later = [list(terms)[k] for k in chosen]
    kept = [k for k in range(loop.states) if k not in later]
    ys = list(dict.fromkeys([*own.ys, *more]))
    leaving = _leaving(own, kept, ys)
    staying = [y for y in ys if y not in leaving]
    if not later and staying == own.ys:
        return items(node)
    inputs = [*(own.states[k] for k in kept), *own.constants, *own.xs, own.step]
    body = control.closed_over([*(own.after[k] for k in kept), *staying], inputs)
    fixed, xs = node.sources[loop.states : -loop.xs or None], node.sources[len(node.sources) - loop.xs :]
    found = values_of(loop._replace(body=body, states=len(kept)), [*(node.sources[k] for k in kept), *fixed, *xs])
    stacks = dict(zip([*own.xs, *staying], [*xs, *found[len(kept) :]], strict=True))
    for k in kept:
        if own.after[k] in staying:
            stacks[own.states[k]] = control.before(node.sources[k], stacks[own.after[k]], loop.reverse)
    for y in leaving:
        if y not in stacks:
            [whole] = batch.batch([y], stacks, loop.length)
            [stacks[y]] = substituted([whole], dict(zip(own.constants, fixed, strict=True)))
    last = dict(zip(kept, found, strict=False))
    last |= {k: _plus(node.sources[k], sums.summed(terms[k], stacks)) for k in later}
    return [*(last[k] for k in range(loop.states)), *(stacks[y] for y in own.ys)]


def _plus(first: Node, total: Node) -> Node:
    zero = constant_of(first)
    return total if zero is not None and constant_value(zero) == 0 else build.add(first, total)


def _terms(own: _Opened) -> Iterator[tuple[int, Node]]:
    """What is added to states that nothing else is done with, by their numbers."""
    roots = [*own.after, *own.ys]
    read = users([*own.states, *topological(roots)])
    for k, (state, after) in enumerate(zip(own.states, own.after, strict=True)):
        once = roots.count(after) == 1 and state not in roots
        if once and after.op is Op.BINARY and after.attribute == "add" and read[state] == [after] and not read[after]:
            a, b = after.sources
            yield k, b if a is state else a


_ANYWHERE: Final = ELEMENTWISE | VIEWS | {Op.CONST, Op.IOTA, Op.LEAF}


def _leaving(own: _Opened, kept: Sequence[int], ys: Sequence[Node]) -> list[Node]:
    """The ys that can be made of what is stacked otherwise, but for what the loop computes anyway; sources first."""
    given = [k for k in kept if own.after[k] in ys and own.after[k].op is not Op.ALIAS]
    afters = {own.after[k] for k in given}
    there = {*own.xs, *own.constants, *(own.states[k] for k in given)}
    cones = {y: topological([y], known={*there, *ys} - {y}) if y not in there else [] for y in ys}
    made = [y for y, cone in cones.items() if y not in afters and all(node.op in _ANYWHERE for node in cone)]
    inside = set(topological([*(own.after[k] for k in kept), *(y for y in ys if y not in made)]))
    leaving = [y for y in made if not any(node in inside and node.op in ELEMENTWISE for node in cones[y])]
    order = {node: at for at, node in enumerate(topological(ys))}
    return sorted(leaving, key=order.__getitem__)
