"""What a region computes, and how far from that a kernel may be: an evaluation by NumPy that is no candidate and
shares no code with what makes kernels.

Every value comes with a radius: how far a kernel that rounds at every step, and adds in any order, may be from it. None
or 0 is exact: whole numbers, integers, what is only moved or compared. So one comparison serves all kinds of inputs.
Results are computed block by block, so that memory stays bounded; products that are summed are never stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from smelt.dtypes import DType, cast_array
from smelt.graph import Variable, fold_array, scan_array
from smelt.kernel import DOTS, Access, Expression, Output, Region, extent, walk
from smelt.kernel.numbers import Memory, elementwise
from smelt.search.inputs import Array, length, number

BLOCK = 1 << 19  # elements of the largest array that is computed at a time
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "sqrt", "reciprocal"})
# What gives the same bits for the same arguments, whoever computes it.
_DETERMINED = frozenset({"copy", "where", "cast", "cast_odd", "round16", "bitcast", "neg", "abs", "sign", "not"}) | {
    *("floor", "ceil", "trunc", "round", "isnan", "copysign", "max", "min", "and", "or", "xor", "shl", "shr"),
    *("eq", "ne", "lt", "le"),
}
_UNITS = 6.0  # in the last place, that the other functions may be off


class Wide(NamedTuple):
    """A value, with one dimension for each axis of the region, and its radius. None: it is exact."""

    value: Array
    radius: Array | None = None


class Expected(NamedTuple):
    """The storage of a result, one-dimensional: its elements before they are rounded for memory, how far those of a
    kernel may be off, and which of them are written.
    """

    value: Array
    radius: Array
    written: Array


def reference(
    region: Region, arrays: Mapping[str, Array], sizes: Mapping[str, int], share: int = 1
) -> dict[str, Expected]:
    """What is expected in each buffer that a region writes, given the storage of those that it reads.

    Of several blocks one in `share` is computed, the first and the last among them: in others anything is right.
    """
    found: dict[str, Expected] = {}
    with np.errstate(all="ignore"):
        for output in region.outputs:
            count, dtype = length(output.buffer, sizes), output.value.dtype
            if output.buffer.name not in found:
                value = np.zeros(count, dtype.numpy)
                radius = np.zeros(count, dtype.numpy if dtype.is_float else np.float32)
                found[output.buffer.name] = Expected(value, radius, np.zeros(count, np.bool_))
            blocks = list(_blocks(region, output, sizes))
            for at, ranges in enumerate(blocks):
                is_computed = at % share == 0 or at == len(blocks) - 1
                _Block(region, arrays, sizes, ranges).store(output, found[output.buffer.name], is_computed)
    return found


# --- blocks

Ranges = Mapping[Variable, tuple[int, int]]


def _blocks(region: Region, output: Output, sizes: Mapping[str, int]) -> Iterator[Ranges]:
    """Ranges of all axes that together make an output: those that nothing is combined along are cut."""
    needed = _computed(output.value)
    folded = {axis for e in needed for axis in _combined(e)}
    whole = {axis: number(extent(axis), sizes) for axis in region.axes}
    parts = {axis: max(1, whole[axis]) for axis in region.parallel_axes(output)}
    cut = [axis for axis in parts if axis not in folded]

    def largest() -> tuple[int, Expression]:
        counts = [math.prod(parts.get(axis, whole[axis]) for axis in whole if axis in e.axes) for e in needed]
        most = max(counts, default=0)
        return most, needed[counts.index(most)]

    while True:
        most, e = largest()
        there = [axis for axis in cut if axis in e.axes and parts[axis] > 1]
        if most <= BLOCK or not there:
            break
        axis = max(there, key=lambda axis: parts[axis])
        parts[axis] = -(-parts[axis] // 2)
    starts = [range(0, whole[axis], parts[axis]) for axis in parts]
    for at in itertools.product(*starts):
        some = {axis: (first, min(first + parts[axis], whole[axis])) for axis, first in zip(parts, at, strict=True)}
        yield {axis: some.get(axis, (0, whole[axis])) for axis in region.axes}


def _combined(e: Expression) -> tuple[Variable, ...]:
    return e.attribute.axes if e.op in ("reduce", "scan") else ()


def _product(e: Expression) -> Expression | None:
    """The product of floats or words that is summed here, if it is one."""
    if e.op != "reduce" or e.attribute.op != "add":
        return None
    summand = e.arguments[0]
    return summand if summand.op in DOTS or (summand.op == "mul" and summand.dtype.is_float) else None


def _computed(root: Expression) -> list[Expression]:
    """What has to be computed for a value, arguments first: not the products that are summed."""
    stack, needed = [root], {root}
    while stack:
        e = stack.pop()
        product = _product(e)
        for argument in e.arguments if product is None else product.arguments:
            if argument not in needed:
                needed.add(argument)
                stack.append(argument)
    return [e for e in walk([root]) if e in needed]


# --- values


class _Block(Memory):
    """One block: arrays have one dimension per axis of the region, of size one where they do not vary."""

    def __init__(self, region: Region, arrays: Mapping[str, Array], sizes: Mapping[str, int], ranges: Ranges) -> None:
        super().__init__(arrays, sizes)
        self.region, self.shape = region, (1,) * len(region.axes)
        self.sizes = tuple(last - first for first, last in ranges.values())
        for at, (axis, (first, last)) in enumerate(ranges.items()):
            self.integers[axis.name] = np.arange(first, last).reshape(
                [-1 if k == at else 1 for k in range(len(ranges))]
            )

    def store(self, output: Output, expected: Expected, is_computed: bool) -> None:
        """Put an output where it belongs; one that is not computed may be anything."""
        where, _ = self.address(output.buffer, output.index, ())
        axes = self.region.parallel_axes(output)
        shape = [size if axis in axes else 1 for axis, size in zip(self.region.axes, self.sizes, strict=True)]
        where = np.broadcast_to(where, shape)
        anything = Wide(np.zeros(self.shape), np.full(self.shape, math.inf))
        value, radius = self.evaluated(output) if is_computed else anything
        expected.value[where] = np.broadcast_to(value, shape)
        expected.radius[where] = 0.0 if radius is None else np.broadcast_to(radius, shape)
        expected.written[where] = True

    def evaluated(self, output: Output) -> Wide:
        """The value of an output."""
        values: dict[Expression, Wide] = {}
        for e in _computed(output.value):
            product = _product(e)
            arguments = [values[a] for a in (e.arguments if product is None else product.arguments)]
            values[e] = self.compute(e, arguments) if product is None else self.summed(e, product, arguments)
        return values[output.value]

    def compute(self, e: Expression, arguments: list[Wide]) -> Wide:
        values = [a.value for a in arguments]
        if e.op == "load":
            return Wide(self._loaded(e, values))
        if e.op in ("reduce", "scan"):
            places = tuple(self.region.axes.index(axis) for axis in _combined(e))
            x, radius = (None if a is None else self.along(a, places) for a in arguments[0])
            assert x is not None
            if e.op == "reduce":
                return _folded(e.attribute.op, e.dtype, x, radius, places)
            return _scanned(e.attribute.op, e.dtype, x, radius, places[0])
        result = self.value(e.op, e.dtype, e.attribute, values)
        return Wide(result, None if e.op in ("const", "index", "mask") else _spread(e, arguments, result))

    def _loaded(self, e: Expression, picked: list[Array]) -> Array:
        access: Access = e.attribute
        memory = self.memory[access.buffer.name]
        if access.mask or access.picks or memory.dtype != access.buffer.dtype.numpy:
            return self.read(e.dtype, access, zip(access.picks, picked, strict=True))
        where, _ = self.address(access.buffer, access.index, ())
        return cast_array(memory[where], e.dtype)

    def along(self, x: Array, axes: tuple[int, ...]) -> Array:
        """An array with all the elements of some axes, also where it does not vary."""
        return np.broadcast_to(x, [size if at in axes else x.shape[at] for at, size in enumerate(self.sizes)])

    def summed(self, e: Expression, product: Expression, factors: list[Wide]) -> Wide:
        """A sum of products by matrix products; and with it the sum of their absolute values, which says how far off
        another order of additions may be.
        """
        axes = tuple(self.region.axes.index(axis) for axis in _combined(e))
        both = np.broadcast_shapes(*(x.value.shape for x in factors))
        shape = [1 if at in axes else size for at, size in enumerate(both)]
        # Along an axis that nobody varies over, all terms are the same.
        times = math.prod(self.sizes[at] for at in axes if all(x.value.shape[at] == 1 for x in factors))
        terms = math.prod(self.sizes[at] for at in axes)
        along = axes
        if product.op in DOTS:
            row = DOTS[product.op]
            a, b = (_parts(x.value, dtype) for x, dtype in zip(factors, (row.first, row.second), strict=True))
            axes, terms = (*axes, len(self.sizes)), terms * a.shape[-1]
        else:
            a, b = (x.value.astype(np.float64) for x in factors)
        total = times * _contracted(a, b, axes).reshape(shape)
        if not e.dtype.is_float:
            return Wide(total.astype(np.int64).astype(e.dtype.numpy))
        size_a, size_b = _sizes(a), _sizes(b)
        size = times * _contracted(size_a, size_b, axes).reshape(shape)
        is_whole = all(x.radius is None for x in factors) and _is_whole(a) and _is_whole(b)
        radius = _sum_radius(total, size, terms, e.dtype, is_whole)
        for one, other, words in ((factors[0].radius, size_b, factors[1]), (factors[1].radius, size_a, factors[0])):
            if one is not None and along is axes:
                radius = radius + times * _contracted(one, other, axes).reshape(shape)
            elif one is not None:  # a word that may be another one may hold any numbers
                unknown = _contracted(np.where(one > 0, 1.0, 0.0), np.ones(words.value.shape), along)
                radius = np.where(unknown.reshape(shape) > 0, math.inf, radius)
        return Wide(cast_array(total, e.dtype), _kept(radius))


def _parts(words: Array, dtype: DType) -> Array:
    """The numbers in words, along a new last axis."""
    return np.ascontiguousarray(words[..., None]).view(dtype.numpy).astype(np.float64)


def _contracted(a: Array, b: Array, axes: tuple[int, ...]) -> Array:
    """The products of two arrays that broadcast, summed over some axes, which stay with size one."""
    ranks = range(a.ndim)
    a = a.sum(tuple(k for k in axes if b.shape[k] == 1), keepdims=True)
    b = b.sum(tuple(k for k in axes if a.shape[k] == 1), keepdims=True)
    both = [k for k in ranks if a.shape[k] != 1 and b.shape[k] != 1]
    batch, summed = [k for k in both if k not in axes], [k for k in both if k in axes]
    left, right = ([k for k in ranks if x.shape[k] != 1 and k not in both] for x in (a, b))
    ones = [k for k in ranks if a.shape[k] == b.shape[k] == 1]
    many, rows, depth = (math.prod(a.shape[k] for k in some) for some in (batch, left, summed))
    x = a.transpose(batch + left + summed + right + ones).reshape(many, rows, depth)
    y = b.transpose(batch + summed + right + left + ones).reshape(many, depth, math.prod(b.shape[k] for k in right))
    order = batch + left + right + summed + ones
    sizes = [1 if k in axes else b.shape[k] if a.shape[k] == 1 else a.shape[k] for k in order]
    return (x @ y).reshape(sizes).transpose([order.index(k) for k in ranks])


# --- radii


def _sizes(x: Array) -> Array:
    """Absolute values; what is not finite decides by itself, and counts nothing."""
    return np.asarray(np.abs(np.where(np.isfinite(x), x, 0.0)), np.float64)


def _is_whole(x: Array) -> bool:
    return bool(np.all(np.rint(x) == x))


def _exact(dtype: DType) -> float:
    """Up to where a float type holds every whole number."""
    return 2.0 / float(dtype.limits().eps)


def _kept(radius: Array) -> Array | None:
    return radius if np.any(radius) else None


def _sum_radius(total: Array, size: Array, terms: int, dtype: DType, is_whole: bool) -> Array:
    """How far a sum may be off whose terms have absolute values of this `size`. Any order is allowed: where one follows
    the other, a sum that grows may be rounded the same way each time.
    """
    limits = dtype.limits()
    steps = 4.0 * (math.log2(max(2, terms)) + 1.0)
    radius = float(limits.eps) * (steps * size + terms / 4 * _sizes(total))
    if is_whole:
        radius = np.where(size <= _exact(dtype), 0.0, radius)
    return np.where(size < float(limits.max) / 4, radius, math.inf)


def _folded(op: str, dtype: DType, x: Array, radius: Array | None, axes: tuple[int, ...]) -> Wide:
    terms = math.prod(x.shape[axis] for axis in axes)
    value = np.expand_dims(fold_array(x, dtype, op, axes), axes)
    if op in ("max", "min"):
        return Wide(value, None if radius is None else radius.max(axes, keepdims=True, initial=0.0))
    if not dtype.is_float:
        return Wide(value, None if radius is None else radius.sum(axes, keepdims=True))
    if op == "add":
        size = _sizes(x).sum(axes, keepdims=True)
        around = _sum_radius(value, size, terms, dtype, radius is None and _is_whole(x))
        return Wide(value, _kept(around if radius is None else around + radius.sum(axes, keepdims=True)))
    return Wide(value, _product_radius(value, _relative(x, radius, dtype).sum(axes, keepdims=True)))


def _scanned(op: str, dtype: DType, x: Array, radius: Array | None, axis: int) -> Wide:
    value = scan_array(x, dtype, op, axis)
    if op in ("max", "min"):
        return Wide(value, None if radius is None else np.maximum.accumulate(radius, axis))
    if not dtype.is_float:
        return Wide(value, None if radius is None else np.cumsum(radius, axis))
    if op == "add":
        size = np.cumsum(_sizes(x), axis)
        around = _sum_radius(value, size, x.shape[axis], dtype, radius is None and _is_whole(x))
        return Wide(value, _kept(around if radius is None else around + np.cumsum(radius, axis)))
    if op == "mul":
        return Wide(value, _product_radius(value, np.cumsum(_relative(x, radius, dtype), axis)))
    around = _UNITS * float(dtype.limits().eps) * x.shape[axis] * (np.abs(value) + 1.0)
    around = np.where(np.isfinite(value), around, 0.0)
    return Wide(value, around if radius is None else around + np.maximum.accumulate(radius, axis))


def _relative(x: Array, radius: Array | None, dtype: DType) -> Array:
    """How far each factor and its product with others may be off, as a share of it."""
    share = np.zeros(x.shape) if radius is None else radius / np.abs(x)
    return np.where(np.isnan(share), math.inf, share) + 2.0 * float(dtype.limits().eps)


def _product_radius(value: Array, share: Array) -> Array:
    radius = share * np.abs(value.astype(np.float64))
    return np.where(np.isfinite(value) & ~np.isnan(radius), radius, np.where(share < 1.0, 0.0, math.inf))


def _spread(e: Expression, arguments: Sequence[Wide], result: Array) -> Array | None:
    """The radius of an elementwise operation: what its arguments' come to at their ends, and its own rounding."""
    inexact = [k for k, a in enumerate(arguments) if a.radius is not None]
    is_float = result.dtype.kind == "f"
    radius: Array = np.zeros(result.shape)
    if inexact and is_float and e.op in _RADII:
        radius = _RADII[e.op](
            *(part for x in arguments for part in (_sizes(x.value), 0.0 if x.radius is None else x.radius))
        )
        radius = np.where(np.isfinite(result), radius, np.where(radius < math.inf, 0.0, math.inf))
    elif inexact:
        for signs in itertools.product((-1.0, 1.0), repeat=len(inexact)):
            moved = [a.value for a in arguments]
            for k, sign in zip(inexact, signs, strict=True):
                moved[k] = _moved(arguments[k], sign)
            radius = np.maximum(radius, _distance(elementwise(e.op, e.dtype, moved, e.attribute), result))
    if is_float and e.op not in _DETERMINED:
        radius = radius + _rounding(e.op, e.dtype, result, not inexact)
    return _kept(radius)


# The radii of results, by the sizes and radii of the arguments, where that is simple: it saves time.
_RADII: Final[dict[str, Callable[..., Array]]] = {
    "neg": lambda a, r: r,
    "abs": lambda a, r: r,
    "copy": lambda a, r: r,
    "add": lambda a, r, b, s: r + s,
    "sub": lambda a, r, b, s: r + s,
    "max": lambda a, r, b, s: np.maximum(r, s),
    "min": lambda a, r, b, s: np.maximum(r, s),
    "mul": lambda a, r, b, s: a * s + b * r + r * s,
}


def _moved(x: Wide, sign: float) -> Array:
    """A value at one end of its range."""
    value, radius = x
    assert radius is not None
    if value.dtype == np.bool_:
        return np.asarray(value | (radius > 0) if sign > 0 else value & (radius == 0))
    dtype = value.dtype
    moved = value.astype(np.float64) + sign * radius
    if dtype.kind == "f":
        return moved.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.nan_to_num(moved), float(limits.min), float(limits.max)).astype(dtype)


def _distance(moved: Array, result: Array) -> Array:
    if result.dtype == np.bool_:
        return np.asarray(moved != result, np.float64)
    apart = np.abs(moved.astype(np.float64) - result.astype(np.float64))
    is_same = (moved == result) | (np.isnan(moved) & np.isnan(result))
    return np.where(is_same, 0.0, np.where(np.isnan(apart), math.inf, apart))


def _rounding(op: str, dtype: DType, result: Array, is_exact: bool) -> Array:
    """How far an operation may be off by itself."""
    limits, size = dtype.limits(), _sizes(result)
    if op not in _ARITHMETIC:
        return np.where(np.isfinite(result), _UNITS * float(limits.eps) * size + float(limits.tiny), 0.0)
    radius = float(limits.eps) * (size + float(limits.tiny))
    if is_exact and op in ("add", "sub", "mul"):
        radius = np.where((size <= _exact(dtype)) & (np.rint(result) == result), 0.0, radius)
    return np.where(np.isfinite(result), radius, 0.0)
