"""What losses have in common: checks of their tensors, and what becomes of the single losses."""

from __future__ import annotations

from typing import Any

from smelt.dtypes import float32
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.tensor import Tensor, to_node, wrap

REDUCTIONS = ("mean", "sum", "none")


def reduction_of(reduction: Any, name: str, more: tuple[str, ...] = ()) -> str:
    """One of the words for it."""
    words = (*REDUCTIONS, *more)
    if not isinstance(reduction, str) or reduction not in words:
        raise ArgumentError(f"{name}: reduction is {reduction!r:.80}", rule=f"it must be one of {', '.join(words)}.")
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """The losses, their sum or their mean."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def tensor_of(value: Any, name: str, what: str) -> Tensor:
    """A tensor, or one made of an array of another library."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return wrap(to_node(value, f"{name}: {what}"))
    raise ArgumentError(f"{name}: {what} is of type {type(value).__name__}", rule="it must be a tensor.")


def floats(value: Any, name: str, what: str) -> Tensor:
    """A tensor of floats."""
    tensor = tensor_of(value, name, what)
    if not tensor.dtype.is_float:
        raise DTypeError(f"{name}: {what} is {tensor.dtype}", rule="it must be a float tensor.")
    return tensor


def matching(input: Any, target: Any, name: str, names: tuple[str, str] = ("input", "target")) -> tuple[Tensor, Tensor]:
    """Floats, and a tensor of the same shape: one that broadcasts is more often a mistake than meant."""
    x, y = floats(input, name, names[0]), tensor_of(target, name, names[1])
    if x.shape != y.shape:
        raise ShapeError(
            f"{name}: {names[0]} has shape {shape_text(x.shape)}, {names[1]} {shape_text(y.shape)}",
            rule="both must have the same shape.",
            hint="Is there an axis of size 1 that one of them lacks? See squeeze, and broadcast_to.",
        )
    return x, y if y.dtype.is_float else y.astype(x.dtype)


def wide(x: Tensor) -> Tensor:
    """In at least 32 bits, for numbers that 16 do not hold."""
    return x.astype(float32) if x.dtype.itemsize < 4 else x


def above(value: Any, name: str, what: str, least: float = 0.0, strictly: bool = True) -> float:
    """A number above a bound, or with `strictly` False at least that."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value > least if strictly else value >= least):
        raise ArgumentError(
            f"{name}: {what} is {value!r:.80}",
            rule=f"it must be a number {'above' if strictly else 'of at least'} {least:g}.",
        )
    return float(value)


def number(value: Any, name: str, what: str) -> float:
    """A number of any sign."""
    return above(value, name, what, -float("inf"), strictly=False)
