"""The operations in NumPy. In float64 they are what all results are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.bench.cpu.gradients import FUNCTIONS
from smelt.bench.cpu.library import Library, Spelling
from smelt.bench.cpu.networks import network_operations
from smelt.bench.models import gelu_reference, softmax_reference


def _layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * weight + bias


def _rms_norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def _nll(logits: Any, labels: Any) -> Any:
    most = logits.max(-1, keepdims=True)
    logs = np.log(np.exp(logits - most).sum(-1)) + most[:, 0]
    return (logs - np.take_along_axis(logits, labels[:, None], 1)[:, 0]).mean()


def _attention(query: Any, key: Any, value: Any, causal: bool = False) -> Any:
    scores = query @ key.swapaxes(-1, -2) * query.dtype.type(1 / math.sqrt(query.shape[-1]))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, scores.dtype.type(-np.inf))
    return softmax_reference(scores) @ value


def _recycled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same into memory that was used before, which costs no fresh pages."""
    kept: list[Any] = []

    def way(*inputs: Any) -> Any:
        if not kept:
            kept.append(function(*inputs))
        return function(*inputs, out=kept[0])

    return way


def _transposed(x: Any, out: Any = None) -> Any:
    if out is None:
        return x.T.reshape(-1)
    np.copyto(out.reshape(x.T.shape), x.T)
    return out


def _summed_up(x: Any, out: Any = None) -> Any:
    return np.cumsum(x, 1, out=out)


SPELLING = Spelling(
    affine=lambda x, weight, bias: x @ weight + bias,
    linear=lambda x, weight: x @ weight.T,
    layer_norm=_layer_norm,
    rms_norm=_rms_norm,
    gelu=gelu_reference,
    silu=lambda x: x / (1 + np.exp(-x)),
    attention=_attention,
    concat=np.concatenate,
)

OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": np.matmul,
    "int matmul": np.matmul,
    "gelu": lambda x, w, b: gelu_reference(x * w + b),
    "layer norm": _layer_norm,
    "softmax": softmax_reference,
    "rms norm": _rms_norm,
    "nll": _nll,
    "sum": np.sum,
    "sum columns": lambda x: np.sum(x, 0),
    "argmax": lambda x: np.argmax(x, 1),
    "transpose": _transposed,
    "cumsum": _summed_up,
    "attention": _attention,
    "causal attention": lambda query, key, value: _attention(query, key, value, True),
    **network_operations(SPELLING),
    **{f"gradient of {name}": function.reference for name, function in FUNCTIONS.items()},
}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return _recycled(function) if function in (np.matmul, _transposed, _summed_up) else function


def library(name: str, threads: int) -> Library:
    """The threads are set by the environment of the process."""
    return Library(np.array, _compiled, np.asarray, OPERATIONS)
