"""Losses of vectors and scores that should be near to, or far from, each other."""

from __future__ import annotations

from typing import Any

from smelt.errors import ShapeError
from smelt.graph import shape_text
from smelt.nn.losses.checks import above, matching, number, reduced, reduction_of, tensor_of
from smelt.tensor import Tensor, flag, vector_norm, where

LEAST_SQUARE = 1e-12  # added to squares of lengths that are divided by; PyTorch's


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """By how much the positive is not closer to the anchor than the negative by the margin.

    Distances are along the last axis, by the norm `p`, of differences plus `eps`. With `swap` the negative's is its
    smaller one, to the anchor or to the positive.

    >>> import smelt as sm
    >>> a, b, c = sm.asarray([[0.0, 0.0]]), sm.asarray([[0.0, 1.0]]), sm.asarray([[1.5, 0.0]])
    >>> round(sm.nn.losses.triplet_margin_loss(a, b, c).item(), 4)
    0.5
    """
    name = "triplet_margin_loss"
    reduction_of(reduction, name)
    above(margin, name, "margin")
    above(p, name, "p")
    above(eps, name, "eps", strictly=False)
    a, near = matching(anchor, positive, name, ("anchor", "positive"))
    a, far = matching(anchor, negative, name, ("anchor", "negative"))
    if not a.ndim:
        raise ShapeError(f"{name}: anchor is a scalar", rule="vectors lie along the last axis.")
    distance = vector_norm(a - far + eps, axis=-1, ord=p)
    if flag(swap, name, "swap"):
        distance = distance.minimum(vector_norm(near - far + eps, axis=-1, ord=p))
    return reduced((margin + vector_norm(a - near + eps, axis=-1, ord=p) - distance).clip(min=0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """By how much the first score is not above the second by the margin where the target is 1; below, where it is -1.

    >>> import smelt as sm
    >>> one, other = sm.asarray([1.0, 2.0]), sm.asarray([2.0, 0.0])
    >>> sm.nn.losses.margin_ranking_loss(one, other, sm.asarray([1.0, 1.0]), reduction="none").tolist()
    [1.0, 0.0]
    """
    name = "margin_ranking_loss"
    reduction_of(reduction, name)
    number(margin, name, "margin")
    first, second = matching(input1, input2, name, ("input1", "input2"))
    first, sign = matching(input1, target, name, ("input1", "target"))
    return reduced((margin - sign * (first - second)).clip(min=0.0), reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """The distance itself where the target is 1; by how much it is below the margin where the target is -1.

    >>> import smelt as sm
    >>> sm.nn.losses.hinge_embedding_loss(sm.asarray([0.5, 0.25]), sm.asarray([1.0, -1.0]), reduction="none").tolist()
    [0.5, 0.75]
    """
    name = "hinge_embedding_loss"
    reduction_of(reduction, name)
    number(margin, name, "margin")
    x, y = matching(input, target, name)
    return reduced(where(y != 1, (margin - x).clip(min=0.0), 0.0) + where(y != -1, x, 0.0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 less the cosine of the angle of two vectors where the target is 1; how far that is above the margin for -1.

    Vectors lie along the last axis of (batch, features) or (features).

    >>> import smelt as sm
    >>> one, other = sm.asarray([[1.0, 0.0], [1.0, 0.0]]), sm.asarray([[0.0, 1.0], [2.0, 0.0]])
    >>> sm.nn.losses.cosine_embedding_loss(one, other, sm.asarray([1, -1]), reduction="none").tolist()
    [1.0, 1.0]
    """
    name = "cosine_embedding_loss"
    reduction_of(reduction, name)
    number(margin, name, "margin")
    first, second = matching(input1, input2, name, ("input1", "input2"))
    sign = _signs(first, target, name)
    squares = (first.square().sum(-1) + LEAST_SQUARE) * (second.square().sum(-1) + LEAST_SQUARE)
    cosine = (first * second).sum(-1) / squares.sqrt()
    return reduced(where(sign == 1, 1 - cosine, where(sign == -1, (cosine - margin).clip(min=0.0), 0.0)), reduction)


def _signs(x: Tensor, target: Any, name: str) -> Tensor:
    """The targets, one for each vector."""
    signs = tensor_of(target, name, "target")
    if x.ndim not in (1, 2) or signs.shape != x.shape[:-1]:
        raise ShapeError(
            f"{name}: target has shape {shape_text(signs.shape)}, the inputs {shape_text(x.shape)}",
            rule="inputs are (batch, features) or (features), and the target has the shape without the features.",
        )
    return signs
