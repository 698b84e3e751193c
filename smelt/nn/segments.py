"""Rows put together by number: all rows with the same number give one row of the result.

Numbers need no order. A number without rows gives zeros.
"""

from __future__ import annotations

from typing import Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.inputs import integers
from smelt.tensor import Tensor, full, ones, where, zeros
from smelt.transform import stop_gradient

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_softmax", "segment_sum"]


def segment_sum(x: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """The sums of the rows of x that have the same number in `index`, for all numbers below `num_segments`.

    >>> import smelt as sm
    >>> sm.nn.segment_sum(sm.asarray([1.0, 2.0, 4.0]), sm.asarray([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 5.0]
    """
    index = _checked(x, index, num_segments, "segment_sum")
    return zeros((num_segments, *x.shape[1:]), dtype=x.dtype, device=x.device).at[index].add(x)


def segment_mean(x: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """The means of the rows of x that have the same number in `index`.

    >>> import smelt as sm
    >>> sm.nn.segment_mean(sm.asarray([1.0, 2.0, 4.0]), sm.asarray([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 2.5]
    """
    index = _checked(x, index, num_segments, "segment_mean")
    return segment_sum(x, index, num_segments) / _spread(_counts(index, num_segments, x).maximum(1), x)


def segment_max(x: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """The largest elements of the rows of x that have the same number in `index`.

    >>> import smelt as sm
    >>> sm.nn.segment_max(sm.asarray([1.0, 2.0, 4.0]), sm.asarray([2, 0, 2]), 3).tolist()
    [2.0, 0.0, 4.0]
    """
    index = _checked(x, index, num_segments, "segment_max")
    return _filled(_least(x, num_segments).at[index].max(x), x, index)


def segment_min(x: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """The smallest elements of the rows of x that have the same number in `index`."""
    index = _checked(x, index, num_segments, "segment_min")
    return -segment_max(-x, index, num_segments)


def segment_softmax(x: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """`softmax` among the rows of x that have the same number in `index`; rows of -inf get nothing.

    >>> import smelt as sm
    >>> sm.nn.segment_softmax(sm.asarray([1.0, 5.0, 1.0]), sm.asarray([2, 0, 2]), 3).tolist()
    [0.5, 1.0, 0.5]
    """
    index = _checked(x, index, num_segments, "segment_softmax")
    largest = _least(x, num_segments).at[index].max(stop_gradient(x))
    largest = where(largest.isinf(), 0, largest)
    parts = (x - largest[index]).exp()
    return parts / (segment_sum(parts, index, num_segments)[index] + 1e-16)


def _checked(x: Any, index: Any, count: int, name: str) -> Tensor:
    """The index, in which a negative number is as far out of range as one that is too large."""
    integers(index, name, "index", rank=1)
    if not isinstance(x, Tensor) or not x.dtype.is_float:
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(f"{name}: x is {kind}", rule="it must be a tensor of floats.")
    if x.ndim == 0 or x.shape[0] != index.shape[0]:
        raise ShapeError(
            f"{name}: x has shape {shape_text(x.shape)}, index {shape_text(index.shape)}",
            rule="there must be one number for each row of x.",
        )
    return where(index < 0, count, index) if index.dtype.is_signed else index


def _least(x: Tensor, count: int) -> Tensor:
    return full((count, *x.shape[1:]), -float("inf"), x.dtype, device=x.device)


def _counts(index: Tensor, count: int, like: Tensor) -> Tensor:
    rows = ones(index.shape, dtype=like.dtype, device=like.device)
    return zeros(count, dtype=like.dtype, device=like.device).at[index].add(rows)


def _spread(numbers: Tensor, x: Tensor) -> Tensor:
    """One number for each row, in the rank of x."""
    return numbers.reshape(-1, *([1] * (x.ndim - 1)))


def _filled(result: Tensor, x: Tensor, index: Tensor) -> Tensor:
    """Zeros where there was nothing."""
    return where(_spread(_counts(index, result.shape[0], x), x) > 0, result, 0)
