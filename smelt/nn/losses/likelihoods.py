"""Negative logarithms of how likely the targets are, and differences of distributions."""

from __future__ import annotations

import math

from smelt.errors import ShapeError
from smelt.graph import shape_text
from smelt.nn.losses.checks import above, floats, matching, reduced, reduction_of, tensor_of, wide
from smelt.tensor import Tensor, broadcast_shapes, broadcast_to, flag, softplus, where, xlogy, zeros
from smelt.transform.custom import stop_gradient

LEAST_LOGARITHM = -100.0  # so that a probability of 0 does not make a whole batch infinite; PyTorch's
LEAST_SHARE = 1e-12  # in the slope of a logarithm; PyTorch's


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The negative log-likelihood of targets between 0 and 1, given probabilities. Logarithms stop at -100.

    >>> import smelt as sm
    >>> loss = sm.nn.losses.binary_cross_entropy(sm.asarray([0.5, 0.25]), sm.asarray([1.0, 0.0]))
    >>> round(loss.item(), 4)
    0.4904
    """
    name = "binary_cross_entropy"
    reduction_of(reduction, name)
    x, y = matching(input, target, name)
    p, t = wide(x), wide(y)
    losses = -(t * _logarithm(p) + (1 - t) * _logarithm(1 - p))
    return reduced(_weighted(losses.astype(x.dtype), weight, name, "weight"), reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid of `input`, without loss of accuracy. `pos_weight` counts ones more, or
    less, than zeros.

    >>> import smelt as sm
    >>> loss = sm.nn.losses.binary_cross_entropy_with_logits(sm.asarray([0.0, -1.0]), sm.asarray([1.0, 0.0]))
    >>> round(loss.item(), 4)
    0.5032
    """
    name = "binary_cross_entropy_with_logits"
    reduction_of(reduction, name)
    x, y = matching(input, target, name)
    less = softplus(-x)  # -log(sigmoid(x))
    if pos_weight is not None:
        less = _weighted(less, 1 + (floats(pos_weight, name, "pos_weight") - 1) * y, name, "pos_weight")
    return reduced(_weighted((1 - y) * x + less, weight, name, "weight"), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), where targets are 1 and -1.

    >>> import smelt as sm
    >>> round(sm.nn.losses.soft_margin_loss(sm.asarray([0.0, 2.0]), sm.asarray([1.0, -1.0])).item(), 4)
    1.41
    """
    reduction_of(reduction, "soft_margin_loss")
    x, y = matching(input, target, "soft_margin_loss")
    return reduced(softplus(-y * x), reduction)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), where `input` holds logarithms, and so does `target` with `log_target`.

    The sum of a row is the divergence of two distributions; `reduction="batchmean"` gives the mean of those.

    >>> import smelt as sm
    >>> halves, shares = sm.asarray([[0.5, 0.5]]), sm.asarray([[0.25, 0.75]])
    >>> round(sm.nn.losses.kl_div(shares.log(), halves, reduction="batchmean").item(), 4)
    0.1438
    """
    name = "kl_div"
    reduction_of(reduction, name, ("batchmean",))
    x, y = matching(input, target, name)
    losses = y.exp() * (y - x) if flag(log_target, name, "log_target") else xlogy(y, y) - y * x
    if reduction != "batchmean":
        return reduced(losses, reduction)
    if not x.ndim:
        raise ShapeError(f"{name}: the mean over a batch of a scalar", hint='Use reduction="mean" or an axis more.')
    total: Tensor = losses.sum() / x.shape[0]
    return total


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts, given their rates, or with `log_input` the logarithms of those.

    The term log(target!) is left out, as it does not depend on the input; with `full` Stirling's formula stands for
    it.

    >>> import smelt as sm
    >>> sm.nn.losses.poisson_nll_loss(sm.asarray([0.0, 0.0]), sm.asarray([2.0, 3.0])).item()
    1.0
    """
    name = "poisson_nll_loss"
    reduction_of(reduction, name)
    above(eps, name, "eps")
    x, y = matching(input, target, name)
    losses = x.exp() - y * x if flag(log_input, name, "log_input") else x - y * (x + eps).log()
    if flag(full, name, "full"):
        large = where(y > 1, y, 1.0)  # where it is not, the logarithm must stay finite for its derivative
        stirling = large * large.log() - large + 0.5 * (2 * math.pi * large).log()
        losses = losses + where(y > 1, stirling, 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of numbers, given their means and variances, without the constant term unless `full`.

    Variances have the shape of the means, that shape without its last axis or with 1 there, or are one number.
    Those below `eps` count as `eps`.

    >>> import smelt as sm
    >>> mean, variance = sm.asarray([0.0, 1.0]), sm.asarray([1.0, 1.0])
    >>> sm.nn.losses.gaussian_nll_loss(mean, sm.asarray([1.0, 1.0]), variance).item()
    0.25
    """
    name = "gaussian_nll_loss"
    reduction_of(reduction, name)
    above(eps, name, "eps")
    x, y = matching(input, target, name)
    variance = _variance(x, var, name)
    variance = variance + stop_gradient(variance.clip(min=eps) - variance)
    losses = 0.5 * (variance.log() + (x - y).square() / variance)
    if flag(full, name, "full"):
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


def _variance(x: Tensor, var: Tensor | float, name: str) -> Tensor:
    if isinstance(var, int | float) and not isinstance(var, bool):
        return zeros((), dtype=x.dtype) + above(var, name, "var", strictly=False)
    variance = floats(var, name, "var")
    if variance.shape == x.shape[:-1] and variance.shape != x.shape:
        variance = variance.expand_dims(-1)
    if variance.shape not in (x.shape, (*x.shape[:-1], 1)):
        raise ShapeError(
            f"{name}: var has shape {shape_text(variance.shape)}, input {shape_text(x.shape)}",
            rule="it must be the same, the same without the last axis, or with 1 there.",
        )
    return variance


def _logarithm(p: Tensor) -> Tensor:
    """log(p), but not below -100, with a finite slope."""
    safe = p + stop_gradient(where(p < LEAST_SHARE, LEAST_SHARE - p, 0.0))
    value = where(p > 0, where(p > 0, p, 1.0).log(), LEAST_LOGARITHM).clip(min=LEAST_LOGARITHM)
    logarithm = safe.log()
    found: Tensor = logarithm + stop_gradient(where(p < LEAST_SHARE, value - logarithm, 0.0))
    return found


def _weighted(losses: Tensor, weight: Tensor | None, name: str, what: str) -> Tensor:
    """Each loss times its weight, which broadcasts to the losses."""
    if weight is None:
        return losses
    factor = tensor_of(weight, name, what)
    try:
        fits = broadcast_shapes(losses.shape, factor.shape) == losses.shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(factor.shape)}, the losses {shape_text(losses.shape)}",
            rule="it must broadcast to them.",
        )
    return losses * broadcast_to(factor.astype(losses.dtype), losses.shape)
