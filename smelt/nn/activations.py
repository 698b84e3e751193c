"""Nonlinearities as modules: a class for each, which says what function it is and what its settings are."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from smelt.errors import ArgumentError
from smelt.nn.module import Module
from smelt.nn.sizes import count, not_negative, refuse_tensors, tensor, with_rank
from smelt.tensor import Tensor, clip, full, integer, random, real_number, tanh, where, zeros
from smelt.tensor import abs as absolute
from smelt.tensor.networks import activations as functions

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Activation(Module):
    """A function of one tensor. `inplace` is taken as PyTorch takes it; tensors never change."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, inplace: bool = False) -> None:
        refuse_tensors(type(self).__name__, [inplace])

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(tensor(x))


# --- without settings


class ReLU(_Activation):
    """x where it is positive, else 0.

    >>> import smelt as sm
    >>> sm.nn.ReLU()(sm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    function = functions.relu


class ReLU6(_Activation):
    """x, but not below 0 and not above 6."""

    function = functions.relu6


class SELU(_Activation):
    """`ELU` scaled so that the outputs of a deep network keep mean 0 and variance 1."""

    function = functions.selu


class SiLU(_Activation):
    """x * sigmoid(x)."""

    function = functions.silu


class Mish(_Activation):
    """x * tanh(softplus(x))."""

    function = functions.mish


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    function = functions.sigmoid


class LogSigmoid(_Activation):
    """The logarithm of the sigmoid, without loss where that is small."""

    function = functions.log_sigmoid


class Tanh(_Activation):
    """The hyperbolic tangent."""

    function = tanh


class Hardsigmoid(_Activation):
    """(x + 3) / 6, but not below 0 and not above 1."""

    function = functions.hard_sigmoid


class Hardswish(_Activation):
    """x * hardsigmoid(x)."""

    function = functions.hard_swish


class Softsign(_Activation):
    """x / (1 + abs(x))."""

    function = functions.softsign


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    function = functions.tanhshrink


# --- with settings


class _Adjustable(_Activation):
    """A function with settings, which are its arguments after the first."""

    settings: ClassVar[tuple[str, ...]]

    def _set(self, *values: float | str) -> None:
        for name, value in zip(self.settings, values, strict=True):
            setattr(self, name, value)
        self._applied(zeros(()))  # so that a mistake shows here, and not at the first call

    def __call__(self, x: Tensor) -> Tensor:
        return self._applied(tensor(x))

    def _applied(self, x: Tensor) -> Tensor:
        return type(self).function(x, *[getattr(self, name) for name in self.settings])


class LeakyReLU(_Adjustable):
    """x where it is positive, else `negative_slope * x`.

    >>> import smelt as sm
    >>> sm.nn.LeakyReLU(0.5)
    LeakyReLU(negative_slope=0.5)
    >>> sm.nn.LeakyReLU(0.5)(sm.asarray([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    function, settings = functions.leaky_relu, ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self._set(negative_slope)


class ELU(_Adjustable):
    """x where it is positive, else `alpha * (exp(x) - 1)`."""

    function, settings = functions.elu, ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha)


class CELU(_Adjustable):
    """x where it is positive, else `alpha * (exp(x / alpha) - 1)`, which is smooth at 0."""

    function, settings = functions.celu, ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha)


class GELU(_Adjustable):
    """x times the normal distribution's share below x; approximated with "tanh", or "quick" by a sigmoid."""

    function, settings = functions.gelu, ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        self._set(approximate)


class Hardtanh(_Adjustable):
    """x, but not below `min_val` and not above `max_val`."""

    function, settings = functions.hard_tanh, ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self._set(min_val, max_val)


class Threshold(_Adjustable):
    """x where it is above the threshold, else the value."""

    function, settings = functions.threshold, ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._set(threshold, value)


def _softplus(x: Tensor, beta: float, threshold: float) -> Tensor:
    slope, limit = real_number(beta, "Softplus", "beta"), real_number(threshold, "Softplus", "threshold")
    if not slope:
        raise ArgumentError("Softplus: beta is 0", rule="the result is divided by it.")
    if slope == 1:
        return where(x > limit, x, functions.softplus(x))
    return where(x * slope > limit, x, functions.softplus(x * slope) / slope)


class Softplus(_Adjustable):
    """log(1 + exp(beta * x)) / beta, without overflow; x where beta * x is above the threshold."""

    function, settings = _softplus, ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._set(beta, threshold)


def _softshrink(x: Tensor, lambd: float) -> Tensor:
    limit = not_negative(lambd, "Softshrink", "lambd")
    return x - clip(x, -limit, limit)


class Softshrink(_Adjustable):
    """x moved by `lambd` towards 0, which it does not pass."""

    function, settings = _softshrink, ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        self._set(lambd)


def _hardshrink(x: Tensor, lambd: float) -> Tensor:
    return where(absolute(x) <= real_number(lambd, "Hardshrink", "lambd"), 0.0, x)


class Hardshrink(_Adjustable):
    """x where it is beyond -lambd and lambd, else 0."""

    function, settings = _hardshrink, ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        self._set(lambd)


# --- along an axis


class _Along(_Activation):
    """A function along an axis, the last one unless given."""

    def __init__(self, dim: int | None = None) -> None:
        self.dim = None if dim is None else integer(dim, type(self).__name__, "dim")

    def __call__(self, x: Tensor) -> Tensor:
        return type(self).function(tensor(x), dim=self.dim)


class Softmax(_Along):
    """exp(x) divided by its sum along an axis, the last one unless given.

    >>> import smelt as sm
    >>> sm.nn.Softmax(dim=1)(sm.zeros(1, 4)).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    function = functions.softmax


class LogSoftmax(_Along):
    """The logarithm of the softmax along an axis, the last one unless given."""

    function = functions.log_softmax


class Softmin(_Along):
    """The softmax of -x along an axis, the last one unless given."""

    function = functions.softmin


class GLU(_Along):
    """The first half of x along an axis, the last one unless given, times the sigmoid of the second half."""

    function = functions.glu


class Softmax2d(Module):
    """The softmax over the channels of (batch, channels, height, width); the batch may be missing."""

    def __call__(self, x: Tensor) -> Tensor:
        return with_rank(x, (3, 4), "Softmax2d", "(batch), channels, height and width").softmax(-3)


# --- with a slope that is learned, or drawn


class PReLU(Module):
    """x where it is positive, else weight * x; the weight is learned, one for all channels (axis 1) or for each.

    >>> import smelt as sm
    >>> sm.nn.PReLU()(sm.asarray([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.num_parameters = count(num_parameters, "PReLU", "num_parameters", 1)
        self.weight = full((num_parameters,), float(real_number(init, "PReLU", "init")))

    def __call__(self, x: Tensor) -> Tensor:
        return functions.prelu(tensor(x), self.weight)


class RReLU(Module):
    """x where it is positive, else a slope times x: in training drawn evenly between `lower` and `upper` for each
    element, as `Dropout` draws; else the middle of the two.

    >>> import smelt as sm
    >>> sm.nn.RReLU(0.25, 0.75).eval()(sm.asarray([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        self.lower, self.upper = real_number(lower, "RReLU", "lower"), real_number(upper, "RReLU", "upper")
        if not self.lower <= self.upper:
            raise ArgumentError(f"RReLU: lower is {lower} and upper is {upper}", rule="lower must not be larger.")

    def __call__(self, x: Tensor, key: Tensor | None = None) -> Tensor:
        x = tensor(x)
        if not self.training:
            return functions.leaky_relu(x, (self.lower + self.upper) / 2)
        return where(x > 0, x, x * random.uniform(x.shape, self.lower, self.upper, key=key).astype(x.dtype))
