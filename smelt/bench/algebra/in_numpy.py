"""The words of the programs in NumPy, which the others are held against."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.bench.models import softmax_reference as softmax

__all__ = [
    "exp",
    "log",
    "tanh",
    "sqrt",
    "rsqrt",
    "sum",
    "mean",
    "max",
    "argmax",
    "softmax",
    "attention",
    "concat",
    "one_hot",
    "take",
    "pick",
]

exp, log, tanh, sqrt, concat = np.exp, np.log, np.tanh, np.sqrt, np.concatenate
sum, mean, max, argmax = np.sum, np.mean, np.max, np.argmax


def rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def one_hot(numbers: Any, size: int) -> Any:
    return np.eye(size, dtype=np.float32)[numbers]


def take(table: Any, numbers: Any) -> Any:
    return table[numbers]


def pick(x: Any, numbers: Any) -> Any:
    return np.take_along_axis(x, numbers[:, None], 1)[:, 0]
