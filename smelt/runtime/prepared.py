"""Inputs that stay the same are prepared once, as the graphs that read them ask for it, and the copies kept with them.

A storage never changes, so what is made of it may be kept for as long as it lives: `Storage.kept`. A function first
runs with its inputs as they are. Those that were the same in a few calls are prepared, and the function is compiled
anew to read the copies. If another one is passed after all, the first plan serves again, and waiting begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from smelt.runtime.realize import find, realize_sized
from smelt.runtime.storage import Storage, leaf

if TYPE_CHECKING:
    from smelt.compiler import CompiledGraph, GraphKey
    from smelt.plan import Prepared

CALLS: Final = 3  # with the same inputs, before they are prepared
LONGER: Final = 4  # times as many calls are waited for after a change
MOST: Final = 1000  # calls to wait for: inputs that change so often are not looked at anymore
SHARE: Final = 8  # copies may take this part of the free memory


class Watch:
    """Whether inputs that a graph would like to have prepared stay the same from call to call."""

    __slots__ = ("_calls", "_given", "_key", "_plain", "_same", "_wanted", "compiled")

    def __init__(self, key: GraphKey, compiled: CompiledGraph) -> None:
        self._key, self._plain, self._wanted = key, compiled, CALLS
        self._given: list[int] = []  # the serial numbers of what was passed last
        self._begin()

    def _begin(self) -> None:
        self.compiled = self._plain  # what runs
        self._same = list(range(len(self._plain.asks)))  # of what it asks for: has stayed so far, or is prepared
        self._calls = 0

    @property
    def is_over(self) -> bool:
        return self._wanted > MOST

    def chosen(self, storages: Sequence[Storage], offsets: Sequence[int]) -> tuple[CompiledGraph, list[Storage]]:
        """What to run with these inputs, which start at these elements, and the inputs behind them."""
        given = [storages[ask.input].serial for ask in self._plain.asks]
        before, self._given = self._given or given, given
        same = [k for k in self._same if given[k] == before[k]]
        if self.compiled is self._plain:
            self._calls += 1
            self._same = same
            if self._calls > self._wanted:
                self._settle(storages, offsets)
        elif len(same) < len(self._same):
            self._wanted *= LONGER
            self._begin()
        compiled = self.compiled
        return compiled, _copies(compiled.prepared, storages, offsets)

    def _settle(self, storages: Sequence[Storage], offsets: Sequence[int]) -> None:
        """Have the inputs that stayed the same prepared from now on, as far as there is room for copies."""
        from smelt.compiler import with_steady

        room = self._plain.device.available_bytes() // SHARE
        taken: dict[int, int] = {}
        for k in self._same:
            ask = self._plain.asks[k]
            storage = storages[ask.input]
            is_there = _name(ask, offsets) in (storage.kept or ())
            nbytes = 0 if is_there else math.prod(ask.shape) * storage.dtype.itemsize
            # The owner of a shared array could write to it.
            if storage.memory.recycled and nbytes <= room:
                taken[k] = ask.input
                room -= nbytes
        if taken:
            self._same = list(taken)
            self.compiled = find(with_steady(self._key, taken.values()), self._plain.device)
        else:
            self._wanted *= LONGER
            self._begin()

    def copies(self, storages: Sequence[Storage]) -> list[Storage]:
        """The copies of these that are read instead of them."""
        read = {one[1:] for one in self.compiled.prepared}
        return [copy for one in storages for name, copy in (one.kept or {}).items() if name[1:] in read]


def _name(one: Prepared, offsets: Sequence[int]) -> tuple[Hashable, ...]:
    """By what a copy is found with its storage: another graph may ask for the same."""
    return offsets[one.input], *one[1:]


def _copies(prepared: Sequence[Prepared], storages: Sequence[Storage], offsets: Sequence[int]) -> list[Storage]:
    """What is prepared of these inputs, from where it is kept or made now."""
    found: list[Storage] = []
    for one in prepared:
        storage, name = storages[one.input], _name(one, offsets)
        kept = storage.kept if storage.kept is not None else {}
        if name not in kept:
            from smelt.graph.text import parse_graph  # which few processes need

            [node] = parse_graph(one.graph, [leaf(storage.view(one.shape, one.strides, offsets[one.input]))])
            [made] = realize_sized([node], {})
            kept[name] = made.attribute.in_order()
            storage.kept = kept
        found.append(kept[name])
    return found
