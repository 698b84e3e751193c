"""The words of the programs in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

exp, log, tanh, sqrt, rsqrt, concat = jnp.exp, jnp.log, jnp.tanh, jnp.sqrt, jax.lax.rsqrt, jnp.concatenate
sum, mean, max, argmax, softmax = jnp.sum, jnp.mean, jnp.max, jnp.argmax, jax.nn.softmax


def attention(q: Any, k: Any, v: Any) -> Any:
    lengths_first = [x.swapaxes(0, 1) for x in (q, k, v)]
    return jax.nn.dot_product_attention(*lengths_first).swapaxes(0, 1)


def one_hot(numbers: Any, size: int) -> Any:
    return jax.nn.one_hot(numbers, size, dtype=jnp.float32)


def take(table: Any, numbers: Any) -> Any:
    return table[numbers]


def pick(x: Any, numbers: Any) -> Any:
    return jnp.take_along_axis(x, numbers[:, None], 1)[:, 0]
