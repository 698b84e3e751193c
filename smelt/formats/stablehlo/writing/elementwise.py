"""Functions of one element each: by the operation that is just that, or by a formula as a composite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from smelt.dtypes import compute_dtype, int8, int32, uint8
from smelt.formats.stablehlo.elementwise import UNSIGNED
from smelt.formats.stablehlo.writing.body import Body, Value
from smelt.graph import Node, Op, constant_of, constant_value

# Functions that are operations.
PLAIN_UNARY: Final = {
    "neg": "negate",
    "not": "not",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "log1p": "log_plus_one",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "cbrt": "cbrt",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "tanh": "tanh",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round_nearest_even",
    **{name: f"chlo.{name}" for name in ("asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")},
    **{name: f"chlo.{name}" for name in ("erf", "erfc", "lgamma", "digamma")},
    "erfinv": "chlo.erf_inv",
}
PLAIN_BINARY: Final = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "pow": "power",
    "atan2": "atan2",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shl": "shift_left",
}
COMPARED: Final = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE"}


def unary(body: Body, node: Node, x: Value) -> Value | None:
    """A function that is an operation, or next to one; None if it is neither."""
    name = node.attribute
    if name in PLAIN_UNARY:
        return body.unary(PLAIN_UNARY[name], x)
    if name == "isnan":
        return body.compare("NE", x, x)
    if name == "abs":
        return x if x.dtype.is_integer and not x.dtype.is_signed else body.unary("abs", x)
    if name == "sign" and x.dtype.is_integer and x.dtype.is_signed:
        return body.unary("sign", x)
    if name == "reciprocal":
        return body.binary("divide", body.like(1.0, x), x)
    return None


def unbounded(node: Node) -> Node:
    """What a node is that no bound changes: the other source of a maximum with -inf, or of a minimum with inf."""
    if node.op is Op.BINARY and node.attribute in ("max", "min") and node.dtype.is_float:
        for source, other in zip(node.sources, node.sources[::-1], strict=True):
            constant = constant_of(source)
            if constant is not None and constant_value(constant) == (
                -math.inf if node.attribute == "max" else math.inf
            ):
                return other
    return node


def binary(body: Body, node: Node, a: Value, b: Value) -> Value | None:
    """The same for functions of two tensors."""
    name = node.attribute
    if name in PLAIN_BINARY:
        return body.binary(PLAIN_BINARY[name], a, b)
    if name in COMPARED:
        return body.compare(COMPARED[name], a, b)
    if name in ("max", "min"):
        return body.binary({"max": "maximum", "min": "minimum"}[name], a, b)
    if name == "shr" and not a.dtype.is_signed:
        return body.binary("shift_right_logical", a, b)
    return None


# --- formulas


def _wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """A formula of several steps on 16-bit floats, which is rounded once."""

    def widened(body: Body, *operands: Value) -> Value:
        dtype = operands[0].dtype
        if not dtype.is_float:
            return function(body, *operands)
        return body.convert(function(body, *(body.convert(x, compute_dtype(dtype)) for x in operands)), dtype)

    return widened


def _sign(body: Body, x: Value) -> Value:
    """Of -0.0 it is 0.0; unsigned integers have no operation for it."""
    if x.dtype.is_float:
        return body.binary("add", body.unary("sign", x), body.like(0.0, x))
    return body.binary("minimum", x, body.like(1, x))


def _trunc(body: Body, x: Value) -> Value:
    negative = body.compare("LT", x, body.like(0.0, x))
    return body.select(negative, body.unary("ceil", x), body.unary("floor", x))


def _exp2(body: Body, x: Value) -> Value:
    return body.binary("power", body.like(2.0, x), x)


def _logarithm(base: float) -> Callable[..., Value]:
    return lambda body, x: body.binary("divide", body.unary("log", x), body.like(math.log(base), x))


def _bits_of(body: Body, x: Value) -> Value:
    return body.op("bitcast_convert", [x], UNSIGNED[x.dtype.bits], x.shape)


def _copysign(body: Body, a: Value, b: Value) -> Value:
    top = 1 << (a.dtype.bits - 1)
    size, sign = _bits_of(body, a), _bits_of(body, b)
    size = body.binary("and", size, body.like(top - 1, size))
    sign = body.binary("and", sign, body.like(top, sign))
    return body.op("bitcast_convert", [body.binary("or", size, sign)], a.dtype, a.shape)


def _hypot(body: Body, a: Value, b: Value) -> Value:
    """Scaled by the larger one, so that no square overflows; infinite if either is, whatever the other."""
    a, b = body.unary("abs", a), body.unary("abs", b)
    large, small = body.binary("maximum", a, b), body.binary("minimum", a, b)
    infinite, zero = body.like(math.inf, a), body.like(0.0, a)
    ratio = body.binary("divide", small, large)
    square = body.binary("add", body.like(1.0, a), body.binary("multiply", ratio, ratio))
    found = body.binary("multiply", large, body.unary("sqrt", square))
    found = body.select(body.compare("EQ", large, zero), zero, found)
    either = body.binary("or", body.compare("EQ", a, infinite), body.compare("EQ", b, infinite))
    return body.select(either, infinite, found)


def _divisor(body: Body, b: Value) -> tuple[Value, Value]:
    """Whether an integer divisor is 0, and the divisor with 1 in its place."""
    none = body.compare("EQ", b, body.like(0, b))
    return none, body.select(none, body.like(1, b), b)


def _wrong_side(body: Body, rest: Value, b: Value) -> Value:
    """Whether a remainder has another sign than the divisor."""
    zero = body.like(0, rest)
    differ = body.compare("NE", body.compare("LT", rest, zero), body.compare("LT", b, zero))
    return body.binary("and", body.compare("NE", rest, zero), differ)


def _floordiv(body: Body, a: Value, b: Value) -> Value:
    """Rounds down. Integers: x // 0 is 0. Floats: what is left over is taken off before the division."""
    if a.dtype.is_float:
        return _float_floordiv(body, a, b)
    none, safe = _divisor(body, b)
    quotient = body.binary("divide", a, safe)
    if a.dtype.is_signed:
        wrong = _wrong_side(body, body.binary("remainder", a, safe), safe)
        quotient = body.select(wrong, body.binary("subtract", quotient, body.like(1, a)), quotient)
    return body.select(none, body.like(0, a), quotient)


def _float_floordiv(body: Body, a: Value, b: Value) -> Value:
    plain = body.binary("divide", a, b)
    rest = body.binary("remainder", a, b)
    quotient = body.binary("divide", body.binary("subtract", a, rest), b)
    one, zero = body.like(1.0, a), body.like(0.0, a)
    quotient = body.select(_wrong_side(body, rest, b), body.binary("subtract", quotient, one), quotient)
    down = body.unary("floor", quotient)
    far = body.compare("GT", body.binary("subtract", quotient, down), body.like(0.5, a))
    down = body.select(far, body.binary("add", down, one), down)
    down = body.select(body.compare("EQ", quotient, zero), _copysign(body, zero, plain), down)
    infinite = body.like(math.inf, a)
    either = body.binary(
        "or",
        body.compare("EQ", body.unary("abs", a), infinite),
        body.compare("EQ", body.unary("abs", b), infinite),
    )
    down = body.select(either, body.unary("floor", plain), down)
    return body.select(body.compare("EQ", b, zero), plain, down)


def _mod(body: Body, a: Value, b: Value) -> Value:
    """The sign of the divisor. Integers: x % 0 is 0."""
    if not a.dtype.is_float:
        none, safe = _divisor(body, b)
        rest = body.binary("remainder", a, safe)
        if a.dtype.is_signed:
            rest = body.select(_wrong_side(body, rest, safe), body.binary("add", rest, safe), rest)
        return body.select(none, body.like(0, a), rest)
    rest = body.binary("remainder", a, b)
    rest = body.select(_wrong_side(body, rest, b), body.binary("add", rest, b), rest)
    zero = body.like(0.0, rest)
    return body.select(body.compare("EQ", rest, zero), _copysign(body, zero, b), rest)


def _shr(body: Body, a: Value, b: Value) -> Value:
    """Arithmetic; 0 for counts outside of the width."""
    count = body.op("bitcast_convert", [b], UNSIGNED[b.dtype.bits], b.shape)
    inside = body.compare("LT", count, body.like(b.dtype.bits, count))
    return body.select(inside, body.binary("shift_right_arithmetic", a, b), body.like(0, a))


def _bytes(body: Body, x: Value, signed: bool) -> Value:
    """The four bytes of a word, along a last axis."""
    return body.op("bitcast_convert", [x], int8 if signed else uint8, (*x.shape, 4))


def _shr_bytes(body: Body, a: Value, b: Value) -> Value:
    octets = _bytes(body, a, False)
    count = body.convert(body.binary("and", b, body.like(7, b)), uint8)
    count = body.spread(count, octets.shape, range(b.rank))
    return body.op("bitcast_convert", [body.binary("shift_right_logical", octets, count)], int32, a.shape)


def _dot4(signed: bool) -> Callable[..., Value]:
    def dot(body: Body, a: Value, b: Value) -> Value:
        x, y = (body.convert(_bytes(body, v, kind), int32) for v, kind in ((a, signed), (b, True)))
        zero = body.constant(0, int32)
        return body.reduce(body.binary("multiply", x, y), zero, [a.rank], lambda inner, p, q: inner.binary("add", p, q))

    return dot


FORMULAS: Final[dict[str, Callable[..., Value]]] = {
    "sign": _sign,
    "trunc": _trunc,
    "exp2": _wide(_exp2),
    "log2": _wide(_logarithm(2.0)),
    "log10": _wide(_logarithm(10.0)),
    "copysign": _copysign,
    "hypot": _wide(_hypot),
    "floordiv": _wide(_floordiv),
    "mod": _wide(_mod),
    "shr": _shr,
    "shr_bytes": _shr_bytes,
    "dot4": _dot4(False),
    "dot4_ss": _dot4(True),
}


def formula(body: Body, node: Node, *operands: Value) -> Value:
    """A function that has no operation of its own."""
    return FORMULAS[node.attribute](body, *operands)


def cast(body: Body, node: Node, x: Value) -> Value:
    """To bool: whether it is not zero."""
    if node.dtype.is_bool:
        return body.compare("NE", x, body.like(0, x))
    return body.convert(x, node.dtype)


def bitcast(body: Body, node: Node, x: Value) -> Value:
    if x.dtype.is_bool:
        return body.convert(x, node.dtype)
    return body.op("bitcast_convert", [x], node.dtype, x.shape)


def where(body: Body, node: Node, condition: Value, yes: Value, no: Value) -> Value:
    return body.select(condition, yes, no)


def complex_(body: Body, node: Node, real: Value, imaginary: Value) -> Value:
    return body.op("complex", [real, imaginary], node.dtype, node.shape)
