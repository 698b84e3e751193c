"""Functions to differentiate: values and gradients in one call, written once for all libraries.

Each is a scalar function of its first arguments; the others are constants. Weights in the sum make every cotangent
another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Differentiable:
    """`losses` of a library compute it; the gradient is by the first `count` arguments."""

    count: int
    reference: Callable[..., tuple[Any, ...]]  # value and gradients in NumPy


@dataclass(frozen=True)
class Words:
    """What the losses are written in: functions of one library."""

    attention: Callable[..., Any]  # (query, key, value), causal
    layer_norm: Callable[..., Any]
    nll: Callable[..., Any]
    conv2d: Callable[..., Any]  # 3×3 windows, padded by one
    take: Callable[..., Any]  # (table, numbers)


def losses(words: Words) -> dict[str, Callable[..., Any]]:
    """The scalar functions, by name."""
    return {
        "attention": lambda query, key, value, w: (words.attention(query, key, value) * w).sum(),
        "layer norm": lambda x, weight, bias, w: (words.layer_norm(x, weight, bias) * w).sum(),
        "nll": words.nll,
        "conv2d": lambda x, weight, w: (words.conv2d(x, weight) * w).sum(),
        "embedding": lambda table, numbers, w: (words.take(table, numbers) * w).sum(),
    }


# --- by hand


def _attention(query: Any, key: Any, value: Any, w: Any) -> tuple[Any, ...]:
    scale = 1 / np.sqrt(query.shape[-1])
    found = np.zeros_like(query), np.zeros_like(key), np.zeros_like(value)
    total = 0.0
    seen = np.tri(query.shape[-2], dtype=bool)
    for at in np.ndindex(*query.shape[:-2]):
        q, k, v, ct = query[at], key[at], value[at], w[at]
        scores = np.where(seen, q @ k.T * scale, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        total += ((shares @ v) * ct).sum()
        slope = ct @ v.T
        slope = shares * (slope - (slope * shares).sum(-1, keepdims=True)) * scale
        found[0][at], found[1][at], found[2][at] = slope @ k, slope.T @ q, shares.T @ ct
    return (np.asarray(total), *found)


def _layer_norm(x: Any, weight: Any, bias: Any, w: Any) -> tuple[Any, ...]:
    centered = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)
    normal = centered * scale
    slope = w * weight
    by_x = scale * (slope - slope.mean(-1, keepdims=True) - normal * (slope * normal).mean(-1, keepdims=True))
    return ((normal * weight + bias) * w).sum(), by_x, (w * normal).sum(0), w.sum(0)


def _nll(logits: Any, labels: Any) -> tuple[Any, ...]:
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    rows = np.arange(len(labels))
    value = -np.log(shares[rows, labels]).mean()
    shares[rows, labels] -= 1
    return value, shares / len(labels)


def _conv2d(x: Any, weight: Any, w: Any) -> tuple[Any, ...]:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    by_padded, by_weight, total = np.zeros_like(padded), np.zeros_like(weight), 0.0
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + height, j : j + width]
            total += np.einsum("ncij,oc,noij->", part, weight[:, :, i, j], w, optimize=True)
            by_weight[:, :, i, j] = np.einsum("noij,ncij->oc", w, part, optimize=True)
            by_padded[:, :, i : i + height, j : j + width] += np.einsum(
                "noij,oc->ncij", w, weight[:, :, i, j], optimize=True
            )
    return np.asarray(total), by_padded[:, :, 1:-1, 1:-1], by_weight


def _embedding(table: Any, numbers: Any, w: Any) -> tuple[Any, ...]:
    by_table = np.zeros_like(table)
    np.add.at(by_table, numbers, w)
    return (table[numbers] * w).sum(), by_table


FUNCTIONS: Mapping[str, Differentiable] = {
    "attention": Differentiable(3, _attention),
    "layer norm": Differentiable(3, _layer_norm),
    "nll": Differentiable(1, _nll),
    "conv2d": Differentiable(2, _conv2d),
    "embedding": Differentiable(1, _embedding),
}


def operations(wrap: Callable[[Callable[..., Any], int], Any], words: Words) -> Iterator[tuple[str, Any]]:
    """Operations of a library: `wrap` makes of a loss and a number of arguments what gives value and gradients."""
    for name, loss in losses(words).items():
        yield f"gradient of {name}", wrap(loss, FUNCTIONS[name].count)


# --- inputs


def inputs(name: str) -> list[Any]:
    """Float32 arguments, and numbers of classes or rows."""
    generator = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32)

    match name:
        case "attention":
            return [floats(1, 12, 1024, 64) for _ in range(4)]
        case "layer norm":
            return [floats(4096, 1024), floats(1024), floats(1024), floats(4096, 1024)]
        case "nll":
            return [floats(1024, 32000), generator.integers(0, 32000, 1024)]
        case "conv2d":
            return [floats(8, 64, 56, 56), floats(64, 64, 3, 3), floats(8, 64, 56, 56)]
    return [floats(32000, 512), generator.integers(0, 32000, 8192), floats(8192, 512)]
