"""One traced structure of a compiled function: what to run, and how a call runs it again."""

from __future__ import annotations

import copy
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from smelt import runtime, tree
from smelt.compiler import CompiledGraph
from smelt.device import NOWHERE, Device, Memory
from smelt.dtypes import DType, float64, int64, uint32
from smelt.errors import ArgumentError
from smelt.graph import Index
from smelt.plan import pointer_of
from smelt.runtime import Storage
from smelt.tensor import wrap
from smelt.transform.attributes import put
from smelt.transform.limits import Limit, SizeLimit
from smelt.transform.symbolic import ShapeCheck

NUMBERS: Final[dict[type, DType]] = {float: float64, int: int64}  # of Python, which are inputs

_WRITABLE: Final = (np.ndarray, set, bytearray, array)


@dataclass(eq=False, slots=True)
class Entry:
    """One traced structure: what to run, and where each of its inputs comes from."""

    inputs: list[int] | None  # leaf number; -1 - k is the k-th captured storage; None: all leaves in order
    fixed: runtime.Fixed  # what does not change from call to call
    captured: list[Storage]
    device: Device
    moves: bool  # some inputs lie elsewhere
    shapes: ShapeCheck | None
    draws: int
    structure: tree.Structure
    results: list[Any]  # per output leaf: None for a tensor, or the static value
    numbers: list[int]  # leaves that are Python numbers
    limits: list[Limit | SizeLimit]  # of these, and of sizes
    donated: list[int]  # leaves of donated arguments
    changed: list[tuple[int, str, bool]]  # attributes that the function sets, or adds to; their values are results too
    compiled: CompiledGraph = field(init=False)
    watch: runtime.Watch | None = None  # whether inputs stay the same that could be prepared
    simply: Callable[[list[Any]], Any] | None = None  # `replay`, if only pointers change from call to call

    def replay(self, leaves: list[Any], donated: list[Storage] | None, holders: Callable[[], list[Any]]) -> Any:
        """Run with these leaves. Donated storages are given up; None says that the function never gives up any.
        `holders` finds the objects whose attributes are set.
        """
        for limit in self.limits:
            limit.check(leaves, self.shapes)
        for k in self.numbers:
            leaves[k] = _number_storage(leaves[k])
        if self.draws:
            leaves.append(runtime.host_leaf(runtime.current().random.advance(self.draws), uint32).attribute)
        storages = leaves
        if self.inputs is not None:
            captured = self.captured
            storages = [leaves[k] if k >= 0 else captured[-1 - k] for k in self.inputs]
        if self.moves or self.numbers:
            storages = [storage.on(self.device.name) for storage in storages]
        compiled, prepared = (self.compiled, []) if self.watch is None else self.watch.chosen(storages)
        dims = {} if self.shapes is None else self.shapes.bind(leaves)
        pointers = self.fixed.pointers(storages)
        pointers += [storage.pointer or storage.shifted(0) for storage in prepared]
        into = self._given_up(compiled, storages, donated) if donated else None
        results = runtime.run(compiled, pointers, storages, self.fixed, dims, into)
        if donated is not None:
            kept = {id(storage.memory) for storage in results}
            for storage in donated:
                if not storage.is_donated() and id(storage.memory) not in kept:
                    storage.donate()
        elif self.simply is None:
            self.simply = self._simply()
        if self.structure is tree.LEAF and self.results[0] is None:
            return wrap(runtime.leaf(results[0]))
        fresh = iter(results)
        values = [wrap(runtime.leaf(next(fresh))) if known is None else _own(known) for known in self.results]
        if self.shapes is not None and any(isinstance(known, Index) for known in self.results):
            found = self.shapes.sizes(leaves)
            values = [value.evaluate(found) if isinstance(value, Index) else value for value in values]
        result = tree.unflatten(self.structure, values)
        if self.changed:
            objects = holders()
            result, *attributes = result
            for (k, name, adds), value in zip(self.changed, attributes, strict=True):
                put(objects[k], name, getattr(objects[k], name) + value if adds else value)
        return result

    def _simply(self) -> Callable[[list[Any]], Any] | None:
        """A replay in which only pointers change: the shortest way through; None where more does."""
        known, fixed = self.compiled.plain, self.fixed
        changing = (
            *(self.moves, self.numbers, self.draws, self.shapes, self.inputs is not None, self.watch, self.changed),
            *(any(fixed.offsets), fixed.checks, known is None, any(result is not None for result in self.results)),
        )
        if any(changing) or known is None:
            return None
        call = self.compiled.caller(NOWHERE if fixed.scalars is None else fixed.scalars.pointer, fixed.starts)
        structure, new_leaf = self.structure, runtime.new_leaf
        only = known[0] if structure is tree.LEAF else None

        def simply(leaves: list[Any]) -> Any:
            try:
                memories = call(map(pointer_of, leaves))
            except TypeError:  # no pointer: one of them was donated
                for storage in leaves:
                    storage.memory  # noqa: B018  (raises)
                raise
            if only is not None:
                return wrap(new_leaf(memories[0], only))
            return tree.unflatten(structure, [wrap(node) for node in map(new_leaf, memories, known)])

        return simply

    def _given_up(self, compiled: CompiledGraph, storages: list[Storage], donated: list[Storage]) -> dict[int, Memory]:
        """The memory of results that are written over donated arguments: only what nobody else can see."""
        allowed = set(map(id, donated))
        if len(set(map(id, storages))) < len(storages):  # what is passed twice stays
            allowed -= {storage for storage, count in Counter(map(id, storages)).items() if count > 1}
        into: dict[int, Memory] = {}
        for result, number in compiled.in_place:
            storage = storages[number]
            if id(storage) in allowed and not self.fixed.offsets[number]:
                memory = storage.take()
                if memory is not None:
                    into[result] = memory
        return into


def _own(value: Any) -> Any:
    """A static result for one call: what a caller may write to is a copy."""
    return copy.copy(value) if isinstance(value, _WRITABLE) else value


def _number_storage(value: int | float) -> Storage:
    try:
        storage: Storage = runtime.host_leaf(value, NUMBERS[type(value)]).attribute
    except OverflowError:
        raise ArgumentError(
            f"jit: an integer of {int(value).bit_length()} bits does not fit in int64", hint="Pass a float."
        ) from None
    return storage
