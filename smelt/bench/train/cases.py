"""The cases of the train suite: networks with their first weights, their data, and what is asked of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]

RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8  # of Adam, in all libraries


@dataclass(frozen=True)
class Gpt:
    """The sizes of a decoder-only transformer."""

    layers: int
    width: int
    heads: int
    length: int
    vocabulary: int


GPT = Gpt(layers=6, width=384, heads=6, length=256, vocabulary=256)
SMALL_GPT = Gpt(layers=2, width=48, heads=3, length=16, vocabulary=64)
LENGTHS = (24, 37, 64, 96, 100)  # of texts, as they come
SHORT = {f"transformer-{length}": Gpt(2, 128, 4, length, 256) for length in LENGTHS}


@dataclass(frozen=True)
class Case:
    """`bar` is the ratio to the fastest peer, `cold` the seconds that the first step may take more than others."""

    summary: str
    weights: Callable[[], Weights]
    batch: Callable[[], tuple[Any, Any]]
    flops: float
    bar: float
    cold: float | None = None

    def least_bytes(self) -> float:
        """What a step reads and writes at least: the weights and both averages of Adam, twice, and the batch."""
        weights = sum(array.nbytes for array in self.weights().values())
        return float(6 * weights + sum(part.nbytes for part in self.batch()))


def _uniform(generator: np.random.Generator, *shape: int, fan: int) -> NDArray[np.float32]:
    bound = 1 / math.sqrt(fan)
    return generator.uniform(-bound, bound, shape).astype(np.float32)


def _layers(*layers: tuple[str, tuple[int, ...]]) -> Weights:
    """Weights and biases of linear and convolution layers, named as PyTorch does."""
    generator = np.random.default_rng(0)
    found: Weights = {}
    for name, shape in layers:
        fan = math.prod(shape[1:])
        found[f"{name}.weight"] = _uniform(generator, *shape, fan=fan)
        found[f"{name}.bias"] = _uniform(generator, shape[0], fan=fan)
    return found


def _images(batch: int, *shape: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(1)
    return generator.standard_normal((batch, *shape), dtype=np.float32), generator.integers(0, 10, batch)


def resnet_blocks() -> list[tuple[str, int, int, int]]:
    """The eight blocks of a ResNet-18 that begins with 16 channels: name, channels in and out, stride."""
    widths = [16, 16, 32, 64, 128]
    return [(f"blocks.{k}", widths[(k + 1) // 2], widths[k // 2 + 1], 2 if k in (2, 4, 6) else 1) for k in range(8)]


def _resnet_weights() -> Weights:
    """Convolutions with normal weights, norms at one; the running averages are not among them."""
    generator = np.random.default_rng(0)
    found: Weights = {}

    def normed(name: str, outer: int, inner: int, size: int) -> None:
        deviation = math.sqrt(2 / (outer * size**2))
        found[f"{name}.0.weight"] = (deviation * generator.standard_normal((outer, inner, size, size))).astype("f")
        found[f"{name}.1.weight"], found[f"{name}.1.bias"] = np.ones(outer, np.float32), np.zeros(outer, np.float32)

    normed("stem", 16, 3, 3)
    for name, inner, outer, stride in resnet_blocks():
        normed(f"{name}.first", outer, inner, 3)
        normed(f"{name}.second", outer, outer, 3)
        if stride > 1:
            normed(f"{name}.short", outer, inner, 1)
    return found | _layers(("head", (10, 128)))


def gpt_weights(size: Gpt) -> Weights:
    """Normal with deviation 0.02, norms at one."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> NDArray[np.float32]:
        return (0.02 * generator.standard_normal(shape)).astype(np.float32)

    width = size.width
    found: Weights = {"tokens.weight": normal(size.vocabulary, width), "positions.weight": normal(size.length, width)}
    names = [f"blocks.{k}" for k in range(size.layers)]
    for name in names:
        for part, outer, inner in (("inward", 3, 1), ("outward", 1, 1), ("up", 4, 1), ("down", 1, 4)):
            found[f"{name}.{part}.weight"] = normal(outer * width, inner * width)
            found[f"{name}.{part}.bias"] = np.zeros(outer * width, np.float32)
    for name in [f"{name}.{norm}" for name in names for norm in ("norm1", "norm2")] + ["norm"]:
        found[f"{name}.weight"], found[f"{name}.bias"] = np.ones(width, np.float32), np.zeros(width, np.float32)
    found["head.weight"] = normal(size.vocabulary, width)
    return found


def gpt_batch(size: Gpt, batch: int) -> tuple[Any, Any]:
    text = np.random.default_rng(1).integers(0, size.vocabulary, (batch, size.length + 1))
    return text[:, :-1].copy(), text[:, 1:].copy()


def gpt_flops(size: Gpt, batch: int) -> float:
    """Of a step: forward, and twice as much backward; the attention is causal."""
    products = 12 * size.width**2 * size.layers + size.width * size.vocabulary
    attention = size.layers * size.length * size.width
    return 6.0 * batch * size.length * (products + attention)


def _short(size: Gpt) -> Case:
    summary = f"2 layers, width {size.width}, length {size.length}, batch 8: for first steps"
    return Case(summary, lambda: gpt_weights(size), lambda: gpt_batch(size, 8), gpt_flops(size, 8), bar=0.0)


CASES: Mapping[str, Case] = {
    "mlp": Case(
        "784-512-512-10, batch 128",
        lambda: _layers(("0", (512, 784)), ("2", (512, 512)), ("4", (10, 512))),
        lambda: _images(128, 784),
        6.0 * 128 * (784 * 512 + 512 * 512 + 512 * 10),
        bar=1.2,
        cold=1.5,
    ),
    "lenet": Case(
        "LeNet on 28×28 images, batch 64",
        lambda: _layers(
            ("0", (6, 1, 5, 5)), ("3", (16, 6, 5, 5)), ("7", (120, 400)), ("9", (84, 120)), ("11", (10, 84))
        ),
        lambda: _images(64, 1, 28, 28),
        6.0 * 64 * (28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10),
        bar=1.5,
    ),
    "resnet": Case(
        "ResNet-18, width 16, on 32×32 images, batch 64",
        _resnet_weights,
        lambda: _images(64, 3, 32, 32),
        6.0 * 64 * 35e6,
        bar=0.0,
    ),
    "gpt": Case(
        "6 layers, width 384, length 256, batch 8",
        lambda: gpt_weights(GPT),
        lambda: gpt_batch(GPT, 8),
        gpt_flops(GPT, 8),
        bar=1.0,
        cold=8.0,
    ),
    "gpt-small": Case(
        "2 layers, width 48, length 16, batch 2: for a rough look",
        lambda: gpt_weights(SMALL_GPT),
        lambda: gpt_batch(SMALL_GPT, 2),
        gpt_flops(SMALL_GPT, 2),
        bar=0.0,
    ),
    **{name: _short(size) for name, size in SHORT.items()},
}
SIZES: Mapping[str, Gpt] = {"gpt": GPT, "gpt-small": SMALL_GPT} | SHORT
