"""Real numbers and the first half of their spectrum. The other half says no more, so most of its work is left out.

A step of `steps.py` on real numbers gives rows of which all but the first half are conjugates of others. So only those
are transformed further, and their mirror images fill the rest; back, the same the other way around. Where the first
step has too few rows for that, real numbers are taken two by two as complex ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.fft.steps import (
    MOST,
    angles,
    constant,
    cut,
    half_turns,
    joined,
    numbers,
    part,
    resized,
    rows_of,
    transformed,
    turned,
    turns,
)
from smelt.graph import Node, build, product_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def spectrum(x: Node, size: int) -> Node:
    """The first half of the transform of real numbers along the second axis of (before, size, after), with both parts
    along a new first axis.
    """
    rows = rows_of(size)
    if 3 <= rows <= MOST:
        return _by_rows(x, size, rows)
    if size % 2 == 0 and size > 2:
        return _of_halves(x, size)
    return resized(transformed(joined(x, build.const(0, x.dtype, x.shape)), 1), size // 2 + 1)


def real_numbers(real: Node, imaginary: Node, size: int, sign: int) -> Node:
    """The transform of a half spectrum, (before, size // 2 + 1, after) twice, and of its conjugate mirror image. The
    imaginary part of the ends, which would not be its own conjugate, counts for nothing.
    """
    rows = rows_of(size)
    if 3 <= rows <= MOST:
        return _by_rows_back(real, imaginary, size, rows, sign)
    kept = joined(real, _without_ends(imaginary, size))
    if size % 2 == 0 and size > 2:
        return _from_halves(kept, size, sign)
    count = (size - 1) // 2
    tail = resized(_reversed(resized(kept, size // 2 + size % 2)), count)
    tail = joined(part(tail, 0), build.neg(part(tail, 1)))
    return part(transformed(build.concat([kept, tail], 2), sign), 0)


# --- by the first half of the rows


@functools.lru_cache(maxsize=64)
def _there(rows: int, dtype: DType) -> NDArray[Any]:
    """The matrix of the first step from real numbers: (j, part of the result, k) for k up to half of the rows."""
    waves = angles(rows, rows, rows // 2 + 1)
    return numbers(np.stack([waves.real, waves.imag], 1), dtype)


@functools.lru_cache(maxsize=64)
def _back(rows: int, sign: int, dtype: DType) -> NDArray[Any]:
    """The matrix of the last step to real numbers: (part, k, j). Each k but the first and the middle one stands for its
    mirror image, too.
    """
    waves = angles(rows, rows // 2 + 1, rows)
    waves[1 : (rows + 1) // 2] *= 2
    return numbers(np.stack([waves.real, -sign * waves.imag]), dtype)


def _by_rows(x: Node, size: int, rows: int) -> Node:
    before, _, after = x.shape
    columns, half = size // rows, rows // 2 + 1
    inner = product_of((columns, after))
    matrix = constant(_there(rows, x.dtype))
    found = build.contract(build.reshape(x, (before, rows, inner)), matrix, (0, 1, 4), (1, 2, 3), (2, 0, 3, 4))
    if columns == 1:
        return build.reshape(found, (2, before, half, after))
    found = turned(build.reshape(found, (2, before, half, columns, after)), *turns(size, rows, 1, x.dtype, half))
    found = transformed(build.reshape(found, (2, product_of((before, half)), columns, after)), 1)
    found = build.reshape(found, (2, before, half, columns, after))
    count = size // 2 // rows + 1  # of the rows of the result
    mirrored = cut(cut(found, columns - 1, count, -1, axis=3), rows - half, rows - half, -1, axis=2)
    mirrored = joined(part(mirrored, 0), build.neg(part(mirrored, 1)))
    whole = build.concat([cut(found, 0, count, axis=3), mirrored], 2)
    whole = build.reshape(build.permute(whole, (0, 1, 3, 2, 4)), (2, before, count * rows, after))
    return resized(whole, size // 2 + 1)


def _by_rows_back(real: Node, imaginary: Node, size: int, rows: int, sign: int) -> Node:
    before, _, after = real.shape
    columns, half = size // rows, rows // 2 + 1
    found = joined(real, imaginary)
    if columns > 1:
        found = joined(_spread_out(real, rows, columns, False), _spread_out(imaginary, rows, columns, True))
        found = transformed(build.reshape(found, (2, product_of((before, half)), columns, after)), sign)
        found = build.reshape(found, (2, before, half, columns, after))
        found = turned(found, *turns(size, rows, sign, real.dtype, half))
    found = build.reshape(found, (2, before, half, product_of((columns, after))))
    found = build.contract(found, constant(_back(rows, sign, real.dtype)), (0, 1, 2, 4), (0, 2, 3), (1, 3, 4))
    return build.reshape(found, (before, size, after))


def _spread_out(x: Node, rows: int, columns: int, opposite: bool) -> Node:
    """One part of a half spectrum and its mirror image, of which the imaginary one is the `opposite`, as (before, first
    half of the rows, columns, after).
    """
    before, _, after = x.shape
    half, count, mirrored = rows // 2 + 1, (columns + 1) // 2, columns // 2
    there = cut(build.reshape(resized(x, rows * count), (before, count, rows, after)), 0, half)
    tail = build.reshape(cut(x, 1, rows * mirrored), (before, mirrored, rows, after))
    tail = cut(cut(tail, mirrored - 1, mirrored, -1, axis=1), rows - 1, half, -1)
    whole = build.concat([there, build.neg(tail) if opposite else tail], 1)
    return build.permute(whole, (0, 2, 1, 3))


# --- two by two as complex numbers


def _of_halves(flat: Node, size: int) -> Node:
    """Real numbers two by two as complex ones, whose transform is taken apart: half of the work."""
    half, (before, _, after) = size // 2, flat.shape
    both = build.permute(build.reshape(flat, (before, half, 2, after)), (2, 0, 1, 3))
    z = transformed(both, 1)
    wrapped = build.concat([z, cut(z, 0, 1)], 2)  # with the first element once more at the end
    ahead, behind = wrapped, _reversed(wrapped)
    even, odd = _even_and_odd(ahead, behind)
    odd = joined(part(odd, 1), build.neg(part(odd, 0)))  # divided by i
    return build.scale(build.add(even, turned(odd, *half_turns(size, flat.dtype))), 0.5)


def _even_and_odd(ahead: Node, behind: Node) -> tuple[Node, Node]:
    """Twice the parts of a spectrum that its conjugate mirror image keeps, and that it turns into their opposite."""
    (a, b), (c, d) = ((part(x, 0), part(x, 1)) for x in (ahead, behind))
    return joined(build.add(a, c), build.sub(b, d)), joined(build.sub(a, c), build.add(b, d))


def _reversed(z: Node) -> Node:
    size = z.shape[-2]
    assert isinstance(size, int)
    return cut(z, size - 1, size, -1)


def _from_halves(kept: Node, size: int, sign: int) -> Node:
    half, (_, before, _, after) = size // 2, kept.shape
    ahead, behind = resized(kept, half), resized(_reversed(kept), half)
    even, odd = _even_and_odd(ahead, behind)
    cosine, sine = half_turns(size, kept.dtype)
    cosine, sine = (build.slice_(x, [(0, half, 1)]) for x in (cosine, sine))
    odd = turned(odd, cosine, sine if sign > 0 else build.neg(sine))
    # i times the odd ones, beside the even ones.
    z = joined(build.sub(part(even, 0), part(odd, 1)), build.add(part(even, 1), part(odd, 0)))
    found = transformed(z, sign)
    return build.reshape(build.permute(found, (1, 2, 0, 3)), (before, size, after))


def _without_ends(imaginary: Node, size: int) -> Node:
    last = imaginary.shape[-2]
    assert isinstance(last, int)
    place = build.reshape(build.iota(last, dtypes.int64), (last, 1))
    ends = build.eq(place, build.const(0, dtypes.int64))
    if size % 2 == 0:
        ends = build.binary("or", ends, build.eq(place, build.const(last - 1, dtypes.int64)))
    return build.where(ends, build.const(0, imaginary.dtype), imaginary)
