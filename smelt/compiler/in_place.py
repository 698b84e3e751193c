"""States of a loop that stay where they are: each iteration writes over what it has read.

That is right where the launch that writes the next state only reads the old one at the very element that it writes, or
scatters into it, and nobody reads the old one afterwards. A launch waits for other readers where it can. The state then
has one place instead of two, and a scatter touches what it updates instead of copying everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.compiler.work import AnyWork, Block, Work
from smelt.graph import Node
from smelt.kernel import Routine, Temporary

Remake = Callable[[Work, Routine], Work]  # a launch with another routine


class InPlace(NamedTuple):
    """A body in which some states stay in their place, and the numbers of these."""

    block: Block
    states: frozenset[int]


class _Kept(NamedTuple):
    leaf: Node
    item: AnyWork


def in_place(block: Block, states: int, remake: Remake) -> InPlace:
    """Find the states that can stay, one after the other."""
    work = list(block.work)
    kept: dict[int, _Kept] = {}
    for j, (leaf, root) in enumerate(zip(block.leaves[:states], block.stored[:states], strict=True)):
        writers = [k for k, item in enumerate(work) if root in item.written]
        item = work[writers[0]] if len(writers) == 1 else None
        ready = _overwriting(item, root, leaf, remake) if isinstance(item, Work) else None
        if item is None or ready is None:
            continue
        order = _waiting(work, item, leaf)
        if order is not None and all(_is_last(order, leaf, item) for leaf, item in (*kept.values(), (leaf, item))):
            work = [ready if other is item else other for other in order]
            kept[j] = _Kept(leaf, ready)
    return InPlace(Block(work, block.stored, block.leaves), frozenset(kept))


def _overwriting(item: Work, root: Node, leaf: Node, remake: Remake) -> Work | None:
    """The launch that writes a result over a leaf, if there is one."""
    places = dict(zip(item.written, item.overwritable, strict=False))
    if leaf in places.get(root, ()):
        return item
    routine = item.built.kernel
    if not isinstance(routine, Routine) or routine.template != "scatter":
        return None
    words = dict(routine.words)
    alone = item.nodes[1] is leaf and sum(node is leaf for node in item.nodes) == 1
    if not alone or words["target"] != "whole" or "accumulator" in words:
        return None
    return remake(item, replace(routine, words=tuple({**words, "target": "in place"}.items())))


def _waiting(work: Sequence[AnyWork], item: AnyWork, leaf: Node) -> list[AnyWork] | None:
    """The launches in an order in which an item comes after all others that read a leaf."""
    at = next(k for k, other in enumerate(work) if other is item)
    last = max((k for k, other in enumerate(work) if k != at and leaf in other.nodes), default=-1)
    between = list(work[at + 1 : last + 1])
    written = {*item.written, *(node for node in item.nodes if isinstance(node, Temporary))}
    if any(not written.isdisjoint(other.nodes) for other in between):
        return None
    return [*work[:at], *between, item, *work[max(at, last) + 1 :]]


def _is_last(order: Sequence[AnyWork], leaf: Node, item: AnyWork) -> bool:
    """Whether nobody reads a leaf after the item that writes over it."""
    at = next(k for k, other in enumerate(order) if other is item)
    return not any(leaf in other.nodes for other in order[at + 1 :])
