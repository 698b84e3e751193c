"""The cases of the cpu suite: what is computed on which inputs, against whom, and which ratio is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from smelt.bench import models
from smelt.bench.cpu import gradients, networks
from smelt.bench.cpu.library import PEERS
from smelt.bench.cpu.memory import weight_bytes

_LARGE = 1 << 24
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Case:
    """`flops` and `nbytes` say how much work it is: operations that the formula has (a function counts as one), and
    bytes of what is read and written at least once. `bar` is the case's own.

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
    dtype: str = "float32"  # of what is multiplied

    def meets(self, peer: str, asked: bool) -> bool:
        """Whether a peer takes part. Those that are asked for do; but NumPy would take hours for narrow numbers."""
        return peer in self.peers or (asked and (peer != "numpy" or self.dtype in ("float32", "float64")))


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


_PRODUCTS = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2, "int8": 0.0}  # with tolerances


def _product(m: int, n: int, k: int, name: str) -> Case:
    dtype = _BFLOAT16 if name == "bfloat16" else np.dtype(name)
    integers = name == "int8"
    return Case(
        f"{m}×{k} by {k}×{n}, {name}",
        "int matmul" if integers else "matmul",
        lambda quick: _factors(m, n, k, dtype),
        # NumPy has no fast products of narrow numbers, and compiling leaves a product as it is.
        ("numpy", "torch", "jax") if dtype.itemsize > 2 else ("torch", "jax"),
        flops=2.0 * m * n * k,
        nbytes=float((m * k + k * n) * dtype.itemsize + m * n * (4 if integers else dtype.itemsize)),
        tolerance=_PRODUCTS[name],
        dtype=name,
    )


def _products(name: str, dtype: str) -> dict[str, Case]:
    return {f"{name}-{size}": _product(*sizes, dtype) for size, sizes in _SIZES.items()}


# --- rows and streams


def _row_inputs(rows: int, columns: int, weights: int) -> list[Any]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, columns), dtype=np.float32)
    return [x, *(generator.standard_normal(columns, dtype=np.float32) for _ in range(weights))]


def _labeled(rows: int, classes: int) -> list[Any]:
    return [_floats(rows, classes), np.random.default_rng(1).integers(0, classes, rows)]


def _rowwise(operation: str, rows: int, columns: int, weights: int, flops: float) -> Case:
    """A case that reads and writes rows, with so many operations for each element."""
    count = float(rows * columns)
    inputs = partial(_row_inputs, rows, columns, weights)
    return Case(f"{operation} {rows}×{columns}", operation, lambda quick: inputs(), PEERS, flops * count, 8.0 * count)


def _layer_norm(rows: int, columns: int) -> Case:
    return _rowwise("layer norm", rows, columns, 2, 7.0)


def _softmax(rows: int, columns: int) -> Case:
    return _rowwise("softmax", rows, columns, 0, 5.0)


_STREAMS = {
    "gelu": Case(
        "gelu(x * w + b) by tanh, each operand 16M floats",
        "gelu",
        lambda quick: list(np.random.default_rng(0).standard_normal((3, _LARGE), dtype=np.float32)),
        PEERS,
        flops=11.0 * _LARGE,
        nbytes=16.0 * _LARGE,
        bar=0.8,
        share=True,
    ),
    "layer-norm": replace(_layer_norm(4096, 1024), bar=0.8, share=True),
    "softmax": replace(_softmax(1024, 4096), bar=0.6, share=True),
}

_ROWS = {
    "rms-norm": _rowwise("rms norm", 4096, 1024, 1, 4.0),
    "nll": Case(
        "mean negative log-likelihood from logits 1024×32000",
        "nll",
        lambda quick: _labeled(1024, 32000),
        PEERS,
        flops=4.0 * 1024 * 32000,
        nbytes=4.0 * 1024 * 32000,
    ),
    # All positive: what is added up badly shows.
    "sum": Case(
        "sum of 16M floats",
        "sum",
        lambda quick: [np.random.default_rng(0).random(_LARGE, dtype=np.float32)],
        PEERS,
        flops=_LARGE,
        nbytes=4.0 * _LARGE,
    ),
    "sum-columns": Case(
        "sum over axis 0 of 4096²", "sum columns", lambda quick: [_floats(4096, 4096)], PEERS, _LARGE, 4.0 * _LARGE
    ),
    "argmax": Case(
        "argmax over rows of 1024×4096",
        "argmax",
        lambda quick: [_floats(1024, 4096)],
        PEERS,
        flops=1024 * 4096,
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
        "cumsum along axis 1 of 4096²", "cumsum", lambda quick: [_floats(4096, 4096)], PEERS, _LARGE, 8.0 * _LARGE
    ),
}

# --- attention and networks


def _attention(heads: int, length: int, features: int, causal: bool = False) -> Case:
    shape = (3, 1, heads, length, features)
    flops = 4.0 * heads * length * length * features  # half of the scores of a causal one are not needed
    return Case(
        f"attention, {heads} heads, length {length}, {features} features{', causal' if causal else ''}",
        "causal attention" if causal else "attention",
        lambda quick: list(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)),
        ("torch",),
        flops=flops / 2 if causal else flops,
        nbytes=16.0 * heads * length * features,
    )


_ATTENTION = {
    "attention-plain": replace(_attention(12, 1024, 64), bar=0.9),
    "attention-causal": replace(_attention(12, 1024, 64, True), bar=1.2),
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
        nbytes=float(weight_bytes(networks.GPT2) + 4 * networks.GPT2.length * networks.GPT2.vocabulary),
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
        flops=2.0 * networks.LLAMA.weights(),
        nbytes=float(networks.LLAMA.weights() * dtype.itemsize),
        tolerance=tolerance,
        bar=bar,
        heavy=True,
        quick="decode small",
        dtype=str(dtype),
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


_IMAGES, _FILTERS = 8 * 64 * 56 * 56, 64 * 64 * 9

_GRADIENTS = {
    "grad-attention": _gradient(
        "attention",
        "causal attention, 12 heads, length 1024, 64 features",
        flops=7.0 * 12 * 1024 * 1024 * 64,
        nbytes=28.0 * 12 * 1024 * 64,
    ),
    "grad-layer-norm": _gradient(
        "layer norm", "layer norm 4096×1024", flops=18.0 * 4096 * 1024, nbytes=12.0 * 4096 * 1024
    ),
    "grad-nll": _gradient(
        "nll", "cross entropy from logits 1024×32000", flops=6.0 * 1024 * 32000, nbytes=8.0 * 1024 * 32000
    ),
    "grad-conv2d": _gradient(
        "conv2d",
        "a 3×3 convolution, 8 images of 64×56×56, 64 outputs",
        flops=6.0 * 8 * 56 * 56 * _FILTERS,
        nbytes=4.0 * (3 * _IMAGES + 2 * _FILTERS),
    ),
    "grad-embedding": _gradient(
        "embedding",
        "8192 rows looked up in 32000×512",
        flops=3.0 * 8192 * 512,
        nbytes=4.0 * (2 * 8192 + 32000) * 512,
    ),
}

GRADIENTS: dict[str, Group] = {"gradients": Group("values with gradients", _GRADIENTS, 1.2, 0.9)}

GROUPS: dict[str, Group] = {
    "matmul-f32": Group("products of float32", _products("f32", "float32"), 1.0, 0.85, always=True),
    "matmul-bf16": Group("products of bfloat16", _products("bf16", "bfloat16"), 1.0, 0.8, always=True),
    "matmul-int8": Group("products of int8 in int32", _products("int8", "int8"), 1.2, always=True),
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

# --- kernels at sizes of their own


@dataclass(frozen=True)
class Kernel:
    """A command of its own: `sizes` are its options, with what they are by default and what they mean."""

    summary: str
    sizes: Mapping[str, tuple[int, str]]
    make: Callable[..., Case]
    dtypes: Sequence[str] = ("float32",)


_ROW_SIZES = {"rows": (1024, "how many"), "columns": (4096, "the size of each")}
_ATTENTION_SIZES = {"heads": (12, "how many"), "length": (1024, "of the sequence"), "features": (64, "of each head")}
KERNELS: dict[str, Kernel] = {
    "matmul": Kernel(
        "one product against other libraries and the machine",
        {"m": (512, "rows of the result"), "n": (512, "columns of the result"), "k": (512, "what is summed over")},
        _product,
        tuple(_PRODUCTS),
    ),
    "softmax": Kernel("softmax over rows", _ROW_SIZES, lambda rows, columns, dtype: _softmax(rows, columns)),
    "layer-norm": Kernel("layer norm over rows", _ROW_SIZES, lambda rows, columns, dtype: _layer_norm(rows, columns)),
    "attention": Kernel(
        "attention", _ATTENTION_SIZES, lambda heads, length, features, dtype: _attention(heads, length, features)
    ),
    "causal-attention": Kernel(
        "causal attention",
        _ATTENTION_SIZES,
        lambda heads, length, features, dtype: _attention(heads, length, features, True),
    ),
}


def case_named(name: str) -> Case:
    """A case of the suites, or a kernel at sizes of its own: `matmul 512 777 64 bfloat16`."""
    if name in CASES:
        return CASES[name]
    kernel, *sizes, dtype = name.split()
    return KERNELS[kernel].make(*map(int, sizes), dtype)
