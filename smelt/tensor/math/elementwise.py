"""Functions of one, two or three tensors, element by element, with broadcasting and dtype promotion.

Functions of one tensor that only exist for real numbers give float32 for integers and bools. Everything here can be
used as a function and as a method of the same name.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Final, overload

from smelt import dtypes
from smelt.errors import ArgumentError
from smelt.graph import Node, alias, build, constant_of, pairs
from smelt.tensor.arguments import integer
from smelt.tensor.complexes import whole_power
from smelt.tensor.handle import all_common, computed, floating, is_weak, node_of, pair, widened, wrap
from smelt.tensor.index.nonzero import nonzero
from smelt.tensor.types import DT, Operand, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "real",
    "imag",
    "conj",
    "complex",
    "angle",
    "abs",
    "add",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "cos",
    "divide",
    "divmod",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


# --- one tensor


def _real(function: str, x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    return wrap(build.unary(function, floating(x, function)))


def _whole(function: str, x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    node = node_of(x, function)
    return wrap(node if node.dtype.is_integer else build.unary(function, node))


def negative(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """-x."""
    return wrap(build.unary("neg", node_of(x, "negative"), name="negative"))


def positive(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x itself."""
    return wrap(node_of(x, "positive"))


def abs(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """The absolute value. The smallest integer of a signed dtype has none and stays as it is."""
    return wrap(build.unary("abs", node_of(x, "abs")))


def sign(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """-1, 0 or 1; NaN stays NaN."""
    return wrap(build.unary("sign", node_of(x, "sign")))


def bitwise_invert(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """All bits flipped; logical not for bools."""
    return wrap(build.unary("not", node_of(x, "bitwise_invert"), name="bitwise_invert"))


def logical_not(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """True where x is zero or False."""
    return wrap(build.unary("not", _truth(x, "logical_not")))


def complex(real: Operand, imag: Operand) -> Tensor:
    """real + 1j * imag, of two float tensors: float32 gives complex64, and float64 complex128.

    >>> sm.complex(sm.asarray([1.0, 2.0]), 3.0).tolist()
    [(1+3j), (2+3j)]
    """
    a, b = (floating(wrap(node), "complex") for node in pair(real, imag, "complex"))
    return wrap(pairs.paired(a, b))


def real(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The real part; what is not complex comes back itself."""
    return wrap(pairs.parts(computed(node_of(x, "real"), "real"))[0])


def imag(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The imaginary part; zeros for what is not complex."""
    return wrap(pairs.parts(computed(node_of(x, "imag"), "imag"))[1])


def conj(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """The complex conjugate, with the other sign of the imaginary part; what is not complex comes back itself."""
    return wrap(pairs.conj(computed(node_of(x, "conj"), "conj")))


def angle(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The angle of each number with the positive real axis, in radians from -pi to pi.

    >>> sm.angle(sm.asarray([1j, -1.0])).tolist()
    [1.5707963705062866, 3.1415927410125732]
    """
    return wrap(pairs.angle(floating(x, "angle")))


def exp(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """e to the power x."""
    return _real("exp", x)


def exp2(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """2 to the power x."""
    return _real("exp2", x)


def expm1(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """exp(x) - 1, exact near 0."""
    return _real("expm1", x)


def log(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The natural logarithm."""
    return _real("log", x)


def log2(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The logarithm to base 2."""
    return _real("log2", x)


def log1p(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """log(1 + x), exact near 0."""
    return _real("log1p", x)


def sqrt(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The square root; NaN below 0."""
    return _real("sqrt", x)


def rsqrt(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """1 / sqrt(x)."""
    return _real("rsqrt", x)


def reciprocal(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """1 / x."""
    return _real("reciprocal", x)


def sin(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The sine of an angle in radians."""
    return _real("sin", x)


def cos(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The cosine of an angle in radians."""
    return _real("cos", x)


def tan(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The tangent of an angle in radians."""
    return _real("tan", x)


def tanh(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The hyperbolic tangent."""
    return _real("tanh", x)


def erf(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """The error function."""
    return _real("erf", x)


def floor(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """The largest whole number not above x."""
    return _whole("floor", x)


def ceil(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """The smallest whole number not below x."""
    return _whole("ceil", x)


def trunc(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x without its fraction."""
    return _whole("trunc", x)


def round(x: Tensor[DT, *S], decimals: int = 0) -> Tensor[DT, *S]:
    """The nearest number with so many decimals, or whole number of tens, hundreds, … if they are negative; halves go to
    the even one.

    >>> sm.round(sm.asarray([2.5, -1.26])).tolist(), sm.round(sm.asarray([126, -1250]), -1).tolist()
    ([2.0, -1.0], [130, -1250])
    """
    places = integer(decimals, "round", "decimals")
    node = computed(node_of(x, "round"), "round")
    if places == 0 or node.dtype.is_bool or (node.dtype.is_integer and places > 0):
        return _whole("round", x)
    if not -300 <= places <= 300:
        raise ArgumentError(f"round: {places} decimals", rule="there may be 300 at most, before or behind the point.")
    if node.dtype.is_complex:
        return wrap(pairs.paired(*(round(wrap(part), places)._node for part in pairs.parts(node))))
    # Scaled in float64, so that few decimals of float32 numbers are exact; what overflows has no such decimals.
    wide, scale = build.cast(node, dtypes.float64), build.const(10.0 ** builtins.abs(places), dtypes.float64)
    first, second = ("mul", "div") if places > 0 else ("div", "mul")
    scaled = build.binary(first, wide, scale)
    rounded = build.binary(second, build.unary("round", scaled), scale)
    finite = build.lt(build.unary("abs", scaled), build.const(float("inf"), dtypes.float64))
    return wrap(build.cast(build.where(finite, rounded, wide), node.dtype))


def square(x: Tensor[DT, *S]) -> Tensor[DT, *S]:
    """x times x."""
    node = node_of(x, "square")
    return wrap(build.binary("mul", node, node, name="square"))


def isnan(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """True where x is not a number."""
    node = node_of(x, "isnan")
    if not node.dtype.is_inexact:
        return wrap(build.const(False, dtypes.bool_, node.shape))
    return wrap(build.unary("isnan", node))


def isinf(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """True where x is infinite, of either sign."""
    node = computed(node_of(x, "isinf"), "isinf")
    if node.dtype.is_complex:
        return logical_or(*(isinf(wrap(part)) for part in pairs.parts(node)))
    if not node.dtype.is_float:
        return wrap(build.const(False, dtypes.bool_, node.shape))
    return wrap(build.eq(build.unary("abs", node), _infinity(node)))


def isfinite(x: Tensor[DT, *S]) -> Tensor[Any, *S]:
    """True where x is neither infinite nor NaN."""
    node = computed(node_of(x, "isfinite"), "isfinite")
    if node.dtype.is_complex:
        return logical_and(*(isfinite(wrap(part)) for part in pairs.parts(node)))
    if not node.dtype.is_float:
        return wrap(build.const(True, dtypes.bool_, node.shape))
    return wrap(build.lt(build.unary("abs", node), _infinity(node)))


def _infinity(node: Node) -> Node:
    return build.const(float("inf"), node.dtype)


def _truth(x: Any, name: str) -> Node:
    node = node_of(x, name)
    return build.cast(node, dtypes.bool_)


# --- two tensors


def _binary(function: str, x: Any, y: Any, name: str) -> Tensor:
    a, b = pair(x, y, name)
    return wrap(build.binary(function, a, b, name=name))


def add(x: Operand, y: Operand) -> Tensor:
    """x + y."""
    return _binary("add", x, y, "add")


def subtract(x: Operand, y: Operand) -> Tensor:
    """x - y."""
    return _binary("sub", x, y, "subtract")


def multiply(x: Operand, y: Operand) -> Tensor:
    """x * y."""
    return _binary("mul", x, y, "multiply")


def divide(x: Operand, y: Operand) -> Tensor:
    """x / y; a float also for integers."""
    a, b = pair(x, y, "divide")
    computed(a, "divide")
    if not a.dtype.is_inexact:
        a, b = build.cast(a, dtypes.float32), build.cast(b, dtypes.float32)
    return wrap(build.binary("div", a, b, name="divide"))


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """x // y, rounded down. An integer divided by 0 gives 0."""
    return _binary("floordiv", x, y, "floor_divide")


def remainder(x: Operand, y: Operand) -> Tensor:
    """x % y, with the sign of y. For integers, the remainder by 0 is 0."""
    return _binary("mod", x, y, "remainder")


def divmod(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """`floor_divide` and `remainder` at once.

    >>> [part.tolist() for part in sm.divmod(sm.asarray([7, -7]), 3)]
    [[2, -3], [1, 2]]
    """
    a, b = pair(x, y, "divmod")
    return wrap(build.binary("floordiv", a, b, name="divmod")), wrap(build.binary("mod", a, b, name="divmod"))


_MOST_FACTORS: Final = 64  # of a complex number to a whole power


def pow(x: Operand, y: Operand) -> Tensor:
    """x to the power y."""
    a, b = pair(x, y, "pow")
    if is_weak(y):
        if a.dtype.is_integer and y < 0:  # type: ignore[operator]
            raise ArgumentError(
                f"pow: an integer tensor to the power {y}",
                rule="integers have no negative powers.",
                hint="Cast first, for example with x.astype(sm.float32).",
            )
        if a.dtype.is_complex and isinstance(y, builtins.int) and builtins.abs(y) <= _MOST_FACTORS:
            return wrap(whole_power(a, y))
        if y == 2:  # a multiplication is as exact and far cheaper
            return wrap(build.binary("mul", a, a, name="pow"))
    return wrap(build.binary("pow", a, b))


class _Peer:
    """Marks a constant that shares the gradient with what it equals. That of relu, and bounds of clip, do not."""


_PEER: Final = _Peer()


def _extreme(function: str, x: Any, y: Any, name: str) -> Tensor:
    a, b = (alias(x, _PEER) if x.dtype.is_float and constant_of(x) else x for x in pair(x, y, name))
    return wrap(build.binary(function, a, b, name=name))


def maximum(x: Operand, y: Operand) -> Tensor:
    """The larger of x and y; NaN where either is NaN."""
    return _extreme("max", x, y, "maximum")


def minimum(x: Operand, y: Operand) -> Tensor:
    """The smaller of x and y; NaN where either is NaN."""
    return _extreme("min", x, y, "minimum")


def bitwise_and(x: Operand, y: Operand) -> Tensor:
    """x & y, for integers and bools."""
    return _binary("and", x, y, "bitwise_and")


def bitwise_or(x: Operand, y: Operand) -> Tensor:
    """x | y, for integers and bools."""
    return _binary("or", x, y, "bitwise_or")


def bitwise_xor(x: Operand, y: Operand) -> Tensor:
    """x ^ y, for integers and bools."""
    return _binary("xor", x, y, "bitwise_xor")


def bitwise_left_shift(x: Operand, y: Operand) -> Tensor:
    """x << y; 0 when all bits are shifted out."""
    return _binary("shl", x, y, "bitwise_left_shift")


def bitwise_right_shift(x: Operand, y: Operand) -> Tensor:
    """x >> y, keeping the sign; 0 for shifts beyond the width."""
    return _binary("shr", x, y, "bitwise_right_shift")


def equal(x: Operand, y: Operand) -> Tensor:
    """x == y, element by element."""
    return _binary("eq", x, y, "equal")


def not_equal(x: Operand, y: Operand) -> Tensor:
    """x != y, element by element."""
    return _binary("ne", x, y, "not_equal")


def less(x: Operand, y: Operand) -> Tensor:
    """x < y."""
    return _binary("lt", x, y, "less")


def less_equal(x: Operand, y: Operand) -> Tensor:
    """x <= y."""
    return _binary("le", x, y, "less_equal")


def greater(x: Operand, y: Operand) -> Tensor:
    """x > y."""
    return _swapped("lt", x, y, "greater")


def greater_equal(x: Operand, y: Operand) -> Tensor:
    """x >= y."""
    return _swapped("le", x, y, "greater_equal")


def _swapped(function: str, x: Any, y: Any, name: str) -> Tensor:
    a, b = pair(x, y, name)
    if a.shape != b.shape:  # broadcast here, so that a message has the operands in the user's order
        shape = build.broadcast_shapes(a.shape, b.shape, name)
        a, b = build.broadcast_to(a, shape), build.broadcast_to(b, shape)
    return wrap(build.binary(function, b, a, name=name))


def _logical(function: str, x: Any, y: Any, name: str) -> Tensor:
    return wrap(build.binary(function, _truth(x, name), _truth(y, name), name=name))


def logical_and(x: Operand, y: Operand) -> Tensor:
    """True where both are nonzero."""
    return _logical("and", x, y, "logical_and")


def logical_or(x: Operand, y: Operand) -> Tensor:
    """True where either is nonzero."""
    return _logical("or", x, y, "logical_or")


def logical_xor(x: Operand, y: Operand) -> Tensor:
    """True where exactly one is nonzero."""
    return _logical("xor", x, y, "logical_xor")


# --- more tensors


@overload
def where(condition: Operand) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Operand, x: Operand, y: Operand) -> Tensor: ...
def where(condition: Operand, x: Operand | None = None, y: Operand | None = None) -> Tensor | tuple[Tensor, ...]:
    """x where the condition holds, y elsewhere. Without them, where the condition holds: `nonzero`."""
    if x is None and y is None:
        return nonzero(wrap(node_of(condition, "where")))
    if x is None or y is None:
        raise ArgumentError("where: one of x and y is missing", rule="both are given, or neither.")
    a, b = pair(x, y, "where")
    return wrap(build.where(node_of(condition, "where"), a, b))


def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """x, but not below `min` and not above `max`. NaN stays NaN. On the bounds, the gradient is that of x."""
    result: Any = x
    if min is not None:
        result = _bounded("max", result, min)
    if max is not None:
        result = _bounded("min", result, max)
    return wrap(node_of(result, "clip"))


def _bounded(function: str, x: Any, bound: Any) -> Tensor:
    """The larger or the smaller of x and a bound. Floats are chosen from, so that on the bound the gradient is x's."""
    a, b = pair(x, bound, "clip")
    if not a.dtype.is_float:
        return _binary(function, x, bound, "clip")
    computed(a, "clip")
    a, b = (build.broadcast_to(node, build.broadcast_shapes(a.shape, b.shape, "clip")) for node in (a, b))
    beyond = build.lt(a, b) if function == "max" else build.lt(b, a)
    if not is_weak(bound) or math.isnan(bound):  # which gives NaN, as in NumPy
        beyond = build.binary("or", beyond, build.unary("isnan", b))
    return wrap(build.where(beyond, b, a))


def lerp(start: Operand, end: Operand, weight: Operand) -> Tensor:
    """The point between start (weight 0) and end (weight 1)."""
    a, b, w = all_common((start, end, weight), "lerp")
    computed(a, "lerp")
    dtype = a.dtype if a.dtype.is_float else dtypes.float32
    a, b, w = (widened(build.cast(node, dtype)) for node in (a, b, w))
    step = build.binary("mul", w, build.binary("sub", b, a, name="lerp"), name="lerp")
    return wrap(build.cast(build.binary("add", a, step, name="lerp"), dtype))
