"""What attention remembers while a text grows: keys and values of the tokens so far, in room for all that may come."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from smelt.dtypes import int64
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.sizes import count
from smelt.tensor import Tensor, arange, where, zeros

__all__ = ["Cache"]


class Cache(NamedTuple):
    """Keys and values (..., heads, room, features), of which the first `length` places are taken.

    A tree of three tensors that keep their shapes, so that it can be the carry of a `scan`.
    """

    keys: Tensor
    values: Tensor
    length: Tensor

    @property
    def room(self) -> int:
        """How many tokens there is room for."""
        return self.keys.shape[-2]  # type: ignore[no-any-return]

    def positions(self, tokens: int) -> Tensor:
        """The positions of the next tokens."""
        return self.length + arange(tokens)

    def extended(self, keys: Tensor, values: Tensor) -> Cache:
        """With the keys and values (..., heads, tokens, features) of the next tokens."""
        expected = (*self.keys.shape[:-2], keys.shape[-2], self.keys.shape[-1])
        if keys.shape != expected:
            raise ShapeError(
                f"cache: the new keys have shape {shape_text(keys.shape)}, those that it holds "
                f"{shape_text(self.keys.shape)}",
                rule="only the number of tokens may differ.",
                hint="Make the cache with init_cache for this batch.",
            )
        tokens = keys.shape[-2]
        if tokens > self.room:
            raise ShapeError(f"cache: {tokens} tokens, and room for {self.room}", hint="Make a longer cache.")
        places = self.positions(tokens)
        return Cache(
            self.keys.at[..., places, :].set(keys.astype(self.keys.dtype)),
            self.values.at[..., places, :].set(values.astype(self.values.dtype)),
            self.length + tokens,
        )

    def visible(self, tokens: int, causal: bool, mask: Tensor | None = None) -> Tensor:
        """A mask (tokens, room) for attention of the next tokens: those so far, and of the new ones the earlier."""
        last = self.positions(tokens).expand_dims(-1) if causal else self.length + (tokens - 1)
        seen = arange(self.room) <= last
        if mask is None:
            return seen if causal else seen.broadcast_to(tokens, self.room)
        if mask.shape[-1] != self.room:
            raise ShapeError(
                f"cache: the mask has shape {shape_text(mask.shape)}",
                rule=f"its last axis must have a place for each of the {self.room} tokens that there is room for.",
            )
        return mask & seen if mask.dtype.is_bool else where(seen, mask, -math.inf)


def empty_cache(batch: Any, heads: int, length: Any, features: int, dtype: Any, name: str) -> Cache:
    """Room for `length` tokens. The batch is a number, None for inputs without such an axis, or a tuple of sizes."""
    sizes = () if batch is None else batch if isinstance(batch, tuple) else (batch,)
    lead = tuple(count(size, name, "batch") for size in sizes)
    shape = (*lead, heads, count(length, name, "length", least=1), features)
    return Cache(zeros(shape, dtype=dtype), zeros(shape, dtype=dtype), zeros((), dtype=int64))


def checked_cache(cache: Any, name: str) -> Cache:
    """What a layer is given to extend."""
    if not isinstance(cache, Cache):
        raise ArgumentError(
            f"{name}: the cache is of type {type(cache).__name__}", hint="Make one with init_cache(batch, length)."
        )
    return cache
