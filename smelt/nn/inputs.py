"""Checks of what modules are called with."""

from __future__ import annotations

from typing import Any

from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.tensor import Tensor, arange


def no_tensor(x: Any, name: str, what: str, rule: str = "it must be a tensor.") -> ArgumentError:
    """The error for something else in the place of a tensor. Other libraries, too, may call theirs Tensor."""
    kind, library = type(x).__name__, type(x).__module__.partition(".")[0]
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
        return ArgumentError(f"{name}: {what} is a {library}.{kind}", rule=rule, hint="Give sm.asarray of it.")
    return ArgumentError(f"{name}: {what} is of type {kind}", rule=rule)


def floats(x: Any, name: str, what: str, ranks: tuple[int, ...], features: int | None = None) -> Tensor:
    """A float tensor of one of these ranks, with this many features along its last axis."""
    if not isinstance(x, Tensor):
        raise no_tensor(x, name, what)
    if not x.dtype.is_float:
        raise DTypeError(f"{name}: {what} is {x.dtype}", rule="it must be a float.", hint="Cast it with x.astype.")
    if x.ndim not in ranks:
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(x.shape)}",
            rule=f"it must have {' or '.join(map(str, ranks))} axes, not {x.ndim}.",
        )
    if features is not None and x.shape[-1] != features:
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(x.shape)}",
            rule=f"its last axis must have {features} features, not {x.shape[-1]}.",
        )
    return x


def integers(x: Any, name: str, what: str, rank: int | None = None) -> Tensor:
    """An integer tensor, of this rank if one is given."""
    if not isinstance(x, Tensor):
        raise no_tensor(x, name, what, "it must be a tensor of integers.")
    if not x.dtype.is_integer:
        raise DTypeError(f"{name}: {what} is {x.dtype}", rule="it must be an integer.")
    if rank is not None and x.ndim != rank:
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(x.shape)}", rule=f"it must have {rank} axes, not {x.ndim}."
        )
    return x


def shaped(x: Tensor, name: str, what: str, shape: tuple[Any, ...]) -> Tensor:
    """A tensor of exactly this shape."""
    if x.shape != shape:
        raise ShapeError(f"{name}: {what} has shape {shape_text(x.shape)}", rule=f"it must be {shape_text(shape)}.")
    return x


def positions_of(x: Tensor, positions: Any, name: str) -> Tensor:
    """The positions of the rows of x (..., length, features): integers (..., length), counted from 0 if not given."""
    if positions is None:
        return arange(x.shape[-2], device=x.device)
    integers(positions, name, "positions")
    if positions.ndim == 0 or positions.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name}: positions has shape {shape_text(positions.shape)}, the input {shape_text(x.shape)}",
            rule="there must be one position for each row of the input.",
        )
    return positions  # type: ignore[no-any-return]
