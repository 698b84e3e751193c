"""Keys and values of all tokens so far, by slot: each slot holds one text.

A cache is a tree of tensors that keep their shapes. Give it to `jit(..., donate=...)`, and what is appended is written
in place. What lies behind the last position of a text is never seen, so a slot needs no clearing before it is used
again, and rows of padding may write there.
"""

from __future__ import annotations

from typing import NamedTuple

from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.llm.config import ModelConfig
from smelt.tensor import DTypeLike, Tensor, arange, zeros

__all__ = ["Cache", "empty_cache"]


class Cache(NamedTuple):
    """Keys and values of each layer, (slots, kv_heads, length, head_dim)."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def appended(self, layer: int, slots: Tensor | None, positions: Tensor, k: Tensor, v: Tensor) -> Cache:
        """With keys and values (rows, kv_heads, head_dim), each row at its position (rows,) of its slot: (rows,), () if
        all have the same, or None if row i has slot i.
        """
        slots = arange(self.keys[layer].shape[0], dtype=int32) if slots is None else slots

        def put(parts: tuple[Tensor, ...], new: Tensor) -> tuple[Tensor, ...]:
            after = parts[layer].at[slots, :, positions].set(new.astype(parts[layer].dtype))
            return (*parts[:layer], after, *parts[layer + 1 :])

        return Cache(put(self.keys, k), put(self.values, v))

    def held(self, layer: int, slots: Tensor | None) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, (rows, kv_heads, length, head_dim); of one slot, (kv_heads, length, head_dim)."""
        keys, values = self.keys[layer], self.values[layer]
        if slots is None:
            return keys, values
        if slots.ndim == 0 and keys.shape[0] == 1:  # there is no other: nothing is gathered
            return keys[0], values[0]
        return keys[slots], values[slots]


def empty_cache(config: ModelConfig, slots: int, length: int, dtype: DTypeLike = float32) -> Cache:
    """Room for `slots` texts of up to `length` tokens."""
    if config.rope is None and length > config.context:
        raise ArgumentError(f"cache: the length is {length}", rule=f"this model has {config.context} positions.")
    shape = (slots, config.kv_heads, length, config.head_dim)
    # A tensor each: a donated tree must not have the same memory twice.
    keys, values = (tuple(zeros(shape, dtype=dtype) for _ in range(config.layers)) for _ in range(2))
    return Cache(keys, values)
