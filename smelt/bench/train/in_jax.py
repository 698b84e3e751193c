"""The training steps in JAX: forward, backward and Adam as one compiled function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

from smelt.bench.train.cases import BETAS, CASES, EPSILON, RATE, SIZES, Gpt, resnet_blocks


def _linear(w: Any, name: str, x: Any) -> Any:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _norm(w: Any, name: str, x: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return centered * scale * w[f"{name}.weight"] + w[f"{name}.bias"]


def _mlp(w: Any, x: Any) -> Any:
    return _linear(w, "4", jax.nn.relu(_linear(w, "2", jax.nn.relu(_linear(w, "0", x)))))


def _convolution(w: Any, name: str, x: Any, padding: int) -> Any:
    y = jax.lax.conv_general_dilated(x, w[f"{name}.weight"], (1, 1), [(padding, padding)] * 2)
    return jax.nn.relu(y + w[f"{name}.bias"][:, None, None])


def _pool(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _lenet(w: Any, x: Any) -> Any:
    h = _pool(_convolution(w, "3", _pool(_convolution(w, "0", x, 2)), 0))
    h = jax.nn.relu(_linear(w, "7", h.reshape(len(h), -1)))
    return _linear(w, "11", jax.nn.relu(_linear(w, "9", h)))


def _resnet(w: Any, x: Any) -> Any:
    """With the statistics of the batch; the running averages, which smelt and PyTorch keep up to date, are left out."""

    def normed(name: str, x: Any, stride: int = 1) -> Any:
        weight = w[f"{name}.0.weight"]
        y = jax.lax.conv_general_dilated(x, weight, (stride, stride), [(weight.shape[2] // 2,) * 2] * 2)
        mean, variance = y.mean((0, 2, 3), keepdims=True), y.var((0, 2, 3), keepdims=True)
        scale = jax.lax.rsqrt(variance + 1e-5) * w[f"{name}.1.weight"][:, None, None]
        return (y - mean) * scale + w[f"{name}.1.bias"][:, None, None]

    h = jax.nn.relu(normed("stem", x))
    for name, _, _, stride in resnet_blocks():
        inner = normed(f"{name}.second", jax.nn.relu(normed(f"{name}.first", h, stride)))
        h = jax.nn.relu(inner + (normed(f"{name}.short", h, stride) if stride > 1 else h))
    return _linear(w, "head", h.mean((2, 3)))


def gpt(size: Gpt) -> Callable[[Any, Any], Any]:
    def forward(w: Any, x: Any) -> Any:
        batch, length = x.shape
        h = w["tokens.weight"][x] + w["positions.weight"]
        for k in range(size.layers):
            name = f"blocks.{k}"
            parts = _linear(w, f"{name}.inward", _norm(w, f"{name}.norm1", h))
            query, key, value = (part.reshape(batch, length, size.heads, -1) for part in jnp.split(parts, 3, -1))
            seen = jax.nn.dot_product_attention(query, key, value, is_causal=True)
            h = h + _linear(w, f"{name}.outward", seen.reshape(h.shape))
            up = jax.nn.gelu(_linear(w, f"{name}.up", _norm(w, f"{name}.norm2", h)), approximate=True)
            h = h + _linear(w, f"{name}.down", up)
        return (_norm(w, "norm", h) @ w["head.weight"].T).reshape(-1, size.vocabulary)

    return forward


def network(case: str) -> Callable[[Any, Any], Any]:
    """The forward pass of a case: a function of weights and inputs."""
    return gpt(SIZES[case]) if case in SIZES else {"mlp": _mlp, "lenet": _lenet, "resnet": _resnet}[case]


def loss(forward: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The cross entropy of what a network gives."""

    def loss_of(w: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(forward(w, x))
        return -jnp.take_along_axis(logs, y.reshape(-1, 1), 1).mean()

    return loss_of


def training(library: str, case: str, threads: int) -> Callable[[], float]:
    """One step on the same batch again, as a function that gives the loss."""
    loss_of = loss(network(case))
    first, second = BETAS

    def step(w: Any, m: Any, v: Any, t: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(loss_of)(w, x, y)
        t = t + 1
        m = jax.tree.map(lambda a, b: first * a + (1 - first) * b, m, g)
        v = jax.tree.map(lambda a, b: second * a + (1 - second) * b * b, v, g)
        w = jax.tree.map(
            lambda p, a, b: p - RATE * (a / (1 - first**t)) / (jnp.sqrt(b / (1 - second**t)) + EPSILON), w, m, v
        )
        return w, m, v, t, loss

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    w = {name: jnp.asarray(value) for name, value in CASES[case].weights().items()}
    zeros = [jax.tree.map(jnp.zeros_like, w) for _ in range(2)]
    state = [w, *zeros, jnp.zeros(())]
    x, y = (jnp.asarray(part) for part in CASES[case].batch())

    def run() -> float:
        *state[:], loss = compiled(*state, x, y)
        return float(loss)

    return run
