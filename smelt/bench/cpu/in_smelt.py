"""The operations in smelt, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import smelt as sm
from smelt.bench.cpu import gradients
from smelt.bench.cpu.library import Library, Spelling
from smelt.bench.cpu.networks import network_operations

SPELLING = Spelling(
    affine=lambda x, weight, bias: x @ weight + bias,
    linear=lambda x, weight: x @ weight.mT,
    layer_norm=sm.layer_norm,
    rms_norm=sm.rms_norm,
    gelu=lambda x: sm.gelu(x, approximate="tanh"),
    silu=sm.silu,
    attention=lambda query, key, value, causal: sm.attention(query, key, value, causal=causal),
    concat=lambda parts, axis: sm.concat(parts, axis=axis),
)

WORDS = gradients.Words(
    attention=lambda query, key, value: sm.attention(query, key, value, causal=True),
    layer_norm=sm.layer_norm,
    nll=sm.cross_entropy,
    conv2d=lambda x, weight: sm.conv2d(x, weight, padding=1),
    take=lambda table, numbers: table[numbers],
)


def _gradient(loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    both = sm.value_and_grad(loss, argnums=tuple(range(count)))

    def run(*inputs: Any) -> tuple[Any, ...]:
        value, slopes = both(*inputs)
        return (value, *slopes)

    return run


OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": lambda x, w: x @ w,
    "int matmul": lambda x, w: x.astype(sm.int32) @ w.astype(sm.int32),
    "gelu": lambda x, w, b: sm.gelu(x * w + b, approximate="tanh"),
    "layer norm": sm.layer_norm,
    "softmax": lambda x: sm.softmax(x, axis=-1),
    "rms norm": sm.rms_norm,
    "nll": sm.cross_entropy,
    "sum": sm.sum,
    "sum columns": lambda x: sm.sum(x, axis=0),
    "argmax": lambda x: sm.argmax(x, axis=1),
    "transpose": lambda x: x.mT.reshape((-1,)),
    "cumsum": lambda x: sm.cumsum(x, axis=1),
    "attention": sm.attention,
    "causal attention": lambda query, key, value: sm.attention(query, key, value, causal=True),
    **network_operations(SPELLING),
    **dict(gradients.operations(_gradient, WORDS)),
}


def library(name: str, threads: int) -> Library:
    """The threads are set by the environment of the process. What a compiled function gives has been computed."""
    return Library(lambda array: sm.asarray(array, copy=True), sm.jit, lambda found: found.numpy(), OPERATIONS)
