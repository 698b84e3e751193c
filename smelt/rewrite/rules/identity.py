"""Elementwise operations that give back an operand, a constant or a simpler operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from smelt import dtypes
from smelt.dtypes import DType, Scalar
from smelt.graph import build
from smelt.graph.node import Node
from smelt.graph.ops import Op, kind_letter
from smelt.rewrite.rule import Contract, Family
from smelt.rewrite.rules.pattern import has_value, is_function, is_op, leaf

family = Family("identity")

Result = Callable[[Node], Node]  # what becomes of the operand that is left

_SAMPLE_DTYPES: Final[dict[str, tuple[DType, ...]]] = {
    "b": (dtypes.bool_,),
    "i": (dtypes.int32, dtypes.uint8),
    "f": (dtypes.float32, dtypes.bfloat16),
}


def _samples(kinds: str) -> list[DType]:
    return [dtype for kind in kinds for dtype in _SAMPLE_DTYPES[kind]]


def _itself(x: Node) -> Node:
    return x


def _always(value: Scalar) -> Result:
    return lambda x: build.const(value, x.dtype, x.shape)


def _flag(value: bool) -> Result:
    return lambda x: build.const(value, dtypes.bool_, x.shape)


def _lowest(x: Node) -> Node:
    return build.const(x.dtype.minimum, x.dtype, x.shape)


def _highest(x: Node) -> Node:
    return build.const(x.dtype.maximum, x.dtype, x.shape)


_negated: Final = partial(build.unary, "neg")
_inverted: Final = partial(build.unary, "not")


# --- one operand is a constant


class Neutral(NamedTuple):
    """A function with one constant operand. For integers and bool, -1 means that all bits are set."""

    name: str
    function: str
    side: int | None  # where the constant stands: 0, 1, or None for either
    value: Scalar | Callable[[DType], Scalar]
    kinds: str
    result: Result
    summary: str
    contract: Contract = Contract.EXACT


def _minimum(dtype: DType) -> Scalar:
    return dtype.minimum


def _maximum(dtype: DType) -> Scalar:
    return dtype.maximum


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
    Neutral("max_highest", "max", None, _maximum, "bi", _highest, "max(x, highest) → highest, for integers and bool"),
    Neutral("min_lowest", "min", None, _minimum, "bi", _lowest, "min(x, lowest) → lowest, for integers and bool"),
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
    value = row.value(a.dtype) if callable(row.value) else row.value
    if row.side != 0 and has_value(b, value):
        return row.result(a)
    if row.side != 1 and has_value(a, value):
        return row.result(b)
    return None


def _neutral_examples(row: Neutral) -> list[Node]:
    found = []
    for dtype in _samples(row.kinds):
        x = leaf(dtype, 17)
        constant = build.const(row.value(dtype) if callable(row.value) else row.value, dtype, x.shape)
        found += [build.binary(row.function, x, constant)] if row.side != 0 else []
        found += [build.binary(row.function, constant, x)] if row.side != 1 else []
    return found


for _row in NEUTRAL:
    family.add(
        _row.name,
        (Op.BINARY,),
        _row.contract,
        partial(_neutral, _row),
        partial(_neutral_examples, _row),
        _row.summary,
        (_row.function,),
    )


# --- both operands are the same


class Same(NamedTuple):
    """A function of x and x."""

    name: str
    function: str
    kinds: str
    result: Result
    summary: str


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


for _same_row in SAME:
    family.add(
        _same_row.name,
        (Op.BINARY,),
        Contract.EXACT,
        partial(_same, _same_row),
        partial(_same_examples, _same_row),
        _same_row.summary,
        (_same_row.function,),
    )


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


def _nested_examples() -> Sequence[Node]:
    return [
        build.unary(row.outer, build.unary(row.inner, leaf(dtype, 17)))
        for row in NESTED
        for dtype in _samples(row.kinds)
        if row.unsigned or not _is_unsigned(dtype)
    ]


@family.rule(Op.UNARY, functions=tuple(dict.fromkeys(row.outer for row in NESTED)), examples=_nested_examples)
def nested_unary(node: Node) -> Node | None:
    """-(-x) → x, ~~x → x, |-x| → |x|, and abs, sign and roundings of what they cannot change."""
    (inner,) = node.sources
    if not is_op(inner, Op.UNARY):
        return None
    row = _NESTED_TABLE.get((node.attribute, inner.attribute))
    if row is None or (_is_unsigned(node.dtype) and not row.unsigned):
        return None
    if row.stays == "inner":
        return inner
    (x,) = inner.sources
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
