"""Functions of one element each, exactly as the specification defines them; where smelt's own rule for a corner is
another one, a few nodes more make up for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smelt.dtypes import DType, bool_, float32, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from smelt.errors import DTypeError
from smelt.formats.stablehlo import complexes
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, Op, build, constant_of, constant_value, pairs

Function = Callable[..., Node]

SIGNED: Final = {8: int8, 16: int16, 32: int32, 64: int64}
UNSIGNED: Final = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


def number(value: float, like: Node) -> Node:
    """A constant of a node's type and shape."""
    return build.const(value, like.dtype, like.shape)


# --- integers


def _signs_differ(a: Node, b: Node) -> Node:
    return build.ne(build.lt(a, number(0, a)), build.lt(b, number(0, b)))


def divide(a: Node, b: Node) -> Node:
    """Integers: toward zero; x / 0 has all bits set. A divisor that is a constant has no such corner."""
    if a.dtype.is_inexact:
        return build.div(a, b)
    quotient = build.binary("floordiv", a, b)
    if a.dtype.is_signed:
        rounded = build.bitwise_and(build.ne(build.binary("mod", a, b), number(0, a)), _signs_differ(a, b))
        quotient = build.where(rounded, build.add(quotient, number(1, a)), quotient)
    if _is_not_zero(b):
        return quotient
    return build.where(build.eq(b, number(0, b)), number(-1 if a.dtype.is_signed else a.dtype.maximum, a), quotient)


def remainder(a: Node, b: Node) -> Node:
    """The dividend's sign; integers: x rem 0 is x."""
    if a.dtype.is_float:
        return _float_remainder(a, b)
    rest = build.binary("mod", a, b)
    if a.dtype.is_signed:
        wrong = build.bitwise_and(build.ne(rest, number(0, a)), _signs_differ(a, b))
        rest = build.where(wrong, build.sub(rest, b), rest)
    return rest if _is_not_zero(b) else build.where(build.eq(b, number(0, b)), a, rest)


def _float_remainder(a: Node, b: Node) -> Node:
    rest = build.binary("mod", build.unary("abs", a), build.unary("abs", b))
    return build.binary("copysign", rest, a)


def _is_not_zero(b: Node) -> bool:
    constant = constant_of(b)
    return constant is not None and constant_value(constant) != 0


def _on_bools(on_bools: str, otherwise: str) -> Function:
    """Addition of bools is `or`, multiplication is `and`."""
    return lambda a, b: build.binary(on_bools if a.dtype.is_bool else otherwise, a, b)


def _unsigned(x: Node) -> Node:
    return x if not x.dtype.is_signed else build.bitcast(x, UNSIGNED[x.dtype.bits])


def shift_left(a: Node, b: Node) -> Node:
    """Counts of the width and more give 0; they are unsigned, so that negative ones are large."""
    return build.binary("shl", a, b)


def shift_right_logical(a: Node, b: Node) -> Node:
    return build.bitcast(build.binary("shr", _unsigned(a), _unsigned(b)), a.dtype)


def shift_right_arithmetic(a: Node, b: Node) -> Node:
    """Counts of the width and more leave the sign only."""
    signed = build.bitcast(a, SIGNED[a.dtype.bits]) if not a.dtype.is_signed else a
    count = _unsigned(b)
    count = build.bitcast(build.minimum(count, number(a.dtype.bits - 1, count)), signed.dtype)
    return build.bitcast(build.binary("shr", signed, count), a.dtype)


def _count_bits(x: Node) -> Node:
    """How many bits are set: sums of neighboring fields, each twice as wide as the ones before."""
    n = _unsigned(x)
    bits = x.dtype.bits
    width = 1
    while width < bits:
        mask = number(sum(((1 << width) - 1) << (2 * width * k) for k in range(bits // (2 * width))), n)
        high = build.binary("shr", n, number(width, n))
        n = build.add(build.bitwise_and(n, mask), build.bitwise_and(high, mask))
        width *= 2
    return build.bitcast(n, x.dtype)


def _leading_zeros(x: Node) -> Node:
    """The bits below the first one that is set are set as well, and what is left is counted."""
    n = _unsigned(x)
    width = 1
    while width < x.dtype.bits:
        n = build.binary("or", n, build.binary("shr", n, number(width, n)))
        width *= 2
    return build.bitcast(_count_bits(build.logical_not(n)), x.dtype)


# --- floats


def _sign(x: Node) -> Node:
    """-0.0 stays -0.0."""
    sign = x if x.dtype.is_bool else build.unary("sign", x)
    return build.where(build.eq(x, number(0, x)), x, sign) if x.dtype.is_float else sign


def _absolute(x: Node) -> Node:
    return x if x.dtype.is_integer and not x.dtype.is_signed else build.unary("abs", x)


def _round_away(x: Node) -> Node:
    """Halves go away from zero."""
    whole = build.unary("trunc", x)
    far = build.le(number(0.5, x), build.unary("abs", build.sub(x, whole)))
    step = build.binary("copysign", number(1.0, x), x)
    return build.where(far, build.add(whole, step), build.binary("copysign", whole, x))


def _is_finite(x: Node) -> Node:
    return build.lt(build.unary("abs", x), number(float("inf"), x))


def _logistic(x: Node) -> Node:
    one = number(1.0, x)
    return build.div(one, build.add(one, build.exp(build.neg(x))))


def maximum(a: Node, b: Node) -> Node:
    """NaN wins. What is compared with -inf only is itself: JAX prints every softmax so."""
    if a.dtype.is_complex:
        return build.where(compare("GT", a, b), a, b)
    for x, other in ((a, b), (b, a)):
        if x.dtype.is_float and _is_infinity(x, "-inf"):
            return other
    return build.maximum(a, b)


def minimum(a: Node, b: Node) -> Node:
    """NaN wins."""
    if a.dtype.is_complex:
        return build.where(compare("LT", a, b), a, b)
    for x, other in ((a, b), (b, a)):
        if x.dtype.is_float and _is_infinity(x, "inf"):
            return other
    return build.minimum(a, b)


def _is_infinity(x: Node, which: str) -> bool:
    constant = constant_of(x)
    return constant is not None and constant_value(constant) == float(which)


def _plain(name: str) -> Function:
    return lambda *operands: build.unary(name, *operands) if len(operands) == 1 else build.binary(name, *operands)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _absolute,
    "add": _on_bools("or", "add"),
    "and": _plain("and"),
    "atan2": lambda a, b: complexes.angle(a, b) if a.dtype.is_complex else build.binary("atan2", a, b),
    "cbrt": lambda x: complexes.cube_root(x) if x.dtype.is_complex else build.unary("cbrt", x),
    "ceil": _plain("ceil"),
    "cosine": _plain("cos"),
    "count_leading_zeros": _leading_zeros,
    "divide": divide,
    "exponential": _plain("exp"),
    "exponential_minus_one": _plain("expm1"),
    "floor": _plain("floor"),
    "is_finite": _is_finite,
    "log": _plain("log"),
    "log_plus_one": _plain("log1p"),
    "logistic": _logistic,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": _on_bools("and", "mul"),
    "negate": _plain("neg"),
    "not": _plain("not"),
    "or": _plain("or"),
    "popcnt": _count_bits,
    "power": _plain("pow"),
    "remainder": remainder,
    "round_nearest_afz": _round_away,
    "round_nearest_even": _plain("round"),
    "rsqrt": _plain("rsqrt"),
    "shift_left": shift_left,
    "shift_right_arithmetic": shift_right_arithmetic,
    "shift_right_logical": shift_right_logical,
    "sign": _sign,
    "sine": _plain("sin"),
    "sqrt": _plain("sqrt"),
    "subtract": _plain("sub"),
    "tan": _plain("tan"),
    "tanh": _plain("tanh"),
    "xor": _plain("xor"),
}


# --- comparisons and choices


def total_order(x: Node) -> Node:
    """An integer for each float, in the order -NaN, -inf … -0, 0 … inf, NaN."""
    bits = build.bitcast(x, SIGNED[x.dtype.bits])
    negative = build.lt(bits, number(0, bits))
    return build.where(negative, build.binary("xor", bits, number(bits.dtype.maximum, bits)), bits)


DIRECTIONS: Final[dict[str, Callable[[Node, Node], Node]]] = {
    "EQ": build.eq,
    "NE": build.ne,
    "LT": build.lt,
    "LE": build.le,
    "GT": lambda a, b: build.lt(b, a),
    "GE": lambda a, b: build.le(b, a),
}


def compare(direction: str, a: Node, b: Node, kind: str = "") -> Node:
    """A comparison by its direction; TOTALORDER also orders NaN and zeros of both signs."""
    if kind == "TOTALORDER" and a.dtype.is_float:
        a, b = total_order(a), total_order(b)
    if a.dtype.is_complex and direction not in ("EQ", "NE"):
        return complexes.compared(DIRECTIONS[direction[0] + "T"], DIRECTIONS[direction], a, b)
    return DIRECTIONS[direction](a, b)


def _compare(call: Call) -> Node:
    direction = call.word("comparison_direction")
    if direction not in DIRECTIONS:
        call.wrong(f"there is no direction {direction!r}")
    a, b = call.operands
    if a.shape != b.shape:
        call.wrong(f"the operands have shapes {list(a.shape)} and {list(b.shape)}")
    return compare(direction, a, b, call.word("compare_type"))


def _spread(scalar: Node, like: Node) -> Node:
    return scalar if scalar.shape or not like.shape else build.spread(scalar, like.shape)


def select(which: Node, yes: Node, no: Node) -> Node:
    """Elements of two tensors. `select(x != x, NaN, x)` is x, but for the bits of its NaN."""
    if yes.shape != no.shape:
        raise DTypeError(f"the operands have shapes {list(yes.shape)} and {list(no.shape)}")
    return build.where(_spread(which, yes), yes, no)


def _clamp(low: Node, x: Node, high: Node) -> Node:
    low, high = _spread(low, x), _spread(high, x)
    if x.dtype.is_complex:
        return minimum(maximum(x, low), high)
    return build.minimum(build.maximum(x, low), high)


def convert(x: Node, dtype: DType) -> Node:
    """To bool: whether it is not zero; from complex: the real part."""
    if x.dtype.is_complex and not dtype.is_complex and not dtype.is_bool:
        x = pairs.parts(x)[0]
    if dtype.is_bool and not x.dtype.is_bool:
        return build.ne(x, number(0, x))
    return build.cast(x, dtype)


def reduce_precision(x: Node, exponent: int, mantissa: int) -> Node:
    """Rounded to so many bits, to nearest and ties to even, on the integer pattern."""
    wide = build.cast(x, float32) if x.dtype.bits < 32 else x
    own_mantissa, own_exponent = (52, 11) if wide.dtype.bits == 64 else (23, 8)
    bits = build.bitcast(wide, UNSIGNED[wide.dtype.bits])
    drop = own_mantissa - mantissa
    if drop > 0:
        last = build.bitwise_and(build.binary("shr", bits, number(drop, bits)), number(1, bits))
        bits = build.add(bits, build.add(last, number((1 << (drop - 1)) - 1, bits)))
        full = (1 << bits.dtype.bits) - 1
        bits = build.bitwise_and(bits, number(full ^ ((1 << drop) - 1), bits))
    result = build.bitcast(bits, wide.dtype)
    if exponent < own_exponent:
        bias = (1 << (exponent - 1)) - 1
        largest = 2.0**bias * (2.0 - 2.0 ** -min(mantissa, own_mantissa))
        smallest = 2.0 ** (1 - bias)
        size = build.unary("abs", result)
        infinite = build.binary("copysign", number(float("inf"), result), result)
        zero = build.binary("copysign", number(0.0, result), result)
        result = build.where(build.lt(number(largest, size), size), infinite, result)
        result = build.where(build.lt(size, number(smallest, size)), zero, result)
    nan = build.unary("isnan", wide)
    return build.cast(build.where(nan, wide, result), x.dtype)


def _reduce_precision(call: Call) -> Node:
    return reduce_precision(call.operands[0], call.integer("exponent_bits"), call.integer("mantissa_bits"))


def _bitcast(call: Call) -> Node:
    """The bits in elements of another width: a last axis comes or goes."""
    x: Node = call.operands[0]
    dtype = call.dtype
    if x.dtype is dtype:
        return x
    if x.dtype.bits == dtype.bits and not x.dtype.is_bool and not dtype.is_bool:
        return build.bitcast(x, dtype)
    if x.dtype.is_bool or dtype.is_bool or min(x.dtype.bits, dtype.bits) < 8:
        call.refuse(f"bits of {x.dtype} as {dtype}")
    wide, narrow = max(x.dtype.bits, dtype.bits), min(x.dtype.bits, dtype.bits)
    count, large = wide // narrow, UNSIGNED[wide]
    shifts = build.scale(build.iota(count, large), narrow)
    if x.dtype.bits > dtype.bits:
        words = build.bitcast(x, large) if x.dtype is not large else x
        spread = build.expand(build.reshape(words, (*x.shape, 1)), (*x.shape, count))
        parts = build.binary("shr", spread, build.spread(shifts, spread.shape))
        return build.bitcast(build.cast(parts, UNSIGNED[narrow]), dtype)
    if not x.shape or x.shape[-1] != count:
        call.wrong(f"the last axis has to have {count} elements")
    parts = build.cast(build.bitcast(x, UNSIGNED[narrow]), large)
    placed = build.binary("shl", parts, build.spread(shifts, parts.shape))
    return build.bitcast(build.reduce("add", placed, (x.rank - 1,)), dtype)


_BINARY: Final = frozenset(
    (
        *("add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "subtract"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical", "xor"),
    )
)


def _row(name: str, function: Function) -> Row:
    def read(call: Call) -> Node:
        return function(*_alike(call))

    return Row(read, (), 2 if name in _BINARY else 1)


def _alike(call: Call) -> list[Node]:
    """Operands of one shape: StableHLO has no broadcasting."""
    operands = call.operands
    for x in operands[1:]:
        if x.shape != operands[0].shape:
            call.wrong(f"the operands have shapes {list(operands[0].shape)} and {list(x.shape)}")
    return operands


ROWS: Final = rows(
    {
        **{name: _row(name, function) for name, function in FUNCTIONS.items()},
        "compare": Row(_compare, ("comparison_direction", "compare_type"), 2),
        "select": Row(lambda call: select(*call.operands), (), 3),
        "clamp": Row(lambda call: _clamp(*call.operands), (), 3),
        "convert": Row(lambda call: convert(call.operands[0], call.dtype), (), 1),
        "bitcast_convert": Row(_bitcast, (), 1),
        "reduce_precision": Row(_reduce_precision, ("exponent_bits", "mantissa_bits"), 1),
    }
)
__all__ = ["FUNCTIONS", "ROWS", "Op", "bool_", "compare", "convert", "number", "select", "total_order"]
