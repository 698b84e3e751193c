"""Elements that are picked: before or after what is computed of all of them."""

from __future__ import annotations

from typing import Any, Final

from smelt.dtypes import int64
from smelt.egraph.classes import known
from smelt.graph import ELEMENTWISE, Node, Op, build, expand
from smelt.rewrite import Contract, Family, expanded_axes

family = Family("picks")

_CHEAP: Final = ("add", "sub", "mul", "div", "max", "min", "exp", "log", "tanh", "sqrt", "neg", "abs", "rsqrt", "reciprocal")


# --- gather


def _gather_inside(node: Node, x: Node, *indices: Node) -> Node | None:
    """gather(f(x)) → f(gather(x))."""
    if node.shape == x.shape:
        return None  # as many are picked as there are
    axes, checked = node.attribute
    # One check is enough; what is repeated along the axis needs no gather then.
    first, *others = (
        build.gather(source, indices, axes, node.shape, checked=checked and not k) for k, source in enumerate(x.sources)
    )
    return build.binary(x.attribute, first, *others) if others else build.unary(x.attribute, first)


for _name in _CHEAP:
    _inside = lambda node, x, *indices: _gather_inside(node, x, *indices)  # noqa: E731
    _inside.__name__, _inside.__doc__ = f"gather_inside_{_name}", f"gather({_name}(x)) → {_name}(gather(x))."
    family.rule(Op.GATHER, over=(_name,))(_inside)


@family.rule(Op.GATHER, over=(Op.EXPAND,), helps=True)
def gather_repeated(node: Node, x: Node, *indices: Node) -> Node | None:
    """gather(expand(x)), where x is repeated along the axis that is picked from → x, repeated."""
    axes = node.attribute.axes
    repeated = set(expanded_axes(x))
    picked = {axis for axis, at in enumerate(axes) if at < 0}
    if not picked <= repeated or node.attribute.checked:
        return None
    small = x.sources[0]
    kept = [axis for axis in range(x.rank) if axis not in picked]
    small = build.reshape(small, tuple(small.shape[axis] for axis in kept))
    # Axis `axes[k]` of the result is axis k of x; there may be others, along which only the indices vary.
    order = sorted(range(len(kept)), key=lambda k: axes[kept[k]])
    small = build.permute(small, tuple(order))
    places = {axes[kept[k]]: size for k, size in zip(order, small.shape, strict=True)}
    return build.expand(build.reshape(small, tuple(places.get(axis, 1) for axis in range(node.rank))), node.shape)


@family.rule("softmax", helps=True)
def softmax_written_out(node: Node) -> Node | None:
    """softmax(x) → what it is made of."""
    return expand(node)


@family.rule("log_softmax", helps=True)
def log_softmax_written_out(node: Node) -> Node | None:
    """log_softmax(x) → what it is made of."""
    return expand(node)


for _name in ("softmax", "log_softmax"):
    _start = lambda node, x, *indices: _gather_start(node, x, *indices)  # noqa: E731

    def _gather_start(node: Node, x: Node, *indices: Node) -> Node | None:
        """gather(softmax(x)): its parts are looked at."""
        return build.gather(expand(x), indices, node.attribute.axes, node.shape, checked=node.attribute.checked)

    _start.__name__, _start.__doc__ = f"gather_of_{_name}", f"gather({_name}(x)) → that of its parts."
    family.rule(Op.GATHER, over=(_name,))(_start)


# --- one-hot


@family.rule(
    Op.CONTRACT, over=((Op.CAST, ("eq", Op.EXPAND, Op.EXPAND)), None), contract=Contract.REGROUPS
)
def one_hot_product(node: Node, one_hot: Node, matrix: Node) -> Node | None:
    """one_hot(i) w → w[i], zeros where i is no row of it."""
    left, right, out = node.attribute
    test = one_hot.sources[0]
    count, given = _counting(test.sources)
    if count is None or given is None or len(right) != 2 or one_hot.dtype is not node.dtype:
        return None
    axis = one_hot.rank - 1
    label = left[axis]
    if label in out or label != right[0] or out != (*left[:-1], right[1]) or set(expanded_axes(given)) != {axis}:
        return None
    number = build.cast(build.reshape(given.sources[0], one_hot.shape[:-1]), int64)
    shape = (*number.shape, matrix.shape[1])
    index = build.broadcast_to(build.reshape(number, (*number.shape, 1)), shape)
    rows = build.gather(matrix, [index], (-1, len(shape) - 1), shape)
    return build.where(build.in_range(index, matrix.shape[0]), rows, build.const(0, node.dtype, shape))


def _counting(sides: tuple[Node, ...]) -> tuple[Node | None, Node | None]:
    """Which of two sides counts along the last axis, and the other."""
    for count, given in (sides, sides[::-1]):
        base = count
        while base.op in (Op.EXPAND, Op.RESHAPE, Op.CAST):
            base = base.sources[0]
        if base.op is Op.IOTA and expanded_axes(count) == tuple(range(count.rank - 1)):
            return count, given
    return None, None


# --- argmax of increasing functions

def _argmax(key: Any) -> tuple[Any, ...]:
    """The pattern of argmax of something."""
    return ((Op.WHERE, ("or", ("eq", key, (Op.EXPAND, (Op.RESHAPE, (Op.REDUCE, None)))), "isnan"), None, None),)


def _argmax_of(node: Node, x: Node) -> Node | None:
    """The same argmax of another tensor."""
    where = node.sources[0]
    either, places, nowhere = where.sources
    old, extreme = either.sources[0].sources
    reduced = extreme.sources[0].sources[0]
    if node.attribute.op != "min" or reduced.attribute.axes != node.attribute.axes or reduced.attribute.op != "max":
        return None
    extreme = build.reduce("max", x, node.attribute.axes, keep_axes=True)
    found = build.binary("or", build.eq(x, extreme), build.unary("isnan", x))
    return build.reduce("min", build.where(found, places, nowhere), node.attribute.axes)


def _same(node: Node) -> Node:
    """What argmax looks at."""
    looked: Node = node.sources[0].sources[0].sources[0].sources[0]
    return looked


_INCREASING: Final = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "tanh", "sinh", "atan", "erf", "softmax", "log_softmax")

for _name in _INCREASING:

    def _argmax_below(node: Node, *_: Node) -> Node | None:
        x = _same(node)
        if x.op is Op.COMPOSITE and (dict(x.attribute.parameters)["axis"],) != node.attribute.axes:
            return None
        return _argmax_of(node, x.sources[0])

    _argmax_below.__name__ = f"argmax_below_{_name}"
    _argmax_below.__doc__ = f"argmax({_name}(x)) → argmax(x)."
    family.rule(Op.REDUCE, over=_argmax(_name), contract=Contract.FAST)(_argmax_below)

for _name in ("mul", "div", "add", "sub"):

    def _argmax_scaled(node: Node, *_: Node) -> Node | None:
        looked = _same(node)
        x, scale = looked.sources
        if not set(node.attribute.axes) <= set(expanded_axes(scale)):
            return None
        if looked.attribute in ("mul", "div") and not known(scale).positive:
            return None
        return _argmax_of(node, x)

    _argmax_scaled.__name__ = f"argmax_below_{_name}"
    _argmax_scaled.__doc__ = f"argmax({_name}(x, y)) → argmax(x), if y is the same along the axis" + (
        " and positive." if _name in ("mul", "div") else "."
    )
    family.rule(Op.REDUCE, over=_argmax((_name, None, Op.EXPAND)), contract=Contract.FAST)(_argmax_scaled)
