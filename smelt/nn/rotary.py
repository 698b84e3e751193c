"""Rotary positions (RoPE): pairs of features turned by an angle that grows with the position."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import float32, float64
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.inputs import floats, positions_of
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, asarray, concat, flag, real_number, stack

__all__ = ["RotaryEmbedding"]

Angles = NDArray[np.float64]


class RotaryEmbedding(Module):
    """Turns pairs of the first `dim` features of queries or keys (..., length, features) by their positions.

    A pair is a feature of the first half with its counterpart of the second half, or with `interleaved` two neighbors.
    `scaling` stretches the positions of a model that was trained on shorter texts, in the words of configuration files:
    a dictionary with a `rope_type` (linear, ntk, llama3, yarn), a `factor`, and what else the type takes. `factors`
    slow each of the dim / 2 pairs by a number of its own, as files of weights give them.

    >>> import smelt as sm
    >>> rope = sm.nn.RotaryEmbedding(4)
    >>> rope(sm.ones(2, 8, 5, 4)).shape
    (2, 8, 5, 4)
    >>> [round(x, 4) for x in rope(sm.asarray([[1.0, 1, 0, 0]]), sm.asarray([1]))[0].tolist()]
    [0.5403, 0.9999, 0.8415, 0.01]
    """

    def __init__(
        self,
        dim: int,
        base: float = 10000.0,
        interleaved: bool = False,
        scaling: Mapping[str, Any] | None = None,
        factors: Sequence[float] | None = None,
    ) -> None:
        self.dim = count(dim, "RotaryEmbedding", "dim", least=2)
        if dim % 2:
            raise ArgumentError(f"RotaryEmbedding: dim is {dim}", rule="it must be even: features are turned in pairs.")
        self.base = float(real_number(base, "RotaryEmbedding", "base"))
        if not 0 < self.base < math.inf:
            raise ArgumentError(f"RotaryEmbedding: base is {base!r}", rule="it must be positive and finite.")
        self.interleaved = flag(interleaved, "RotaryEmbedding", "interleaved")
        self.scaling = _chosen(scaling)
        self.factors = _each_pair(factors, self.dim // 2)
        _frequencies(self.dim, self.base, self.scaling)

    def tables(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (..., length, dim / 2) for the positions (..., length), precise enough for `like`."""
        dtype = float64 if like.dtype is float64 else float32
        frequencies, factor = _frequencies(self.dim, self.base, self.scaling)
        frequencies = frequencies if self.factors is None else frequencies / np.asarray(self.factors)
        angles = positions.astype(dtype).expand_dims(-1) * asarray(frequencies, dtype, device=like.device)
        cos, sin = angles.cos(), angles.sin()
        return (cos, sin) if factor == 1 else (cos * factor, sin * factor)

    def __call__(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Positions are integers (length) or (batch, length); they count from 0 unless given."""
        floats(x, "RotaryEmbedding", "the input", tuple(range(2, 9)))
        if not isinstance(x.shape[-1], int) or x.shape[-1] < self.dim:
            raise ShapeError(
                f"RotaryEmbedding: the input has shape {shape_text(x.shape)}",
                rule=f"its last axis must have at least {self.dim} features.",
            )
        return self.turned(x, *self.tables(positions_of(x, positions, "RotaryEmbedding"), x))

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x turned by `tables`, which many layers may share."""
        while 2 < cos.ndim < x.ndim:  # the axis of heads has no positions of its own
            cos, sin = cos.expand_dims(-3), sin.expand_dims(-3)
        turned = _turned(x[..., : self.dim].astype(cos.dtype), cos, sin, self.interleaved).astype(x.dtype)
        return turned if x.shape[-1] == self.dim else concat([turned, x[..., self.dim :]], axis=-1)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(x.shape)
    a, b = x.split(2, axis=-1)
    return concat([a * cos - b * sin, b * cos + a * sin], axis=-1)


# --- frequencies


class Scaling(NamedTuple):
    """A kind of scaling with its numbers, sorted by name."""

    kind: str
    numbers: tuple[tuple[str, float], ...]


class _Kind(NamedTuple):
    """How a kind changes frequencies, which numbers it needs, and which it may be given."""

    change: Callable[..., Angles]
    needs: tuple[str, ...]
    may: tuple[str, ...] = ()


def _linear(dim: int, base: float, factor: float) -> Angles:
    return _plain(dim, base) / factor


def _ntk(dim: int, base: float, factor: float) -> Angles:
    """A larger base: the slowest pair is slowed by the factor, the fastest not at all."""
    return _plain(dim, base * factor ** (dim / max(dim - 2, 1)))


def _llama3(
    dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> Angles:
    """Pairs that turn often within the trained length stay, pairs that turn seldom are slowed, others in between."""
    plain = _plain(dim, base)
    turns = original_max_position_embeddings * plain / (2 * math.pi)
    share = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return (1 - share) * plain / factor + share * plain


def _yarn(
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: float,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attention_factor: float = 1.0,
) -> Angles:
    """As `llama3`, but the share is linear in the number of the pair."""

    def pair(turns: float) -> float:
        return dim * math.log(original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(beta_fast)), 0), min(math.ceil(pair(beta_slow)), dim - 1)
    slowed = np.clip((np.arange(dim // 2) - low) / max(high - low, 1e-3), 0, 1)
    plain = _plain(dim, base)
    return slowed * plain / factor + (1 - slowed) * plain


_LENGTH = "original_max_position_embeddings"
_KINDS = {
    "linear": _Kind(_linear, ("factor",)),
    "ntk": _Kind(_ntk, ("factor",)),
    "llama3": _Kind(_llama3, ("factor", "low_freq_factor", "high_freq_factor", _LENGTH)),
    "yarn": _Kind(_yarn, ("factor", _LENGTH), ("beta_fast", "beta_slow", "attention_factor")),
}


def _plain(dim: int, base: float) -> Angles:
    return base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)


@functools.lru_cache
def _frequencies(dim: int, base: float, scaling: Scaling | None) -> tuple[Angles, float]:
    """The angle by which each pair turns from one position to the next, and a factor of cosines and sines."""
    if scaling is None:
        return _plain(dim, base), 1.0
    numbers = dict(scaling.numbers)
    factor = numbers.get("attention_factor", 0.1 * math.log(max(numbers["factor"], 1.0)) + 1)
    return _KINDS[scaling.kind].change(dim, base, **numbers), factor if scaling.kind == "yarn" else 1.0


def _each_pair(factors: Sequence[float] | None, pairs: int) -> tuple[float, ...] | None:
    """A positive number for each pair."""
    if factors is None:
        return None
    numbers = tuple(float(real_number(value, "RotaryEmbedding", "a factor")) for value in factors)
    if len(numbers) != pairs or not all(0 < number < math.inf for number in numbers):
        raise ArgumentError(
            f"RotaryEmbedding: there are {len(numbers)} factors, the least {min(numbers, default=0.0)}",
            rule=f"there must be a positive number for each of the {pairs} pairs.",
        )
    return numbers


def _chosen(scaling: Mapping[str, Any] | None) -> Scaling | None:
    """A dictionary of a configuration, checked."""
    if scaling is None:
        return None
    name = "RotaryEmbedding"
    if not isinstance(scaling, Mapping):
        raise ArgumentError(f"{name}: scaling is of type {type(scaling).__name__}", rule="it must be a dictionary.")
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "default":
        return None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArgumentError(f"{name}: the rope_type is {kind!r}", rule=f"it must be one of {', '.join(_KINDS)}.")
    _, needs, may = _KINDS[kind]
    given = {key: value for key, value in scaling.items() if key not in ("rope_type", "type") and value is not None}
    for key in needs:
        if key not in given:
            raise ArgumentError(f"{name}: scaling has no {key}", rule=f"{kind} needs: {', '.join(needs)}.")
    for key in given:
        if key not in needs + may:
            raise ArgumentError(f"{name}: scaling has {key}", rule=f"{kind} takes: {', '.join(needs + may)}.")
    numbers = {key: float(real_number(value, name, key)) for key, value in given.items()}
    for key, number in numbers.items():
        if not number > 0 or not math.isfinite(number):
            raise ArgumentError(f"{name}: {key} is {number}", rule="it must be a positive number.")
    if kind == "llama3" and not numbers["high_freq_factor"] > numbers["low_freq_factor"]:
        raise ArgumentError(f"{name}: high_freq_factor is not above low_freq_factor", rule="they bound a range.")
    return Scaling(kind, tuple(sorted(numbers.items())))
