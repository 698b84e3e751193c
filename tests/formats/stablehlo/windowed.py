"""Convolutions and pooling with drawn sizes, and their derivatives, for tests of what is exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import smelt as sm


class Case(NamedTuple):
    """A function of tensors, how many operations with windows it should be, and what to call it with."""

    function: Callable[..., Any]
    operation: str
    count: int
    args: list[Any]


def _numbers(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-4, 5, shape).astype(np.float32)  # sums are exact, in any order


def convolution(seed: int) -> Case:
    """A convolution, or the way back to its weights."""
    rng = np.random.default_rng(seed)
    count, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    window = [int(n) for n in rng.integers(1, 4, count)]
    stride, dilation, pad = ([int(n) for n in rng.integers(low, high, count)] for low, high in ((1, 4), (1, 3), (0, 3)))
    reach = [(n - 1) * d + 1 for n, d in zip(window, dilation, strict=True)]
    sizes = [max(1, r - 2 * p) + int(rng.integers(0, 6)) for r, p in zip(reach, pad, strict=True)]
    inner, outputs = int(rng.integers(1, 3)), int(rng.integers(1, 4)) * groups
    x = _numbers(rng, int(rng.integers(1, 4)), inner * groups, *sizes)
    w, b = _numbers(rng, outputs, inner, *window), _numbers(rng, outputs)
    options: dict[str, Any] = {"stride": stride, "padding": pad, "dilation": dilation, "groups": groups}
    function = {1: sm.conv1d, 2: sm.conv2d, 3: sm.conv3d}[count]

    def forward(x: Any, w: Any, b: Any) -> Any:
        return function(x, w, b if seed % 2 else None, **options)

    def weights(x: Any, w: Any, b: Any) -> Any:
        return sm.grad(lambda w: (forward(x, w, b) * sm.arange(1, 1 + forward(x, w, b).shape[-1])).sum())(w) + b.sum()

    return Case(weights if seed % 3 == 2 else forward, "convolution", 1, [x, w, b])


def pooling(seed: int) -> Case:
    """Windows of one axis or several, folded."""
    rng = np.random.default_rng(seed)
    count, name = int(rng.integers(1, 4)), str(rng.choice(["max", "min", "sum", "prod", "mean"]))
    window = [int(n) for n in rng.integers(1, 4, count)]
    window[0] = max(window[0], 2)  # or there are none
    stride, dilation = ([int(n) for n in rng.integers(1, high, count)] for high in (4, 3))
    pad = [int(rng.integers(0, (n - 1) * d + 1)) for n, d in zip(window, dilation, strict=True)]
    reach = [(n - 1) * d + 1 for n, d in zip(window, dilation, strict=True)]
    sizes = [max(1, r - 2 * p) + int(rng.integers(0, 6)) for r, p in zip(reach, pad, strict=True)]
    x = _numbers(rng, *([2, 3][: int(rng.integers(0, 3))]), *sizes)
    dtype = str(rng.choice(["float32", "int32", "float16", "float64"]))

    def function(x: Any) -> Any:
        return sm.pool(x, name, window, stride, pad, dilation, ceil_mode=seed % 4 == 1)

    return Case(function, "reduce_window", 1, [x.astype(dtype)])


def _windows(x: Any, axis: int, size: int, step: int = 1, dilation: int = 1) -> Any:
    from smelt.graph import build
    from smelt.tensor import wrap

    return wrap(build.window(x._node, axis, size, step, dilation))


def _of_zeros(x: Any) -> Any:
    return sm.pad(x, ((0, 0), (0, 0), (1, 1)), value=-0.0)


X, K = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4) - 12, np.arange(12.0, dtype=np.float32).reshape(2, 3, 2) - 5
# Next to convolutions and pooling: how many operations of that kind there are.
NEARLY: dict[str, Case] = {
    "elements are kept": Case(lambda x, w: sm.einsum("bcpk,ock->bopk", _windows(x, 2, 2), w), "convolution", 0, [X, K]),
    "summed in one factor": Case(
        lambda x, w: sm.einsum("bcpk,ock->op", _windows(x, 2, 2), w), "convolution", 0, [X, K]
    ),
    "windows of windows": Case(
        lambda x, w: sm.einsum("bcpkl,ock->bop", _windows(_windows(x, 2, 2), 2, 2), w), "convolution", 0, [X, K]
    ),
    "places in both factors": Case(
        lambda x, w: sm.einsum("bcpk,ocp->bok", _windows(x, 2, 3), w), "convolution", 1, [X, K]
    ),
    "a batch of kernels": Case(lambda x, w: sm.einsum("bcpk,bck->bcp", _windows(x, 2, 2), w), "convolution", 1, [X, K]),
    "other orders": Case(lambda x, w: sm.einsum("bcpk,ock->pob", _windows(x, 2, 2), w), "convolution", 1, [X, K]),
    "channels in windows": Case(
        lambda x, w: sm.einsum("bcpik,oik->bcpo", _windows(_windows(x, 1, 3), 2, 2), w), "convolution", 1, [X, K]
    ),
    "padded with another number": Case(
        lambda x, w: sm.einsum("bcpk,ock->bop", _windows(sm.pad(x, ((0, 0), (0, 0), (1, 1)), value=2), 2, 2), w),
        *("convolution", 1, [X, K]),
    ),
    "padded with zeros of the other sign": Case(
        lambda x, w: sm.einsum("bcpk,ock->bop", _windows(_of_zeros(x), 2, 2), w), "convolution", 1, [X, K]
    ),
    "padded channels": Case(
        lambda x, w: sm.einsum("bcpk,ock->bop", _windows(sm.pad(x[:, :1], ((0, 0), (1, 1), (1, 0))), 2, 2), w),
        *("convolution", 1, [X, K]),
    ),
    "windows of both factors": Case(
        lambda x, w: sm.einsum("bcpk,ocql->bopq", _windows(x, 2, 2), _windows(w, 2, 2)), "convolution", 0, [X, K]
    ),
    "no elements": Case(lambda x, w: sm.einsum("bcpk,ock->bop", _windows(x[:0], 2, 2), w), "convolution", 0, [X, K]),
    "part of the windows folded": Case(lambda x: _windows(_windows(x, 2, 2), 1, 2).sum(3), "reduce_window", 0, [X]),
    "channels folded, too": Case(lambda x: _windows(x, 2, 2).max((1, 3)), "reduce_window", 0, [X]),
    "a maximum padded with zeros": Case(
        lambda x: _windows(sm.pad(x, ((0, 0), (0, 0), (1, 1))), 2, 2).max(-1), "reduce_window", 1, [X]
    ),
    "a maximum of truths": Case(lambda x: _windows(x > 0, 2, 2).any(-1), "reduce_window", 1, [X]),
    "windows of one element": Case(lambda x: sm.avg_pool1d(x, 1), "reduce_window", 0, [X]),
    "every other element": Case(lambda x: sm.max_pool1d(x, 1, stride=2), "reduce_window", 1, [X]),
    "NaN": Case(lambda x: sm.max_pool2d(sm.log(x), 2, padding=1), "reduce_window", 1, [X]),
}
