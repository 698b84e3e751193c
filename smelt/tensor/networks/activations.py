"""The nonlinearities of neural networks. Formulas of several steps on 16-bit floats round once, at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, Span, build, shape_text
from smelt.tensor.arguments import one_axis, real_number
from smelt.tensor.handle import common, computed, floating, node_of, pair, widened, wrap
from smelt.tensor.types import DT, Operand, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "swiglu",
    "tanhshrink",
    "threshold",
]


_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805


def _formula(x: Tensor[DT, *S], name: str, formula: Callable[[Node], Node]) -> Tensor[Any, *S]:
    node = floating(x, name)
    return wrap(build.cast(formula(widened(node)), node.dtype))


def relu(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x where it is positive, else 0."""
    node = node_of(x, "relu")
    return wrap(build.binary("max", node, build.const(0, node.dtype), name="relu"))


def leaky_relu(x: Tensor[DT, *S], negative_slope: float = 0.01) -> Tensor[Any, *S]:
    """x where it is positive, else `negative_slope * x`."""
    slope = real_number(negative_slope, "leaky_relu", "negative_slope")

    def formula(node: Node) -> Node:
        return build.where(_positive(node), node, build.scale(node, slope))

    return _formula(x, "leaky_relu", formula)


def prelu(x: Tensor[DT, *S], weight: Operand) -> Tensor[Any, *S]:
    """x where it is positive, else weight * x; a vector of weights has one for each channel (axis 1) of x.

    >>> sm.prelu(sm.asarray([[-1.0, -1.0]]), sm.asarray([0.5, 0.25])).tolist()
    [[-0.5, -0.25]]
    """
    stored, slope = pair(x, weight, "prelu")
    if not stored.dtype.is_float:
        stored, slope = build.cast(stored, dtypes.float32), build.cast(slope, dtypes.float32)
    channels = stored.shape[1] if len(stored.shape) > 1 else 1
    if slope.shape not in ((), (1,), (channels,)):
        raise ShapeError(
            f"prelu: weights of shape {shape_text(slope.shape)} for x of shape {shape_text(stored.shape)}",
            rule="there must be one weight, or a vector with one for each channel (axis 1).",
        )
    if slope.shape and len(stored.shape) > 1:
        slope = build.reshape(slope, (*slope.shape, *(1 for _ in stored.shape[2:])))
    node, factor = widened(stored), widened(slope)
    return wrap(build.cast(build.where(_positive(node), node, build.mul(node, factor)), stored.dtype))


def threshold(x: Tensor[DT, *S], threshold: float, value: float) -> Tensor[DT, *S]:
    """x where it is above the threshold, else the value.

    >>> sm.threshold(sm.asarray([1.0, 3.0]), 2.0, -1.0).tolist()
    [-1.0, 3.0]
    """
    node, limit = pair(x, real_number(threshold, "threshold", "threshold"), "threshold")
    node, other = common(node, pair(x, real_number(value, "threshold", "value"), "threshold")[1], "threshold")
    limit = build.cast(limit, computed(node, "threshold").dtype)
    keep = build.unary("not", build.le(node, limit))  # NaN is not below, so it stays
    return wrap(build.where(keep, node, other))


def relu6(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x, but not below 0 and not above 6.

    >>> sm.relu6(sm.asarray([-1.0, 3.0, 8.0])).tolist()
    [0.0, 3.0, 6.0]
    """
    return _between(x, 0, 6, "relu6")


def hard_tanh(x: Tensor[DT, *S], min_val: float = -1.0, max_val: float = 1.0) -> Tensor[DT, *S]:
    """x, but not below `min_val` and not above `max_val`.

    >>> sm.hard_tanh(sm.asarray([-2.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    low, high = real_number(min_val, "hard_tanh", "min_val"), real_number(max_val, "hard_tanh", "max_val")
    if not low <= high:
        raise ArgumentError(f"hard_tanh: min_val is {low} and max_val is {high}", rule="min_val must not be larger.")
    return _between(x, low, high, "hard_tanh")


def _between(x: Tensor[DT, *S], low: float, high: float, name: str) -> Tensor[DT, *S]:
    node, least = pair(x, low, name)
    most = pair(x, high, name)[1]
    return wrap(build.binary("min", build.binary("max", node, least, name=name), most, name=name))


def hard_sigmoid(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """(x + 3) / 6, but not below 0 and not above 1.

    >>> sm.hard_sigmoid(sm.asarray([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return _formula(x, "hard_sigmoid", _ramp)


def hard_swish(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """x * hard_sigmoid(x).

    >>> sm.hard_swish(sm.asarray([-4.0, 0.0, 4.0])).tolist()
    [-0.0, 0.0, 4.0]
    """
    return _formula(x, "hard_swish", lambda node: build.mul(node, _ramp(node)))


def _ramp(node: Node) -> Node:
    inner = build.maximum(build.shift(node, 3), build.const(0, node.dtype))
    return build.div(build.minimum(inner, build.const(6, node.dtype)), build.const(6, node.dtype, node.shape))


def softsign(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """x / (1 + abs(x)).

    >>> sm.softsign(sm.asarray([1.0, -3.0])).tolist()
    [0.5, -0.75]
    """
    return _formula(x, "softsign", lambda node: build.div(node, build.shift(build.unary("abs", node), 1)))


def tanhshrink(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """x - tanh(x).

    >>> sm.tanhshrink(sm.asarray([0.0, 30.0])).tolist()
    [0.0, 29.0]
    """
    return _formula(x, "tanhshrink", lambda node: build.sub(node, build.tanh(node)))


def celu(x: Tensor[DT, *S], alpha: float = 1.0) -> Tensor[Any, *S]:
    """x where it is positive, else `alpha * (exp(x / alpha) - 1)`, which is smooth at 0.

    >>> sm.celu(sm.asarray([2.0, -1000.0]), alpha=0.5).tolist()
    [2.0, -0.5]
    """
    factor = real_number(alpha, "celu", "alpha")
    if not factor:
        raise ArgumentError("celu: alpha is 0", rule="x is divided by alpha.", hint="Use relu instead.")

    def formula(node: Node) -> Node:
        return build.where(
            _positive(node), node, build.scale(build.unary("expm1", build.scale(node, 1 / factor)), factor)
        )

    return _formula(x, "celu", formula)


def selu(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """`elu` scaled so that the outputs of a deep network keep mean 0 and variance 1.

    >>> sm.selu(sm.asarray([0.0, 1.0])).tolist()
    [0.0, 1.0507010221481323]
    """

    def formula(node: Node) -> Node:
        low = build.scale(build.unary("expm1", node), _SELU_SCALE * _SELU_ALPHA)
        return build.where(_positive(node), build.scale(node, _SELU_SCALE), low)

    return _formula(x, "selu", formula)


def mish(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """x * tanh(softplus(x)).

    >>> sm.mish(sm.asarray([0.0, 20.0])).tolist()
    [0.0, 20.0]
    """
    return _formula(x, "mish", lambda node: build.mul(node, build.tanh(_soft(node))))


def glu(x: Tensor, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """The first half of x along an axis (the last one, unless given) times the sigmoid of the second half.

    >>> sm.glu(sm.asarray([3.0, 0.0])).tolist()
    [1.5]
    """
    first, second, dtype = _halves(x, axis, dim, "glu")
    return wrap(build.cast(build.mul(first, _share(second)), dtype))


def swiglu(x: Tensor, axis: int = -1, *, dim: int | None = None) -> Tensor:
    """`silu` of the first half of x along an axis (the last one, unless given) times the second half.

    >>> sm.swiglu(sm.asarray([0.0, 5.0])).tolist()
    [0.0]
    """
    first, second, dtype = _halves(x, axis, dim, "swiglu")
    return wrap(build.cast(build.mul(build.mul(first, _share(first)), second), dtype))


def _halves(x: Tensor, axis: int, dim: int | None, name: str) -> tuple[Node, Node, DType]:
    node = floating(x, name)
    number = one_axis(axis, dim, len(node.shape), name, default=-1)
    size = node.shape[number]
    if not isinstance(size, int) or size % 2:
        raise ShapeError(
            f"{name}: axis {number} has size {size}",
            rule="its size must be an even number, for two halves.",
        )
    spans = [
        [
            Span(start if at == number else 0, size // 2 if at == number else whole, 1)
            for at, whole in enumerate(node.shape)
        ]
        for start in (0, size // 2)
    ]
    first, second = (widened(build.slice_(node, span)) for span in spans)
    return first, second, node.dtype


def elu(x: Tensor[DT, *S], alpha: float = 1.0) -> Tensor[Any, *S]:
    """x where it is positive, else `alpha * (exp(x) - 1)`."""
    factor = real_number(alpha, "elu", "alpha")

    def formula(node: Node) -> Node:
        return build.where(_positive(node), node, build.scale(build.unary("expm1", node), factor))

    return _formula(x, "elu", formula)


def sigmoid(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """1 / (1 + exp(-x))."""

    return _formula(x, "sigmoid", _share)


def _size(node: Node) -> tuple[Node, Node]:
    """|x|, and where x is negative. Written as a choice: the slope of `abs` at 0 is 0, which is wrong in formulas that
    are smooth there.
    """
    negative = build.lt(node, build.const(0, node.dtype))
    return build.where(negative, build.neg(node), node), negative


def _share(node: Node) -> Node:
    """The sigmoid, with an exponential that cannot overflow: small results keep their digits."""
    size, negative = _size(node)
    power = build.exp(build.neg(size))
    return build.div(build.where(negative, power, build.const(1, node.dtype)), build.shift(power, 1))


def log_sigmoid(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The logarithm of `sigmoid`, without loss where that is small.

    >>> sm.log_sigmoid(sm.asarray([0.0, -1000.0])).tolist()
    [-0.6931471824645996, -1000.0]
    """

    def formula(node: Node) -> Node:
        size, negative = _size(node)
        tail = build.unary("log1p", build.exp(build.neg(size)))
        return build.sub(build.where(negative, node, build.const(0, node.dtype)), tail)

    return _formula(x, "log_sigmoid", formula)


def softplus(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """log(1 + exp(x)), without overflow."""

    return _formula(x, "softplus", _soft)


def _soft(node: Node) -> Node:
    size, negative = _size(node)
    tail = build.unary("log1p", build.exp(build.neg(size)))
    return build.add(build.where(negative, build.const(0, node.dtype), node), tail)


def gelu(x: Tensor[DT, *S], approximate: str = "none") -> Tensor[Any, *S]:
    """x times the normal distribution's share below x; approximated with `"tanh"`, or `"quick"` by a sigmoid."""
    if approximate not in ("none", "tanh", "quick"):
        raise ArgumentError(f"gelu: approximate must be 'none', 'tanh' or 'quick', got {approximate!r}")
    if approximate == "quick":
        return _formula(x, "gelu", lambda node: build.mul(node, _share(build.scale(node, 1.702))))
    return wrap(build.composite("gelu", floating(x, "gelu"), approximate=approximate))


def silu(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """x * sigmoid(x)."""
    return wrap(build.composite("silu", floating(x, "silu")))


def softmin(x: Tensor[DT, *S], axis: int = -1, *, dim: int | None = None) -> Tensor[Any, *S]:
    """`softmax` of -x: the smallest element gets the largest share.

    >>> sm.softmin(sm.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _along("softmax", wrap(build.neg(floating(x, "softmin"))), axis, dim, "softmin")


def softmax(x: Tensor[DT, *S], axis: int = -1, *, dim: int | None = None) -> Tensor[Any, *S]:
    """exp(x) divided by its sum along an axis (the last one, unless given)."""
    return _along("softmax", x, axis, dim)


def log_softmax(x: Tensor[DT, *S], axis: int = -1, *, dim: int | None = None) -> Tensor[Any, *S]:
    """The logarithm of `softmax`, without loss of accuracy for small shares."""
    return _along("log_softmax", x, axis, dim)


def _along(name: str, x: Tensor[DT, *S], axis: int, dim: int | None, called: str = "") -> Tensor[Any, *S]:
    node = floating(x, called or name)
    number = one_axis(axis, dim, len(node.shape), called or name, default=-1)
    return wrap(build.composite(name, node, axis=number))


def _positive(node: Node) -> Node:
    return build.lt(build.const(0, node.dtype, node.shape), node)
