"""The operations in JAX, each as one compiled function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from smelt.bench.cpu import gradients
from smelt.bench.cpu.library import Library, Spelling
from smelt.bench.cpu.networks import network_operations


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def _rms_norm(x: Any, weight: Any) -> Any:
    square = jnp.square(x.astype(jnp.float32)).mean(-1, keepdims=True)
    return (x * jax.lax.rsqrt(square + 1e-5)).astype(x.dtype) * weight


def _nll(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def _attention(query: Any, key: Any, value: Any, causal: bool = False) -> Any:
    query, key, value = (part.swapaxes(1, 2) for part in (query, key, value))
    return jax.nn.dot_product_attention(query, key, value, is_causal=causal).swapaxes(1, 2)


SPELLING = Spelling(
    affine=lambda x, weight, bias: x @ weight + bias,
    linear=lambda x, weight: x @ weight.T,
    layer_norm=_layer_norm,
    rms_norm=_rms_norm,
    gelu=lambda x: jax.nn.gelu(x, approximate=True),
    silu=jax.nn.silu,
    attention=_attention,
    concat=jnp.concatenate,
)

WORDS = gradients.Words(
    attention=lambda query, key, value: _attention(query, key, value, True),
    layer_norm=_layer_norm,
    nll=_nll,
    conv2d=lambda x, weight: jax.lax.conv_general_dilated(x, weight, (1, 1), ((1, 1), (1, 1))),
    take=lambda table, numbers: table[numbers],
)


def _gradient(loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    both = jax.value_and_grad(loss, argnums=tuple(range(count)))

    def run(*inputs: Any) -> tuple[Any, ...]:
        value, slopes = both(*inputs)
        return (value, *slopes)

    return run


OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": jnp.matmul,
    "int matmul": lambda x, w: jnp.matmul(x, w, preferred_element_type=jnp.int32),
    "gelu": lambda x, w, b: jax.nn.gelu(x * w + b, approximate=True),
    "layer norm": _layer_norm,
    "softmax": jax.nn.softmax,
    "rms norm": _rms_norm,
    "nll": _nll,
    "sum": jnp.sum,
    "sum columns": lambda x: jnp.sum(x, 0),
    "argmax": lambda x: jnp.argmax(x, 1),
    "transpose": lambda x: x.T.reshape(-1),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "attention": _attention,
    "causal attention": lambda query, key, value: _attention(query, key, value, True),
    **network_operations(SPELLING),
    **dict(gradients.operations(_gradient, WORDS)),
}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    fast = jax.jit(function)
    return lambda *inputs: jax.block_until_ready(fast(*inputs))


def _give(found: Any) -> Any:
    return np.asarray(found)


def library(name: str, threads: int) -> Library:
    """As many threads as the process has cores: it has to be pinned before this module is imported."""
    return Library(jnp.array, _compiled, _give, OPERATIONS)
