"""Values that are known now: operations on constants, and tensors without elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from smelt import dtypes
from smelt.graph import CONTROL, Node, Op, Span, build, constant_value, make, ops, product_of
from smelt.graph.interpret import interpret
from smelt.rewrite.rule import Contract, Family
from smelt.rewrite.rules.pattern import constant_of, filled, is_empty, leaf

family = Family("constant")

# The float functions that every backend rounds correctly, so that folding gives what a kernel would.
EXACT_FLOAT: Final = frozenset(
    {"neg", "abs", "sign", "sqrt", "reciprocal", "floor", "ceil", "trunc", "round", "isnan"}
    | {"add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le"}
)


def _no_elements_examples() -> Iterator[Node]:
    x, fill = leaf(dtypes.float32, 0, 3), leaf(dtypes.float32)
    yield build.unary("exp", x)
    yield build.binary("add", x, leaf(dtypes.float32, 0, 3))
    yield build.pad(x, ((0, 0), (1, 0)), fill)
    yield build.reduce("max", x, (1,))
    yield build.matmul(x, leaf(dtypes.float32, 3, 5))
    yield build.slice_(leaf(dtypes.int8, 4), (Span(2, 0, 1),))
    yield build.iota(0, dtypes.int32)


@family.rule(
    *(op for op in Op if op not in {Op.CONST, Op.LEAF, Op.COMPOSITE, Op.ALIAS, Op.PARAMETER, Op.ITEM} | CONTROL),
    examples=_no_elements_examples,
)
def no_elements(node: Node) -> Node | None:
    """Anything without elements → an expanded constant."""
    if 0 not in node.shape or constant_of(node) is not None:
        return None
    return build.const(0, node.dtype, node.shape)


def _fold_examples() -> Iterator[Node]:
    shape = (3, 2)
    two, five = (build.const(value, dtypes.int32, shape) for value in (2, -5))
    one, zero = (build.const(value, dtypes.float32, shape) for value in (1.0, 0.0))
    yes = build.const(True, dtypes.bool_, shape)
    yield from (build.binary(name, five, two) for name in ("add", "mul", "floordiv", "mod", "shr", "lt", "pow"))
    yield build.binary("floordiv", five, build.const(0, dtypes.int32, shape))
    yield from (build.binary(name, one, zero) for name in ("add", "sub", "div", "max", "le"))
    yield build.binary("add", build.const(250, dtypes.uint8), build.const(10, dtypes.uint8))
    yield build.unary("neg", zero)
    yield build.unary("not", five)
    yield build.where(yes, two, five)
    yield build.cast(build.const(-1.0, dtypes.float32, shape), dtypes.uint8)
    yield build.bitcast(one, dtypes.int32)


@family.rule(Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST, examples=_fold_examples)
def fold_elementwise(node: Node) -> Node | None:
    """An elementwise operation on constants → its value, where every backend computes it exactly."""
    constants: list[Node] = []
    for source in node.sources:
        constant = constant_of(source)
        if constant is None:
            return None
        constants.append(constant)
    function = node.op is Op.UNARY or node.op is Op.BINARY
    if function and node.sources[0].dtype.is_float and node.attribute not in EXACT_FLOAT:
        return None
    scalar = make(node.op, node.dtype, (), tuple(constants), node.attribute)
    # The same scalar may be part of the user's program and have been computed there already.
    (value,) = interpret([scalar], lambda leaf: leaf.attribute.numpy())
    return filled(make(Op.CONST, node.dtype, (), (), value.tobytes()), node.shape)


def _view_examples() -> Iterator[Node]:
    x = build.const(7, dtypes.int32, (2, 3))
    yield build.reshape(x, (3, 2))
    yield build.permute(x, (1, 0))
    yield build.expand(build.reshape(x, (1, 6)), (5, 6))
    yield build.slice_(x, (Span(0, 1, 1), Span(2, 2, -1)))
    yield build.window(x, 1, 2)


@family.rule(Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.WINDOW, examples=_view_examples)
def view_of_constant(node: Node) -> Node | None:
    """Movement of a constant → the constant, expanded to the new shape."""
    constant = constant_of(node.sources[0])
    if constant is None:
        return None
    after = filled(constant, node.shape)
    return None if after is node else after


def _joined_examples() -> Sequence[Node]:
    x = build.const(1.0, dtypes.float32, (2, 3))
    return [build.pad(x, ((1, 0), (0, 2)), build.const(1.0, dtypes.float32)), build.concat([x, x], 1)]


@family.rule(Op.PAD, Op.CONCAT, examples=_joined_examples)
def joined_constants(node: Node) -> Node | None:
    """A constant padded with itself, or joined with itself → one constant."""
    first = constant_of(node.sources[0])
    if first is None or any(constant_of(source) is not first for source in node.sources[1:]):
        return None
    return filled(first, node.shape)


def _empty_reduction_examples() -> Sequence[Node]:
    x, counts = leaf(dtypes.float32, 3, 0), leaf(dtypes.int16, 3, 0, 2)
    sums = [build.reduce(op, x, (1,)) for op in ops.REDUCTIONS]
    return [*sums, *(build.reduce(op, counts, (1,)) for op in ops.REDUCTIONS)]


@family.rule(Op.REDUCE, examples=_empty_reduction_examples)
def reduce_nothing(node: Node) -> Node | None:
    """A reduction over an axis of size 0 → its neutral element."""
    if not is_empty(node.sources[0].shape):
        return None
    return build.const(ops.identity(node.attribute.op, node.dtype), node.dtype, node.shape)


# The sum of nothing is 0.0; a backend that multiplies after summing may give it a sign.
@family.rule(
    Op.CONTRACT,
    contract=Contract.REASSOCIATES,
    examples=lambda: [build.matmul(leaf(dtypes.float32, 2, 0), leaf(dtypes.float32, 0, 3))],
)
def contract_nothing(node: Node) -> Node | None:
    """A contraction over an axis of size 0 → zeros."""
    if not any(is_empty(source.shape) for source in node.sources):
        return None
    return build.const(0, node.dtype, node.shape)


@family.rule(
    Op.REDUCE,
    examples=lambda: [build.reduce("mul", build.const(value, dtypes.int16, (7, 3)), (0,)) for value in (3, -1, 0)],
)
def product_of_constant(node: Node) -> Node | None:
    """The product of a repeated integer → its power."""
    op, axes = node.attribute
    constant = constant_of(node.sources[0])
    if op != "mul" or not node.dtype.is_integer or constant is None:
        return None
    count = product_of(node.sources[0].shape[axis] for axis in axes)
    if not isinstance(count, int):
        return None
    return build.const(pow(int(constant_value(constant)), count, 1 << node.dtype.bits), node.dtype, node.shape)


@family.rule(Op.IOTA, examples=lambda: [build.iota(1, dtypes.int64), build.iota(1, dtypes.float32)])
def iota_of_one(node: Node) -> Node | None:
    """iota(1) → 0."""
    return build.const(0, node.dtype, node.shape) if node.shape == (1,) else None
