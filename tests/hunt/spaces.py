"""Namespaces that programs are run with: smelt, NumPy, and torch, all under the names of smelt."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np

import smelt as sm

FLOATS16 = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *FLOATS16)
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")


class Smelt:
    """smelt, with the few functions that are methods there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sm, name)

    def cast(self, x: Any, dtype: str) -> Any:
        return sm.astype(x, getattr(sm, dtype))

    def updated(self, x: Any, key: Any, how: str, y: Any) -> Any:
        return getattr(x.at[key], how)(y)

    def conv(self, x: Any, weights: list[int], **options: int) -> Any:
        return sm.conv1d(sm.reshape(x, (1, 1, -1)), sm.asarray([[weights]], dtype=x.dtype), **options)


def _saturated(x: Any, dtype: str) -> Any:
    """Floats as integers: cut off at the ends of the range, and 0 for NaN, where NumPy leaves it to the processor."""
    info, whole = np.iinfo(dtype), np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    # The largest number may round up to one that does not fit.
    fits = np.where((whole < float(info.max)) & (whole > float(info.min)), whole, 0).astype(dtype)
    return np.where(whole >= float(info.max), info.max, np.where(whole <= float(info.min), info.min, fits)).astype(
        dtype
    )


class Numpy:
    """NumPy on floats of 64 bits, whatever the dtype of the program; the caller rounds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def cast(self, x: Any, dtype: str) -> Any:
        x = np.asarray(x)
        if dtype in FLOATS:
            return x.astype(np.float64)
        return _saturated(x, dtype) if x.dtype.kind == "f" and dtype != "bool" else x.astype(dtype)

    def updated(self, x: Any, key: Any, how: str, y: Any) -> Any:
        x, y = np.array(x), np.asarray(y, dtype=x.dtype)
        if how == "set":
            x[key] = y
        else:
            {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}[how].at(x, key, y)
        return x

    def inner(self, x: Any, y: Any) -> Any:
        # By BLAS, a scalar zero times infinity is zero.
        return np.multiply(x, y) if np.ndim(x) == 0 or np.ndim(y) == 0 else np.inner(x, y)

    def conv(self, x: Any, weights: list[int], stride: int, padding: int, dilation: int) -> Any:
        x, reach = np.pad(x.reshape(-1), padding), (len(weights) - 1) * dilation
        if len(x) <= reach:
            raise ValueError("the window is larger than what it moves over")
        found = sum(np.multiply(w, x[k * dilation : len(x) - reach + k * dilation]) for k, w in enumerate(weights))
        return np.asarray(found)[None, None, ::stride]

    def max_pool1d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        ends = ((0, 0),) * (x.ndim - 1) + ((padding, padding),)
        x = np.pad(x, ends, constant_values=-np.inf)
        return np.lib.stride_tricks.sliding_window_view(x, size, axis=-1)[..., ::stride, :].max(-1)

    def topk(self, x: Any, k: int, axis: int, largest: bool) -> Any:
        if k > x.shape[axis]:
            raise ValueError("more than there are")
        ordered = np.flip(np.sort(x, axis=axis), axis=axis) if largest else np.sort(x, axis=axis)
        return (np.take(ordered, np.arange(k), axis=axis),)

    def diagonal(self, x: Any) -> Any:
        return np.diagonal(x, axis1=-2, axis2=-1)

    def cummax(self, x: Any, axis: int) -> Any:
        return np.maximum.accumulate(x, axis=axis)

    def cummin(self, x: Any, axis: int) -> Any:
        return np.minimum.accumulate(x, axis=axis)

    def logsumexp(self, x: Any, axis: int | None, keepdims: bool) -> Any:
        top = np.max(x, axis=axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        found = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
        return found if keepdims else np.squeeze(found, axis=axis)

    def softmax(self, x: Any, axis: int) -> Any:
        return np.exp(self.log_softmax(x, axis))

    def log_softmax(self, x: Any, axis: int) -> Any:
        x = x - np.max(x, axis=axis, keepdims=True)  # all NaN beside +inf
        return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def silu(self, x: Any) -> Any:
        return x * self.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return np.logaddexp(x, 0)

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[float])(x)

    def gelu(self, x: Any) -> Any:
        return x * (1 + self.erf(x / math.sqrt(2))) / 2

    def floor_divide(self, x: Any, y: Any) -> Any:
        if np.asarray(x).dtype.kind != "f":
            return np.floor_divide(x, y)
        return np.where(np.isinf(x) | np.isinf(y), np.floor(x / y), np.floor_divide(x, y))  # as the array API says

    def median(self, x: Any, axis: Any, keepdims: bool) -> Any:
        if not x.size:
            raise ValueError("of nothing")
        return np.median(x, axis=axis, keepdims=keepdims)

    def logcumsumexp(self, x: Any, axis: int) -> Any:
        return np.logaddexp.accumulate(x, axis=axis)

    def layer_norm(self, x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def rms_norm(self, x: Any) -> Any:
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
        return self.softmax(scores, -1) @ v

    def unfold(self, x: Any, axis: int, size: int, step: int) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=axis)
        return windows[(slice(None),) * (axis % x.ndim) + (slice(None, None, step),)]

    def bincount(self, x: Any, length: int) -> Any:
        return np.bincount(x, minlength=length)

    def one_hot(self, x: Any, classes: int) -> Any:
        return (x[..., None] == np.arange(classes)).astype(np.int64)

    # --- loops and branches, over one array

    def cond(self, test: Any, true: Callable[..., Any], false: Callable[..., Any], x: Any) -> Any:
        return true(x) if test else false(x)

    def fori_loop(self, low: int, high: int, body: Callable[..., Any], x: Any) -> Any:
        for k in range(low, high):
            x = body(np.asarray(k), x)
        return x

    def while_loop(self, test: Callable[..., Any], body: Callable[..., Any], state: Any) -> Any:
        while test(state):
            state = body(state)
        return state

    def scan(self, f: Callable[..., Any], carry: Any, xs: Any, reverse: bool) -> Any:
        found = []
        for x in xs[::-1] if reverse else xs:
            carry, y = f(carry, x)
            found.append(y)
        return carry, np.stack(found[::-1] if reverse else found)

    def associative_scan(self, f: Callable[..., Any], xs: Any, reverse: bool, axis: int) -> Any:
        rows = list(np.moveaxis(xs, axis, 0))
        rows = rows[::-1] if reverse else rows
        for k in range(1, len(rows)):
            rows[k] = f(rows[k - 1], rows[k])
        return np.moveaxis(np.stack(rows[::-1] if reverse else rows), 0, axis)

    def vmap(self, f: Callable[..., Any], axis: int, out: int) -> Callable[..., Any]:
        return lambda x: np.stack([f(row) for row in np.moveaxis(x, axis, 0)], out)


def torch_space() -> Any:
    """torch under these names; None where it is not installed. What it cannot do, it says by a RuntimeError."""
    return _torch()


@functools.cache
def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return Torch(torch)


def _axis(name: str, at: str = "dim") -> Callable[..., Any]:
    """A function of torch's whose axis has another name."""

    def call(self: Torch, x: Any, axis: Any = None, **rest: Any) -> Any:
        if axis is None:
            x, axis = x.reshape(-1), 0
        found = getattr(self.torch, name)(x, **{at: axis}, **rest)
        return found if isinstance(found, self.torch.Tensor) else found.values

    return call


def _reduction(name: str) -> Callable[..., Any]:
    def call(self: Torch, x: Any, axis: Any = None, keepdims: bool = False, **rest: Any) -> Any:
        axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if not axes:
            raise NotImplementedError("of one number")
        f = getattr(self.torch, name)
        if name in ("prod", "all", "any"):  # of one axis at a time
            for one in sorted((k % x.ndim for k in axes), reverse=True):
                x = f(x, dim=one, keepdim=keepdims)
            return x if name == "prod" else x.to(self.torch.bool)
        return f(x, dim=axes, keepdim=keepdims, **rest)

    return call


class Torch:
    """torch under smelt's names."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, _TORCH_NAMES.get(name, name))

    sum, prod, max, min, any, all, mean, logsumexp = map(
        _reduction, ("sum", "prod", "amax", "amin", "any", "all", "mean", "logsumexp")
    )
    cumulative_sum, cumulative_prod, cummax, cummin = map(_axis, ("cumsum", "cumprod", "cummax", "cummin"))
    logcumsumexp = _axis("logcumsumexp")
    argmax, argmin, softmax, log_softmax = map(_axis, ("argmax", "argmin", "softmax", "log_softmax"))

    def cast(self, x: Any, dtype: str) -> Any:
        if x.is_floating_point() and dtype not in (*FLOATS, "bool"):
            raise NotImplementedError("what becomes of floats outside the range")
        return x.to(self.torch.float64 if dtype in FLOATS else getattr(self.torch, dtype))

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        return self.torch.as_tensor(x, dtype=dtype)

    def var(self, x: Any, axis: Any, keepdims: bool) -> Any:
        return _reduction("var")(self, x, axis, keepdims, correction=0)

    def searchsorted(self, x: Any, y: Any) -> Any:
        if self.torch.isnan(x).any() or self.torch.isnan(y).any():
            raise NotImplementedError("where NaN belongs")
        return self.torch.searchsorted(x, y)

    def einsum(self, subscripts: str, x: Any, y: Any) -> Any:
        if not x.is_floating_point():
            raise NotImplementedError("sums of integers in their own dtype")
        return self.torch.einsum(subscripts, x, y)

    def sort(self, x: Any, axis: int) -> Any:
        return self.torch.sort(x, dim=axis, stable=True).values

    def argsort(self, x: Any, axis: int, stable: bool) -> Any:
        return self.torch.argsort(x, dim=axis, stable=stable)

    def flip(self, x: Any, axis: Any = None) -> Any:
        return self.torch.flip(x, dims=tuple(range(x.ndim)) if axis is None else (axis,))

    def roll(self, x: Any, shift: int, axis: int) -> Any:
        return self.torch.roll(x, shift, dims=axis)

    def expand_dims(self, x: Any, axis: int) -> Any:
        return self.torch.unsqueeze(x, axis)

    def take(self, x: Any, i: Any, axis: int) -> Any:
        return self.torch.index_select(x, axis, i.to(self.torch.int64))

    def take_along_axis(self, x: Any, i: Any, axis: int) -> Any:
        return self.torch.take_along_dim(x, i, dim=axis)

    def concat(self, xs: Any, axis: int) -> Any:
        return self.torch.concat(xs, dim=axis)

    def stack(self, xs: Any, axis: int) -> Any:
        return self.torch.stack(xs, dim=axis)

    def repeat(self, x: Any, count: int, axis: int) -> Any:
        return self.torch.repeat_interleave(x, count, dim=axis)

    def tril(self, x: Any, k: int) -> Any:
        return self.torch.tril(x, diagonal=k)

    def triu(self, x: Any, k: int) -> Any:
        return self.torch.triu(x, diagonal=k)

    def diagonal(self, x: Any) -> Any:
        return self.torch.diagonal(x, 0, -2, -1)

    def diff(self, x: Any, axis: int) -> Any:
        return self.torch.diff(x, dim=axis)

    def topk(self, x: Any, k: int, axis: int, largest: bool) -> Any:
        # Of equal elements the first ones, which `torch.topk` does not promise.
        found = self.torch.sort(x, dim=axis, stable=True, descending=largest).values
        return (self.torch.narrow(found, axis, 0, k),)

    def conv(self, x: Any, weights: list[int], **options: int) -> Any:
        kernel = self.torch.tensor([[weights]], dtype=x.dtype)
        return self.torch.nn.functional.conv1d(x.reshape(1, 1, -1), kernel, **options)

    def max_pool1d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return self.torch.nn.functional.max_pool1d(x, size, stride, padding)

    def softplus(self, x: Any) -> Any:
        return self.torch.logaddexp(x, self.torch.zeros_like(x))

    def median(self, x: Any, **options: Any) -> Any:
        raise NotImplementedError("the lower of two")

    def fmod(self, x: Any, y: Any) -> Any:
        raise NotImplementedError("of numbers of very different sizes")

    def sign(self, x: Any) -> Any:
        return self.torch.where(self.torch.isnan(x), x, self.torch.sign(x))

    def relu(self, x: Any) -> Any:
        return self.torch.nn.functional.relu(x)

    def gelu(self, x: Any) -> Any:
        return self.torch.nn.functional.gelu(x)

    def silu(self, x: Any) -> Any:
        return self.torch.nn.functional.silu(x)

    def layer_norm(self, x: Any) -> Any:
        return self.torch.nn.functional.layer_norm(x, x.shape[-1:])

    def rms_norm(self, x: Any) -> Any:
        return self.torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-5)

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def unfold(self, x: Any, axis: int, size: int, step: int) -> Any:
        return x.unfold(axis, size, step)

    def one_hot(self, x: Any, classes: int) -> Any:
        return (x[..., None] == self.torch.arange(classes)).to(self.torch.int64)

    def pad(self, x: Any, widths: Any, mode: str) -> Any:
        if mode != "constant":
            raise NotImplementedError(mode)
        return self.torch.nn.functional.pad(x, [n for pair in reversed(widths) for n in pair])

    def updated(self, x: Any, key: Any, how: str, y: Any) -> Any:
        if how not in ("set", "add"):
            raise NotImplementedError(how)
        y = self.torch.as_tensor(y, dtype=x.dtype)
        return x.index_put(tuple(map(self.torch.as_tensor, key)), y, accumulate=how == "add")

    cond, while_loop = Numpy.cond, Numpy.while_loop

    def fori_loop(self, low: int, high: int, body: Callable[..., Any], x: Any) -> Any:
        for k in range(low, high):
            x = body(self.torch.tensor(k), x)
        return x

    def scan(self, f: Callable[..., Any], carry: Any, xs: Any, reverse: bool) -> Any:
        found = []
        for k in reversed(range(len(xs))) if reverse else range(len(xs)):
            carry, y = f(carry, xs[k])
            found.append(y)
        return carry, self.torch.stack(found[::-1] if reverse else found)

    def associative_scan(self, f: Callable[..., Any], xs: Any, reverse: bool, axis: int) -> Any:
        rows = list(self.torch.unbind(xs, axis))[:: -1 if reverse else 1]
        for k in range(1, len(rows)):
            rows[k] = f(rows[k - 1], rows[k])
        return self.torch.stack(rows[:: -1 if reverse else 1], axis)

    def vmap(self, f: Callable[..., Any], axis: int, out: int) -> Callable[..., Any]:
        return lambda x: self.torch.stack([f(row) for row in self.torch.unbind(x, axis)], out)


_TORCH_NAMES = {"permute_dims": "permute", "bitwise_invert": "bitwise_not", "divide": "true_divide", "equal": "eq"}

SMELT, NUMPY = Smelt(), Numpy()
