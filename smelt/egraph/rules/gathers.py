"""Elements and rows that are picked: before or after what is computed of all of them.

Before, if few are picked of many; after, if the same rows are picked again and again. Along axes that an index is
repeated along it picks nothing, so `small_index` is what it is without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.dtypes import DType, int64
from smelt.graph import IndexLike, Node, Op, Shape, build, constant_value, expand, product_of, shown, upper
from smelt.rewrite import Contract, Family, any_of, expanded_axes, key_of

family = Family("gathers")
_REASSOCIATES = Contract.REASSOCIATES

_SOFTMAX = any_of("softmax", "log_softmax")
_EVERY = any_of(
    *("add", "sub", "mul", "div", "max", "min"),
    *("exp", "log", "tanh", "sqrt", "neg", "abs", "rsqrt", "reciprocal"),
)


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


# --- of products and sums


def _elements(shape: Shape) -> int:
    return upper(product_of(shape))


def _repeated_along(index: Node) -> set[int]:
    """The axes along which an index is the same."""
    return {*expanded_axes(index), *(axis for axis, size in enumerate(index.shape) if size == 1)}


def _index_over(index: Node, places: Sequence[int], shape: Shape) -> Node:
    """An index for a result whose axis k is axis `places[k]` of the one that it was for, or a new one (-1)."""
    repeated = _repeated_along(index)
    kept = [axis for axis in range(index.rank) if axis not in repeated]
    small = index.sources[0] if expanded_axes(index) else index
    small = build.reshape(small, tuple(index.shape[axis] for axis in kept))
    small = build.permute(small, tuple(sorted(range(len(kept)), key=lambda k: places.index(kept[k]))))
    sizes = tuple(index.shape[axis] if axis in kept else 1 for axis in places)
    return build.broadcast_to(build.reshape(small, sizes), shape)


class _Picked(NamedTuple):
    """A factor after picking: with a label for each of its axes, those of the result counted from 0."""

    node: Node
    labels: tuple[int, ...]


def _factor(node: Node, x: Node, labels: Sequence[int], out: Sequence[int], checked: bool) -> _Picked:
    """A factor of the product that `node` picks from, as what is picked needs it."""
    axes, indices = node.attribute.axes, node.sources[1:]
    places = [axes[out.index(label)] if label in out else None for label in labels]
    # Labels that are summed are named behind the axes of the result.
    names = [node.rank + label if place is None else place for label, place in zip(labels, places, strict=True)]
    used = [-1 - place for place in places if place is not None and place < 0]
    if not used:
        return _Picked(x, tuple(names))
    varying = {axis for k in used for axis in range(node.rank) if axis not in _repeated_along(indices[k])}
    kept = sorted(varying | {name for name in names if 0 <= name < node.rank})
    new = [*kept, *(name for name in names if name >= node.rank)]
    summed = {name: size for name, size in zip(names, x.shape, strict=True) if name >= node.rank}
    shape: Shape = tuple(summed[name] if name in summed else node.shape[name] for name in new)
    over = [name if name < node.rank else -1 for name in new]
    numbers = [_index_over(indices[k], over, shape) for k in used]
    own = [-1 - used.index(-1 - name) if name < 0 else new.index(name) for name in names]
    return _Picked(build.gather(x, numbers, own, shape, checked=checked), tuple(new))


def _gather_of_product(node: Node, product: Node, *_: Node) -> Node | None:
    left, right, out = product.attribute
    if _elements(node.shape) >= _elements(product.shape):
        return None  # as many are picked as there are
    axes, checked = node.attribute
    picked = {out[axis] for axis, at in enumerate(axes) if at < 0}
    whole = [labels for labels in (left, right) if picked <= set(labels)]
    if checked and not whole:
        return None  # each of two gathers would check a part of the indices
    factors = [
        _factor(node, x, labels, out, checked and labels is whole[0])
        for x, labels in zip(product.sources, (left, right), strict=True)
    ]
    if any(
        _elements(factor.node.shape) > _elements(product.shape) for factor in factors if factor.node.op is Op.GATHER
    ):
        return None  # more would be copied than the product has elements
    covered = [axis for axis in range(node.rank) if any(axis in factor.labels for factor in factors)]
    if any(node.shape[axis] != 1 for axis in range(node.rank) if axis not in covered):
        return None
    (a, first), (b, second) = factors
    return build.reshape(build.contract(a, b, first, second, covered, node.dtype), node.shape)


@family.rule((Op.GATHER, Op.CONTRACT, Op.EXPAND, Op.EXPAND), contract=_REASSOCIATES)
def gather_of_product(node: Node, product: Node, *indices: Node) -> Node | None:
    """(a b)[i] → a[i] b, where whole rows or columns are picked."""
    return _gather_of_product(node, product)


@family.rule((Op.GATHER, Op.CONTRACT), contract=_REASSOCIATES)
def gather_in_each_row_of_product(node: Node, product: Node, *indices: Node) -> Node | None:
    """(a b)[k, i[k]] → the sum of a[k] b[:, i[k]], where each row has an index of its own."""
    return _gather_of_product(node, product) if not any(map(expanded_axes, indices)) else None


def _product_of_gathered(node: Node, which: int) -> Node | None:
    """The product of all rows, picked afterwards."""
    gathered, other = node.sources[which], node.sources[1 - which]
    labels, theirs, out = node.attribute[which], node.attribute[1 - which], node.attribute.out
    x, *indices = gathered.sources
    axes = gathered.attribute.axes
    if _elements(gathered.shape) <= _elements(x.shape):
        return None  # fewer are picked than there are
    varying = {axis for index in indices for axis in range(index.rank) if axis not in _repeated_along(index)}
    once = [labels[axis] for axis in sorted(varying)]
    if not once or varying & set(axes) or not set(once) <= set(out) - set(theirs):
        return None  # what is picked meets what is summed, or the other factor
    free = 1 + max((*labels, *theirs, *out))
    own = tuple(labels[at] if at >= 0 else free - 1 - at for at in axes)
    if {*labels} - {*own, *once}:
        return None  # the index is repeated along an axis of its own
    # Rows lie where they lie in the result, so that each is copied as a whole.
    first = min(map(out.index, once))
    kept = [*out[:first], *(label for label in own if label >= free), *out[first:]]
    kept = [label for label in kept if label not in once]
    sources = ((x, own), (other, theirs))
    (a, left), (b, right) = sources if which == 0 else sources[::-1]
    product = build.contract(a, b, left, right, kept, node.dtype)
    places = [labels.index(label) if label in labels else -1 for label in out]
    numbers = [_index_over(index, places, node.shape) for index in indices]
    final = [out.index(label) if label < free else free - 1 - label for label in kept]
    return build.gather(product, numbers, final, node.shape, checked=gathered.attribute.checked)


_GATHERED: Final = (Op.GATHER, None, Op.EXPAND)


@family.rule((Op.CONTRACT, _GATHERED, None), (Op.CONTRACT, None, _GATHERED), contract=_REASSOCIATES)
def product_of_gathered(node: Node, *_: Node) -> Node | None:
    """a[i] b → (a b)[i], and so on the other side, where more rows are picked than there are: each is made once."""
    sides = [side for side in (0, 1) if node.sources[side].op is Op.GATHER]
    return next((found for side in sides if (found := _product_of_gathered(node, side)) is not None), None)


@family.rule((Op.GATHER, _SOFTMAX, Op.EXPAND, Op.EXPAND), contract=_REASSOCIATES)
def rows_of_softmax(node: Node, x: Node, *indices: Node) -> Node | None:
    """softmax(x)[i] → softmax(x[i]), and so for its logarithm, where whole rows are picked: only these are computed."""
    axis = node.attribute.axes[dict(x.attribute.parameters)["axis"]]
    if axis < 0 or any(axis not in _repeated_along(index) for index in indices) or node.shape == x.shape:
        return None
    axes, checked = node.attribute
    rows = build.gather(x.sources[0], indices, axes, node.shape, checked=checked)
    return build.composite(x.attribute.name, rows, axis=axis)


@family.rule((Op.GATHER, Op.REDUCE), contract=_REASSOCIATES)
def gather_of_reduction(node: Node, total: Node, *indices: Node) -> Node | None:
    """sum(x)[i] → sum(x[i]), and so for other reductions."""
    (x,) = total.sources
    op, gone = total.attribute
    if _elements(node.shape) >= _elements(total.shape):
        return None
    sizes: tuple[IndexLike, ...] = tuple(x.shape[axis] for axis in gone)
    shape = (*node.shape, *sizes)
    given = iter(node.attribute.axes)
    axes = [node.rank + gone.index(axis) if axis in gone else next(given) for axis in range(x.rank)]
    places = [*range(node.rank), *(-1 for _ in gone)]
    numbers = [_index_over(index, places, shape) for index in indices]
    rows = build.gather(x, numbers, axes, shape, checked=node.attribute.checked)
    return build.reduce(op, rows, tuple(range(node.rank, len(shape))))


# --- what lies between: axes that are repeated, or of size 1


@family.rule((Op.GATHER, Op.EXPAND, Op.EXPAND, Op.EXPAND), helps=True)
def gather_repeated_later(node: Node, x: Node, *indices: Node) -> Node | None:
    """expand(x)[i] → expand(x[i]), where x is repeated along axes from which all is taken."""
    axes = node.attribute.axes
    later = {axes[axis] for axis in expanded_axes(x) if axes[axis] >= 0}
    for index in indices:
        later &= _repeated_along(index)
    if not later:
        return None
    shape = tuple(1 if axis in later else size for axis, size in enumerate(node.shape))
    small_shape = tuple(1 if axes[axis] in later else size for axis, size in enumerate(x.shape))
    numbers = [_index_over(index, range(node.rank), shape) for index in indices]
    small = build.expand(x.sources[0], small_shape)
    return build.expand(build.gather(small, numbers, axes, shape, checked=node.attribute.checked), node.shape)


@family.rule((Op.GATHER, Op.EXPAND), helps=True)
def gather_of_repeated(node: Node, x: Node, *_: Node) -> Node | None:
    """expand(x)[i] → x, where x is repeated along all axes that are picked from, and nothing is checked."""
    axes, checked = node.attribute
    repeated = [axis for axis, place in enumerate(axes) if place < 0]
    if checked or not set(repeated) <= set(expanded_axes(x)):
        return None
    kept = sorted((axis for axis, place in enumerate(axes) if place >= 0), key=lambda axis: axes[axis])
    sizes = {axes[axis]: x.sources[0].shape[axis] for axis in kept}
    small = build.permute(x.sources[0], (*kept, *repeated))
    return build.broadcast_to(build.reshape(small, tuple(sizes.get(k, 1) for k in range(node.rank))), node.shape)


@family.rule((Op.GATHER, Op.RESHAPE), helps=True)
def gather_without_unit_axes(node: Node, x: Node, *indices: Node) -> Node | None:
    """reshape(x)[i], where x only has fewer axes of size 1 → x[i], reshaped."""
    small = x.sources[0]
    axes = node.attribute.axes
    units = [axis for axis in range(x.rank) if x.shape[axis] == 1 and axes[axis] >= 0]
    kept = [axis for axis in range(x.rank) if axis not in units]
    if not units or tuple(x.shape[axis] for axis in kept) != small.shape:
        return None
    gone = [axes[axis] for axis in units]
    places = [axis for axis in range(node.rank) if axis not in gone]
    shape = tuple(node.shape[axis] for axis in places)
    numbers = [_index_over(index, places, shape) for index in indices]
    own = [places.index(axes[axis]) if axes[axis] >= 0 else axes[axis] for axis in kept]
    return build.reshape(build.gather(small, numbers, own, shape, checked=node.attribute.checked), node.shape)


# --- one-hot


@family.rule(
    (Op.CONTRACT, (Op.CAST, ("eq", Op.EXPAND, Op.EXPAND)), None),
    (Op.CONTRACT, (Op.CAST, ("eq", ("sub", Op.EXPAND, Op.EXPAND), Op.EXPAND)), None),
    contract=Contract.REGROUPS,
)
def one_hot_product(node: Node, one_hot: Node, matrix: Node) -> Node | None:
    """one_hot(i) w → w[i], and so for eye: rows are picked, not multiplied; zeros, where i is no row."""
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
    first, second = test.sources
    if key_of(first) == "sub":  # of which the difference is zero
        base = shown(second, {Op.EXPAND, Op.RESHAPE})
        if base.op is not Op.CONST or constant_value(base) != 0:
            return None
        first, second = first.sources
    for count, given in ((first, second), (second, first)):
        size = upper(count.shape[-1])
        base = count.sources[0]
        while base.op in (Op.RESHAPE, Op.CAST) and _holds(base.dtype, size):
            base = base.sources[0]
        if base.op is Op.IOTA and _holds(base.dtype, size) and expanded_axes(count) == tuple(range(count.rank - 1)):
            return given
    return None


def _holds(dtype: DType, size: int) -> bool:
    return dtype.is_integer and size - 1 <= dtype.maximum
