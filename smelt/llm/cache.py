"""Keys and values of all tokens so far, in pages: each text has a list of them, and several may have the same.

A cache is a tree of tensors that keep their shapes. Give it to `jit(..., donate=...)`, and what is appended is written
in place. Which pages a text has is data, an int32 tensor, so a program serves any text. What lies behind the last
position of a text is never seen: a page needs no clearing before it is used again, and rows of padding may write there,
or to a page of their own.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final, NamedTuple

from smelt.dtypes import float16, float32, int8, int32
from smelt.llm.config import ModelConfig
from smelt.tensor import DTypeLike, Tensor, arange, where, zeros

__all__ = ["PAGE", "Cache", "empty_cache", "pages_of"]

PANEL: Final = 16  # positions side by side
GROUP: Final = 16  # features of a position that have a step of their own, where they are bytes
PAGE: Final = 256  # positions of a page, some panels: in shorter ones too much of what is fetched ahead is not read


class Cache(NamedTuple):
    """Keys and values of each layer. Values are (pages, kv_heads, PAGE, head_dim); keys lie in panels of `PANEL`
    positions, (pages, kv_heads, PAGE / PANEL, head_dim, PANEL): a vector has a feature of many keys, as scores
    want it, and nothing is gathered or transposed when they are read. Where they are bytes, each group of `GROUP`
    features of a position has a step, what 1 stands for: steps lie as keys and values do.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    key_steps: tuple[Tensor, ...] = ()
    value_steps: tuple[Tensor, ...] = ()

    def appended(self, layer: int, pages: Tensor, positions: Tensor, k: Tensor, v: Tensor) -> Cache:
        """With keys and values (rows, kv_heads, head_dim), each row at its position (rows,) of its text, whose pages
        are in a row of (rows, count), or (count,) if all are of one.
        """
        number, place = positions // PAGE, positions % PAGE
        page = pages[number] if pages.ndim == 1 else pages[arange(pages.shape[0], dtype=int32), number]
        in_panels, in_rows = (page, _ALL, place // PANEL, _ALL, place % PANEL), (page, _ALL, place)
        cache = self
        if self.key_steps:
            (k, key_steps), (v, value_steps) = _rounded(k), _rounded(v)
            cache = self._replace(
                key_steps=_set(self.key_steps, layer, in_panels, key_steps),
                value_steps=_set(self.value_steps, layer, in_rows, value_steps),
            )
        return cache._replace(keys=_set(self.keys, layer, in_panels, k), values=_set(self.values, layer, in_rows, v))

    def copied(self, source: Tensor, target: Tensor) -> Cache:
        """With what is in one page in another one as well."""
        return Cache(*(tuple(part.at[target].set(part[source]) for part in parts) for parts in self))

    def held(self, layer: int, pages: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (rows, kv_heads, length, head_dim); of one text, (kv_heads, length, head_dim)."""
        keys, values = self.keys[layer][pages], self.values[layer][pages]
        if self.key_steps:
            keys = _scaled(keys, self.key_steps[layer][pages], -2)
            values = _scaled(values, self.value_steps[layer][pages], -1)
        rows, at = tuple(range(pages.ndim - 1)), pages.ndim - 1  # `at`: the axis of pages; heads come before it
        shape = (*pages.shape[:-1], values.shape[at + 1], pages.shape[-1] * PAGE, values.shape[-1])
        keys = keys.permute_dims((*rows, at + 1, at, at + 2, at + 4, at + 3))
        return keys.reshape(shape), values.swapaxes(at, at + 1).reshape(shape)


_ALL: Final = slice(None)


def _set(parts: tuple[Tensor, ...], layer: int, at: tuple[Any, ...], new: Tensor) -> tuple[Tensor, ...]:
    part = parts[layer]
    return (*parts[:layer], part.at[at].set(new.astype(part.dtype)), *parts[layer + 1 :])


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Integers up to 127 for (rows, kv_heads, head_dim), and what 1 stands for in each group of features."""
    groups = x.reshape((*x.shape[:-1], -1, gcd(GROUP, x.shape[-1])))
    step = (groups.abs().max(axis=-1) * (1 / 127)).astype(float16)  # rounded first: the integers are of this one
    inverse = where(step > 0, 1 / step.astype(float32), 0.0).expand_dims(-1)
    return (groups * inverse).round().clip(-127, 127).reshape(x.shape), step


def _scaled(codes: Tensor, steps: Tensor, axis: int) -> Tensor:
    """The numbers that integers stand for, with steps for groups along an axis."""
    at = codes.ndim + axis
    groups = codes.reshape((*codes.shape[:at], steps.shape[at], -1, *codes.shape[at + 1 :])).astype(float32)
    return (groups * steps.astype(float32).expand_dims(at + 1)).reshape(codes.shape)


def pages_of(length: int) -> int:
    """How many pages a text of so many tokens has."""
    return -(-length // PAGE)


def empty_cache(config: ModelConfig, pages: int, dtype: DTypeLike = float32) -> Cache:
    """Room for so many pages of floats, or of bytes (int8)."""
    first, features = (pages, config.kv_heads), config.head_dim

    def parts(*shape: int, dtype: DTypeLike = dtype) -> tuple[Tensor, ...]:
        # A tensor each: a donated tree must not have the same memory twice.
        return tuple(zeros((*first, *shape), dtype=dtype) for _ in range(config.layers))

    cache = Cache(parts(PAGE // PANEL, features, PANEL), parts(PAGE, features))
    if cache.keys[0].dtype is not int8:
        return cache
    groups = features // gcd(GROUP, features)
    steps = parts(PAGE // PANEL, groups, PANEL, dtype=float16), parts(PAGE, groups, dtype=float16)
    return Cache(*cache[:2], *steps)
