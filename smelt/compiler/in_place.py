"""States of a loop that stay where they are: each iteration writes over what it has read.

That is right where the launch that writes the next state only reads the old one at the very element that it writes, or
scatters into it, and nobody reads the old one afterwards. A launch waits for other readers where it can. The state then
has one place instead of two, and a scatter touches what it updates instead of copying everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from smelt.compiler.work import AnyWork, Block, Value, Work
from smelt.graph import Node
from smelt.kernel import Routine, Temporary

Remake = Callable[[Work, Routine], Work]  # a launch with another routine


def in_place(block: Block, states: int, remake: Remake) -> tuple[Block, frozenset[int]]:
    """The body with states that stay in their place, and the numbers of these. They are found one after the other."""
    work = list(block.work)
    kept: dict[Value, AnyWork] = {}  # by leaf, what writes over it
    for leaf, root in zip(block.leaves[:states], block.stored[:states], strict=True):
        writers = [item for item in work if root in item.written]
        item = writers[0] if len(writers) == 1 else None
        ready = _overwriting(item, root, leaf, remake) if isinstance(item, Work) else None
        order = None if ready is None else _waiting([ready if other is item else other for other in work], ready, leaf)
        if ready is None or order is None:
            continue
        last = {node: other for other in order for node in other.nodes}
        if all(last[node] is other for node, other in (*kept.items(), (leaf, ready))):
            work, kept[leaf] = order, ready
    stay = frozenset(j for j, leaf in enumerate(block.leaves[:states]) if leaf in kept)
    return Block(work, block.stored, block.leaves), stay


def _overwriting(item: Work, root: Node, leaf: Node, remake: Remake) -> Work | None:
    """The launch that writes a result over a leaf, if there is one."""
    places = dict(zip(item.written, item.overwritable, strict=False))
    if leaf in places.get(root, ()):
        return item
    routine = item.built.kernel
    if not isinstance(routine, Routine) or routine.template != "scatter":
        return None
    words = routine.words
    alone = item.nodes[1] is leaf and sum(node is leaf for node in item.nodes) == 1
    if not alone or words["target"] != "whole" or "accumulator" in words:
        return None
    return remake(item, replace(routine, words={**words, "target": "in place"}))


def _waiting(work: Sequence[AnyWork], item: AnyWork, leaf: Node) -> list[AnyWork] | None:
    """The launches in an order in which an item comes after all others that read a leaf."""
    at = work.index(item)
    last = max((k for k, other in enumerate(work) if k != at and leaf in other.nodes), default=-1)
    between = list(work[at + 1 : last + 1])
    written = {*item.written, *(node for node in item.nodes if isinstance(node, Temporary))}
    if any(not written.isdisjoint(other.nodes) for other in between):
        return None
    return [*work[:at], *between, item, *work[max(at, last) + 1 :]]
