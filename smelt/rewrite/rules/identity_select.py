"""Identities, continued: where, and chains of casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import build
from smelt.graph.node import Node
from smelt.graph.ops import Op
from smelt.rewrite.rule import Family
from smelt.rewrite.rules.pattern import has_value, is_function, leaf

family = Family("identity")


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


def _where_nested_examples() -> Sequence[Node]:
    condition, other = leaf(dtypes.bool_, 17), leaf(dtypes.bool_, 17)
    a, b, c = (leaf(dtypes.float32, 17) for _ in range(3))
    inner = build.where(condition, a, b)
    return [
        build.where(condition, inner, c),
        build.where(condition, c, inner),
        build.where(condition, build.exp(inner), c),
        build.where(condition, c, build.where(other, build.exp(inner), a)),
    ]


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
