"""The cases of the cpu suite: what is computed on which inputs, against whom, and which ratio is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from smelt.bench import models
from smelt.bench.cpu import gradients, networks
from smelt.bench.cpu.library import PEERS

_LARGE = 1 << 24
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Case:
    """`flops` or `nbytes` say how much work it is, for the detail column; `bar` is the case's own.

    A case with `share` is judged as a share of a copy that moves `nbytes` bytes; the peers are then only shown.
    Of a `heavy` one there are never more than two processes. `quick` names the operation that stands in for it.
    """

    summary: str
    operation: str
    inputs: Callable[[bool], list[Any]]
    peers: tuple[str, ...]
    flops: float = 0.0
    nbytes: float = 0.0
    tolerance: float = 1e-4  # as a share of the largest value
    bar: float | None = None
    share: bool = False
    heavy: bool = False
    quick: str = ""


@dataclass(frozen=True)
class Group:
    """Cases with a common bar: for the geometric mean of their ratios, and for each of them."""

    summary: str
    cases: Mapping[str, Case]
    geomean: float | None = None
    each: float | None = None
    always: bool = False  # the bars hold for any number of threads
    memory: bool = False  # not a contest: the resident memory of a forward pass


def _floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


# --- products

_SIZES = {
    "128": (128, 128, 128),
    "256": (256, 256, 256),
    "512": (512, 512, 512),
    "1024": (1024, 1024, 1024),
    "2048": (2048, 2048, 2048),
    "512x512x1024": (512, 512, 1024),
    "333x777x555": (333, 777, 555),
    "32x4096x4096": (32, 4096, 4096),
    "1x4096x4096": (1, 4096, 4096),
}


def _factors(m: int, n: int, k: int, dtype: Any) -> list[Any]:
    generator = np.random.default_rng(0)
    if dtype == np.int8:
        return [generator.integers(-128, 128, shape, dtype=np.int8) for shape in ((m, k), (k, n))]
    return [generator.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in ((m, k), (k, n))]


def _product(name: str, m: int, n: int, k: int, dtype: Any, tolerance: float) -> Case:
    integers = dtype == np.int8
    return Case(
        f"{m}×{k} by {k}×{n}, {name}",
        "int matmul" if integers else "matmul",
        lambda quick: _factors(m, n, k, dtype),
        # NumPy has no fast products of narrow numbers, and compiling leaves a product as it is.
        ("numpy", "torch", "jax") if dtype == np.float32 else ("torch", "jax"),
        # A matrix by a vector is a matter of reading it.
        flops=2.0 * m * n * k if m > 1 else 0.0,
        nbytes=float(k * n * dtype.itemsize),
        tolerance=tolerance,
    )


def _products(name: str, dtype: Any, tolerance: float) -> dict[str, Case]:
    return {f"{name}-{size}": _product(name, *sizes, dtype, tolerance) for size, sizes in _SIZES.items()}


# --- rows and streams


def _row_inputs(rows: int, columns: int, weights: int) -> list[Any]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, columns), dtype=np.float32)
    return [x, *(generator.standard_normal(columns, dtype=np.float32) for _ in range(weights))]


def _labeled(rows: int, classes: int) -> list[Any]:
    return [_floats(rows, classes), np.random.default_rng(1).integers(0, classes, rows)]


_STREAMS = {
    "gelu": Case(
        "gelu(x * w + b) by tanh, each operand 16M floats",
        "gelu",
        lambda quick: list(np.random.default_rng(0).standard_normal((3, _LARGE), dtype=np.float32)),
        PEERS,
        nbytes=16.0 * _LARGE,
        bar=0.8,
        share=True,
    ),
    "layer-norm": Case(
        "layer norm 4096×1024, weight and bias",
        "layer norm",
        lambda quick: _row_inputs(4096, 1024, 2),
        PEERS,
        nbytes=8.0 * 4096 * 1024,
        bar=0.8,
        share=True,
    ),
    "softmax": Case(
        "softmax 1024×4096",
        "softmax",
        lambda quick: _row_inputs(1024, 4096, 0),
        PEERS,
        nbytes=8.0 * 1024 * 4096,
        bar=0.6,
        share=True,
    ),
}

_ROWS = {
    "rms-norm": Case(
        "rms norm 4096×1024", "rms norm", lambda quick: _row_inputs(4096, 1024, 1), PEERS, nbytes=8.0 * 4096 * 1024
    ),
    "nll": Case(
        "mean negative log-likelihood from logits 1024×32000",
        "nll",
        lambda quick: _labeled(1024, 32000),
        PEERS,
        nbytes=4.0 * 1024 * 32000,
    ),
    # All positive: what is added up badly shows.
    "sum": Case(
        "sum of 16M floats",
        "sum",
        lambda quick: [np.random.default_rng(0).random(_LARGE, dtype=np.float32)],
        PEERS,
        nbytes=4.0 * _LARGE,
    ),
    "sum-columns": Case(
        "sum over axis 0 of 4096²", "sum columns", lambda quick: [_floats(4096, 4096)], PEERS, nbytes=4.0 * _LARGE
    ),
    "argmax": Case(
        "argmax over rows of 1024×4096",
        "argmax",
        lambda quick: [_floats(1024, 4096)],
        PEERS,
        nbytes=4.0 * 1024 * 4096,
        tolerance=0.0,
    ),
    # Flat, since a transposed view would be no work.
    "transpose": Case(
        "transpose 4096², written out in memory",
        "transpose",
        lambda quick: [_floats(4096, 4096)],
        PEERS,
        nbytes=8.0 * _LARGE,
        tolerance=0.0,
    ),
    "cumsum": Case(
        "cumsum along axis 1 of 4096²", "cumsum", lambda quick: [_floats(4096, 4096)], PEERS, nbytes=8.0 * _LARGE
    ),
}

# --- attention and networks


def _heads() -> list[Any]:
    return list(np.random.default_rng(0).standard_normal((3, 1, 12, 1024, 64), dtype=np.float32))


_ATTENTION_FLOPS = 4.0 * 12 * 1024 * 1024 * 64

_ATTENTION = {
    "attention-plain": Case(
        "attention, 12 heads, length 1024, 64 features",
        "attention",
        lambda quick: _heads(),
        ("torch",),
        flops=_ATTENTION_FLOPS,
        bar=0.9,
    ),
    "attention-causal": Case(
        "the same, causal",
        "causal attention",
        lambda quick: _heads(),
        ("torch",),
        flops=_ATTENTION_FLOPS / 2,
        bar=1.2,
    ),
}


def _gpt2_inputs(quick: bool) -> list[Any]:
    weights = models.parameters(networks.GPT2)
    return [weights, models.embed(weights, networks.GPT2)[0]]


def _gpt2_flops() -> float:
    size = networks.GPT2
    products = 12 * size.width * size.width * size.layers + size.width * size.vocabulary
    return 2.0 * size.length * products + 2.0 * size.layers * size.length**2 * size.width


_GPT2 = {
    "gpt2": Case(
        "GPT-2-small forward pass, length 256",
        "gpt2",
        _gpt2_inputs,
        PEERS,
        flops=_gpt2_flops(),
        tolerance=1e-3,
        bar=1.0,
        heavy=True,
    )
}


def _step(name: str, dtype: Any, bar: float, tolerance: float, peers: tuple[str, ...]) -> Case:
    return Case(
        f"one token of a decoder with {1e-9 * networks.LLAMA.weights():.2f} G weights, {name}",
        "decode",
        lambda quick: networks.decoder_inputs(networks.SMALL if quick else networks.LLAMA, dtype),
        peers,
        nbytes=float(networks.LLAMA.weights() * dtype.itemsize),
        tolerance=tolerance,
        bar=bar,
        heavy=True,
        quick="decode small",
    )


_DECODE = {
    "decode-f32": _step("f32", np.dtype(np.float32), 0.95, 1e-3, PEERS),
    "decode-bf16": _step("bf16", _BFLOAT16, 1.5, 0.05, ("torch", "torch.compile", "jax")),
}

_MEMORY = {"gpt2-memory": Case("resident memory of the GPT-2-small forward pass", "gpt2", _gpt2_inputs, ())}

# --- gradients

_DIFFERENTIATED = ("torch", "torch.compile", "jax")


def _gradient(name: str, summary: str, *, flops: float = 0.0, nbytes: float = 0.0, tolerance: float = 1e-3) -> Case:
    return Case(
        f"value and gradients of {summary}",
        f"gradient of {name}",
        lambda quick: gradients.inputs(name),
        _DIFFERENTIATED,
        flops,
        nbytes,
        tolerance,
    )


_GRADIENTS = {
    "grad-attention": _gradient(
        "attention", "causal attention, 12 heads, length 1024, 64 features", flops=3.5 * _ATTENTION_FLOPS / 2
    ),
    "grad-layer-norm": _gradient("layer norm", "layer norm 4096×1024", nbytes=20.0 * 4096 * 1024),
    "grad-nll": _gradient("nll", "cross entropy from logits 1024×32000", nbytes=8.0 * 1024 * 32000),
    "grad-conv2d": _gradient(
        "conv2d", "a 3×3 convolution, 8 images of 64×56×56, 64 outputs", flops=6.0 * 8 * 56 * 56 * 64 * 64 * 9
    ),
    "grad-embedding": _gradient("embedding", "8192 rows looked up in 32000×512", nbytes=4.0 * (3 * 8192 + 32000) * 512),
}

GRADIENTS: dict[str, Group] = {"gradients": Group("values with gradients", _GRADIENTS, 1.2, 0.9)}

GROUPS: dict[str, Group] = {
    "matmul-f32": Group("products of float32", _products("f32", np.dtype(np.float32), 1e-4), 1.0, 0.85, always=True),
    "matmul-bf16": Group("products of bfloat16", _products("bf16", _BFLOAT16, 1e-2), 1.0, 0.8, always=True),
    "matmul-int8": Group("products of int8 in int32", _products("int8", np.dtype(np.int8), 0.0), 1.2, always=True),
    "streams": Group("as shares of a copy that moves as many bytes", _STREAMS),
    "rows": Group("norms, losses, reductions, scans", _ROWS, 1.5, 0.9),
    "attention": Group("against PyTorch's fused attention", _ATTENTION),
    "gpt2": Group("a whole forward pass", _GPT2),
    "decode": Group("a step of text generation", _DECODE),
    "memory": Group("memory", _MEMORY, memory=True),
}
CASES: dict[str, Case] = {
    name: case for group in (*GROUPS.values(), *GRADIENTS.values()) for name, case in group.cases.items()
}
