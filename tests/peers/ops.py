"""The operations of random differentiable programs: one table, written for any namespace with the array API's names.

A namespace is `sm` itself, or a peer's with smelt's names for what the array API does not have (`tests.peers.in_jax`).
Every function is safe for any finite operands: what has poles or a limited domain is kept away from them here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Operation = Callable[..., Any]  # namespace, operands, static parameters by name -> value


def _named(name: str) -> Operation:
    return lambda xp, *operands, **parameters: getattr(xp, name)(*operands, **parameters)


def _at(method: str) -> Operation:
    """The keys of programs name no element twice, which some peers need to be told."""
    return lambda xp, x, y, key: getattr(x.at[key], method)(y, **getattr(xp, "UNIQUE", {}))


def _where(xp: Any, x: Any, y: Any, compare: str) -> Any:
    return xp.where(getattr(xp, compare)(x, y), xp.sin(x), y * 0.5)


def _layer_norm(xp: Any, x: Any) -> Any:
    centered = x - xp.mean(x, axis=-1, keepdims=True)
    return centered / xp.sqrt(xp.mean(centered * centered, axis=-1, keepdims=True) + 0.01)


def _spread(xp: Any, x: Any, shape: tuple[int, ...], step: int) -> Any:
    """Elements of any tensor as one of another shape."""
    flat = xp.reshape(x, (-1,))
    indices = np.arange(math.prod(shape)) * step % flat.shape[0]
    return xp.take(flat, xp.asarray(indices.reshape(shape)), axis=0)


UNARY: dict[str, Operation] = {
    **{
        name: _named(name)
        for name in (
            *("tanh", "sin", "cos", "atan", "sinh", "cosh", "asinh", "exp", "expm1", "exp2", "erf", "erfc", "sinc"),
            *("sigmoid", "silu", "gelu", "relu", "softplus", "elu", "selu", "leaky_relu", "log_sigmoid", "mish"),
            *("softsign", "abs", "negative", "square"),
        )
    },
    "gelu_tanh": lambda xp, x: xp.gelu(x, approximate="tanh"),
    "exp_clipped": lambda xp, x: xp.exp(xp.clip(x, -1, 1)),
    "log": lambda xp, x: xp.log(1 + x * x),
    "log1p": lambda xp, x: xp.log1p(x * x),
    "log2": lambda xp, x: xp.log2(1.5 + x * x),
    "log10": lambda xp, x: xp.log10(2.5 + x * x),
    "sqrt": lambda xp, x: xp.sqrt(x * x + 1),
    "rsqrt": lambda xp, x: xp.rsqrt(x * x + 1),
    "cbrt": lambda xp, x: xp.cbrt(x * x + 1),
    "reciprocal": lambda xp, x: 1 / (1 + x * x),
    "power": lambda xp, x: (1 + x * x) ** -0.7,
    "cube": lambda xp, x: x**3,
    "tan": lambda xp, x: xp.tan(xp.tanh(x)),
    "asin": lambda xp, x: xp.asin(0.9 * xp.tanh(x)),
    "acos": lambda xp, x: xp.acos(0.9 * xp.sin(x)),
    "atanh": lambda xp, x: xp.atanh(0.9 * xp.tanh(x)),
    "acosh": lambda xp, x: xp.acosh(1.5 + x * x),
}

BINARY: dict[str, Operation] = {
    **{name: _named(name) for name in ("add", "subtract", "multiply", "maximum", "minimum", "logaddexp")},
    "divide": lambda xp, x, y: x / (1 + y * y),
    "atan2": lambda xp, x, y: xp.atan2(x, 1 + y * y),
    "hypot": lambda xp, x, y: xp.hypot(x, 1 + y * y),
    "pow": lambda xp, x, y: xp.pow(1 + x * x, xp.tanh(y)),
}

REDUCTIONS = ("sum", "mean", "prod", "max", "min", "var", "logsumexp")
SCANS = ("cumsum", "cumprod", "cummax", "logcumsumexp", "softmax", "log_softmax")

OPS: dict[str, Operation] = {
    **UNARY,
    **BINARY,
    "clip": lambda xp, x, low, high: xp.clip(x, low, high),
    "where": _where,
    "select": lambda xp, x, y, mask: xp.where(xp.asarray(mask), x, y),
    # products
    "matmul": lambda xp, x, y: x @ y,
    "einsum": lambda xp, *operands, equation: xp.einsum(equation, *operands),
    "attention": lambda xp, q, k, v, causal: xp.attention(q, k, v, causal=causal),
    "conv2d": lambda xp, x, weight, **options: xp.conv2d(x, weight, **options),
    "max_pool2d": lambda xp, x, size, **options: xp.max_pool2d(x, size, **options),
    "avg_pool2d": lambda xp, x, size, **options: xp.avg_pool2d(x, size, **options),
    # movement
    "permute": lambda xp, x, axes: xp.permute_dims(x, axes),
    "swapaxes": lambda xp, x, first, second: xp.swapaxes(x, first, second),
    "reshape": lambda xp, x, shape: xp.reshape(x, shape),
    "expand_dims": lambda xp, x, axis: xp.expand_dims(x, axis=axis),
    "squeeze": lambda xp, x, axis: xp.squeeze(x, axis=axis),
    "broadcast_to": lambda xp, x, shape: xp.broadcast_to(x, shape),
    "pad": lambda xp, x, widths, value: xp.pad(x, widths, value=value),
    "index": lambda xp, x, key: x[key],
    "flip": lambda xp, x, axis: xp.flip(x, axis=axis),
    "roll": lambda xp, x, shift, axis: xp.roll(x, shift, axis=axis),
    "tile": lambda xp, x, repetitions: xp.tile(x, repetitions),
    "repeat": lambda xp, x, repeats, axis: xp.repeat(x, repeats, axis=axis),
    "tril": lambda xp, x, k: xp.tril(x, k=k),
    "diagonal": lambda xp, x, offset: xp.diagonal(x, offset, -2, -1),
    "concat": lambda xp, *xs, axis: xp.concat(xs, axis=axis),
    "stack": lambda xp, *xs, axis: xp.stack(xs, axis=axis),
    # by indices that are constants
    "spread": _spread,
    "take": lambda xp, x, indices, axis: xp.take(x, xp.asarray(indices), axis=axis),
    "take_along_axis": lambda xp, x, indices, axis: xp.take_along_axis(x, xp.asarray(indices), axis=axis),
    "gather": lambda xp, x, indices, axis: xp.gather(x, axis, xp.asarray(indices)),
    "at_set": _at("set"),
    "at_add": _at("add"),
    "at_multiply": _at("multiply"),
    "scatter_add": lambda xp, x, y, indices, axis: xp.scatter_add(x, axis, xp.asarray(indices), y),
    # along axes
    **{name: _named(name) for name in (*REDUCTIONS, *SCANS)},
    "layer_norm": _layer_norm,
    "sort": lambda xp, x, axis, descending: xp.sort(x, axis=axis, descending=descending),
    "topk": lambda xp, x, k, axis: xp.topk(x, k, axis=axis)[0],
}


def written(parameter: Any) -> str:
    """A static parameter as in source text."""
    if isinstance(parameter, tuple):
        return f"({', '.join(map(written, parameter))},)" if parameter else "()"
    if isinstance(parameter, slice):
        return ":".join("" if part is None else str(part) for part in (parameter.start, parameter.stop, parameter.step))
    return str(parameter.tolist()) if isinstance(parameter, np.ndarray) else repr(parameter)
