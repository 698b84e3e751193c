"""Values for the inputs of a region, of three kinds, to find out whether a kernel is right.

`whole`: small whole numbers, of which every order of summation gives the same bits, so that an element that is left out
or taken twice is seen without any tolerance. `normal`: what networks compute with. `special`: normal ones with NaN,
infinities, -0.0, huge and tiny numbers in some places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.dtypes import cast_array, float64
from smelt.graph import IndexLike, as_index
from smelt.kernel import Buffer, Region, extent, walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

KINDS = ("whole", "normal", "special")
LARGEST_WHOLE = 8
EXACT = 1 << 24  # below this, float32 holds every whole number
SPECIAL_SHARE = 0.02  # of the elements
_SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 1e30, -1e30, 1e-30, -1e-40)


def number(index: IndexLike, sizes: Mapping[str, int]) -> int:
    """A size or stride at given values of the region's parameters."""
    return int(as_index(index).evaluate(sizes))


def usual_sizes(region: Region) -> dict[str, int]:
    """A value for each parameter of a region: the geometric mean of its bounds."""
    bounds = {v.name: (max(1, v.first.low), max(1, v.last.high)) for v in region.parameters}
    return {name: math.isqrt(low * high) for name, (low, high) in bounds.items()}


def length(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    """How many elements of memory a buffer reaches over."""
    shape = [number(size, sizes) for size in buffer.shape]
    if 0 in shape:
        return number(buffer.offset, sizes)
    reach = sum((n - 1) * number(stride, sizes) for n, stride in zip(shape, buffer.strides, strict=True))
    return number(buffer.offset, sizes) + reach + 1


def inputs(region: Region, sizes: Mapping[str, int], kind: str, seed: int) -> dict[str, Array]:
    """The storage of every buffer that a region reads, one-dimensional, by name."""
    generator = np.random.default_rng([seed, KINDS.index(kind)])
    summed = {axis for e in region.order() if e.op == "reduce" for axis in e.attribute.axes}
    terms = math.prod(max(1, number(extent(axis), sizes)) for axis in summed)
    largest = max(1, min(LARGEST_WHOLE, math.isqrt(EXACT // max(1, terms))))
    places = _places(region, sizes)
    read = {e.attribute.buffer.name for e in region.order() if e.op == "load"}
    found = {}
    for buffer in region.buffers():
        if buffer.name in read:
            values = _values(buffer, length(buffer, sizes), kind, largest, places.get(buffer.name), generator)
            found[buffer.name] = cast_array(values, buffer.dtype)
    return found


def _values(
    buffer: Buffer, count: int, kind: str, largest: int, places: tuple[int, int] | None, generator: np.random.Generator
) -> Array:
    dtype = buffer.dtype
    if dtype.is_bool:
        return generator.integers(0, 2, count).astype(np.bool_)
    if places is not None:
        return generator.integers(places[0], places[1] + 1, count)
    if not dtype.is_float:
        low, high = int(dtype.minimum), int(dtype.maximum)
        low, high = (max(low, -9), 9) if kind == "whole" else (low, high)
        return generator.integers(low, high, count, dtype.numpy, endpoint=True)
    if kind == "whole":
        return generator.integers(-largest, largest + 1, count).astype(np.float64)
    values: Array = generator.standard_normal(count)
    if kind == "special":
        chosen = generator.random(count) < SPECIAL_SHARE
        few = generator.choice(np.array(_SPECIAL), int(chosen.sum()))
        values[chosen] = few if dtype is float64 else few.astype(np.float32)
    return values


def _places(region: Region, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The bounds of buffers whose integers say where others are read."""
    found: dict[str, tuple[int, int]] = {}
    for e in region.order():
        picks: tuple[Any, ...] = e.attribute.picks if e.op == "load" else ()
        for pick, argument in zip(picks, e.arguments, strict=bool(picks)):
            first, last = number(pick.first, sizes), number(pick.last, sizes)
            for below in walk([argument]):
                if below.op == "load" and below.attribute.buffer.dtype.is_integer:
                    name = below.attribute.buffer.name
                    low, high = found.get(name, (first, last))
                    found[name] = max(low, first), max(first, min(high, last))
    return found
