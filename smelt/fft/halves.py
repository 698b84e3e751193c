"""Real numbers and the first half of their spectrum. The other half says no more, so most of its work is left out.

A step of `steps.py` on real numbers gives rows of which all but the first half are conjugates of others. So only those
are transformed further, and their mirror images fill the rest; back, the same the other way around. Where the first
step has too few rows for that, real numbers are taken two by two as complex ones.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.fft.steps import (
    MOST,
    angles,
    constant,
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
from smelt.graph import IndexLike, Node, build, product_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def spectrum(x: Node, size: int) -> Node:
    """The first half of the transform along the last axis of (batch, size) real numbers: (2, batch, size // 2 + 1)."""
    rows = rows_of(size)
    if 3 <= rows <= MOST:
        return _by_rows(x, size, rows)
    if size % 2 == 0 and size > 2:
        return _of_halves(x, size)
    return resized(transformed(joined(x, build.const(0, x.dtype, x.shape)), 1), size // 2 + 1)


def real_numbers(real: Node, imaginary: Node, size: int, sign: int) -> Node:
    """The transform of a half spectrum, (batch, size // 2 + 1) twice, and its conjugate mirror image: (batch, size).
    What would not be its own conjugate, the imaginary part of the ends, counts for nothing.
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
    batch, columns, half = x.shape[0], size // rows, rows // 2 + 1
    matrix = constant(_there(rows, x.dtype))
    if columns == 1:  # b, j | j, p, k -> p, b, k
        return build.contract(x, matrix, (0, 1), (1, 2, 3), (2, 0, 3))
    found = build.contract(build.reshape(x, (batch, rows, columns)), matrix, (0, 1, 4), (1, 2, 3), (2, 0, 3, 4))
    found = turned(found, *turns(size, rows, 1, x.dtype, half))
    found = transformed(build.reshape(found, (2, product_of((batch, half)), columns)), 1)
    found = build.reshape(found, (2, batch, half, columns))
    count = size // 2 // rows + 1  # of the rows of the result
    there = build.slice_(found, _spans((2, batch, half, count)))
    mirrored = _backwards(found, (rows - half, columns - 1), (rows - half, count))
    mirrored = joined(part(mirrored, 0), build.neg(part(mirrored, 1)))
    whole = build.permute(build.concat([there, mirrored], 2), (0, 1, 3, 2))
    return resized(build.reshape(whole, (2, batch, count * rows)), size // 2 + 1)


def _by_rows_back(real: Node, imaginary: Node, size: int, rows: int, sign: int) -> Node:
    batch, columns, half = real.shape[0], size // rows, rows // 2 + 1
    matrix = constant(_back(rows, sign, real.dtype))
    if columns == 1:  # p, b, k | p, k, j -> b, j
        return build.contract(joined(real, imaginary), matrix, (0, 1, 2), (0, 2, 3), (1, 3))
    sides = [_spread_out(real, rows, columns, False), _spread_out(imaginary, rows, columns, True)]
    found = transformed(build.reshape(joined(*sides), (2, product_of((batch, half)), columns)), sign)
    found = turned(build.reshape(found, (2, batch, half, columns)), *turns(size, rows, sign, real.dtype, half))
    found = build.contract(found, matrix, (0, 1, 2, 4), (0, 2, 3), (1, 3, 4))
    return build.reshape(found, (batch, size))


def _spread_out(x: Node, rows: int, columns: int, opposite: bool) -> Node:
    """One part of a half spectrum and its mirror image, of which the imaginary one is the `opposite`, row by row of the
    first half of the rows.
    """
    batch, half, count, mirrored = x.shape[0], rows // 2 + 1, (columns + 1) // 2, columns // 2
    there = build.reshape(resized(x, rows * count), (batch, count, rows))
    there = build.permute(build.slice_(there, _spans((batch, count, half))), (0, 2, 1))
    tail = build.slice_(x, [*_spans((batch,)), (1, rows * mirrored, 1)])
    tail = _backwards(build.reshape(tail, (batch, mirrored, rows)), (mirrored - 1, rows - 1), (mirrored, half))
    tail = build.permute(tail, (0, 2, 1))
    return build.concat([there, build.neg(tail) if opposite else tail], 2)


def _spans(sizes: Sequence[IndexLike]) -> list[tuple[IndexLike, IndexLike, int]]:
    return [(0, size, 1) for size in sizes]


def _backwards(x: Node, starts: tuple[int, int], counts: tuple[int, int]) -> Node:
    """The last two axes from some places on, backwards."""
    return build.slice_(x, [*_spans(x.shape[:-2]), *((s, n, -1) for s, n in zip(starts, counts, strict=True))])


# --- two by two as complex numbers


def _of_halves(flat: Node, size: int) -> Node:
    """Real numbers two by two as complex ones, whose transform is taken apart: half of the work."""
    half, batch = size // 2, flat.shape[0]
    both = build.permute(build.reshape(flat, (batch, half, 2)), (2, 0, 1))
    z = transformed(both, 1)
    ahead, behind = _wrapped(z, half), _reversed(_wrapped(z, half))
    even, odd = _even_and_odd(ahead, behind)
    odd = joined(part(odd, 1), build.neg(part(odd, 0)))  # divided by i
    return build.scale(build.add(even, turned(odd, *half_turns(size, flat.dtype))), 0.5)


def _even_and_odd(ahead: Node, behind: Node) -> tuple[Node, Node]:
    """Twice the parts of a spectrum that its conjugate mirror image keeps, and that it turns into their opposite."""
    (a, b), (c, d) = ((part(x, 0), part(x, 1)) for x in (ahead, behind))
    return joined(build.add(a, c), build.sub(b, d)), joined(build.sub(a, c), build.add(b, d))


def _wrapped(z: Node, half: int) -> Node:
    """(2, batch, half) with the first element once more at the end."""
    first = build.slice_(z, [*((0, size, 1) for size in z.shape[:-1]), (0, 1, 1)])
    return build.concat([z, first], 2)


def _reversed(z: Node) -> Node:
    size = z.shape[-1]
    assert isinstance(size, int)
    return build.slice_(z, [*((0, whole, 1) for whole in z.shape[:-1]), (size - 1, size, -1)])


def _from_halves(kept: Node, size: int, sign: int) -> Node:
    half, batch = size // 2, kept.shape[1]
    ahead, behind = resized(kept, half), resized(_reversed(kept), half)
    even, odd = _even_and_odd(ahead, behind)
    cosine, sine = half_turns(size, kept.dtype)
    cosine, sine = (resized(x, half) for x in (cosine, sine))
    odd = turned(odd, cosine, sine if sign > 0 else build.neg(sine))
    # i times the odd ones, beside the even ones.
    z = joined(build.sub(part(even, 0), part(odd, 1)), build.add(part(even, 1), part(odd, 0)))
    found = transformed(z, sign)
    return build.reshape(build.permute(found, (1, 2, 0)), (batch, size))


def _without_ends(imaginary: Node, size: int) -> Node:
    last = imaginary.shape[-1]
    assert isinstance(last, int)
    place = build.iota(last, dtypes.int64)
    ends = build.eq(place, build.const(0, dtypes.int64))
    if size % 2 == 0:
        ends = build.binary("or", ends, build.eq(place, build.const(last - 1, dtypes.int64)))
    return build.where(ends, build.const(0, imaginary.dtype), imaginary)
