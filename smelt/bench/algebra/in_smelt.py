"""The words of the programs in smelt."""

from __future__ import annotations

from typing import Any

import smelt as sm

exp, log, tanh, sqrt, rsqrt, attention = sm.exp, sm.log, sm.tanh, sm.sqrt, sm.rsqrt, sm.attention


def sum(x: Any, axis: Any) -> Any:
    return sm.sum(x, axis=axis)


def mean(x: Any, axis: int) -> Any:
    return sm.mean(x, axis=axis)


def max(x: Any, axis: int) -> Any:
    return sm.max(x, axis=axis)


def argmax(x: Any, axis: int) -> Any:
    return sm.argmax(x, axis=axis)


def softmax(x: Any) -> Any:
    return sm.softmax(x, axis=-1)


def concat(parts: Any, axis: int) -> Any:
    return sm.concat(parts, axis=axis)


def one_hot(numbers: Any, size: int) -> Any:
    return sm.one_hot(numbers, size, dtype=sm.float32)


def take(table: Any, numbers: Any) -> Any:
    return table[numbers]


def pick(x: Any, numbers: Any) -> Any:
    return sm.take_along_axis(x, numbers[:, None], axis=1)[:, 0]
