"""Models to measure with: plain functions over dictionaries of parameters, and the same in NumPy to compare with.

The GPT-2-sized forward pass starts at embedded tokens and ends at the logits of every position. Its weights are random:
what it says does not matter, only that it is computed rightly and how long that takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import InternalError

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Transformer:
    """The sizes of a decoder-only transformer."""

    layers: int
    width: int
    heads: int
    length: int
    vocabulary: int


GPT2 = Transformer(layers=12, width=768, heads=12, length=128, vocabulary=50257)
TINY = Transformer(layers=2, width=48, heads=3, length=17, vocabulary=101)


def parameters(size: Transformer, seed: int = 0) -> dict[str, Array]:
    """Random weights, spread about as those of a trained model; `h3.mlp.up.weight` is a name."""
    generator = np.random.default_rng(seed)
    width = size.width

    def spread(*shape: int, around: float = 0.0) -> Array:
        # Uniform, with a standard deviation of 0.02: drawn in a third of the time of normals.
        values = generator.random(shape, dtype=np.float32)
        values -= 0.5 - around / 0.07
        values *= 0.07
        return values

    found = {"tokens": spread(size.vocabulary, width), "positions": spread(size.length, width)}
    for layer in range(size.layers):
        for name in ("attention.norm", "mlp.norm"):
            found[f"h{layer}.{name}.weight"] = spread(width, around=1.0)
            found[f"h{layer}.{name}.bias"] = spread(width)
        for name, inner, outer in (
            ("attention.in", width, 3 * width),
            ("attention.out", width, width),
            ("mlp.up", width, 4 * width),
            ("mlp.down", 4 * width, width),
        ):
            found[f"h{layer}.{name}.weight"] = spread(inner, outer)
            found[f"h{layer}.{name}.bias"] = spread(outer)
    found["norm.weight"], found["norm.bias"] = spread(width, around=1.0), spread(width)
    return found


def embed(weights: Mapping[str, Array], size: Transformer, seed: int = 1) -> Array:
    """The vectors of a batch of one sequence of random tokens: what the forward pass starts from."""
    tokens = np.random.default_rng(seed).integers(0, size.vocabulary, size.length)
    return weights["tokens"][tokens][None]


# --- in smelt


def forward(weights: Mapping[str, sm.Tensor], x: sm.Tensor, layers: int, heads: int) -> sm.Tensor:
    """Logits (batch, length, vocabulary) from embedded tokens (batch, length, width)."""
    x = x + weights["positions"]
    for layer in range(layers):
        part = f"h{layer}"
        x = x + _attention(weights, f"{part}.attention", _norm(weights, f"{part}.attention.norm", x), heads)
        hidden = sm.gelu(_linear(weights, f"{part}.mlp.up", _norm(weights, f"{part}.mlp.norm", x)), approximate="tanh")
        x = x + _linear(weights, f"{part}.mlp.down", hidden)
    return sm.matmul(_norm(weights, "norm", x), weights["tokens"].mT)


def _norm(weights: Mapping[str, sm.Tensor], name: str, x: sm.Tensor) -> sm.Tensor:
    return sm.layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _linear(weights: Mapping[str, sm.Tensor], name: str, x: sm.Tensor) -> sm.Tensor:
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _attention(weights: Mapping[str, sm.Tensor], name: str, x: sm.Tensor, heads: int) -> sm.Tensor:
    batch, length, width = x.shape
    mixed = _linear(weights, f"{name}.in", x)
    query, key, value = (
        part.reshape((batch, length, heads, width // heads)).permute_dims((0, 2, 1, 3))
        for part in sm.split(mixed, 3, axis=-1)
    )
    seen = sm.attention(query, key, value, causal=True)
    return _linear(weights, f"{name}.out", seen.permute_dims((0, 2, 1, 3)).reshape((batch, length, width)))


# --- in NumPy


def reference(weights: Mapping[str, NDArray[Any]], x: NDArray[Any], layers: int, heads: int) -> NDArray[Any]:
    """The same forward pass in NumPy, in the precision of its arguments."""
    x = x + weights["positions"]
    for layer in range(layers):
        part = f"h{layer}"
        x = x + _attention_reference(
            weights, f"{part}.attention", _norm_reference(weights, f"{part}.attention.norm", x), heads
        )
        normed = _norm_reference(weights, f"{part}.mlp.norm", x)
        hidden = gelu_reference(normed @ weights[f"{part}.mlp.up.weight"] + weights[f"{part}.mlp.up.bias"])
        x = x + hidden @ weights[f"{part}.mlp.down.weight"] + weights[f"{part}.mlp.down.bias"]
    logits: NDArray[Any] = _norm_reference(weights, "norm", x) @ weights["tokens"].T
    return logits


def gelu_reference(x: NDArray[Any]) -> NDArray[Any]:
    """GELU by its tanh approximation."""
    result: NDArray[Any] = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return result


def softmax_reference(x: NDArray[Any]) -> NDArray[Any]:
    """Softmax over the last axis."""
    shares: NDArray[Any] = np.exp(x - x.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return shares


def _norm_reference(weights: Mapping[str, NDArray[Any]], name: str, x: NDArray[Any]) -> NDArray[Any]:
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)
    result: NDArray[Any] = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return result


def _attention_reference(weights: Mapping[str, NDArray[Any]], name: str, x: NDArray[Any], heads: int) -> NDArray[Any]:
    batch, length, width = x.shape
    mixed = x @ weights[f"{name}.in.weight"] + weights[f"{name}.in.bias"]
    query, key, value = (
        part.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for part in np.split(mixed, 3, axis=-1)
    )
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(x.dtype.type(width // heads))
    hidden = np.triu(np.ones((length, length), bool), 1)
    seen = softmax_reference(np.where(hidden, x.dtype.type(-np.inf), scores)) @ value
    joined = seen.transpose(0, 2, 1, 3).reshape(batch, length, width)
    result: NDArray[Any] = joined @ weights[f"{name}.out.weight"] + weights[f"{name}.out.bias"]
    return result


def check_close(found: NDArray[Any], expected: NDArray[Any], tolerance: float = 1e-3) -> None:
    """Refuse to go on with a wrong result: what differs by more than `tolerance` of the largest value is a bug."""
    difference = float(np.max(np.abs(found - expected), initial=0.0))
    limit = tolerance * float(np.max(np.abs(expected), initial=0.0))
    if found.shape != expected.shape or not difference <= limit:
        raise InternalError(f"a measured result is wrong: off by {difference:.3g}, and {limit:.3g} is allowed")


def error_norms(found: NDArray[Any], expected: NDArray[Any]) -> dict[str, float]:
    """How far a result is off: the largest and the mean difference as shares of the largest value, and the norm of the
    differences as a share of the norm of all values.
    """
    difference = np.abs(np.asarray(found, np.float64) - expected).reshape(-1)
    wide = np.asarray(expected, np.float64).reshape(-1)
    largest = max(float(np.max(np.abs(wide), initial=0.0)), 1e-300)
    norm = max(float(np.linalg.norm(wide)), 1e-300)
    most, mean = float(np.max(difference, initial=0.0)), float(difference.mean()) if difference.size else 0.0
    return {"max": most / largest, "mean": mean / largest, "l2": float(np.linalg.norm(difference)) / norm}
