"""A compiled function with its first arguments bound: calls that flatten nothing.

What is bound stays as it is, so its pointers are put side by side once. A call writes the small arrays that it is given
into their places and makes one native call. Arguments that the function gives up are the state of the bound function:
every call replaces them by the first results of the function, which lie in the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt import runtime, tree
from smelt.device import NOWHERE, Memory
from smelt.errors import ArgumentError, TraceError
from smelt.graph import DONE, FINE, Check
from smelt.locks import new_lock
from smelt.plan import INPUTS, Alias, CompiledGraph, Stored, concrete, watcher
from smelt.runtime import Signature, Storage, signature
from smelt.tensor import Tensor, wrap
from smelt.transform.entry import NUMBERS, Entry

if TYPE_CHECKING:
    from smelt.transform.jit import Jit

SETTLED: Final = 5  # calls after which all inputs have been prepared that ever will be


class Bound:
    """What `jit(f).bind(...)` returns. Calls take the other arguments, and give what the function returns behind the
    new values of its state.
    """

    def __init__(self, function: Jit[..., Any], given: Sequence[Any]) -> None:
        # Copies of modules: what somebody sets in them later changes nothing here.
        self._given = [_same(value) if k not in function._static else value for k, value in enumerate(given)]
        self._function = function
        self._states = [k for k in function._donate if k < len(given)]
        self._quick: dict[tuple[Any, ...], _Quick | None] = {}
        self._calls = 0
        self._shown = False  # whether somebody may hold the state
        self._lock = new_lock()

    def __repr__(self) -> str:
        return f"<{self._function!r} with {len(self._given)} arguments>"

    @property
    def state(self) -> tuple[Any, ...]:
        """The arguments that are given up, as the latest call left them. If they are kept, the next call copies."""
        with self._lock:
            self._shown = True
            return tuple([_same(self._given[k]) for k in self._states])

    def __call__(self, *args: Any) -> Any:
        if not runtime.is_plain():
            raise TraceError("a bound function has a state, which cannot be traced", hint="Call the jitted function.")
        with self._lock:
            try:
                quick = self._quick.get(
                    tuple([(x.dtype, x.shape) if type(x) is np.ndarray else _mark(x) for x in args])
                )
            except TypeError:  # something else than tensors, arrays and numbers
                return self._call(args)
            if quick is None or watcher() is not None or (self._shown and self._is_held()):
                return self._call(args)
            return quick(args)

    def _is_held(self) -> bool:
        """Whether somebody else has a part of the state; if not, nobody will notice that it changes."""
        storages = [part._node.attribute for part in tree.flatten([self._given[k] for k in self._states])[0]]
        if any(storage.is_shared() or not storage.is_alone() for storage in storages):
            return True
        for storage in storages:
            storage.renew()
        self._shown = False
        return False

    def _call(self, args: tuple[Any, ...]) -> Any:
        """The way of any jitted function; and what is needed for shorter ones, once enough is known."""
        function, marks = self._function, None
        if all(type(x) is Tensor or type(x) is np.ndarray or type(x) in NUMBERS for x in args):
            marks = tuple([_mark(x) for x in args])
        places = [_Place.of(x) for x in args] if marks is not None else []
        given = [place.argument for place in places] if marks is not None else args
        self._quick.clear()  # the state may lie elsewhere afterwards
        rest = self._taken(function(*self._given, *given))
        self._calls += 1
        if marks is not None:
            leaves, key = function._flatten_any((*self._given, *given), {})
            entry = function._entries.get(key)
            if entry is not None and (entry.watch is None or self._calls >= SETTLED):
                raw: list[Any] = []
                for k, value in enumerate(self._given):
                    function._flatten_one(k, value, raw)
                first = sum(type(x) is Tensor or type(x) in NUMBERS for x in raw)
                self._quick[marks] = _quick(entry, leaves, places, first, rest)
        return rest

    def _taken(self, result: Any) -> Any:
        """Keep the first results as the state; the others."""
        if not self._states:
            return result
        count = len(self._states)
        parts = (result,) if count == 1 and type(result) is not tuple else result
        if type(parts) is not tuple or len(parts) < count:
            raise _no_state(f"it returns {type(result).__name__}")
        for k, value in zip(self._states, parts, strict=False):
            new, old = tree.flatten(value), tree.flatten(self._given[k])
            if new[1] != old[1] or [_type(x) for x in new[0]] != [_type(x) for x in old[0]]:
                raise _no_state(f"of argument {k}, which it gives up, its results have another form")
            self._given[k] = value
        rest = parts[count:]
        return None if not rest else rest[0] if len(rest) == 1 else rest


def _no_state(found: str) -> ArgumentError:
    return ArgumentError(
        f"bind: {found}",
        rule="a bound function returns new values of the bound arguments that it gives up first, in their order, each "
        "with the structure, shapes and dtypes that it had.",
    )


def _same(value: Any) -> Any:
    """The same with tensors and modules of its own."""
    leaves, structure = tree.flatten(value)
    return tree.unflatten(structure, [wrap(x._node) if type(x) is Tensor else x for x in leaves])


def _type(value: Any) -> Any:
    return (value.dtype, value.shape) if isinstance(value, Tensor) else value


def _mark(value: Any) -> Any:
    """What a short way depends on."""
    kind = type(value)
    if kind is Tensor:
        return value._node.attribute if value._node.attribute is None else value._node.attribute.signature
    if kind is np.ndarray:
        return value.dtype, value.shape
    return kind if kind in NUMBERS else _unknown(value)


def _unknown(value: Any) -> Any:
    raise TypeError(value)


@dataclass(frozen=True)
class _Place:
    """Where calls put an argument: memory that is written, or nowhere, as tensors are read where they lie."""

    argument: Any
    storage: Storage | None = None
    view: Any = None

    @classmethod
    def of(cls, value: Any) -> _Place:
        if type(value) is Tensor:
            return cls(value)
        number = type(value) in NUMBERS
        array = np.array(value, NUMBERS[type(value)].numpy if number else None)
        tensor = wrap(runtime.leaf(Storage.of(array, copy=True)))
        storage: Storage = tensor._node.attribute
        writable = storage.memory.view(array.dtype, array.shape, None, 0, writeable=True)
        return cls(value if number else tensor, storage, writable)


@dataclass(frozen=True)
class _Quick:
    """A call in which only a few pointers change."""

    views: Sequence[Any]  # for each argument, the array to write it to; None: a tensor, whose pointer is taken
    pieces: list[Any]  # of the list of pointers, with holes
    holes: Sequence[int]  # for tensors among the arguments, then for results
    fresh: Sequence[tuple[int, Signature]]  # bytes and signatures of results that are made by each call
    run: Callable[[bytes], None]
    allocate: Callable[[int], Memory]
    checks: Sequence[tuple[Any, Check]]  # where each says what it has found
    results: Sequence[Any]  # None for a fresh tensor, or what it always is
    structure: Any
    is_flat: bool  # whether that is a tuple of leaves alone
    alive: Sequence[Any]  # what pointers point to

    def __call__(self, args: Sequence[Any]) -> Any:
        pointers: list[Any] = []
        for view, value in zip(self.views, args, strict=True):
            if view is None:
                pointers.append(value._node.attribute.pointer)
            else:
                view[...] = value
        memories = [self.allocate(nbytes) for nbytes, _ in self.fresh]
        pieces = self.pieces.copy()
        for hole, pointer in zip(self.holes, [*pointers, *[memory.pointer for memory in memories]], strict=True):
            pieces[hole] = pointer
        self.run(b"".join(pieces))
        for found, check in self.checks:
            if found.item() != FINE:
                check.report(found.item())
        made = iter(zip(memories, self.fresh, strict=True))
        values = [_made(*next(made)) if known is None else known for known in self.results]
        if self.structure is tree.LEAF:
            return values[0]
        return tuple(values) if self.is_flat else tree.unflatten(self.structure, values)


def _made(memory: Memory, known: tuple[int, Signature]) -> Tensor:
    return wrap(runtime.new_leaf(memory, known[1]))


def _quick(entry: Entry, leaves: list[Any], places: Sequence[_Place], first: int, rest: Any) -> _Quick | None:
    """A short way, or None where more than pointers would change, or where a state does not stay in its place."""
    opened = range(first, first + len(places))
    if entry.moves or entry.shapes or entry.draws or entry.changed or entry.limits:
        return None
    leaves = [
        *leaves[:first],
        *[place.storage or leaf for place, leaf in zip(places, leaves[first:], strict=False)],
        *leaves[opened.stop :],
    ]
    if any(k in opened for k in entry.donated) or any(not isinstance(leaf, Storage) for leaf in leaves):
        return None
    numbers = range(len(leaves)) if entry.inputs is None else entry.inputs
    storages = [leaves[k] if k >= 0 else entry.captured[-1 - k] for k in numbers]
    compiled, prepared = (entry.compiled, []) if entry.watch is None else entry.watch.chosen(storages)
    fixed, program, device = entry.fixed, compiled.program, entry.device
    read = [k for k, place in zip(opened, places, strict=True) if place.storage is None]  # where tensors lie
    seen = [(k, at) for at, k in enumerate(numbers) if k in read and not fixed.offsets[at]]
    states = [leaves[k] for k in entry.donated]
    stay = _staying(compiled, storages, states, fixed.offsets)
    if program is None or compiled.homes or stay is None or sorted(k for k, _ in seen) != read:
        return None
    stored = [output for output in compiled.outputs if isinstance(output, Stored)]
    made = [n for n in range(len(stored)) if n not in stay]
    checked = made[len(made) - len(fixed.checks) :]
    held = {n: device.allocate(stored[n].nbytes) for n in checked}
    arena = device.allocate(program.arena_bytes) if program.arena_bytes else None
    inputs = [NOWHERE if arena is None else arena.pointer, NOWHERE if fixed.scalars is None else fixed.scalars.pointer]
    inputs += [*fixed.pointers(storages), *[storage.pointer or storage.shifted(0) for storage in prepared]]
    results = [stay[n] if n in stay else held[n].pointer if n in held else NOWHERE for n in range(len(stored))]
    fresh = made[: len(made) - len(fixed.checks)]
    pieces, holes = _joined(
        [*inputs, *results], [*[INPUTS + at for _, at in sorted(seen)], *[len(inputs) + n for n in fresh]]
    )
    found = [held[n].view(np.dtype(np.int64), (), None, 0) for n in checked]
    parts, structure = tree.flatten(rest)
    return _Quick(
        [place.view for place in places],
        pieces,
        holes,
        [(x.nbytes, signature(x.dtype, concrete(x.shape, {}), device=device.name)) for x in (stored[n] for n in fresh)],
        lambda bases: program.run(bases, fixed.starts),
        device.allocate,
        [(one, check) for one, check in zip(found, fixed.checks, strict=True) if check is not DONE],
        [None if isinstance(part, Tensor) else part for part in parts],
        structure,
        structure.kind is tuple and all(child is tree.LEAF for child in structure.children),
        (fixed, arena, [storage.memory for storage in (*storages, *prepared) if storage not in states]),
    )


def _staying(
    compiled: CompiledGraph, storages: Sequence[Storage], states: Sequence[Storage], offsets: Sequence[int]
) -> dict[int, bytes] | None:
    """The pointers of stored results that are states and are written over these; None if there are others, or if
    something else is returned than each stored result once.
    """
    into = {n: storages[i] for n, i in compiled.in_place if not offsets[i] and storages.count(storages[i]) == 1}
    stay: dict[int, bytes] = {}
    at = 0
    for root, number in enumerate(compiled.results):
        output, state = compiled.outputs[number], states[root] if root < len(states) else None
        if number != root or (isinstance(output, Alias) and state is None):
            return None
        if isinstance(output, Alias):  # it is given back as it is
            whole = (output.strides, output.offset + offsets[output.input]) == (storages[output.input].strides, 0)
            if storages[output.input] is not state or not whole:
                return None
            continue
        if state is not None:
            if into.get(at) is not state or not state.is_alone() or state.pointer is None:
                return None
            stay[at] = state.pointer
        at += 1
    return stay


def _joined(pointers: Sequence[Any], holes: Sequence[int]) -> tuple[list[Any], list[int]]:
    """Pieces of a list of pointers, those between holes as one; and where the holes are among these."""
    pieces: list[Any] = []
    found: dict[int, int] = {}
    joins = False
    for k, pointer in enumerate(pointers):
        if k in holes:
            found[k] = len(pieces)
            pieces.append(b"")
        elif joins:
            pieces[-1] += pointer
        else:
            pieces.append(pointer)
        joins = k not in holes
    return pieces, [found[k] for k in holes]
