"""JAX's namespace with smelt's names for what the array API does not have. Importing this sets JAX to 64 bits."""

from __future__ import annotations

import functools
import itertools
import math
import os
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def _gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _attention(query: Any, key: Any, value: Any, causal: bool) -> Any:
    scores = query @ jnp.matrix_transpose(key) / math.sqrt(query.shape[-1])
    if causal:
        scores = jnp.where(jnp.tri(*scores.shape[-2:], dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores) @ value


def _conv2d(x: Any, weight: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """Windows times weights.

    Not `jax.lax.conv_general_dilated`: XLA aborts the process in derivatives of some programs with dilated ones.
    """
    outputs, channels, *sizes = weight.shape
    x = jnp.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    x = x.reshape(x.shape[0], groups, channels, *x.shape[2:])
    reach = [x.shape[3 + k] - dilation * (sizes[k] - 1) for k in range(2)]  # where windows may start
    windows = [
        x[..., i : i + reach[0] : stride, j : j + reach[1] : stride]
        for i, j in itertools.product(*(range(0, dilation * size, dilation) for size in sizes))
    ]
    grouped = weight.reshape(groups, outputs // groups, channels, -1)
    result = jnp.einsum("kngchw,gock->ngohw", jnp.stack(windows), grouped)
    return result.reshape(result.shape[0], outputs, *result.shape[3:])


def _windows(x: Any, start: float, fold: Any, size: tuple[int, int], stride: int, padding: int) -> Any:
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return jax.lax.reduce_window(x, start, fold, (1, 1, *size), (1, 1, stride, stride), sides)


def _max_pool2d(x: Any, size: tuple[int, int], stride: int, padding: int) -> Any:
    return _windows(x, -jnp.inf, jax.lax.max, size, stride, padding)


def _avg_pool2d(x: Any, size: tuple[int, int], stride: int, padding: int) -> Any:
    return _windows(x, 0.0, jax.lax.add, size, stride, padding) / math.prod(size)


def _topk(x: Any, k: int, axis: int) -> Any:
    values, indices = jax.lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis)


def _places(indices: Any, axis: int) -> tuple[Any, ...]:
    """Indices along one axis as a key for all of them."""
    grid = jnp.meshgrid(*map(jnp.arange, indices.shape), indexing="ij")
    return (*grid[:axis], indices, *grid[axis + 1 :])


def _gather(x: Any, axis: int, indices: Any) -> Any:
    return x[_places(indices, axis)]


def _scatter_add(x: Any, axis: int, indices: Any, y: Any) -> Any:
    return x.at[_places(indices, axis)].add(y)


def _pad(x: Any, widths: Any, value: float) -> Any:
    return jnp.pad(x, widths, constant_values=value)


def _along(scan: Any) -> Any:
    """`jax.lax` counts axes from the front only."""
    return lambda x, axis: scan(x, axis=axis % x.ndim)


XP = SimpleNamespace(
    **vars(jnp)
    | {name: getattr(jax.nn, name) for name in ("sigmoid", "silu", "relu", "softplus", "elu", "selu", "leaky_relu")}
    | {name: getattr(jax.nn, name) for name in ("log_sigmoid", "mish", "softmax", "log_softmax", "logsumexp")}
    | {"softsign": jax.nn.soft_sign, "gelu": _gelu, "rsqrt": jax.lax.rsqrt, "attention": _attention}
    | {"erf": jax.scipy.special.erf, "erfc": jax.scipy.special.erfc}
    | {"cummax": _along(jax.lax.cummax), "logcumsumexp": _along(jax.lax.cumlogsumexp), "topk": _topk, "pad": _pad}
    | {"take": functools.partial(jnp.take, mode="clip")}  # the default fills, which takes longer to compile
    | {"conv2d": _conv2d, "max_pool2d": _max_pool2d, "avg_pool2d": _avg_pool2d}
    | {"gather": _gather, "scatter_add": _scatter_add, "UNIQUE": {"unique_indices": True}}
)
