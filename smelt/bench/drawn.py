"""Kernels drawn from a seed: what a search meets that nobody can have prepared for.

Sizes are drawn evenly on a logarithmic scale, primes, ones and multiples of 64 among them, until the kernel would take
20 microseconds to 50 milliseconds by what is assumed of this processor. Each kernel of a family has a seed of its own,
so a shorter draw is the beginning of a longer one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import smelt as sm
from smelt.cost import Profile, rates

FAMILIES = {"matmul": 20, "rows": 10, "elementwise": 10, "attention": 6, "conv": 6, "reduce": 8}  # of 60
SHORTEST, LONGEST = 20e-6, 50e-3  # seconds
_SHARE = 0.6  # of what is assumed of a processor that kernels reach
_BLOCK = 64
_TOLERANCES = {"float64": 1e-10, "float32": 2e-4, "float16": 1e-2, "bfloat16": 3e-2}
_DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16")

Sizes = tuple[int, ...]
Shapes = tuple[Sizes, ...]


class Operation(NamedTuple):
    """One way to be drawn: what is computed, in smelt and in NumPy, from inputs of which shapes, and how much it is.

    `bounds` are those of the sizes. `work` gives, for sizes, operations, and elements for which a function is computed.
    """

    family: str
    bounds: tuple[tuple[int, int], ...]
    shapes: Callable[..., Shapes]
    compute: Callable[..., Any]
    reference: Callable[..., Any]
    work: Callable[..., tuple[float, float]]
    dtypes: tuple[str, ...] = ("float32",)


class Drawn(NamedTuple):
    """An operation at sizes of its own."""

    operation: str
    sizes: Sizes
    dtype: str

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{OPERATIONS[self.operation].family}: {self.operation} {'×'.join(map(str, self.sizes))} {self.dtype}"

    def inputs(self) -> list[Any]:
        """Always the same ones, in memory: what makes them is no part of the kernel."""
        generator = np.random.default_rng(0)
        shapes = OPERATIONS[self.operation].shapes(*self.sizes)
        if self.dtype == "int8":
            return [sm.asarray(generator.integers(-128, 128, shape, dtype=np.int8), copy=True) for shape in shapes]
        dtype = getattr(sm, self.dtype)
        made = (generator.standard_normal(shape, dtype=np.float32) for shape in shapes)
        given = [sm.asarray(array, copy=True).astype(dtype) for array in made]
        sm.realize(*given)
        return given

    def compute(self, *inputs: Any) -> Any:
        """In smelt."""
        return OPERATIONS[self.operation].compute(*inputs)

    def error(self, inputs: Sequence[Any], found: Any) -> float:
        """How far a result is from what NumPy computes in float64, as a share of what is allowed: above 1 is wrong."""
        wide = [np.asarray(x.astype(sm.float64).numpy()) for x in inputs]
        expected = np.asarray(OPERATIONS[self.operation].reference(*wide), np.float64)
        given = np.asarray(found.astype(sm.float64).numpy())
        if given.shape != expected.shape or not np.isfinite(given).all():
            return math.inf
        far = float(np.abs(given - expected).max(initial=0.0))
        exact = self.dtype == "int8" or self.operation == "argmax"
        allowed = 0.0 if exact else _TOLERANCES[self.dtype] * max(float(np.abs(expected).max(initial=0.0)), 1e-30)
        return far / allowed if allowed else (math.inf if far else 0.0)

    def seconds(self, profile: Profile) -> float:
        """What it may take, by what is assumed of the processor."""
        operation, speed = OPERATIONS[self.operation], rates.assumed(profile)
        flops, functions = operation.work(*self.sizes)
        itemsize = 1 if self.dtype == "int8" else getattr(sm, self.dtype).itemsize
        nbytes = itemsize * sum(math.prod(shape) for shape in operation.shapes(*self.sizes))
        computing = max(itemsize, 4) / 4 * flops / speed.multiply_add + functions / speed.function
        moving = nbytes / (speed.third if nbytes < profile.l3_bytes / 2 else speed.memory_all / profile.cores)
        return 1e-9 * max(computing, moving) / profile.cores / _SHARE


def drawn(count: int, seed: int, profile: Profile) -> list[Drawn]:
    """So many kernels, of all families as often as those are in sixty."""
    found: list[Drawn] = []
    have = dict.fromkeys(FAMILIES, 0)
    for number in range(1, count + 1):
        family = max(FAMILIES, key=lambda name: FAMILIES[name] * number / 60 - have[name])
        found.append(_draw(family, random.Random(f"{seed} {family} {have[family]}"), profile))
        have[family] += 1
    return found


def _draw(family: str, rng: random.Random, profile: Profile) -> Drawn:
    name = rng.choice([name for name, operation in OPERATIONS.items() if operation.family == family])
    operation = OPERATIONS[name]
    dtype = rng.choice(operation.dtypes)
    while True:
        one = Drawn(name, tuple(_size(rng, *bounds) for bounds in operation.bounds), dtype)
        if SHORTEST <= one.seconds(profile) <= LONGEST:
            return one


def _size(rng: random.Random, low: int, high: int) -> int:
    """A size between two others: any, a prime, or a multiple of 64; now and then the least."""
    size = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    kind = rng.random()
    if kind < 0.1:
        return low
    if kind < 0.4:
        return next(n for n in range(size, 1, -1) if all(n % d for d in range(2, math.isqrt(n) + 1))) if size > 1 else 1
    if kind < 0.7 and size >= _BLOCK:
        return size // _BLOCK * _BLOCK
    return size


# --- what may be drawn


def _product(work: float = 0.0) -> Callable[..., tuple[float, float]]:
    """The work of products of (m, k, n), and so many functions of each element of the result."""
    return lambda m, k, n, b=1: (2.0 * b * m * k * n, work * b * m * n)


def _each(operations: float, functions: float) -> Callable[..., tuple[float, float]]:
    """So much work for each element."""
    return lambda *sizes: (operations * math.prod(sizes), functions * math.prod(sizes))


def _wide(a: Any, b: Any) -> Any:
    return a.astype(sm.int32) @ b.astype(sm.int32)


def _relu_of(a: Any, b: Any, c: Any) -> Any:
    return sm.relu(a @ b + c)


def _gelu_of(a: Any, b: Any, c: Any) -> Any:
    return sm.gelu(a @ b + c, approximate="tanh")


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def _logsumexp(x: Any) -> Any:
    top = x.max(-1)
    return np.log(np.exp(x - top[..., None]).sum(-1)) + top


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _attention(causal: bool) -> Callable[..., Any]:
    def run(query: Any, key: Any, value: Any) -> Any:
        scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
        return _softmax(scores) @ value

    return run


def _conv(stride: int, padding: int) -> Callable[..., Any]:
    def run(x: Any, weight: Any) -> Any:
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = sliding_window_view(padded, weight.shape[2:], (2, 3))[:, :, ::stride, ::stride]
        return np.moveaxis(np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))), -1, 1)

    return run


def _operations() -> Iterator[tuple[str, Operation]]:
    bounds, batched = ((1, 3000), (8, 4000), (1, 4000)), ((1, 300), (8, 300), (1, 300), (2, 64))
    floats, some = ("float32",), ("float32", "float32", "float16")
    plain, sized = (lambda m, k, n: ((m, k), (k, n))), (lambda m, k, n: ((m, k), (k, n), (n,)))
    first, second = (lambda m, k, n: ((k, m), (k, n))), (lambda m, k, n: ((m, k), (n, k)))
    products: dict[str, tuple[Any, Any, Any, float, tuple[str, ...]]] = {
        "a @ b": (plain, sm.matmul, np.matmul, 0.0, _DTYPES),
        "a @ b, integers": (plain, _wide, np.matmul, 0.0, ("int8",)),
        "a @ b.T": (second, lambda a, b: a @ b.mT, lambda a, b: a @ b.T, 0.0, _DTYPES),
        "a.T @ b": (first, lambda a, b: a.mT @ b, lambda a, b: a.T @ b, 0.0, floats),
        "relu(a @ b + c)": (sized, _relu_of, lambda a, b, c: np.maximum(a @ b + c, 0), 0.0, _DTYPES),
        "gelu(a @ b + c)": (sized, _gelu_of, lambda a, b, c: _gelu(a @ b + c), 1.0, floats),
        "batch @ batch": (lambda m, k, n, b: ((b, m, k), (b, k, n)), sm.matmul, np.matmul, 0.0, some),
    }
    for name, (shapes, compute, reference, functions, dtypes) in products.items():
        sizes = batched if name == "batch @ batch" else bounds
        yield name, Operation("matmul", sizes, shapes, compute, reference, _product(functions), dtypes)
    yield from _rows()
    yield from _elements()
    yield from _blocks()
    yield from _reductions()


def _rows() -> Iterator[tuple[str, Operation]]:
    bounds, alone = ((1, 8192), (16, 32768)), lambda m, n: ((m, n),)
    with_weight, with_both = (lambda m, n: ((m, n), (n,))), (lambda m, n: ((m, n), (n,), (n,)))
    rows: dict[str, tuple[Any, Any, Any, float]] = {
        "softmax": (alone, lambda x: sm.softmax(x, axis=-1), _softmax, 1.0),
        "log softmax": (alone, lambda x: sm.log_softmax(x, axis=-1), lambda x: np.log(_softmax(x)), 1.0),
        "layer norm": (with_both, sm.layer_norm, _layer_norm, 0.0),
        "rms norm": (
            *(with_weight, lambda x, w: sm.rms_norm(x, w, eps=1e-5)),
            *(lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, 0.0),
        ),
        "logsumexp": (alone, lambda x: sm.logsumexp(x, axis=-1), _logsumexp, 1.0),
    }
    dtypes = ("float32", "float32", "float16")
    for name, (shapes, compute, reference, functions) in rows.items():
        yield name, Operation("rows", bounds, shapes, compute, reference, _each(4, functions), dtypes)


def _elements() -> Iterator[tuple[str, Operation]]:
    flat, table = ((1 << 13, 1 << 23),), ((8, 4096), (8, 8192))
    one, two, three = (lambda n: ((n,),)), (lambda n: ((n,), (n,))), (lambda n: ((n,), (n,), (n,)))
    elements: dict[str, tuple[Any, Any, Any, Any, float]] = {
        "relu(x + y)": (flat, two, lambda x, y: sm.relu(x + y), lambda x, y: np.maximum(x + y, 0), 0.0),
        "gelu(x * y + z)": (
            *(flat, three, lambda x, y, z: sm.gelu(x * y + z, approximate="tanh")),
            *(lambda x, y, z: _gelu(x * y + z), 1.0),
        ),
        "silu": (flat, one, sm.silu, lambda x: x / (1 + np.exp(-x)), 1.0),
        "sqrt(x * x + y * y)": (
            *(flat, two, lambda x, y: sm.sqrt(x * x + y * y), lambda x, y: np.sqrt(x * x + y * y), 0.3),
        ),
        "exp": (flat, one, sm.exp, np.exp, 1.0),
        "table + row": (table, lambda m, n: ((m, n), (n,)), lambda x, y: x + y, np.add, 0.0),
        "table * column": (table, lambda m, n: ((m, n), (m, 1)), lambda x, y: x * y, np.multiply, 0.0),
        "x.T + y": (table, lambda m, n: ((n, m), (m, n)), lambda x, y: x.mT + y, lambda x, y: x.T + y, 0.0),
    }
    dtypes = ("float32", "float32", "bfloat16")
    for name, (bounds, shapes, compute, reference, functions) in elements.items():
        yield name, Operation("elementwise", bounds, shapes, compute, reference, _each(2, functions), dtypes)


def _blocks() -> Iterator[tuple[str, Operation]]:
    def shapes(heads: int, queries: int, keys: int, features: int) -> Shapes:
        return (1, heads, queries, features), (1, heads, keys, features), (1, heads, keys, features)

    def work(heads: int, queries: int, keys: int, features: int) -> tuple[float, float]:
        return 4.0 * heads * queries * keys * features, float(heads * queries * keys)

    bounds = ((1, 16), (1, 1024), (16, 1024), (16, 128))
    yield "attention", Operation("attention", bounds, shapes, sm.attention, _attention(False), work)
    yield (
        "causal attention",
        Operation(
            *("attention", (bounds[0], (16, 1024), bounds[3]), lambda h, n, d: shapes(h, n, n, d)),
            *(
                lambda q, k, v: sm.attention(q, k, v, causal=True),
                _attention(True),
                lambda h, n, d: work(h, n, n // 2, d),
            ),
        ),
    )
    for name, size, stride, padding in (("3×3", 3, 1, 1), ("3×3 by 2", 3, 2, 1), ("1×1", 1, 1, 0), ("5×5", 5, 1, 2)):
        yield f"conv {name}", _convolution(size, stride, padding)


def _convolution(size: int, stride: int, padding: int) -> Operation:
    def work(images: int, inputs: int, side: int, outputs: int) -> tuple[float, float]:
        return 2.0 * images * inputs * outputs * (side // stride) ** 2 * size * size, 0.0

    return Operation(
        *("conv", ((1, 16), (1, 256), (7, 112), (1, 256))),
        lambda images, inputs, side, outputs: ((images, inputs, side, side), (outputs, inputs, size, size)),
        lambda x, weight: sm.conv2d(x, weight, stride=stride, padding=padding),
        *(_conv(stride, padding), work),
    )


def _reductions() -> Iterator[tuple[str, Operation]]:
    bounds, shapes = ((1, 8192), (16, 16384)), lambda m, n: ((m, n),)
    folds: dict[str, tuple[Any, Any]] = {
        "sum of all": (sm.sum, np.sum),
        "sum of rows": (lambda x: sm.sum(x, axis=1), lambda x: x.sum(1)),
        "sum of columns": (lambda x: sm.sum(x, axis=0), lambda x: x.sum(0)),
        "max of columns": (lambda x: sm.max(x, axis=0), lambda x: x.max(0)),
        "variance of rows": (lambda x: sm.var(x, axis=1), lambda x: x.var(1)),
        "argmax": (lambda x: sm.argmax(x, axis=1), lambda x: x.argmax(1)),
        "cumsum of rows": (lambda x: sm.cumsum(x, axis=1), lambda x: x.cumsum(1)),
        "cumsum of columns": (lambda x: sm.cumsum(x, axis=0), lambda x: x.cumsum(0)),
    }
    for name, (compute, reference) in folds.items():
        yield name, Operation("reduce", bounds, shapes, compute, reference, _each(2, 0))


OPERATIONS: dict[str, Operation] = dict(_operations())
