"""Compiled graphs on disk: records as JSON, by the digest of their key.

How a record is read follows from the types of its fields, and whatever does not fit them is refused. Whatever is wrong
with a record that was read back, it is dropped and the graph compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from smelt.compiler.trace import GraphKey
from smelt.config import settings
from smelt.device import REGISTER, Device, Launch, Library, Listing
from smelt.diskcache import disk_cache
from smelt.dtypes import DType, as_dtype
from smelt.errors import InternalError, SmeltError
from smelt.graph import Index, Op, Variable, of, product_of, upper
from smelt.graph.index_text import parse_index
from smelt.plan import Alias, CompiledGraph, GraphRecord, Prepared, Stored

_KIND = "graphs"
_PACKAGE = Path(__file__).resolve().parent.parent
_ANY = sys.maxsize

Names = Mapping[str, Index]  # of the dims
Reader = Callable[[Any, Names], Any]
_TEXTS: dict[Any, Reader] = {Index: parse_index, DType: lambda name, names: as_dtype(name)}  # what is written as text


def assemble(record: GraphRecord, device: Device, libraries: Sequence[Library]) -> CompiledGraph:
    """The graph, ready to run."""
    listing = Listing(record.launches, record.slots, record.scratch_bytes, record.arena_bytes)
    program = device.load(listing, libraries) if record.launches else None
    return CompiledGraph(**vars(record), device=device, program=program)


def graph_digest(key: GraphKey, device: Device) -> str:
    """The name of a graph on disk: its whole text, the device and compiler, the settings that matter, and smelt."""
    parts = (own_version(), device.name, device.identity, sorted(settings().disabled_rules), key)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@functools.cache
def own_version() -> str:
    """Changes whenever a file of smelt does, so that no record outlives the code that made it."""
    entries: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith((".py", ".c")):
                path = os.path.join(folder, name)
                status = os.stat(path)
                entries.append((os.path.relpath(path, _PACKAGE), status.st_mtime_ns, status.st_size))
    return hashlib.sha256(repr(sorted(entries)).encode()).hexdigest()


def load_graph(key: GraphKey, digest: str, device: Device, ask: Callable[[str], str | None]) -> CompiledGraph | None:
    """The graph that an earlier process compiled, if it and all its libraries are there and sound, and whoever is
    asked about its kernels gives the answers that it was made with.
    """
    cache = disk_cache()
    data = None if cache is None else cache.load_bytes(_KIND, digest)
    if data is None:
        return None
    names = {f"d{k}": of(Variable(f"d{k}", low, high)) for k, (low, high) in enumerate(key.bounds)}
    try:
        record: GraphRecord = _reader(GraphRecord)(json.loads(data), names)
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
        cache.store_bytes(_KIND, digest, json.dumps(vars(record), default=_written).encode())


def _written(value: Any) -> Any:
    """What JSON has no word for. Named tuples are lists there."""
    if isinstance(value, Index):
        return str(value)
    return value.name if isinstance(value, DType) else vars(value)


@functools.cache
def _reader(kind: Any) -> Reader:
    """What makes a value of a type of what JSON gives, and raises an error for anything else."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple and parts[-1] is ...:
        return _many(parts[0])
    if origin is tuple:
        return _row(lambda *items: items, lambda: dict(enumerate(parts)))
    if origin in (Union, UnionType):
        return _one_of(parts)
    if kind in _TEXTS:
        return lambda data, names: _TEXTS[kind](_plain(str, data), names)
    if kind in (int, float, str, NoneType):
        return lambda data, names: _plain(kind, data)
    return _row(kind, lambda: get_type_hints(kind))


def _plain(kind: type, data: Any) -> Any:
    if type(data) is not kind:
        raise ValueError(f"{data!r:.40} in a record, where there should be {kind.__name__}")
    return data


def _many(kind: Any) -> Reader:
    one = _reader(kind)
    return lambda data, names: tuple([item if type(item) is kind else one(item, names) for item in _plain(list, data)])


def _one_of(kinds: Sequence[Any]) -> Reader:
    readers = [_reader(kind) for kind in kinds]

    def read(data: Any, names: Names) -> Any:
        if type(data) in kinds:
            return data
        for one in readers:
            try:
                return one(data, names)
            except ValueError:
                continue
        raise ValueError(f"{data!r:.40} in a record, where nothing like it belongs")

    return read


def _row(make: Callable[..., Any], kinds: Callable[[], Mapping[Any, Any]]) -> Reader:
    """Of fields in their order, or by their names. Their types are asked for when there is something to read: a record
    has no way to hold some, functions say.
    """
    fields = functools.cache(lambda: {name: (kind, _reader(kind)) for name, kind in kinds().items()})

    def read(data: Any, names: Names) -> Any:
        each = fields()
        if type(data) is not list:
            data = [data[name] for name in each] if _plain(dict, data).keys() == each.keys() else ()
        pairs = zip(each.values(), data, strict=True)
        return make(*[item if type(item) is kind else one(item, names) for (kind, one), item in pairs])

    return read


def _check(record: GraphRecord, key: GraphKey) -> None:
    """Raise ValueError unless a record fits its key and itself: its numbers become pointers.

    The device checks what it is given besides: control steps, slots of steps, and the size of the arena.
    """
    stored = [output for output in record.outputs if isinstance(output, Stored)]
    launches = [step for step in record.launches if isinstance(step, Launch)]
    leaves: dict[int, list[Any]] = {}  # of each input, which may be seen in several ways
    for entry in key.entries:
        if entry[0] is Op.LEAF:
            leaves.setdefault(entry[3].number, []).append(entry)
    # Behind each base, the bytes at which slots may start. The last is that of registers.
    homes = [max([1, *map(upper, home.nbytes)]) for home in record.homes]
    rooms = [
        _ANY,
        8 * key.scalars,
        *[1] * (key.inputs + len(record.prepared)),
        *(max(1, output.nbytes) for output in stored),
        *homes,
        _ANY,
    ]
    numbers = [*record.results, *(number for pair in record.in_place for number in pair)]
    numbers += [number for home in record.homes for number in (home.first, home.last)]
    numbers += [n for launch in launches for n in (launch.library, launch.tasks, launch.grain, launch.threads - 1)]
    sound = (
        all(number >= 0 for number in numbers)
        and record.bounds == key.bounds
        and all(REGISTER <= base < len(rooms) - 1 and 0 <= offset < rooms[base] for base, offset in record.slots)
        and all(launch.library < len(record.libraries) for launch in launches)
        and all(place < len(key.bounds) + key.starts for launch in launches for place in launch.integers)
        and all(output.input in leaves for output in record.outputs if isinstance(output, Alias))
        and all(_fits(record.outputs[k], key.entries[root]) for k, root in zip(record.results, key.roots, strict=True))
        and all(_is_made_of(one, key, leaves) for one in (*record.prepared, *record.asks))
        and all(entry[3].steady for one in record.prepared for number in one.inputs for entry in leaves[number])
        # A result has the type and size of an input that it is written over.
        and all(_covers(stored[result], entry) for result, number in record.in_place for entry in leaves[number])
    )
    if not sound:
        raise ValueError("a record that does not fit its graph")


def _is_made_of(one: Prepared, key: GraphKey, inputs: Mapping[int, Any]) -> bool:
    """Whether what is prepared is made of inputs and scalars that a graph has."""
    known = {"input": inputs, "scalar": range(key.scalars)}
    return one.nbytes >= 0 and all(part.number in known.get(part.kind, ()) for part in one.leaves)


def _fits(output: Stored | Alias, entry: Any) -> bool:
    """Whether an output has the dtype and shape of its root."""
    _, dtype, shape, *_ = entry
    return bool(output.shape == shape if isinstance(output, Alias) else output == Stored(dtype, shape))


def _covers(output: Stored, entry: Any) -> bool:
    """Whether an output takes the very memory of a leaf."""
    _, dtype, shape, *_ = entry
    return output.dtype is dtype and bool(product_of(output.shape) == product_of(shape))
