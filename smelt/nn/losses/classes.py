"""Losses of the choice of one class out of several, which lie along axis 1 (axis 0 of a vector)."""

from __future__ import annotations

from typing import Any

from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import normalized_axis, shape_text
from smelt.nn.losses.checks import above, floats, number, reduced, reduction_of, tensor_of
from smelt.tensor import Tensor, arange, integer, log_softmax, relu, take, take_along_axis, where
from smelt.tensor.networks import layers

IGNORED = -100  # PyTorch's label of what does not count


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int | None = IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    axis: int | None = None,
) -> Tensor:
    """The negative log of the share that softmax gives to the right class. `smelt.cross_entropy` is this function.

    The logits have shape (classes), (batch, classes) or (batch, classes, ...), as in PyTorch; elsewhere the classes lie
    along `axis`. Targets are class numbers, of that shape without the classes, or probabilities, of the same shape.
    `weight` has a number for each class. Labels that are
    `ignore_index` count neither in the sum nor in the mean; others that are no class give NaN. `label_smoothing` is
    the share that is spread evenly over all classes.

    >>> import smelt as sm
    >>> logits = sm.asarray([[2.0, 0.0], [0.0, 2.0]])
    >>> round(sm.nn.losses.cross_entropy(logits, sm.asarray([0, 0])).item(), 4)
    1.1269
    >>> round(sm.nn.losses.cross_entropy(logits, sm.asarray([0, -100])).item(), 4)
    0.1269
    """
    name = "cross_entropy"
    reduction_of(reduction, name)
    x, axis = _scores(input, name, axis)
    smoothing = above(label_smoothing, name, "label_smoothing", strictly=False)
    if smoothing > 1:
        raise ArgumentError(f"{name}: label_smoothing is {smoothing:g}", rule="it must be at most 1.")
    factors = _factors(weight, x, axis, name)
    target = tensor_of(target, name, "target")
    if target.dtype.is_float:
        return _by_probabilities(x, target, axis, factors, smoothing, reduction)
    labels = _labels(x, target, axis, name)
    counts, classes = _counting(labels, ignore_index, name)
    losses = layers.class_losses(x, labels, axis)
    shares = None if factors is None else take(factors, classes.clip(0, x.shape[axis] - 1), axis=0)
    if shares is not None:
        losses = losses * shares
    if smoothing:
        logs = -log_softmax(x, axis)
        even = (logs if factors is None else logs * _along(factors, x, axis)).mean(axis)
        losses = (1 - smoothing) * losses + smoothing * even
    return _reduced(losses, counts, shares, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int | None = IGNORED,
    reduction: str = "mean",
) -> Tensor:
    """The negative of the input at the right class, where the input holds logarithms of probabilities.

    Shapes, weights and labels that do not count are as in `cross_entropy`.

    >>> import smelt as sm
    >>> shares = sm.asarray([[0.5, 0.5], [0.25, 0.75]])
    >>> round(sm.nn.losses.nll_loss(shares.log(), sm.asarray([0, 1])).item(), 4)
    0.4904
    """
    name = "nll_loss"
    reduction_of(reduction, name)
    x, axis = _scores(input, name)
    counts, labels = _counting(_labels(x, target, axis, name), ignore_index, name)
    losses = -take_along_axis(x, labels.expand_dims(axis), axis).squeeze(axis)
    factors = _factors(weight, x, axis, name)
    shares = None if factors is None else take(factors, labels, axis=0)
    return _reduced(losses if shares is None else losses * shares, counts, shares, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much the scores of other classes come closer to the right one's than the margin, to the power `p`.

    The mean over the classes; scores have shape (batch, classes) or (classes).

    >>> import smelt as sm
    >>> sm.nn.losses.multi_margin_loss(sm.asarray([[0.5, 0.0, -2.0, -3.0]]), sm.asarray([0])).item()
    0.125
    """
    name = "multi_margin_loss"
    reduction_of(reduction, name)
    number(margin, name, "margin")
    if isinstance(p, bool) or p not in (1, 2):
        raise ArgumentError(f"{name}: p is {p!r:.80}", rule="it must be 1 or 2.")
    x, axis = _scores(input, name)
    if x.ndim > 2:
        raise ShapeError(f"{name}: input has shape {shape_text(x.shape)}", rule="it must be (batch, classes).")
    labels = _labels(x, target, axis, name)
    places = labels.expand_dims(axis)
    closer = relu(margin - take_along_axis(x, places, axis) + x)
    others = places != arange(x.shape[axis], dtype=labels.dtype)
    losses = where(others, closer if p == 1 else closer.square(), 0.0).mean(axis)
    factors = _factors(weight, x, axis, name)
    return reduced(losses if factors is None else losses * take(factors, labels, axis=0), reduction)


# --- the parts


def _scores(input: Any, name: str, axis: Any = None) -> tuple[Tensor, int]:
    """The input, and where its classes are."""
    x = floats(input, name, "input")
    if x.ndim == 0:
        raise ShapeError(f"{name}: the input is a scalar", rule="it has an axis of classes.")
    return x, min(1, x.ndim - 1) if axis is None else normalized_axis(axis, x.ndim, name)


def _factors(weight: Any, x: Tensor, axis: int, name: str) -> Tensor | None:
    """A number for each class."""
    if weight is None:
        return None
    factors = floats(weight, name, "weight")
    if factors.shape != (x.shape[axis],):
        raise ShapeError(
            f"{name}: weight has shape {shape_text(factors.shape)}",
            rule=f"it must be {shape_text((x.shape[axis],))}: one number for each class.",
        )
    return factors.astype(x.dtype)


def _along(factors: Tensor, x: Tensor, axis: int) -> Tensor:
    """A vector, laid along an axis of x."""
    return factors.reshape(tuple(size if a == axis else 1 for a, size in enumerate(x.shape)))


def _labels(x: Tensor, target: Any, axis: int, name: str) -> Tensor:
    labels = tensor_of(target, name, "target")
    if not labels.dtype.is_integer:
        rule = "it must be integers: class numbers."
        raise DTypeError(f"{name}: target is {labels.dtype}", rule=rule)
    expected = (*x.shape[:axis], *x.shape[axis + 1 :])
    if labels.shape != expected:
        raise ShapeError(
            f"{name}: target has shape {shape_text(labels.shape)}, input {shape_text(x.shape)}",
            rule=f"class numbers have the shape of the input without its axis {axis}, the classes: "
            f"{shape_text(expected)}.",
            hint=_hint(name, x, axis, labels),
        )
    return labels


def _hint(name: str, x: Tensor, axis: int, labels: Tensor) -> str:
    if labels.shape == x.shape:
        return f"Is it one-hot? Class numbers are target.argmax({axis})."
    if x.ndim <= 2 or axis == x.ndim - 1:
        return ""
    way = "Say axis=-1" if name == "cross_entropy" else "Move them with input.moveaxis(-1, 1)"
    return f"Are the classes along the last axis? {way}."


def _counting(labels: Tensor, ignore_index: Any, name: str) -> tuple[Tensor | None, Tensor]:
    """Where labels count (None: everywhere), and labels that are classes also elsewhere."""
    if ignore_index is None:
        return None, labels
    ignored = integer(ignore_index, name, "ignore_index")
    if ignored < 0 and not labels.dtype.is_signed:
        return None, labels
    counts = labels != ignored
    return counts, where(counts, labels, 0)


def _reduced(losses: Tensor, counts: Tensor | None, shares: Tensor | None, reduction: str) -> Tensor:
    """The mean is by the weights of the labels that count."""
    if counts is not None:
        losses = where(counts, losses, 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    if counts is None and shares is None:
        return losses.mean()
    if shares is None:
        assert counts is not None
        return losses.sum() / counts.astype(losses.dtype).sum()
    return losses.sum() / (shares if counts is None else where(counts, shares, 0.0)).sum()


def _by_probabilities(
    x: Tensor, target: Tensor, axis: int, factors: Tensor | None, smoothing: float, reduction: str
) -> Tensor:
    if target.shape != x.shape:
        raise ShapeError(
            f"cross_entropy: target has shape {shape_text(target.shape)}, input {shape_text(x.shape)}",
            rule="probabilities have the shape of the input.",
            hint="Class numbers must be integers: target.astype(sm.int64).",
        )
    shares = target.astype(x.dtype)
    if smoothing:
        shares = (1 - smoothing) * shares + smoothing / x.shape[axis]
    logs = -log_softmax(x, axis) * shares
    return reduced((logs if factors is None else logs * _along(factors, x, axis)).sum(axis), reduction)
