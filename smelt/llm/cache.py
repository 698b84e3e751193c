"""Keys and values of all tokens so far, by slot: each slot holds one text.

A cache is a tree of tensors that keep their shapes. Give it to `jit(..., donate=...)`, and what is appended is written
in place. What lies behind the last position of a text is never seen, so a slot needs no clearing before it is used
again, and rows of padding may write there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.llm.config import ModelConfig
from smelt.tensor import DTypeLike, Tensor, arange, zeros

__all__ = ["Cache", "empty_cache"]

PANEL: Final = 16  # positions side by side; lengths are a multiple of it


class Cache(NamedTuple):
    """Keys and values of each layer. Values are (slots, kv_heads, length, head_dim); keys lie in panels of `PANEL`
    positions, (slots, kv_heads, length / PANEL, head_dim, PANEL): a vector has a feature of many keys, as scores
    want it, and nothing is gathered or transposed when they are read.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def appended(self, layer: int, slots: Tensor | None, positions: Tensor, k: Tensor, v: Tensor) -> Cache:
        """With keys and values (rows, kv_heads, head_dim), each row at its position (rows,) of its slot: (rows,), () if
        all have the same, or None if row i has slot i.
        """
        keys, values = self.keys[layer], self.values[layer]
        slots = arange(values.shape[0], dtype=int32) if slots is None else slots
        keys = keys.at[slots, :, positions // PANEL, :, positions % PANEL].set(k.astype(keys.dtype))
        values = values.at[slots, :, positions].set(v.astype(values.dtype))
        return Cache(_with(self.keys, layer, keys), _with(self.values, layer, values))

    def held(self, layer: int, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (rows, kv_heads, length, head_dim); of one slot, (kv_heads, length, head_dim)."""
        keys, values = self.keys[layer], self.values[layer]
        if slots is not None:
            only = slots.ndim == 0 and values.shape[0] == 1  # there is no other: nothing is gathered
            keys, values = (keys[0], values[0]) if only else (keys[slots], values[slots])
        return keys.swapaxes(-1, -2).reshape(values.shape), values


def _with(parts: tuple[Tensor, ...], layer: int, new: Tensor) -> tuple[Tensor, ...]:
    return (*parts[:layer], new, *parts[layer + 1 :])


def empty_cache(config: ModelConfig, slots: int, length: int, dtype: DTypeLike = float32) -> Cache:
    """Room for `slots` texts of up to `length` tokens."""
    if config.rope is None and length > config.context:
        raise ArgumentError(f"cache: the length is {length}", rule=f"this model has {config.context} positions.")
    panels = -(-length // PANEL)
    first, features = (slots, config.kv_heads), config.head_dim
    shapes = (*first, panels, features, PANEL), (*first, panels * PANEL, features)
    # A tensor each: a donated tree must not have the same memory twice.
    keys, values = (tuple(zeros(shape, dtype=dtype) for _ in range(config.layers)) for shape in shapes)
    return Cache(keys, values)
