"""The tensors of a model under the names and in the layout of the other kind of file.

What differs is in the rows of `families`: names, the order of the rows of q and k, weights of norms that lack 1, linear
layers that lie the other way, and experts, which are one tensor in GGUF files and one each elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.errors import ArgumentError, ParseError
from smelt.formats import BLOCKS, Folder, Gguf
from smelt.llm.config import ModelConfig
from smelt.llm.described import huggingface_family
from smelt.llm.families import FAMILIES, GGUF_NAMES, Family

__all__ = ["Tensor", "renamed"]

_TABLES = ("embedding", "places", "head")  # matrices that are no linear layers
_EXPERTS = ("gates", "ups", "downs")


class Tensor(NamedTuple):
    """A tensor to be written: its name, the shape of its numbers, the format that it has now, and what gives it."""

    name: str
    shape: tuple[int, ...]
    format: str
    array: Callable[[], NDArray[Any]]
    raw: Callable[[], NDArray[np.uint8]] | None = None  # its blocks, where they can stay as they are


class _Part(NamedTuple):
    """A tensor of a file by what it is: `names` has several for experts that lie apart."""

    role: str
    n: int
    kind: str
    names: dict[int, str]


def renamed(config: ModelConfig, file: Gguf | Folder, to_gguf: bool) -> list[Tensor]:
    """All tensors of a file for the other kind."""
    row = FAMILIES[config.family if to_gguf else huggingface_family(config)]
    if row.interleaved and config.rope is not None and config.rope.dim != config.head_dim:
        raise ArgumentError("convert: only a part of each head is turned by positions", rule="this is not supported.")
    read, written = (row.names, GGUF_NAMES) if to_gguf else (GGUF_NAMES, row.names)
    found: list[Tensor] = []
    for part in _parts(config, file, read, row.ignored if to_gguf else ()):
        if part.role == "frequencies":  # they are numbers of the config elsewhere
            continue
        if part.role not in written:
            raise ParseError(f"convert: files of the other kind have no place for {next(iter(part.names.values()))}")
        found += _written(config, row, file, part, written[part.role], to_gguf)
    return found


def _parts(
    config: ModelConfig, file: Gguf | Folder, names: Mapping[str, str], ignored: tuple[str, ...]
) -> Iterator[_Part]:
    front = "" if f"{names['embedding']}.weight" in file else names["embedding"].split(".")[0] + "."
    patterns = {role: _pattern(name.removeprefix(front)) for role, name in names.items()}
    found: dict[tuple[str, int, str], dict[int, str]] = {}
    for name in file:
        for role, pattern in patterns.items():
            if match := pattern.fullmatch(name):
                places = match.groupdict()
                key = (role, int(places.get("n") or 0), places["kind"])
                found.setdefault(key, {})[int(places.get("e") or 0)] = name
                break
        else:
            if not name.endswith(ignored):
                raise ParseError(f"convert: the model has no place for {name!r:.80}")
    if config.tied:
        found.pop(("head", 0, "weight"), None)
    for (role, n, kind), held in found.items():
        if (
            role in _EXPERTS
            and "{e}" in names[role]
            and set(held) != set(range(config.experts.count if config.experts else 0))
        ):
            raise ParseError(f"convert: experts of block {n} are missing")
        yield _Part(role, n, kind, held)


def _pattern(name: str) -> re.Pattern[str]:
    text = re.escape(name).replace(r"\{n\}", r"(?P<n>\d{1,3})").replace(r"\{e\}", r"(?P<e>\d{1,4})")
    return re.compile(text + r"\.(?P<kind>weight|bias)")


def _written(
    config: ModelConfig, row: Family, file: Gguf | Folder, part: _Part, pattern: str, to_gguf: bool
) -> Iterator[Tensor]:
    """The tensors of the other file that a part becomes."""
    names = [part.names[e] for e in sorted(part.names)]
    shape, kind = _described(file, names[0])
    flipped = row.transposed and part.kind == "weight" and len(shape) == 2 and part.role not in _TABLES
    shape = shape[::-1] if flipped else shape
    stacked = len(names) > 1 or (part.role in _EXPERTS and "{e}" in (row.names[part.role]))

    def one(name: str) -> NDArray[Any]:
        array = file.array(name)
        if flipped:
            array = array.T
        if row.norm_offset and part.role.endswith("norm"):
            offset = np.float32(row.norm_offset if to_gguf else -row.norm_offset)
            array = array.astype(np.float32) + offset
        if row.interleaved and part.role in ("q", "k"):
            array = _turned(array, config.heads if part.role == "q" else config.kv_heads, to_gguf)
        return np.ascontiguousarray(array)

    if stacked and to_gguf:
        name = f"{pattern.format(n=part.n)}.{part.kind}"
        yield Tensor(name, (len(names), *shape), kind, lambda: np.stack([one(name) for name in names]))
    elif stacked:
        whole = lru_cache(maxsize=1)(lambda: one(names[0]))  # for one expert after the other
        for e in range(shape[0]):
            name = f"{pattern.format(n=part.n, e=e)}.{part.kind}"
            yield Tensor(name, shape[1:], kind, lambda e=e: whole()[e])  # type: ignore[misc]
    else:
        yield Tensor(f"{pattern.format(n=part.n)}.{part.kind}", shape, kind, lambda: one(names[0]))


def _described(file: Gguf | Folder, name: str) -> tuple[tuple[int, ...], str]:
    entry = file.entries[name]
    if isinstance(file, Gguf):
        return tuple(entry.shape), file.entries[name].block.name
    dtype = file.entries[name].dtype
    kind = next((row.name for row in BLOCKS.values() if row.dtype is dtype), None)
    if kind is None:
        raise ParseError(f"convert: {name!r:.80} is {dtype}, which GGUF files do not have")
    return tuple(entry.shape), kind


def _turned(array: NDArray[Any], heads: int, to_gguf: bool) -> NDArray[Any]:
    """Rows of q or k in the other order: in GGUF files of some families, pairs of RoPE are neighbors."""
    halves = (heads, 2, -1) if to_gguf else (heads, -1, 2)
    return array.reshape(*halves, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
