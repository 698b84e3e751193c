"""Inputs that stay the same are prepared once, as the graphs that read them ask for it, and the copies kept with them.

A storage never changes, so what is made of it may be kept for as long as it lives: `Storage.kept`. A function first
runs with its inputs as they are. Those that were the same in a few calls are prepared, and the function is compiled
anew to read the copies. If another one is passed after all, the first plan serves again, and waiting begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from smelt.graph import product_of, upper
from smelt.runtime.realize import find, realize_sized
from smelt.runtime.storage import Storage, leaf

if TYPE_CHECKING:
    from smelt.compiler import CompiledGraph, Traced
    from smelt.plan import Prepared

CALLS: Final = 3  # with the same inputs, before they are prepared
LONGER: Final = 4  # times as many calls are waited for after a change
SHARE: Final = 8  # copies may take this part of the free memory


class Watch:
    """Whether inputs that a graph would like to have prepared stay the same from call to call."""

    __slots__ = ("_calls", "_given", "_key", "_plain", "_same", "_views", "_wanted", "compiled", "key")

    def __init__(self, traced: Traced, compiled: CompiledGraph) -> None:
        self._key, self._plain, self._wanted = traced.key, compiled, CALLS
        self._views = [view[1:] for view in traced.inputs]  # shapes, strides and offsets: of those asked for, numbers
        self._given: list[int] = []  # the serial numbers of what was passed last
        self._begin()

    def _begin(self) -> None:
        self.compiled, self.key = self._plain, self._key  # what runs
        self._same = list(range(len(self._plain.asks)))  # of what it asks for: has stayed so far, or is prepared
        self._calls = 0

    def chosen(self, storages: Sequence[Storage]) -> tuple[CompiledGraph, list[Storage]]:
        """What to run with these inputs, and the inputs behind them."""
        given = [storages[ask.input].serial for ask in self._plain.asks]
        before, self._given = self._given or given, given
        same = [k for k in self._same if given[k] == before[k]]
        if self.compiled is self._plain:
            self._calls += 1
            self._same = same
            if self._calls > self._wanted:
                self._settle(storages)
        elif len(same) < len(self._same):
            self._wanted *= LONGER
            self._begin()
        compiled = self.compiled
        return compiled, [self._copy(one, storages[one.input]) for one in compiled.prepared]

    def _settle(self, storages: Sequence[Storage]) -> None:
        """Have the inputs that stayed the same prepared from now on, as far as there is room for copies."""
        from smelt.compiler import with_steady

        room = self._plain.device.available_bytes() // SHARE
        taken: dict[int, int] = {}
        for k in self._same:
            number = self._plain.asks[k].input
            nbytes = upper(product_of(self._views[number][0])) * storages[number].dtype.itemsize
            # The owner of a shared array could write to it.
            if storages[number].memory.recycled and nbytes <= room:
                taken[k] = number
                room -= nbytes
        if taken:
            self._same = list(taken)
            self.key = with_steady(self._key, taken.values())
            self.compiled = find(self.key, self._plain.device)
        else:
            self._wanted *= LONGER
            self._begin()

    def _copy(self, one: Prepared, storage: Storage) -> Storage:
        """What is prepared of an input, from where it is kept or made now."""
        view = self._views[one.input]
        kept = storage.kept = {} if storage.kept is None else storage.kept
        if (view, one.graph) not in kept:
            from smelt.graph.text import parse_graph  # which few processes need

            [node] = parse_graph(one.graph, [leaf(storage.view(*view))])  # type: ignore[arg-type]
            [made] = realize_sized([node], {})
            kept[view, one.graph] = made.attribute.in_order()
        return kept[view, one.graph]

    def copies(self, storages: Sequence[Storage]) -> list[Storage]:
        """The copies of some storages that are read instead of them."""
        read = {(self._views[one.input], one.graph) for one in self.compiled.prepared}
        return [copy for storage in storages for name, copy in (storage.kept or {}).items() if name in read]
