"""Inputs that stay the same are prepared once, as the graphs that read them ask for it, and the copies kept with them.

A storage never changes, so what is made of it may be kept for as long as it lives: `Storage.kept`. A function first
runs with its inputs as they are. Those that were the same in a few calls are prepared, and the function is compiled
anew to read the copies. If another one is passed after all, the first plan serves again, and waiting begins anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from smelt.runtime.realize import find, realize_sized
from smelt.runtime.storage import Storage, host_leaf, leaf

if TYPE_CHECKING:
    from smelt.compiler import CompiledGraph, Traced
    from smelt.dtypes import DType
    from smelt.graph import Node
    from smelt.plan import Prepared

CALLS: Final = 3  # with the same inputs, before they are prepared
LONGER: Final = 4  # times as many calls are waited for after a change
SHARE: Final = 8  # copies may take this part of the free memory


class Watch:
    """Whether inputs that a graph would like to have prepared stay the same from call to call."""

    def __init__(self, traced: Traced, compiled: CompiledGraph) -> None:
        self._key, self._plain, self._wanted = traced.key, compiled, CALLS
        self._views = [view[1:] for view in traced.inputs]  # shapes, strides and offsets: of those asked for, numbers
        self._numbers = sorted({number for ask in compiled.asks for number in ask.inputs})
        self._given: list[int] = []  # the serial numbers of what was passed last for these
        self._last: tuple[CompiledGraph, list[int], list[weakref.ref[Storage]]] | None = None  # what came of it
        self._scalars = traced.scalars
        self._begin()

    def _begin(self) -> None:
        self.compiled, self.key = self._plain, self._key  # what runs
        self._same = list(range(len(self._plain.asks)))  # of what it asks for: has stayed so far, or is prepared
        self._calls = 0

    def chosen(self, storages: Sequence[Storage]) -> tuple[CompiledGraph, list[Storage]]:
        """What to run with these inputs, and the inputs behind them."""
        given = self._serials(storages)
        last = self._last
        if last is not None and last[0] is self.compiled and last[1] == given:  # as a rule: as short as it can be
            known = [copy for reference in last[2] if (copy := reference()) is not None]
            if len(known) == len(last[2]):
                self._given = given
                return last[0], known
        before, self._given = self._given or given, given
        same = self._same if given == before else self._stayed(before, given)
        if self.compiled is self._plain:
            self._calls += 1
            self._same = same
            if self._calls > self._wanted:
                self._settle(storages)
        elif len(same) < len(self._same):
            self._wanted *= LONGER
            self._begin()
        compiled = self.compiled
        copies = [self._copy(one, [storages[number] for number in one.inputs]) for one in compiled.prepared]
        read = {number for one in compiled.prepared for number in one.inputs}
        is_settled = read and _are_settled([storages[number] for number in read])
        self._last = (compiled, given, list(map(weakref.ref, copies))) if is_settled else None
        return compiled, copies

    def _serials(self, storages: Sequence[Storage]) -> list[int]:
        return [storages[number].serial for number in self._numbers]

    def _stayed(self, before: Sequence[int], given: Sequence[int]) -> list[int]:
        """Of what has stayed so far, what still does."""
        triples = zip(self._numbers, before, given, strict=True)
        changed = {number for number, old, new in triples if old != new}
        return [k for k in self._same if changed.isdisjoint(self._plain.asks[k].inputs)]

    def _settle(self, storages: Sequence[Storage]) -> None:
        """Have the inputs that stayed the same prepared from now on, as far as there is room for copies."""
        from smelt.compiler import marked

        room = self._plain.device.available_bytes() // SHARE
        taken: list[int] = []
        steady: set[int] = set()
        for k in self._same:
            more = steady.union(self._plain.asks[k].inputs)
            # Whatever is asked for of the same inputs comes with it.
            nbytes = sum(ask.nbytes for ask in self._plain.asks if more.issuperset(ask.inputs))
            if nbytes <= room and _are_settled([storages[number] for number in self._plain.asks[k].inputs]):
                taken.append(k)
                steady = more
        if taken:
            key = marked(self._key, steady, steady=True)
            compiled = find(key, self._plain.device)
            # Other threads may have called meanwhile, with other inputs.
            self._same, self._given = taken, self._serials(storages)
            self.key, self.compiled = key, compiled
        else:
            self._wanted *= LONGER
            self._begin()

    def _copy(self, one: Prepared, storages: Sequence[Storage]) -> Storage:
        """What is prepared of inputs, from where it is kept, or made now.

        It is kept with the youngest of them: of a matrix that several adapters are added to, each keeps its own sum.
        """
        name, holder = (self._name(one), tuple(map(_serial, storages))), max(storages, key=_serial)
        known = None if holder.kept is None else holder.kept.get(name)
        if known is not None:
            return known
        from smelt.graph.text import parse_graph  # which few processes need

        views = iter([storage.view(*self._views[k]) for storage, k in zip(storages, one.inputs, strict=True)])  # type: ignore[arg-type]
        leaves = [
            leaf(next(views)) if part.kind == "input" else self._number(part.number, part.dtype) for part in one.leaves
        ]
        [made] = realize_sized(parse_graph(one.graph, leaves), {}, self._key.contracts)
        copy: Storage = made.attribute.in_order()
        # Another thread may have settled for its own weights while this one was given an array's memory.
        if _are_settled(storages):
            holder.kept = {**(holder.kept or {}), name: copy}
        return copy

    def _name(self, one: Prepared) -> Hashable:
        """What is prepared, as it is kept."""
        scalars = [self._scalars[part.number] for part in one.leaves if part.kind == "scalar"]
        return (*[self._views[k] for k in one.inputs], *scalars, one.graph, self._key.contracts)

    def _number(self, number: int, dtype: DType) -> Node:
        return host_leaf(np.frombuffer(self._scalars[number], dtype.numpy)[0], dtype)

    def copies(self, storages: Sequence[Storage]) -> list[Storage]:
        """The copies of some storages that are read instead of them."""
        read, passed = {self._name(one) for one in self.compiled.prepared}, set(map(_serial, storages))
        copies = [item for storage in storages for item in (storage.kept or {}).items()]
        return [copy for (name, serials), copy in copies if name in read and passed.issuperset(serials)]


_serial = attrgetter("serial")


def _are_settled(storages: Sequence[Storage]) -> bool:
    """Whether nobody can write to these: the owner of a shared array could."""
    return all(storage.memory.recycled for storage in storages)
