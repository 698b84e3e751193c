"""Losses of numbers that should be near others."""

from __future__ import annotations

from smelt.nn.losses.checks import above, matching, reduced, reduction_of
from smelt.tensor import Tensor, where


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The squares of the differences.

    >>> import smelt as sm
    >>> sm.nn.losses.mse_loss(sm.asarray([1.0, 2.0]), sm.asarray([1.0, 4.0])).item()
    2.0
    """
    reduction_of(reduction, "mse_loss")
    x, y = matching(input, target, "mse_loss")
    return reduced((x - y).square(), reduction)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The absolute differences.

    >>> import smelt as sm
    >>> sm.nn.losses.l1_loss(sm.asarray([1.0, 2.0]), sm.asarray([1.0, 4.0])).item()
    1.0
    """
    reduction_of(reduction, "l1_loss")
    x, y = matching(input, target, "l1_loss")
    return reduced(abs(x - y), reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """`huber_loss` divided by `beta`: absolute differences, but squares where they are below `beta`.

    >>> import smelt as sm
    >>> sm.nn.losses.smooth_l1_loss(sm.asarray([1.0, 2.0]), sm.asarray([1.0, 4.0]), beta=0.5).item()
    0.875
    """
    reduction_of(reduction, "smooth_l1_loss")
    above(beta, "smooth_l1_loss", "beta", strictly=False)
    x, y = matching(input, target, "smooth_l1_loss")
    return reduced(abs(x - y) if beta == 0 else _huber(x - y, beta) / beta, reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squares of the differences, which go on as straight lines beyond `delta`.

    >>> import smelt as sm
    >>> sm.nn.losses.huber_loss(sm.asarray([1.0, 2.0]), sm.asarray([1.0, 4.0])).item()
    0.75
    """
    reduction_of(reduction, "huber_loss")
    above(delta, "huber_loss", "delta")
    x, y = matching(input, target, "huber_loss")
    return reduced(_huber(x - y, delta), reduction)


def _huber(difference: Tensor, delta: float) -> Tensor:
    size = abs(difference)
    return where(size < delta, 0.5 * difference.square(), delta * (size - 0.5 * delta))
