"""`interpolate`: images in another size.

The source of place i along an axis is a fraction (a*i + b) / d of whole numbers. Its integer part is written as
movement (each element d times in a row, then every a-th from b on), so nearest neighbors are a view, and linear and
cubic interpolation are sums of such views times weights that depend on the remainder. Axes come one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, build, shape_text
from smelt.tensor.arguments import flag
from smelt.tensor.handle import floating, node_of, widened, wrap
from smelt.tensor.interop import to_node
from smelt.tensor.windows.adaptive_pooling import adaptive
from smelt.tensor.windows.places import fitted, for_each, known_size

# Fractions are loaded when they are needed, not when smelt is imported.
if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from smelt.tensor.tensor import Tensor

__all__ = [
    "interpolate",
]

# Modes, and for how many spatial axes each is.
MODES: dict[str, tuple[int, ...]] = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2, 3),
}
CUBIC = -0.75  # the slope of the cubic kernel at 1, as PyTorch has it
MOST = 1 << 31  # elements along an axis, and factor
DENOMINATOR = 1 << 16  # of scale factors as fractions


class _Line(NamedTuple):
    """Place i has its source at (step * i + start) / parts."""

    step: int
    start: int
    parts: int


class _Kernel(NamedTuple):
    """Which neighbors count, and how much by their distance."""

    offsets: tuple[int, ...]
    weight: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """Images (batch, channels, space...) in another size, given as a size or as a factor.

    Modes: "nearest", "nearest-exact" (that of the middle of each place), "linear", "bilinear", "trilinear", "bicubic"
    and "area" (`adaptive_avg_pool`). With `align_corners` the first and last elements keep their places and values;
    otherwise elements are areas, and the edges of the images are aligned.

    >>> import smelt as sm
    >>> sm.interpolate(sm.asarray([[[1.0, 2.0]]]), 4, mode="linear").tolist()
    [[[1.0, 1.25, 1.75, 2.0]]]
    >>> sm.interpolate(sm.asarray([[[1, 2]]]), scale_factor=2).tolist()
    [[[1, 1, 2, 2]]]
    """
    node = node_of(x, "interpolate")
    count = node.rank - 2
    if mode not in tuple(MODES):
        raise ArgumentError(f"interpolate: there is no mode {mode!r}", hint=f"Use one of: {', '.join(MODES)}.")
    if count not in MODES[mode]:
        raise ShapeError(
            f"interpolate: {mode!r} for shape {shape_text(node.shape)}",
            rule=f"it needs a batch, channels and {' or '.join(map(str, MODES[mode]))} spatial axes.",
        )
    if flag(align_corners, "interpolate", "align_corners") and mode in ("nearest", "nearest-exact", "area"):
        raise ArgumentError(f"interpolate: {mode!r} has no align_corners")
    extents = [known_size(node, axis, "interpolate") for axis in range(2, node.rank)]
    sizes, scales = _sizes(size, scale_factor, extents)
    if min(extents) < 1:
        raise ShapeError(f"interpolate: there is nothing to resize in shape {shape_text(node.shape)}")
    if mode == "area":
        return wrap(adaptive(node, "mean", sizes, count, "interpolate"))
    if mode.startswith("nearest"):
        for axis, (wanted, scale) in enumerate(zip(sizes, scales, strict=True), 2):
            line = _nearest(scale, exact=mode == "nearest-exact")
            node = _sampled(node, axis, wanted, line, 0)
        return wrap(node)
    given = floating(x, "interpolate")
    node = widened(given)
    for axis, (wanted, extent, scale) in enumerate(zip(sizes, extents, scales, strict=True), 2):
        line = _corners(wanted, extent) if align_corners else _centers(scale)
        node = _interpolated(node, axis, wanted, line, CUBIC_KERNEL if mode == "bicubic" else LINEAR)
    return wrap(build.cast(node, given.dtype))


def _sizes(size: Any, factor: Any, extents: list[int]) -> tuple[tuple[int, ...], list[Fraction]]:
    """The sizes of the result, and how far apart the sources of its elements lie."""
    count = len(extents)
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    from fractions import Fraction

    if size is not None:
        sizes = for_each(size, count, "interpolate", "size")
        if max(sizes) > MOST:
            raise ShapeError(f"interpolate: size {size} is too large", rule=f"it must be at most {MOST}.")
        return sizes, [Fraction(extent, wanted) for extent, wanted in zip(extents, sizes, strict=True)]
    factors = tuple(factor) if isinstance(factor, Sequence) else (factor,) * count
    usable = all(isinstance(f, int | float) and 0 < f < MOST for f in factors)
    if len(factors) != count or not usable:
        raise ArgumentError(
            f"interpolate: scale_factor {factor!r}", rule=f"it must be a positive number, or {count} of them."
        )
    exact = [Fraction(f).limit_denominator(DENOMINATOR) for f in factors]
    sizes = tuple(math.floor(extent * f) for extent, f in zip(extents, exact, strict=True))
    if min(sizes) < 1:
        raise ShapeError(f"interpolate: the result would have the sizes {sizes}", rule="they must be at least 1.")
    return sizes, [1 / f for f in exact]


def _nearest(scale: Fraction, exact: bool) -> _Line:
    if exact:
        return _Line(2 * scale.numerator, scale.numerator, 2 * scale.denominator)
    return _Line(scale.numerator, 0, scale.denominator)


def _centers(scale: Fraction) -> _Line:
    """Sources (i + 1/2) * scale - 1/2."""
    return _Line(2 * scale.numerator, scale.numerator - scale.denominator, 2 * scale.denominator)


def _corners(size: int, extent: int) -> _Line:
    """Sources i * (extent - 1) / (size - 1)."""
    if size == 1 or extent == 1:
        return _Line(0, 0, 1)
    whole = math.gcd(extent - 1, size - 1)
    return _Line((extent - 1) // whole, 0, (size - 1) // whole)


def _sampled(node: Node, axis: int, size: int, line: _Line, offset: int) -> Node:
    """Element i along the axis becomes element floor(source of i) + offset; beyond the ends, zero."""
    extent = node.shape[axis]
    assert isinstance(extent, int)
    if extent == size and line == (line.parts, 0, line.parts) and not offset:
        return node
    first = line.start // line.parts + offset
    last = (line.step * (size - 1) + line.start) // line.parts + offset
    before, after = max(0, -first), max(0, last + 1 - extent)
    node = fitted(node, axis, [(before, after)])
    lead, rest = node.shape[:axis], node.shape[axis + 1 :]
    wide = before + extent + after
    # Each element `parts` times in a row: element j of that is element j // parts.
    tall = build.expand(build.reshape(node, (*lead, wide, 1, *rest)), (*lead, wide, line.parts, *rest))
    flat = build.reshape(tall, (*lead, wide * line.parts, *rest))
    start = line.start + (before + offset) * line.parts
    if line.step == 0:
        one = build.slice_(flat, [(start, 1, 1) if a == axis else (0, n, 1) for a, n in enumerate(flat.shape)])
        return build.expand(one, (*lead, size, *rest))
    return build.slice_(flat, [(start, size, line.step) if a == axis else (0, n, 1) for a, n in enumerate(flat.shape)])


def _interpolated(node: Node, axis: int, size: int, line: _Line, kernel: _Kernel) -> Node:
    """The sum of neighbors times weights, which depend on how far the source lies beyond a whole number."""
    extent = node.shape[axis]
    assert isinstance(extent, int)
    if line.parts == line.step and line.start == 0 and extent == size:
        return node
    table = build.cast(to_node(_weights(size, extent, line, kernel), "interpolate"), node.dtype)
    total: Node | None = None
    for row, offset in enumerate(kernel.offsets):
        weight = build.slice_(table, [(row, 1, 1), (0, size, 1)])
        weight = build.reshape(weight, (size, *(1,) * (node.rank - 1 - axis)))
        term = build.mul(_sampled(node, axis, size, line, offset), weight)
        total = term if total is None else build.add(total, term)
    assert total is not None
    return total


def _weights(size: int, extent: int, line: _Line, kernel: _Kernel) -> NDArray[np.float64]:
    """The weight of each neighbor (a row) for each place; what would lie beyond an end counts for the last element."""
    place = np.arange(size)
    low, rest = np.divmod(place * line.step + line.start, line.parts)
    table = np.zeros((len(kernel.offsets), size))
    for offset in kernel.offsets:
        at = np.clip(low + offset, 0, extent - 1) - low - kernel.offsets[0]
        table[at, place] += kernel.weight(np.abs(rest / line.parts - offset))
    return table


def _cubic(d: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keys' cubic convolution: a polynomial for the two inner and one for the two outer neighbors."""
    a = CUBIC
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, inner, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)


LINEAR = _Kernel((0, 1), lambda d: 1 - d)
CUBIC_KERNEL = _Kernel((-1, 0, 1, 2), _cubic)
