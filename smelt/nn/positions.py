"""Positions that are added: to embeddings (sines, learned vectors), or to the scores of attention (ALiBi).

Rotary positions, which turn queries and keys, are in `rotary.py`.
"""

from __future__ import annotations

import numpy as np

from smelt.dtypes import DType, float32, float64
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.inputs import floats, integers, positions_of
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, arange, asarray, embedding, random, real_number, stack

__all__ = ["ALiBi", "LearnedPositions", "SinusoidalPositions", "alibi_slopes", "sinusoidal_positions"]

_RANKS = (2, 3, 4)  # (..., length, features)


def sinusoidal_positions(positions: int | Tensor, dim: int, base: float = 10000.0, *, dtype: DType = float32) -> Tensor:
    """For each position a vector of sines (even places) and cosines (odd places) of slower and slower waves.

    >>> import smelt as sm
    >>> sm.nn.sinusoidal_positions(3, 4).shape
    (3, 4)
    """
    name = "sinusoidal_positions"
    dim = count(dim, name, "dim", least=1)
    base = real_number(base, name, "base")
    if not base > 0:
        raise ArgumentError(f"{name}: base is {base!r}", rule="it must be positive.")
    if not isinstance(positions, Tensor):
        positions = arange(positions)
    frequencies = float(base) ** (-np.arange(0, dim, 2) / dim)
    precise = float64 if dtype is float64 else float32
    angles = integers(positions, name, "positions").astype(precise).expand_dims(-1) * asarray(frequencies, precise)
    waves = stack([angles.sin(), angles.cos()], axis=-1).flatten(-2)
    return waves[..., :dim].astype(dtype)


class SinusoidalPositions(Module):
    """x (..., length, dim) plus `sinusoidal_positions` of the positions, which count from 0 unless given.

    >>> import smelt as sm
    >>> sm.nn.SinusoidalPositions(6)(sm.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        self.dim = count(dim, "SinusoidalPositions", "dim", least=1)
        self.base = float(real_number(base, "SinusoidalPositions", "base"))
        sinusoidal_positions(0, self.dim, self.base)  # checks the base

    def __call__(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        floats(x, "SinusoidalPositions", "the input", _RANKS, self.dim)
        where = positions_of(x, positions, "SinusoidalPositions")
        return x + sinusoidal_positions(where, self.dim, self.base, dtype=x.dtype)


class LearnedPositions(Module):
    """x (..., length, dim) plus a learned vector for each position, counted from 0 unless positions are given.

    >>> import smelt as sm
    >>> sm.nn.LearnedPositions(16, 6)(sm.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(self, max_length: int, dim: int, std: float = 0.02) -> None:
        self.max_length = count(max_length, "LearnedPositions", "max_length", least=1)
        self.dim = count(dim, "LearnedPositions", "dim", least=1)
        self.weight = random.normal((max_length, dim), std=real_number(std, "LearnedPositions", "std"))

    def __call__(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        floats(x, "LearnedPositions", "the input", _RANKS, self.dim)
        if positions is not None:
            return x + embedding(positions_of(x, positions, "LearnedPositions"), self.weight)
        length = x.shape[-2]
        if isinstance(length, int) and length > self.max_length:
            raise ShapeError(
                f"LearnedPositions: the input has shape {shape_text(x.shape)}",
                rule=f"there are positions for a length of at most {self.max_length}.",
            )
        return x + self.weight[:length]


def alibi_slopes(num_heads: int) -> Tensor:
    """For each head, by how much a score falls with each step of distance: a geometric sequence.

    >>> import smelt as sm
    >>> sm.nn.alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    return asarray(_slopes(count(num_heads, "alibi_slopes", "num_heads", least=1)), float32)


def _slopes(heads: int) -> list[float]:
    whole = 1 << (heads.bit_length() - 1)  # the largest power of two that is not larger
    slopes = [2.0 ** (-8 * (k + 1) / whole) for k in range(whole)]
    return slopes if whole == heads else slopes + _slopes(2 * whole)[0::2][: heads - whole]


class ALiBi(Module):
    """A mask for attention that falls linearly with the distance from query to key, at each head by its own slope.

    The last query stands at the last key.

    >>> import smelt as sm
    >>> sm.nn.ALiBi(2)(3)[0].tolist()
    [[0.0, -0.0625, -0.125], [-0.0625, 0.0, -0.0625], [-0.125, -0.0625, 0.0]]
    """

    def __init__(self, num_heads: int) -> None:
        self.num_heads = count(num_heads, "ALiBi", "num_heads", least=1)

    def __call__(self, queries: int, keys: int | None = None) -> Tensor:
        keys = queries if keys is None else keys
        at = arange(queries).expand_dims(-1) + (keys - queries)
        distance = (at - arange(keys)).abs().astype(float32)
        return 0 - alibi_slopes(self.num_heads).reshape(-1, 1, 1) * distance
