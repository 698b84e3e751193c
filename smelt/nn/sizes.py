"""Checks of what modules are made with, and of what they are called with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from smelt.dtypes import float32
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.tensor import Tensor, asarray, real_number


def count(value: Any, name: str, what: str, least: int = 0) -> int:
    """A number of features, channels, rows."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name}: {what} is {value!r}", rule=f"it must be an integer of at least {least}.")
    return value


def share(value: Any, name: str, what: str = "p") -> float:
    """A probability."""
    number = float(real_number(value, name, what))
    if not 0 <= number <= 1:
        raise ArgumentError(f"{name}: {what} is {value!r}", rule="it must be a number from 0 to 1.")
    return number


def not_negative(value: Any, name: str, what: str) -> float:
    """A number that is at least 0, such as the `eps` of a normalization."""
    number = float(real_number(value, name, what))
    if not number >= 0:
        raise ArgumentError(f"{name}: {what} is {value!r}", rule="it must not be negative.")
    return number


def one_of(value: Any, choices: tuple[str, ...], name: str, what: str) -> str:
    """A word out of several."""
    if value not in choices:
        raise ArgumentError(f"{name}: {what} is {value!r}", hint=f"Use one of: {', '.join(choices)}.")
    return str(value)


def refuse_tensors(name: str, settings: Iterable[Any]) -> None:
    """Refuse tensors among what a module is made with: it is called with them."""
    for value in settings:
        if isinstance(value, Tensor | np.ndarray):
            raise ArgumentError(
                f"{name}: it is made with a tensor",
                rule="a module is made of its settings first, and then called with tensors.",
                hint=f"Write {name}(...)(x).",
            )


def tensor(x: Any) -> Tensor:
    """What a module is called with, as a tensor."""
    return x if isinstance(x, Tensor) else asarray(x)


def floats(x: Any) -> Tensor:
    """The same in float32 unless it is a float already, for what has no meaning in integers."""
    given = tensor(x)
    return given if given.dtype.is_float else given.astype(float32)


def with_features(x: Any, axis: int, size: int, name: str, what: str) -> Tensor:
    """A tensor that has as many features along an axis as the module was made for."""
    given = tensor(x)
    if not -given.ndim <= axis < given.ndim or given.shape[axis] != size:
        place = "the last axis" if axis == -1 else f"axis {axis}"
        last = given.ndim > 1 and axis != -1 and given.shape[-1] == size
        raise ShapeError(
            f"{name}: the input has shape {shape_text(given.shape)}",
            rule=f"{place} must have the size {what}={size}.",
            hint=f"Is it the last axis? Write x.moveaxis(-1, {axis})." if last else "",
        )
    return given


def with_rank(x: Any, ranks: tuple[int, ...], name: str, axes: str) -> Tensor:
    """A tensor of one of these ranks; `axes` says what they are."""
    given = tensor(x)
    if given.ndim not in ranks:
        raise ShapeError(
            f"{name}: the input has shape {shape_text(given.shape)}",
            rule=f"its rank must be {' or '.join(map(str, ranks))}: {axes}.",
        )
    return given
