"""Values that are known now: operations on constants, and tensors without elements."""

from __future__ import annotations

from typing import Final

from smelt.graph import CONTROL, VIEWS, Node, Op, build, constant_of, constant_value, make, ops, product_of
from smelt.graph.interpret import interpret
from smelt.rewrite.rule import Contract, Family

family = Family("constant")

# The float functions that every backend rounds correctly, so that folding gives what a kernel would.
EXACT_FLOAT: Final = frozenset(
    {"neg", "abs", "sign", "sqrt", "reciprocal", "floor", "ceil", "trunc", "round", "isnan"}
    | {"add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le"}
)


@family.rule(
    *(op for op in Op if op not in {Op.CONST, Op.LEAF, Op.COMPOSITE, Op.ALIAS, Op.PARAMETER, Op.ITEM} | CONTROL)
)
def no_elements(node: Node) -> Node | None:
    """Anything without elements → an expanded constant."""
    if 0 not in node.shape or constant_of(node) is not None:
        return None
    return build.const(0, node.dtype, node.shape)


@family.rule(Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST)
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
    return build.broadcast_to(make(Op.CONST, node.dtype, (), (), value.tobytes()), node.shape)


@family.rule(*VIEWS, Op.PAD, Op.CONCAT)
def moved_constant(node: Node) -> Node | None:
    """Movement of a constant, also padded or joined with itself → the constant, expanded to the new shape."""
    constant = constant_of(node.sources[0])
    if constant is None or any(constant_of(source) is not constant for source in node.sources[1:]):
        return None
    after = build.broadcast_to(constant, node.shape)
    return None if after is node else after


@family.rule(Op.REDUCE)
def reduce_nothing(node: Node) -> Node | None:
    """A reduction over an axis of size 0 → its neutral element."""
    if 0 not in node.sources[0].shape:
        return None
    return build.const(ops.identity(node.attribute.op, node.dtype), node.dtype, node.shape)


# The sum of nothing is 0.0; a backend that multiplies after summing may give it a sign.
@family.rule(Op.CONTRACT, contract=Contract.REASSOCIATES)
def contract_nothing(node: Node) -> Node | None:
    """A contraction over an axis of size 0 → zeros."""
    if not any(0 in source.shape for source in node.sources):
        return None
    return build.const(0, node.dtype, node.shape)


@family.rule(Op.REDUCE)
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


@family.rule(Op.IOTA)
def iota_of_one(node: Node) -> Node | None:
    """iota(1) → 0."""
    return build.const(0, node.dtype, node.shape) if node.shape == (1,) else None
