"""A compiled graph as plain data: what is kept on disk, and what every CompiledGraph is assembled from.

A record names the libraries that hold its kernels, the launches over them, where each buffer lies, and what comes
out. It is written as JSON. Whatever is wrong with a record that was read back, it is dropped and the graph compiled
again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.compiler.trace import count_inputs, count_scalars, count_starts
from smelt.config import settings
from smelt.device.protocol import REGISTER, Control, Device, Launch, Library, Step, check_controls
from smelt.diskcache import disk_cache
from smelt.dtypes import as_dtype
from smelt.errors import InternalError, SmeltError
from smelt.graph import Index, IndexLike, Op, Variable, of, product_of, upper
from smelt.graph.index_text import parse_index
from smelt.plan import INPUTS, SCALARS, Alias, CompiledGraph, Home, KernelRecord, Placed, Prepared, Stored

_KIND = "graphs"
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class GraphRecord:
    """Everything that a CompiledGraph needs besides loaded code. Sizes with dims are text."""

    libraries: tuple[str, ...]
    launches: tuple[Step, ...]
    slots: tuple[tuple[int, int], ...]
    scratch_bytes: int
    arena_bytes: int
    outputs: tuple[tuple[Any, ...], ...]
    results: tuple[int, ...]
    n_inputs: int
    bounds: tuple[tuple[int, int], ...]
    kernels: tuple[KernelRecord, ...]
    layout: tuple[Placed, ...]
    largest: tuple[tuple[int, str], ...]
    in_place: tuple[tuple[int, int], ...]
    choices: tuple[tuple[str, str | None], ...]  # what was asked about its kernels, with the answers; None: the default
    homes: tuple[tuple[tuple[int | str, ...], int, int], ...]  # the bytes of all who live there, from when to when
    prepared: tuple[Prepared, ...]
    asks: tuple[Prepared, ...]


def assemble(record: GraphRecord, device: Device, libraries: Sequence[Library]) -> CompiledGraph:
    """The graph, ready to run."""
    dims = tuple(Variable(f"d{k}", low, high) for k, (low, high) in enumerate(record.bounds))
    names = {v.name: of(v) for v in dims}
    places = (record.slots, record.scratch_bytes, record.arena_bytes)
    program = device.load(record.launches, libraries, *places) if record.launches else None
    return CompiledGraph(
        device,
        program,
        tuple(_output(output, names) for output in record.outputs),
        record.results,
        record.n_inputs,
        dims,
        record.arena_bytes,
        record.kernels,
        layout=record.layout,
        largest=record.largest,
        in_place=record.in_place,
        homes=tuple(Home(_sizes(nbytes, names), first, last) for nbytes, first, last in record.homes),
        prepared=record.prepared,
        asks=record.asks,
    )


def output_fields(output: Stored | Alias) -> tuple[Any, ...]:
    """An output as a record holds it."""
    if isinstance(output, Alias):
        return ("alias", output.input, sizes_text(output.shape), sizes_text(output.strides), output.offset)
    return ("stored", output.dtype.name, sizes_text(output.shape), output.nbytes)


def _output(fields: Sequence[Any], names: dict[str, Index]) -> Stored | Alias:
    if fields[0] == "alias":
        _, number, shape, strides, offset = fields
        return Alias(int(number), _sizes(shape, names), _sizes(strides, names), int(offset))
    _, dtype, shape, nbytes = fields
    return Stored(as_dtype(dtype), _sizes(shape, names), int(nbytes))


def sizes_text(sizes: Sequence[IndexLike]) -> tuple[int | str, ...]:
    """Sizes as a record holds them."""
    return tuple(size if isinstance(size, int) else str(size) for size in sizes)


def _sizes(sizes: Sequence[Any], names: dict[str, Index]) -> tuple[IndexLike, ...]:
    return tuple(parse_index(size, names) if isinstance(size, str) else int(size) for size in sizes)


# --- on disk


def graph_digest(key: Any, device: Device) -> str:
    """The name of a graph on disk: its whole text, the device and compiler, the settings that matter, and smelt."""
    parts = (_own_version(), device.name, device.identity, sorted(settings().disabled_rules), key)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@functools.cache
def _own_version() -> str:
    """Changes whenever a file of smelt does, so that no record outlives the code that made it."""
    entries: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith((".py", ".c")):
                status = os.stat(os.path.join(folder, name))
                entries.append(
                    (os.path.relpath(os.path.join(folder, name), _PACKAGE), status.st_mtime_ns, status.st_size)
                )
    return hashlib.sha256(repr(sorted(entries)).encode()).hexdigest()


def load_graph(key: Any, digest: str, device: Device, ask: Callable[[str], str | None]) -> CompiledGraph | None:
    """The graph that an earlier process compiled, if it and all its libraries are there and sound, and whoever is
    asked about its kernels gives the answers that it was made with.
    """
    cache = disk_cache()
    data = None if cache is None else cache.load_bytes(_KIND, digest)
    if data is None:
        return None
    try:
        record = _parse(json.loads(data))
        _check(record, key)
        if any(ask(question) != answer for question, answer in record.choices):
            return None
        libraries = device.stored(record.libraries)
        return None if libraries is None else assemble(record, device, libraries)
    except (ValueError, TypeError, KeyError, IndexError, InternalError, SmeltError):
        return None


def store_graph(digest: str, record: GraphRecord) -> None:
    """Keep a record for later processes."""
    cache = disk_cache()
    if cache is not None:
        cache.store_bytes(_KIND, digest, json.dumps(asdict(record)).encode())


def _parse(data: dict[str, Any]) -> GraphRecord:
    made: dict[str, Any] = {name: tuple(map(make, data.pop(name))) for name, make in _PARTS.items()}
    return GraphRecord(**made, **{name: _frozen(value) for name, value in data.items()})


def _step(fields: dict[str, Any]) -> Step:
    lists: dict[str, Any] = {name: tuple(map(int, fields[name])) for name in ("buffers", "integers") if name in fields}
    given = {**fields, **lists}
    return Control(**given) if "kind" in given else Launch(**given)


_PARTS: dict[str, Callable[[Any], Any]] = {  # of records, and how each is made of its fields
    "launches": _step,
    "kernels": lambda fields: KernelRecord(*_frozen(fields)),
    "layout": lambda fields: Placed(*fields),
    "prepared": lambda fields: Prepared(*fields),
    "asks": lambda fields: Prepared(*fields),
}


def _check(record: GraphRecord, key: Any) -> None:
    """Raise ValueError unless a record fits its key and itself: its numbers become pointers."""
    entries, roots, bounds = key
    scalars = count_scalars(key)
    integers = len(bounds) + count_starts(key)
    stored = [output for output in record.outputs if output[0] == "stored"]
    results = INPUTS + record.n_inputs  # the base of the first
    homes = results + len(stored)  # and of the first of these
    names = {f"d{k}": of(Variable(f"d{k}", low, high)) for k, (low, high) in enumerate(bounds)}
    rooms = [[upper(size) for size in _sizes(nbytes, names)] for nbytes, _, _ in record.homes]
    inputs: dict[int, list[Any]] = {}  # the leaves of each input, which may be seen in several ways
    for entry in entries:
        if entry[0] is Op.LEAF:
            inputs.setdefault(entry[4], []).append(entry)
    numbers = [record.n_inputs, record.scratch_bytes, record.arena_bytes, *record.results]
    numbers += [number for base, offset in record.slots for number in (base - REGISTER, offset)]
    numbers += [number for pair in record.in_place for number in pair]
    numbers += [number for _, first, last in record.homes for number in (first, last)]
    launches = [step for step in record.launches if isinstance(step, Launch)]
    numbers += [n for launch in launches for n in (launch.library, launch.tasks, launch.grain, launch.threads)]
    check_controls(record.launches, record.slots)
    sound = (
        all(type(number) is int and number >= 0 for number in numbers)
        and record.bounds == bounds
        and len(record.results) == len(roots)
        and all(number < len(record.outputs) for number in record.results)
        and all(base < homes + len(record.homes) for base, _ in record.slots)
        and all(offset == 0 for base, offset in record.slots if INPUTS <= base < results)
        and all(offset < max(1, stored[base - results][3]) for base, offset in record.slots if results <= base < homes)
        and all(offset < max(1, *rooms[base - homes]) for base, offset in record.slots if base >= homes)
        and all(offset < 8 * scalars for base, offset in record.slots if base == SCALARS)
        and all(launch.library < len(record.libraries) for launch in launches)
        and all(0 <= slot < len(record.slots) for step in record.launches for slot in step.buffers)
        and all(0 <= place < integers for launch in launches for place in launch.integers)
        and all(output[1] in range(record.n_inputs) for output in record.outputs if output[0] == "alias")
        and all(_fits(record.outputs[k], entries[root]) for k, root in zip(record.results, roots, strict=True))
        and all(type(name) is str for name in record.libraries)
        and all(launch.threads > 0 for launch in launches)
        and all(number in inputs for _, number in record.in_place)
        and record.n_inputs == count_inputs(key) + len(record.prepared)
        and all(one.input in inputs and type(one.graph) is str for one in (*record.prepared, *record.asks))
        # A result has the type of an input that it is written over.
        and all(_fits(stored[result], entry) for result, number in record.in_place for entry in inputs[number])
    )
    if not sound:
        raise ValueError("a record that does not fit its graph")


def _fits(output: tuple[Any, ...], entry: tuple[Any, ...]) -> bool:
    """Whether an output has the dtype and shape of its root."""
    if output[0] == "alias":
        return bool(output[2] == sizes_text(entry[2]))
    nbytes = upper(product_of(entry[2])) * entry[1].itemsize
    return bool(output[1:] == (entry[1].name, sizes_text(entry[2]), nbytes))


def _frozen(value: Any) -> Any:
    """JSON lists as tuples."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
