"""The nonlinearities of neural networks. Formulas of several steps on 16-bit floats round once, at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError
from smelt.graph import build
from smelt.graph.node import Node
from smelt.graph.shapes import normalized_axis
from smelt.tensor.arguments import axis_or_dim
from smelt.tensor.handle import floating, node_of, widened, wrap
from smelt.tensor.types import DT, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


def _formula(x: Tensor[DT, *S], name: str, formula: Callable[[Node], Node]) -> Tensor[Any, *S]:
    node = floating(x, name)
    return wrap(build.cast(formula(widened(node)), node.dtype))


def relu(x: Tensor[DT, *S], /) -> Tensor[DT, *S]:
    """x where it is positive, else 0."""
    node = node_of(x, "relu")
    return wrap(build.binary("max", node, build.const(0, node.dtype), name="relu"))


def leaky_relu(x: Tensor[DT, *S], /, negative_slope: float = 0.01) -> Tensor[Any, *S]:
    """x where it is positive, else `negative_slope * x`."""

    def formula(node: Node) -> Node:
        return build.where(_positive(node), node, build.scale(node, negative_slope))

    return _formula(x, "leaky_relu", formula)


def elu(x: Tensor[DT, *S], /, alpha: float = 1.0) -> Tensor[Any, *S]:
    """x where it is positive, else `alpha * (exp(x) - 1)`."""

    def formula(node: Node) -> Node:
        return build.where(_positive(node), node, build.scale(build.unary("expm1", node), alpha))

    return _formula(x, "elu", formula)


def sigmoid(x: Tensor[DT, *S], /) -> Tensor[Any, *S]:
    """1 / (1 + exp(-x))."""

    def formula(node: Node) -> Node:
        return build.reciprocal(build.shift(build.exp(build.neg(node)), 1))

    return _formula(x, "sigmoid", formula)


def softplus(x: Tensor[DT, *S], /) -> Tensor[Any, *S]:
    """log(1 + exp(x)), without overflow."""

    def formula(node: Node) -> Node:
        tail = build.unary("log1p", build.exp(build.neg(build.unary("abs", node))))
        return build.add(build.maximum(node, build.const(0, node.dtype)), tail)

    return _formula(x, "softplus", formula)


def gelu(x: Tensor[DT, *S], /, approximate: str = "none") -> Tensor[Any, *S]:
    """x times the normal distribution's share below x; `approximate="tanh"` is the usual approximation."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return wrap(build.composite("gelu", floating(x, "gelu"), approximate=approximate))


def silu(x: Tensor[DT, *S], /) -> Tensor[Any, *S]:
    """x * sigmoid(x)."""
    return wrap(build.composite("silu", floating(x, "silu")))


def softmax(x: Tensor[DT, *S], /, axis: int | None = None, *, dim: int | None = None) -> Tensor[Any, *S]:
    """exp(x) divided by its sum along an axis (the last one, unless given)."""
    return _along("softmax", x, axis, dim)


def log_softmax(x: Tensor[DT, *S], /, axis: int | None = None, *, dim: int | None = None) -> Tensor[Any, *S]:
    """The logarithm of `softmax`, without loss of accuracy for small shares."""
    return _along("log_softmax", x, axis, dim)


def _along(name: str, x: Tensor[DT, *S], axis: int | None, dim: int | None) -> Tensor[Any, *S]:
    node = floating(x, name)
    number = normalized_axis(axis_or_dim(axis, dim, name, default=-1), len(node.shape), name)
    return wrap(build.composite(name, node, axis=number))


def _positive(node: Node) -> Node:
    return build.lt(build.const(0, node.dtype, node.shape), node)
