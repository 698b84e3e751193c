"""First weights of layers. A weight has shape (outputs, inputs, …); the axes after the first two are those of a kernel.

The fan is the number of inputs (or outputs) that one output (or input) is connected with: its axis times the kernel's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, Shape, build, shape_text
from smelt.tensor.arguments import as_shape, real_number
from smelt.tensor.handle import wrap
from smelt.tensor.random import generator
from smelt.tensor.random.arguments import NOT_NEGATIVE, float_dtype
from smelt.tensor.random.tails import truncated_normal
from smelt.tensor.types import DTypeLike, ShapeLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

# What keeps the variance of signals through each function.
_GAINS = {
    "linear": 1.0,
    "conv": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def kaiming_uniform(
    shape: ShapeLike,
    *,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    a: float = 0.0,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Uniform weights of variance gain**2 / fan; `a` is the slope of leaky_relu below 0.

    >>> w = sm.random.kaiming_uniform((8, 6), nonlinearity="relu")
    >>> bool((sm.abs(w) <= 1).all())
    True
    """
    name = "kaiming_uniform"
    size = as_shape(shape, name)
    std = _gain(nonlinearity, a, name) / math.sqrt(_fan(size, mode, name))
    return _uniform(size, std, dtype, key, name)


def kaiming_normal(
    shape: ShapeLike,
    *,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    a: float = 0.0,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Normal weights of variance gain**2 / fan; `a` is the slope of leaky_relu below 0.

    >>> sm.random.kaiming_normal((16, 3, 3, 3), mode="fan_out").shape
    (16, 3, 3, 3)
    """
    name = "kaiming_normal"
    size = as_shape(shape, name)
    std = _gain(nonlinearity, a, name) / math.sqrt(_fan(size, mode, name))
    return _normal(size, std, dtype, key, name)


def xavier_uniform(
    shape: ShapeLike, gain: float = 1.0, *, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None
) -> Tensor:
    """Uniform weights of variance gain**2 * 2 / (fan_in + fan_out).

    >>> bool((sm.abs(sm.random.xavier_uniform((3, 3))) <= 1).all())
    True
    """
    name = "xavier_uniform"
    size = as_shape(shape, name)
    return _uniform(size, _number(gain, name, "the gain") * _balance(size, name), dtype, key, name)


def xavier_normal(
    shape: ShapeLike, gain: float = 1.0, *, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None
) -> Tensor:
    """Normal weights of variance gain**2 * 2 / (fan_in + fan_out).

    >>> sm.random.xavier_normal((4, 2)).shape
    (4, 2)
    """
    name = "xavier_normal"
    size = as_shape(shape, name)
    return _normal(size, _number(gain, name, "the gain") * _balance(size, name), dtype, key, name)


def lecun_uniform(shape: ShapeLike, *, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None) -> Tensor:
    """Uniform weights of variance 1 / fan_in.

    >>> sm.random.lecun_uniform((4, 2)).shape
    (4, 2)
    """
    size = as_shape(shape, "lecun_uniform")
    return _uniform(size, 1.0 / math.sqrt(_fan(size, "fan_in", "lecun_uniform")), dtype, key, "lecun_uniform")


def lecun_normal(shape: ShapeLike, *, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None) -> Tensor:
    """Normal weights of variance 1 / fan_in.

    >>> sm.random.lecun_normal((4, 2)).shape
    (4, 2)
    """
    size = as_shape(shape, "lecun_normal")
    return _normal(size, 1.0 / math.sqrt(_fan(size, "fan_in", "lecun_normal")), dtype, key, "lecun_normal")


def truncated(
    shape: ShapeLike,
    mean: float = 0.0,
    std: float = 1.0,
    lower: float = -2.0,
    upper: float = 2.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Normal weights between two bounds: `truncated_normal` with the arguments in the order of PyTorch's initializer.

    >>> bool((sm.abs(sm.random.truncated((5, 5), std=0.02, lower=-0.04, upper=0.04)) <= 0.04).all())
    True
    """
    if shape is None:  # which there means a shape from the parameters
        raise ArgumentError("truncated: weights need a shape", hint="Give a tuple of sizes.")
    return truncated_normal(shape, lower, upper, mean, std, dtype=dtype, key=key)


def _gain(nonlinearity: str, slope: float, name: str) -> float:
    if nonlinearity == "leaky_relu":
        steepness = float(real_number(slope, name, "a"))
        return math.sqrt(2.0 / (1.0 + steepness * steepness))
    if nonlinearity not in tuple(_GAINS):
        raise ArgumentError(
            f"{name}: there is no gain for {nonlinearity!r}", hint=f"Use one of: leaky_relu, {', '.join(_GAINS)}."
        )
    return _GAINS[nonlinearity]


def _number(value: Any, name: str, what: str) -> float:
    number = float(real_number(value, name, what))
    if not NOT_NEGATIVE[1](number):
        raise ArgumentError(f"{name}: {what} must be at least 0, got {value!r}")
    return number


def _sizes(shape: Shape, name: str) -> list[int]:
    """The sizes of a weight."""
    if len(shape) < 2:
        raise ShapeError(
            f"{name}: shape {shape_text(shape)} has no fan", rule="weights have at least two axes: outputs and inputs."
        )
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        raise ShapeError(f"{name}: shape {shape_text(shape)} is not known", rule="weights have known sizes.")
    return sizes


def _fans(shape: Shape, name: str) -> tuple[int, int]:
    """fan_in and fan_out, at least 1."""
    outputs, inputs, *kernel = _sizes(shape, name)
    return max(1, inputs * math.prod(kernel)), max(1, outputs * math.prod(kernel))


def _fan(shape: Shape, mode: str, name: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ArgumentError(f"{name}: the mode must be fan_in or fan_out, got {mode!r}")
    return _fans(shape, name)[modes.index(mode)]


def _balance(shape: Shape, name: str) -> float:
    return math.sqrt(2.0 / sum(_fans(shape, name)))


def bounded(bound: float, *shapes: Shape) -> list[Tensor]:
    """Numbers spread evenly from -bound to bound, a tensor for each shape: what most layers begin with. The same as one
    `uniform` after the other, for layers that wait for theirs.
    """
    return [wrap(x) for x in generator.draw_each("uniform", dtypes.float32, shapes, None, "uniform", 2 * bound, -bound)]


def _uniform(shape: Shape, std: float, dtype: DTypeLike, key: Any, name: str) -> Tensor:
    wanted = float_dtype(dtype, name)
    inside = dtypes.compute_dtype(wanted)
    bound = math.sqrt(3.0) * std
    return wrap(build.cast(generator.draw("uniform", inside, shape, key, name, 2.0 * bound, -bound), wanted))


def _normal(shape: Shape, std: float, dtype: DTypeLike, key: Any, name: str) -> Tensor:
    wanted = float_dtype(dtype, name)
    inside: DType = dtypes.compute_dtype(wanted)
    return wrap(build.cast(generator.draw("normal", inside, shape, key, name, std), wanted))


# --- orthogonal matrices

# A quintic that takes numbers in (0, 1] to near 1 when repeated: small ones grow by its first coefficient at each step.
_GROWTH = (3.4445, -4.7750, 2.0315)
_GROWTH_STEPS = 20  # enough for singular values of 1e-10 of the largest
_NEWTON_STEPS = 6


def orthogonal(
    shape: ShapeLike, gain: float = 1.0, *, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None
) -> Tensor:
    """A random matrix with orthonormal rows (or columns, if it has more rows), times `gain`; every one equally likely.

    More axes are taken as one, as in the weight of a convolution.

    >>> q = sm.random.orthogonal((3, 3))
    >>> bool((sm.abs(q @ q.T - sm.eye(3)) < 1e-5).all())
    True
    """
    name = "orthogonal"
    wanted = float_dtype(dtype, name)
    size = as_shape(shape, name)
    factor = _number(gain, name, "the gain")
    rows, *others = _sizes(size, name)
    columns = math.prod(others)
    node = generator.draw("normal", dtypes.float64, (rows, columns), key, name)
    if rows and columns:
        tall = node if rows >= columns else build.permute(node, (1, 0))
        polar = _polar(tall, min(rows, columns))
        node = polar if rows >= columns else build.permute(polar, (1, 0))
    return wrap(build.reshape(build.cast(build.scale(node, factor), wanted), size))


def _polar(x: Node, count: int) -> Node:
    """The orthonormal factor of the polar decomposition of a tall matrix; of a Gaussian one it is uniform (Haar).

    Every step is an odd polynomial of the singular values: first one under which small ones grow fast, then Newton and
    Schulz's, which doubles the digits of those near 1.
    """
    square = build.reduce("add", build.mul(x, x), (0, 1))
    x = build.mul(x, build.rsqrt(square))
    identity = _identity(count, x.dtype)
    for step in range(_GROWTH_STEPS + _NEWTON_STEPS):
        gram = build.matmul(build.permute(x, (1, 0)), x)
        if step < _GROWTH_STEPS:
            linear, cubic, quintic = _GROWTH
            inner = build.add(build.scale(gram, cubic), build.scale(build.matmul(gram, gram), quintic))
        else:
            linear, inner = 1.5, build.scale(gram, -0.5)
        x = build.matmul(x, build.add(build.scale(identity, linear), inner))
    return x


def _identity(count: int, dtype: DType) -> Node:
    rows = build.reshape(build.iota(count, dtypes.int64), (count, 1))
    return build.cast(build.eq(rows, build.reshape(build.iota(count, dtypes.int64), (1, count))), dtype)
