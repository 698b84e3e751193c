"""Keys and values of all tokens so far, in pages: each text has a list of them, and several may have the same.

A cache is a tree of tensors that keep their shapes. Give it to `jit(..., donate=...)`, and what is appended is written
in place. Which pages a text has is data, an int32 tensor, so a program serves any text. What lies behind the last
position of a text is never seen: a page needs no clearing before it is used again, and rows of padding may write there,
or to a page of their own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from smelt.dtypes import float32, int32
from smelt.llm.config import ModelConfig
from smelt.tensor import DTypeLike, Tensor, arange, zeros

__all__ = ["PAGE", "Cache", "empty_cache", "pages_of"]

PANEL: Final = 16  # positions side by side
PAGE: Final = 256  # positions of a page, some panels: in shorter ones too much of what is fetched ahead is not read


class Cache(NamedTuple):
    """Keys and values of each layer. Values are (pages, kv_heads, PAGE, head_dim); keys lie in panels of `PANEL`
    positions, (pages, kv_heads, PAGE / PANEL, head_dim, PANEL): a vector has a feature of many keys, as scores
    want it, and nothing is gathered or transposed when they are read.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def appended(self, layer: int, pages: Tensor, positions: Tensor, k: Tensor, v: Tensor) -> Cache:
        """With keys and values (rows, kv_heads, head_dim), each row at its position (rows,) of its text, whose pages
        are in a row of (rows, count), or (count,) if all are of one.
        """
        keys, values = self.keys[layer], self.values[layer]
        number = positions // PAGE
        page = pages[number] if pages.ndim == 1 else pages[arange(pages.shape[0], dtype=int32), number]
        place = positions % PAGE
        keys = keys.at[page, :, place // PANEL, :, place % PANEL].set(k.astype(keys.dtype))
        values = values.at[page, :, place].set(v.astype(values.dtype))
        return Cache(_with(self.keys, layer, keys), _with(self.values, layer, values))

    def copied(self, source: Tensor, target: Tensor) -> Cache:
        """With what is in one page in another one as well."""
        return Cache(*(tuple(part.at[target].set(part[source]) for part in parts) for parts in self))

    def held(self, layer: int, pages: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (rows, kv_heads, length, head_dim); of one text, (kv_heads, length, head_dim)."""
        keys, values = self.keys[layer][pages], self.values[layer][pages]
        rows, at = tuple(range(pages.ndim - 1)), pages.ndim - 1  # `at`: the axis of pages; heads come before it
        shape = (*pages.shape[:-1], values.shape[at + 1], pages.shape[-1] * PAGE, values.shape[-1])
        keys = keys.permute_dims((*rows, at + 1, at, at + 2, at + 4, at + 3))
        return keys.reshape(shape), values.swapaxes(at, at + 1).reshape(shape)


def _with(parts: tuple[Tensor, ...], layer: int, new: Tensor) -> tuple[Tensor, ...]:
    return (*parts[:layer], new, *parts[layer + 1 :])


def pages_of(length: int) -> int:
    """How many pages a text of so many tokens has."""
    return -(-length // PAGE)


def empty_cache(config: ModelConfig, pages: int, dtype: DTypeLike = float32) -> Cache:
    """Room for so many pages."""
    first, features = (pages, config.kv_heads), config.head_dim
    shapes = (*first, PAGE // PANEL, features, PANEL), (*first, PAGE, features)
    # A tensor each: a donated tree must not have the same memory twice.
    keys, values = (tuple(zeros(shape, dtype=dtype) for _ in range(config.layers)) for shape in shapes)
    return Cache(keys, values)
