"""Elementwise operations that give back an operand, a constant or a simpler operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from ml_dtypes import finfo

from smelt import dtypes
from smelt.dtypes import DType, Scalar
from smelt.graph import BINARY, VIEWS, Node, Op, build, constant_of, kind_letter, make, with_sources
from smelt.rewrite.rule import Contract, Family, Rule
from smelt.rewrite.rules.pattern import has_value, is_function, is_op

family = Family("identity")

Result = Callable[[Node], Node]  # what becomes of the operand that is left
Value = Scalar | Callable[[DType], Scalar]

_lowest: Final = attrgetter("minimum")
_highest: Final = attrgetter("maximum")


def _of(value: Value, dtype: DType) -> Scalar:
    return value(dtype) if callable(value) else value


def _itself(x: Node) -> Node:
    return x


def _always(value: Value, dtype: DType | None = None) -> Result:
    return lambda x: build.const(_of(value, x.dtype), dtype or x.dtype, x.shape)


_negated: Final = partial(build.unary, "neg")
_inverted: Final = partial(build.unary, "not")
_true, _false = (_always(value, dtypes.bool_) for value in (True, False))


# --- one operand is a constant, or both are the same


class Identity(NamedTuple):
    """A function of x and a constant, or of x and x where there is no `value`.

    For integers and bool, -1 means that all bits are set.
    """

    name: str
    function: str
    side: int | None  # where the constant stands: 0, 1, or None for either
    value: Value | None
    kinds: str  # of dtypes
    result: Result
    summary: str


# x + 0.0 is not x for x = -0.0; x + -0.0 and x - 0.0 are.
IDENTITIES: Final = (
    Identity("add_zero", "add", None, 0, "i", _itself, "x + 0 → x"),
    Identity("add_minus_zero", "add", None, -0.0, "f", _itself, "x + -0.0 → x"),
    Identity("sub_zero", "sub", 1, 0, "if", _itself, "x - 0 → x"),
    Identity("zero_sub", "sub", 0, 0, "i", _negated, "0 - x → -x"),
    Identity("minus_zero_sub", "sub", 0, -0.0, "f", _negated, "-0.0 - x → -x"),
    Identity("mul_one", "mul", None, 1, "if", _itself, "x * 1 → x"),
    Identity("mul_minus_one", "mul", None, -1, "if", _negated, "x * -1 → -x"),
    Identity("mul_zero", "mul", None, 0, "i", _always(0), "x * 0 → 0"),
    Identity("div_one", "div", 1, 1, "f", _itself, "x / 1 → x"),
    Identity("div_minus_one", "div", 1, -1, "f", _negated, "x / -1 → -x"),
    Identity("floordiv_one", "floordiv", 1, 1, "i", _itself, "x // 1 → x"),
    Identity("mod_one", "mod", 1, 1, "i", _always(0), "x % 1 → 0"),
    Identity("pow_one", "pow", 1, 1, "if", _itself, "x ** 1 → x"),
    Identity("pow_zero", "pow", 1, 0, "if", _always(1), "x ** 0 → 1"),
    Identity("and_zero", "and", None, 0, "bi", _always(0), "x & 0 → 0"),
    Identity("and_all", "and", None, -1, "bi", _itself, "x & all ones → x"),
    Identity("or_zero", "or", None, 0, "bi", _itself, "x | 0 → x"),
    Identity("or_all", "or", None, -1, "bi", _always(-1), "x | all ones → all ones"),
    Identity("xor_zero", "xor", None, 0, "bi", _itself, "x ^ 0 → x"),
    Identity("xor_all", "xor", None, -1, "bi", _inverted, "x ^ all ones → ~x"),
    Identity("shl_zero", "shl", 1, 0, "i", _itself, "x << 0 → x"),
    Identity("shr_zero", "shr", 1, 0, "i", _itself, "x >> 0 → x"),
    Identity("zero_shl", "shl", 0, 0, "i", _always(0), "0 << x → 0"),
    Identity("zero_shr", "shr", 0, 0, "i", _always(0), "0 >> x → 0"),
    Identity("max_lowest", "max", None, _lowest, "bi", _itself, "max(x, lowest) → x"),
    Identity("max_highest", "max", None, _highest, "bi", _always(_highest), "max(x, highest) → highest"),
    Identity("min_lowest", "min", None, _lowest, "bi", _always(_lowest), "min(x, lowest) → lowest"),
    Identity("min_highest", "min", None, _highest, "bi", _itself, "min(x, highest) → x"),
    Identity("max_minus_infinity", "max", None, -math.inf, "f", _itself, "max(x, -inf) → x"),
    Identity("min_infinity", "min", None, math.inf, "f", _itself, "min(x, inf) → x"),
    Identity("eq_true", "eq", None, True, "b", _itself, "x == True → x"),
    Identity("eq_false", "eq", None, False, "b", _inverted, "x == False → ~x"),
    Identity("ne_true", "ne", None, True, "b", _inverted, "x != True → ~x"),
    Identity("ne_false", "ne", None, False, "b", _itself, "x != False → x"),
    Identity("sub_self", "sub", None, None, "i", _always(0), "x - x → 0"),
    Identity("max_self", "max", None, None, "bif", _itself, "max(x, x) → x"),
    Identity("min_self", "min", None, None, "bif", _itself, "min(x, x) → x"),
    Identity("and_self", "and", None, None, "bi", _itself, "x & x → x"),
    Identity("or_self", "or", None, None, "bi", _itself, "x | x → x"),
    Identity("xor_self", "xor", None, None, "bi", _always(0), "x ^ x → 0"),
    Identity("eq_self", "eq", None, None, "bi", _true, "x == x → True"),
    Identity("ne_self", "ne", None, None, "bi", _false, "x != x → False"),
    Identity("ne_self_is_nan", "ne", None, None, "f", partial(build.unary, "isnan"), "x != x → isnan(x), for floats"),
    Identity("le_self", "le", None, None, "bi", _true, "x <= x → True"),
    Identity("lt_self", "lt", None, None, "bif", _false, "x < x → False"),
)

_NARROWER: Final = {"i": ", for integers", "bi": ", for integers and bool"}  # than what the function takes
_MAY_BE_CONSTANT: Final = frozenset({Op.CONST, Op.EXPAND, Op.RESHAPE})


def _identity(row: Identity, node: Node) -> Node | None:
    a, b = node.sources
    if row.value is None:
        return row.result(a) if a is b and kind_letter(a.dtype) in row.kinds else None
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


for _row in IDENTITIES:
    _note = _NARROWER.get(_row.kinds, "") if _row.kinds != BINARY[_row.function].kinds else ""
    _facts = (_row.name, family.name, (Op.BINARY,), Contract.EXACT, partial(_identity, _row), _row.summary + _note)
    family.rules.append(Rule(*_facts, functions=(_row.function,)))


# --- a function of a function

_ROUNDINGS: Final = ("floor", "ceil", "trunc", "round")

# By the outer and the inner function: whether the inner one stays, the outer one, or neither.
_NESTED: Final = {
    ("neg", "neg"): "neither",
    ("not", "not"): "neither",
    ("abs", "abs"): "inner",
    ("abs", "neg"): "outer",
    ("sign", "sign"): "inner",
    **{(outer, inner): "inner" for outer in _ROUNDINGS for inner in _ROUNDINGS},
}


@family.rule(Op.UNARY, functions=tuple(dict.fromkeys(outer for outer, _ in _NESTED)), of=Op.UNARY)
def nested_unary(node: Node, inner: Node, x: Node) -> Node | None:
    """-(-x) → x, ~~x → x, |-x| → |x|, and abs, sign and roundings of what they cannot change."""
    stays = _NESTED.get((node.attribute, inner.attribute))
    if stays != "outer":
        return {None: None, "inner": inner, "neither": x}[stays]
    # Of an unsigned number, -1 is the largest.
    return None if node.dtype.is_integer and not node.dtype.is_signed else build.unary(node.attribute, x)


@family.rule(Op.BINARY, functions=("add", "sub", "mul", "div"))
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


@family.rule(Op.WHERE)
def where_known(node: Node) -> Node | None:
    """where(True, a, b) → a, where(c, a, a) → a, where(~c, a, b) → where(c, b, a), where(c, True, False) → c."""
    condition, a, b = node.sources
    if a is b or has_value(condition, True):
        return a
    if has_value(condition, False):
        return b
    opposite = _opposite(condition)
    if opposite is not None:
        return build.where(opposite, b, a)
    if not node.dtype.is_bool:
        return None
    if has_value(a, True) and has_value(b, False):
        return condition
    return build.unary("not", condition) if has_value(a, False) and has_value(b, True) else None


def _opposite(condition: Node) -> Node | None:
    """What a condition is the opposite of, also seen through views."""
    if is_function(condition, Op.UNARY, "not"):
        return condition.sources[0]
    if condition.op not in VIEWS or condition.leaf is not None:
        return None
    inner = _opposite(condition.sources[0])
    return None if inner is None else with_sources(condition, (inner,))


@family.rule(Op.BINARY, functions=("eq", "ne", "lt", "le"))
def comparison_of_known(node: Node) -> Node | None:
    """where(c, 1, 0) > 0 → where(c, 1 > 0, 0 > 0), and so for all comparisons of two constants: a mask."""
    return _for_each_branch(node)


@family.rule(Op.CAST)
def cast_of_known(node: Node) -> Node | None:
    """A cast of one of two constants → one of two casts."""
    return _for_each_branch(node)


def _for_each_branch(node: Node) -> Node | None:
    chosen = next((source for source in node.sources if is_op(source, Op.WHERE)), None)
    if chosen is None or not all(source is chosen or constant_of(source) for source in node.sources):
        return None
    condition, *branches = chosen.sources
    if not all(map(constant_of, branches)):
        return None

    def tested(branch: Node) -> Node:
        sources = tuple(branch if source is chosen else source for source in node.sources)
        return make(node.op, node.dtype, node.shape, sources, node.attribute)

    return build.where(condition, *map(tested, branches))


_DEPTH: Final = 4  # functions and conditions in a row that are looked through


@family.rule(Op.WHERE)
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
        return magnitude <= int(finfo(target.numpy).nmant) + 1
    return (target.is_signed or not source.is_signed) and magnitude <= target.bits - target.is_signed


def skippable(source: DType, middle: DType, target: DType) -> bool:
    """True if casting through `middle` gives the same values as casting directly."""
    if source.is_integer and middle.is_integer and target.is_integer:
        # Integers wrap, so only the low bits count.
        return middle.bits >= target.bits or lossless(source, middle)
    if not lossless(source, middle):
        return False
    # A float saturates to an integer where an integer would wrap.
    return not (middle.is_float and target.is_integer and source.is_integer) or lossless(source, target)


@family.rule(Op.CAST, of=Op.CAST)
def cast_chain(node: Node, inner: Node, x: Node) -> Node | None:
    """A cast through a dtype that loses nothing → the direct cast."""
    return build.cast(x, node.dtype) if skippable(x.dtype, inner.dtype, node.dtype) else None


@family.rule(Op.BITCAST, of=Op.BITCAST)
def bitcast_chain(node: Node, inner: Node, x: Node) -> Node | None:
    """bitcast(bitcast(x)) → bitcast(x)."""
    return build.bitcast(x, node.dtype)
