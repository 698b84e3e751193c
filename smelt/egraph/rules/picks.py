"""Elements that are picked: before or after what is computed of all of them."""

from __future__ import annotations

from typing import Any

from smelt.dtypes import DType, int64
from smelt.egraph.classes import known
from smelt.egraph.rules.functions import INCREASING
from smelt.graph import Node, Op, build, expand, upper
from smelt.rewrite import Contract, Family, any_of, expanded_axes

family = Family("picks")

_SOFTMAX = any_of("softmax", "log_softmax")
_EVERY = any_of(
    *("add", "sub", "mul", "div", "max", "min"),
    *("exp", "log", "tanh", "sqrt", "neg", "abs", "rsqrt", "reciprocal"),
)


# --- gather


@family.rule((Op.GATHER, _EVERY))
def gather_inside(node: Node, x: Node, *indices: Node) -> Node | None:
    """exp(x)[i] → exp(x[i]), and so for other elementwise functions: only what is picked is computed."""
    if node.shape == x.shape:
        return None  # as many are picked as there are
    axes, checked = node.attribute
    # One check is enough.
    first, *others = (
        build.gather(source, indices, axes, node.shape, checked=checked and not k) for k, source in enumerate(x.sources)
    )
    return build.binary(x.attribute, first, *others) if others else build.unary(x.attribute, first)


@family.rule((Op.GATHER, _SOFTMAX))
def gather_of_softmax(node: Node, x: Node, *indices: Node) -> Node | None:
    """softmax(x)[i] → its parts, picked from: of a softmax, or its logarithm, only what is picked is computed."""
    return build.gather(expand(x), indices, node.attribute.axes, node.shape, checked=node.attribute.checked)


# --- one-hot


@family.rule((Op.CONTRACT, (Op.CAST, ("eq", Op.EXPAND, Op.EXPAND)), None), contract=Contract.REGROUPS)
def one_hot_product(node: Node, one_hot: Node, matrix: Node) -> Node | None:
    """one_hot(i) w → w[i]: rows are picked, not multiplied; zeros, where i is no row."""
    left, right, out = node.attribute
    given = _compared_with_count(one_hot.sources[0])
    axis = one_hot.rank - 1
    if given is None or len(right) != 2 or one_hot.dtype is not node.dtype or expanded_axes(given) != (axis,):
        return None
    if left[axis] != right[0] or out != (*left[:-1], right[1]):
        return None
    number = build.cast(build.reshape(given.sources[0], one_hot.shape[:-1]), int64)
    shape = (*number.shape, matrix.shape[1])
    index = build.broadcast_to(build.reshape(number, (*number.shape, 1)), shape)
    rows = build.gather(matrix, [index], (-1, len(shape) - 1), shape)
    return build.where(build.in_range(index, matrix.shape[0]), rows, build.const(0, node.dtype, shape))


def _compared_with_count(test: Node) -> Node | None:
    """What is compared with a count along the last axis, in integers that hold all of it: 1.5 is no row, nor is 257 in
    a byte.
    """
    for count, given in (test.sources, test.sources[::-1]):
        size = upper(count.shape[-1])
        base = count.sources[0]
        while base.op in (Op.RESHAPE, Op.CAST) and _holds(base.dtype, size):
            base = base.sources[0]
        if base.op is Op.IOTA and _holds(base.dtype, size) and expanded_axes(count) == tuple(range(count.rank - 1)):
            return given
    return None


def _holds(dtype: DType, size: int) -> bool:
    return dtype.is_integer and size - 1 <= dtype.maximum


# --- argmax of increasing functions


def _argmax(of: Any) -> tuple[Any, ...]:
    """The pattern of argmax of something, as it is written out."""
    extreme = (Op.EXPAND, (Op.RESHAPE, (Op.REDUCE, of)))
    return (Op.REDUCE, (Op.WHERE, ("or", ("eq", of, extreme), ("isnan", of)), None, None))


def _looked_at(node: Node) -> Node:
    """What argmax looks at."""
    looked: Node = node.sources[0].sources[0].sources[0].sources[0]
    return looked


def _argmax_of(node: Node, x: Node) -> Node | None:
    """The same argmax of another tensor."""
    test, places, nowhere = node.sources[0].sources
    equal, unknown = test.sources
    extreme = equal.sources[1].sources[0].sources[0]
    axes = node.attribute.axes
    if node.attribute.op != "min" or extreme.attribute != ("max", axes):
        return None
    if not equal.sources[0] is extreme.sources[0] is unknown.sources[0]:
        return None  # where one tensor has the largest value of another
    found = build.binary("or", build.eq(x, build.reduce("max", x, axes, keep_axes=True)), build.unary("isnan", x))
    return build.reduce("min", build.where(found, places, nowhere), axes)


@family.rule(_argmax(any_of(*INCREASING, "log10", *_SOFTMAX)), contract=Contract.FAST)
def argmax_of_increasing(node: Node, *_: Node) -> Node | None:
    """argmax(exp(x)) → argmax(x), and so for other increasing functions and a softmax: the place is the same."""
    x = _looked_at(node)
    if x.op is Op.COMPOSITE and (dict(x.attribute.parameters)["axis"],) != node.attribute.axes:
        return None
    return _argmax_of(node, x.sources[0])


@family.rule(_argmax((any_of("mul", "div", "add", "sub"), None, Op.EXPAND)), contract=Contract.FAST)
def argmax_of_scaled(node: Node, *_: Node) -> Node | None:
    """argmax(x y) or argmax(x + y) → argmax(x), where y is one number for all of x; if a factor, a positive one."""
    looked = _looked_at(node)
    x, other = looked.sources
    if not set(node.attribute.axes) <= set(expanded_axes(other)):
        return None
    if looked.attribute in ("mul", "div") and not known(other).positive:
        return None
    return _argmax_of(node, x)
