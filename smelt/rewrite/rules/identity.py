"""Elementwise operations that give back an operand, a constant or a simpler operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from smelt import dtypes
from smelt.dtypes import DType, Scalar
from smelt.graph import Node, Op, build, kind_letter
from smelt.rewrite.rule import Contract, Family, Matcher, Rule
from smelt.rewrite.rules.pattern import has_value, is_function, leaf

family = Family("identity")

Result = Callable[[Node], Node]  # what becomes of the operand that is left
Value = Scalar | Callable[[DType], Scalar]

_SAMPLE_DTYPES: Final[dict[str, tuple[DType, ...]]] = {
    "b": (dtypes.bool_,),
    "i": (dtypes.int32, dtypes.uint8),
    "f": (dtypes.float32, dtypes.bfloat16),
}


def _samples(kinds: str) -> list[DType]:
    return [dtype for kind in kinds for dtype in _SAMPLE_DTYPES[kind]]


def _itself(x: Node) -> Node:
    return x


def _minimum(dtype: DType) -> Scalar:
    return dtype.minimum


def _maximum(dtype: DType) -> Scalar:
    return dtype.maximum


def _of(value: Value, dtype: DType) -> Scalar:
    return value(dtype) if callable(value) else value


def _always(value: Value) -> Result:
    return lambda x: build.const(_of(value, x.dtype), x.dtype, x.shape)


def _flag(value: bool) -> Result:
    return lambda x: build.const(value, dtypes.bool_, x.shape)


_negated: Final = partial(build.unary, "neg")
_inverted: Final = partial(build.unary, "not")


# --- one operand is a constant


class Neutral(NamedTuple):
    """A function with one constant operand. For integers and bool, -1 means that all bits are set."""

    name: str
    function: str
    side: int | None  # where the constant stands: 0, 1, or None for either
    value: Value
    kinds: str
    result: Result
    summary: str
    contract: Contract = Contract.EXACT


# x + 0.0 is not x for x = -0.0; x + -0.0 and x - 0.0 are.
NEUTRAL: Final = (
    Neutral("add_zero", "add", None, 0, "i", _itself, "x + 0 → x, for integers"),
    Neutral("add_minus_zero", "add", None, -0.0, "f", _itself, "x + -0.0 → x"),
    Neutral("sub_zero", "sub", 1, 0, "if", _itself, "x - 0 → x"),
    Neutral("zero_sub", "sub", 0, 0, "i", _negated, "0 - x → -x, for integers"),
    Neutral("minus_zero_sub", "sub", 0, -0.0, "f", _negated, "-0.0 - x → -x"),
    Neutral("mul_one", "mul", None, 1, "if", _itself, "x * 1 → x"),
    Neutral("mul_minus_one", "mul", None, -1, "if", _negated, "x * -1 → -x"),
    Neutral("mul_zero", "mul", None, 0, "i", _always(0), "x * 0 → 0, for integers"),
    Neutral("div_one", "div", 1, 1, "f", _itself, "x / 1 → x"),
    Neutral("div_minus_one", "div", 1, -1, "f", _negated, "x / -1 → -x"),
    Neutral("floordiv_one", "floordiv", 1, 1, "i", _itself, "x // 1 → x, for integers"),
    Neutral("mod_one", "mod", 1, 1, "i", _always(0), "x % 1 → 0, for integers"),
    Neutral("pow_one", "pow", 1, 1, "if", _itself, "x ** 1 → x"),
    Neutral("pow_zero", "pow", 1, 0, "if", _always(1), "x ** 0 → 1"),
    Neutral("and_zero", "and", None, 0, "bi", _always(0), "x & 0 → 0"),
    Neutral("and_all", "and", None, -1, "bi", _itself, "x & all ones → x"),
    Neutral("or_zero", "or", None, 0, "bi", _itself, "x | 0 → x"),
    Neutral("or_all", "or", None, -1, "bi", _always(-1), "x | all ones → all ones"),
    Neutral("xor_zero", "xor", None, 0, "bi", _itself, "x ^ 0 → x"),
    Neutral("xor_all", "xor", None, -1, "bi", _inverted, "x ^ all ones → ~x"),
    Neutral("shl_zero", "shl", 1, 0, "i", _itself, "x << 0 → x"),
    Neutral("shr_zero", "shr", 1, 0, "i", _itself, "x >> 0 → x"),
    Neutral("zero_shl", "shl", 0, 0, "i", _always(0), "0 << x → 0"),
    Neutral("zero_shr", "shr", 0, 0, "i", _always(0), "0 >> x → 0"),
    Neutral("max_lowest", "max", None, _minimum, "bi", _itself, "max(x, lowest) → x, for integers and bool"),
    Neutral(
        "max_highest",
        "max",
        None,
        _maximum,
        "bi",
        _always(_maximum),
        "max(x, highest) → highest, for integers and bool",
    ),
    Neutral(
        "min_lowest", "min", None, _minimum, "bi", _always(_minimum), "min(x, lowest) → lowest, for integers and bool"
    ),
    Neutral("min_highest", "min", None, _maximum, "bi", _itself, "min(x, highest) → x, for integers and bool"),
    Neutral("max_minus_infinity", "max", None, -math.inf, "f", _itself, "max(x, -inf) → x"),
    Neutral("min_infinity", "min", None, math.inf, "f", _itself, "min(x, inf) → x"),
    Neutral("eq_true", "eq", None, True, "b", _itself, "x == True → x"),
    Neutral("eq_false", "eq", None, False, "b", _inverted, "x == False → ~x"),
    Neutral("ne_true", "ne", None, True, "b", _inverted, "x != True → ~x"),
    Neutral("ne_false", "ne", None, False, "b", _itself, "x != False → x"),
    Neutral(
        "fast_add_zero", "add", None, 0, "f", _itself, "x + 0.0 → x: loses the sign of a sum of zeros", Contract.FAST
    ),
    Neutral(
        "fast_mul_zero", "mul", None, 0, "f", _always(0), "x * 0.0 → 0.0: wrong for NaN and infinities", Contract.FAST
    ),
)


_MAY_BE_CONSTANT: Final = frozenset({Op.CONST, Op.EXPAND, Op.RESHAPE})


def _neutral(row: Neutral, node: Node) -> Node | None:
    a, b = node.sources
    if a.op not in _MAY_BE_CONSTANT and b.op not in _MAY_BE_CONSTANT:
        return None
    if kind_letter(a.dtype) not in row.kinds:
        return None
    value = _of(row.value, a.dtype)
    if row.side != 0 and has_value(b, value):
        return row.result(a)
    if row.side != 1 and has_value(a, value):
        return row.result(b)
    return None


def _neutral_examples(row: Neutral) -> list[Node]:
    found = []
    for dtype in _samples(row.kinds):
        x = leaf(dtype, 17)
        constant = build.const(_of(row.value, dtype), dtype, x.shape)
        found += [build.binary(row.function, x, constant)] if row.side != 0 else []
        found += [build.binary(row.function, constant, x)] if row.side != 1 else []
    return found


# --- both operands are the same


class Same(NamedTuple):
    """A function of x and x."""

    name: str
    function: str
    kinds: str
    result: Result
    summary: str
    contract: Contract = Contract.EXACT


SAME: Final = (
    Same("sub_self", "sub", "i", _always(0), "x - x → 0, for integers"),
    Same("max_self", "max", "bif", _itself, "max(x, x) → x"),
    Same("min_self", "min", "bif", _itself, "min(x, x) → x"),
    Same("and_self", "and", "bi", _itself, "x & x → x"),
    Same("or_self", "or", "bi", _itself, "x | x → x"),
    Same("xor_self", "xor", "bi", _always(0), "x ^ x → 0"),
    Same("eq_self", "eq", "bi", _flag(True), "x == x → True, for integers and bool"),
    Same("ne_self", "ne", "bi", _flag(False), "x != x → False, for integers and bool"),
    Same("ne_self_is_nan", "ne", "f", partial(build.unary, "isnan"), "x != x → isnan(x), for floats"),
    Same("le_self", "le", "bi", _flag(True), "x <= x → True, for integers and bool"),
    Same("lt_self", "lt", "bif", _flag(False), "x < x → False"),
)


def _same(row: Same, node: Node) -> Node | None:
    a, b = node.sources
    return row.result(a) if a is b and kind_letter(a.dtype) in row.kinds else None


def _same_examples(row: Same) -> list[Node]:
    return [build.binary(row.function, x, x) for x in (leaf(dtype, 17) for dtype in _samples(row.kinds))]


def _enter(rows: Sequence[Neutral | Same], match: Matcher, examples: Callable[..., list[Node]]) -> None:
    for row in rows:
        facts = (row.name, family.name, (Op.BINARY,), row.contract)
        family.rules.append(Rule(*facts, partial(match, row), partial(examples, row), row.summary, (row.function,)))


_enter(NEUTRAL, _neutral, _neutral_examples)
_enter(SAME, _same, _same_examples)


# --- a function of a function

_ROUNDINGS: Final = ("floor", "ceil", "trunc", "round")


class Nested(NamedTuple):
    """A function of a function: what stays is the inner one, the outer one, or neither."""

    outer: str
    inner: str
    kinds: str
    stays: str
    unsigned: bool = True  # also for unsigned integers


NESTED: Final = (
    Nested("neg", "neg", "if", "neither"),
    Nested("not", "not", "bi", "neither"),
    Nested("abs", "abs", "if", "inner"),
    Nested("abs", "neg", "if", "outer", unsigned=False),  # -1 is the largest unsigned number
    Nested("sign", "sign", "if", "inner"),
    *(Nested(outer, inner, "f", "inner") for outer in _ROUNDINGS for inner in _ROUNDINGS),
)
_NESTED_TABLE: Final = {(row.outer, row.inner): row for row in NESTED}


def _is_unsigned(dtype: DType) -> bool:
    return dtype.is_integer and not dtype.is_signed


@family.rule(
    Op.UNARY,
    functions=tuple(dict.fromkeys(row.outer for row in NESTED)),
    of=Op.UNARY,
    examples=lambda: [
        build.unary(row.outer, build.unary(row.inner, leaf(dtype, 17)))
        for row in NESTED
        for dtype in _samples(row.kinds)
        if row.unsigned or not _is_unsigned(dtype)
    ],
)
def nested_unary(node: Node, inner: Node, x: Node) -> Node | None:
    """-(-x) → x, ~~x → x, |-x| → |x|, and abs, sign and roundings of what they cannot change."""
    row = _NESTED_TABLE.get((node.attribute, inner.attribute))
    if row is None or (_is_unsigned(node.dtype) and not row.unsigned):
        return None
    if row.stays == "inner":
        return inner
    return x if row.stays == "neither" else build.unary(node.attribute, x)


def _negation_examples() -> Sequence[Node]:
    found = []
    for dtype in _samples("if"):
        x, y = leaf(dtype, 17), leaf(dtype, 17)
        found += [build.binary(name, x, build.unary("neg", y)) for name in ("add", "sub")]
        found += [build.binary("add", build.unary("neg", x), y)]
        if dtype.is_float:
            found += [build.binary(name, build.unary("neg", x), build.unary("neg", y)) for name in ("mul", "div")]
    return found


@family.rule(Op.BINARY, functions=("add", "sub", "mul", "div"), examples=_negation_examples)
def absorb_negation(node: Node) -> Node | None:
    """x + -y → x - y, -x + y → y - x, x - -y → x + y, -x * -y → x * y, -x / -y → x / y."""
    a, b = node.sources
    left, right = is_function(a, Op.UNARY, "neg"), is_function(b, Op.UNARY, "neg")
    if node.attribute in ("mul", "div"):
        return build.binary(node.attribute, a.sources[0], b.sources[0]) if left and right else None
    if right:
        return build.binary("sub" if node.attribute == "add" else "add", a, b.sources[0])
    if left and node.attribute == "add":
        return build.binary("sub", b, a.sources[0])
    return None


# --- where


def _where_constant_examples() -> Sequence[Node]:
    a, b = leaf(dtypes.float32, 17), leaf(dtypes.float32, 17)
    return [build.where(build.const(value, dtypes.bool_, (17,)), a, b) for value in (True, False)]


@family.rule(Op.WHERE, examples=_where_constant_examples)
def where_constant(node: Node) -> Node | None:
    """where(True, a, b) → a, where(False, a, b) → b."""
    condition, a, b = node.sources
    if has_value(condition, True):
        return a
    return b if has_value(condition, False) else None


def _where_same_examples() -> Sequence[Node]:
    a = leaf(dtypes.float32, 17)
    return [build.where(leaf(dtypes.bool_, 17), a, a)]


@family.rule(Op.WHERE, examples=_where_same_examples)
def where_same(node: Node) -> Node | None:
    """where(c, a, a) → a."""
    _, a, b = node.sources
    return a if a is b else None


def _where_not_examples() -> Sequence[Node]:
    condition = build.unary("not", leaf(dtypes.bool_, 17))
    return [build.where(condition, leaf(dtypes.int8, 17), leaf(dtypes.int8, 17))]


@family.rule(Op.WHERE, examples=_where_not_examples)
def where_not(node: Node) -> Node | None:
    """where(~c, a, b) → where(c, b, a)."""
    condition, a, b = node.sources
    return build.where(condition.sources[0], b, a) if is_function(condition, Op.UNARY, "not") else None


def _where_bool_examples() -> Sequence[Node]:
    true, false = (build.const(value, dtypes.bool_, (17,)) for value in (True, False))
    condition = leaf(dtypes.bool_, 17)
    return [build.where(condition, true, false), build.where(condition, false, true)]


@family.rule(Op.WHERE, examples=_where_bool_examples)
def where_bool(node: Node) -> Node | None:
    """where(c, True, False) → c, where(c, False, True) → ~c."""
    if not node.dtype.is_bool:
        return None
    condition, a, b = node.sources
    if has_value(a, True) and has_value(b, False):
        return condition
    return build.unary("not", condition) if has_value(a, False) and has_value(b, True) else None


_DEPTH: Final = 4  # functions and conditions in a row that are looked through


def _where_nested_examples() -> Iterator[Node]:
    condition, other = leaf(dtypes.bool_, 17), leaf(dtypes.bool_, 17)
    a, b, c = (leaf(dtypes.float32, 17) for _ in range(3))
    inner = build.where(condition, a, b)
    yield build.where(condition, inner, c)
    yield build.where(condition, c, inner)
    yield build.where(condition, build.exp(inner), c)
    yield build.where(condition, c, build.where(other, build.exp(inner), a))


@family.rule(Op.WHERE, examples=_where_nested_examples)
def where_nested(node: Node) -> Node | None:
    """where(c, f(where(c, a, b)), d) → where(c, f(a), d), and the same in the other branch; there may be functions of
    one argument and other conditions in between, or none.
    """
    condition, a, b = node.sources
    yes, no = _assuming(a, condition, 1, _DEPTH), _assuming(b, condition, 2, _DEPTH)
    return None if yes is a and no is b else build.where(condition, yes, no)


def _assuming(node: Node, condition: Node, branch: int, depth: int) -> Node:
    """A node where a condition is known: `branch` is the operand of `where` that it takes."""
    if depth == 0 or node.leaf is not None or node.op not in (Op.WHERE, Op.UNARY):
        return node
    if node.op is Op.UNARY:
        inner = _assuming(node.sources[0], condition, branch, depth - 1)
        return node if inner is node.sources[0] else build.unary(node.attribute, inner)
    test, *branches = node.sources
    if test is condition:
        return node.sources[branch]
    known = [_assuming(one, condition, branch, depth - 1) for one in branches]
    return node if known == branches else build.where(test, *known)


# --- casts

_PRECISION: Final = {
    dtypes.float8_e4m3fn: 4,
    dtypes.float8_e5m2: 3,
    dtypes.float16: 11,
    dtypes.bfloat16: 8,
    dtypes.float32: 24,
    dtypes.float64: 53,
}


def lossless(source: DType, target: DType) -> bool:
    """True if every value of one dtype is a value of the other."""
    if source is target or source.is_bool:
        return True
    if target.is_bool:
        return False
    if source.is_float:
        # float16 and bfloat16 do not hold each other; all other pairs are ordered by width.
        return target.is_float and target.bits > source.bits
    magnitude = source.bits - source.is_signed
    if target.is_float:
        return magnitude <= _PRECISION[target]
    return (target.is_signed or not source.is_signed) and magnitude <= target.bits - target.is_signed


def skippable(source: DType, middle: DType, target: DType) -> bool:
    """True if casting through `middle` gives the same values as casting directly."""
    if not (
        source.is_float or source.is_bool or middle.is_float or target.is_float or middle.is_bool or target.is_bool
    ):
        # Integers wrap, so only the low bits count.
        return middle.bits >= target.bits or lossless(source, middle)
    if not lossless(source, middle):
        return False
    # A float saturates to an integer where an integer would wrap.
    return not (middle.is_float and target.is_integer and source.is_integer) or lossless(source, target)


def _cast_examples() -> Sequence[Node]:
    chains = [
        (dtypes.float16, dtypes.float32, dtypes.float16),
        (dtypes.bfloat16, dtypes.float64, dtypes.float32),
        (dtypes.float32, dtypes.float64, dtypes.float16),
        (dtypes.float32, dtypes.float64, dtypes.int8),
        (dtypes.int8, dtypes.float32, dtypes.int32),
        (dtypes.uint8, dtypes.int32, dtypes.int8),
        (dtypes.int64, dtypes.int32, dtypes.uint8),
        (dtypes.int32, dtypes.int64, dtypes.float32),
        (dtypes.bool_, dtypes.uint8, dtypes.float32),
        (dtypes.int16, dtypes.float32, dtypes.bool_),
    ]
    return [build.cast(build.cast(leaf(source, 17), middle), target) for source, middle, target in chains]


@family.rule(Op.CAST, of=Op.CAST, examples=_cast_examples)
def cast_chain(node: Node, inner: Node, x: Node) -> Node | None:
    """A cast through a dtype that loses nothing → the direct cast."""
    return build.cast(x, node.dtype) if skippable(x.dtype, inner.dtype, node.dtype) else None


def _bitcast_examples() -> Sequence[Node]:
    x = leaf(dtypes.float32, 17)
    there = build.bitcast(x, dtypes.int32)
    return [build.bitcast(there, dtypes.float32), build.bitcast(there, dtypes.uint32)]


@family.rule(Op.BITCAST, of=Op.BITCAST, examples=_bitcast_examples)
def bitcast_chain(node: Node, inner: Node, x: Node) -> Node | None:
    """bitcast(bitcast(x)) → bitcast(x)."""
    return build.bitcast(x, node.dtype)
