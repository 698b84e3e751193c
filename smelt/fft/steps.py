"""One transform along the last axis, step by step.

A transform of n = r * m elements is r * m = a matrix of r rows: transform its columns by a matrix of r by r numbers,
turn each element by an angle, transform the rows the same way, and read the result column by column. So the work is
products with small matrices, which are what kernels are best at: 2 r real multiplications and additions for each
number and step, or r/2 for a prime above 16. A size with a larger prime factor than 128 is a convolution of a size
without (Bluestein).

A value is a float tensor of (part, before, n, after): what is transformed lies along the third axis, between others.
Matrices and angles are computed in float64.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import Node, build, product_of
from smelt.runtime import Storage, leaf

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST: Final = 16  # rows of a matrix: larger ones are as much work as another step, and less exact
LARGEST_PRIME: Final = 128  # that is transformed by a matrix of its own: up to there, a convolution rounds more
LONGEST: Final = 1 << 24  # transform: its tables take some hundred megabytes; a convolution has twice as many elements
_LONGEST_SUM: Final = 36  # of products, in one go: the longer it is, the more is rounded on the way


@functools.lru_cache(maxsize=512)
def rows_of(size: int) -> int:
    """How many rows to make of a size: itself if it is done in one step, 0 if it has no small factor."""
    if size <= MOST or (size <= LARGEST_PRIME and all(size % k for k in range(2, math.isqrt(size) + 1))):
        return size
    fits = [k for k in range(2, MOST + 1) if size % k == 0]
    if not fits:
        return next((k for k in range(MOST + 1, LARGEST_PRIME + 1) if size % k == 0), 0)
    steps = math.ceil(math.log(size) / math.log(MOST))
    return min(fits, key=lambda k: abs(math.log(k) - math.log(size) / steps))


def is_smooth(size: int, largest: int = LARGEST_PRIME) -> bool:
    """Whether a size is a product of small numbers."""
    while size > 1:
        rows = rows_of(size)
        if not 0 < rows <= largest:
            return False
        size //= rows
    return True


def angles(size: int, rows: int, columns: int) -> NDArray[np.complex128]:
    """exp(-2 pi i j k / size) for j below `rows` and k below `columns`."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    found = np.exp(-2j * np.pi * turns / size)
    quarters, rest = np.divmod(4 * turns, size)
    return np.where(rest == 0, np.array([1, -1j, -1, 1j])[quarters], found)


def numbers(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype.numpy)


def constant(array: NDArray[Any]) -> Node:
    """Numbers as a constant: a new one for each program, since `jit` looks for what a function reads from outside."""
    return leaf(Storage.of(array, copy=False))


@functools.lru_cache(maxsize=512)
def _matrix(size: int, sign: int, dtype: DType) -> NDArray[Any]:
    """The matrix of a transform over both parts: (part, j, part of the result, k)."""
    turned = angles(size, size, size)
    real, imaginary = turned.real, turned.imag * sign
    return numbers(np.stack([np.stack([real, imaginary], 1), np.stack([-imaginary, real], 1)]), dtype)


@functools.lru_cache(maxsize=128)
def _waves(size: int, sign: int, dtype: DType) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cosines of j and k up to half of an odd size, and sines without those of j = 0."""
    turned = angles(size, size // 2 + 1, size // 2 + 1)
    return numbers(turned.real, dtype), numbers(turned.imag[1:] * sign, dtype)


def _columns_transformed(x: Node, sign: int) -> Node:
    """The transform along the rows, the third axis of (2, before, rows, columns and what is after)."""
    rows = x.shape[2]
    assert isinstance(rows, int)
    if rows > MOST:
        return _by_waves(x, rows, sign)
    matrix = constant(_matrix(rows, sign, x.dtype))
    if x.shape[3] == 1:  # p, b, j | p, j, q, k -> q, b, k
        found = build.contract(build.reshape(x, x.shape[:3]), matrix, (0, 1, 2), (0, 2, 3, 4), (3, 1, 4))
        return build.reshape(found, x.shape)
    return build.contract(x, matrix, (0, 1, 2, 5), (0, 2, 3, 4), (3, 1, 4, 5))


def _by_waves(x: Node, size: int, sign: int) -> Node:
    """An odd number of rows: cosines times sums of mirrored elements, and sines times their differences. Each product
    serves two results, and sums are a quarter as long, so they round less.
    """
    half = size // 2
    ahead, behind = cut(x, 1, half), cut(x, size - 1, half, -1)
    sums, differences = build.concat([cut(x, 0, 1), build.add(ahead, behind)], 2), build.sub(ahead, behind)
    cosines, sines = _waves(size, sign, x.dtype)
    (a, b), (c, d) = (
        (part(found, 0), part(found, 1)) for found in (_product(sums, cosines), _product(differences, sines))
    )
    first, mirrored = joined(build.sub(a, d), build.add(b, c)), joined(build.add(a, d), build.sub(b, c))
    return build.concat([first, cut(mirrored, half, half, -1)], 2)


def _product(x: Node, waves: NDArray[Any]) -> Node:
    """Rows times numbers, added up piece by piece."""
    pieces = []
    for start in range(0, len(waves), _LONGEST_SUM):
        piece = waves[start : start + _LONGEST_SUM]
        labels = (0, 1, 2, 5), (2, 4), (0, 1, 4, 5)
        pieces.append(build.contract(cut(x, start, len(piece)), constant(piece), *labels))
    return functools.reduce(build.add, pieces)


@functools.lru_cache(maxsize=512)
def _turns(size: int, rows: int, sign: int, dtype: DType, kept: int) -> tuple[NDArray[Any], NDArray[Any]]:
    turned = angles(size, kept, size // rows)
    return numbers(turned.real, dtype), numbers(turned.imag * sign, dtype)


def turns(size: int, rows: int, sign: int, dtype: DType, kept: int | None = None) -> tuple[Node, Node]:
    """The angles between two steps, of the first of all rows that are `kept`."""
    cosine, sine = _turns(size, rows, sign, dtype, kept or rows)
    return constant(cosine), constant(sine)


def transformed(x: Node, sign: int) -> Node:
    """The transform along the third axis of (2, before, n, after) with n not 0; `sign` is -1 for the inverse, which is
    not divided.
    """
    parts, before, size, after = x.shape
    assert isinstance(size, int)
    rows = rows_of(size)
    if rows == 0:
        return _by_convolution(x, size, sign)
    columns = size // rows
    found = _columns_transformed(build.reshape(x, (parts, before, rows, product_of((columns, after)))), sign)
    if columns > 1:
        found = turned(build.reshape(found, (parts, before, rows, columns, after)), *turns(size, rows, sign, x.dtype))
        found = transformed(build.reshape(found, (parts, product_of((before, rows)), columns, after)), sign)
        found = build.permute(build.reshape(found, (parts, before, rows, columns, after)), (0, 1, 3, 2, 4))
    return build.reshape(found, x.shape)


def turned(x: Node, cosine: Node, sine: Node) -> Node:
    """Each complex number of (2, …) times another one, by its place in front of the last axis."""
    real, imaginary = part(x, 0), part(x, 1)
    cosine, sine = (build.broadcast_to(build.reshape(angle, (*angle.shape, 1)), real.shape) for angle in (cosine, sine))
    return joined(
        build.sub(build.mul(real, cosine), build.mul(imaginary, sine)),
        build.add(build.mul(real, sine), build.mul(imaginary, cosine)),
    )


def part(x: Node, k: int) -> Node:
    """The real or the imaginary part of (2, …)."""
    cuts = [(k, 1, 1), *((0, size, 1) for size in x.shape[1:])]
    return build.reshape(build.slice_(x, cuts), x.shape[1:])


def joined(real: Node, imaginary: Node) -> Node:
    """Two parts along a new first axis."""
    return build.concat([build.reshape(x, (1, *x.shape)) for x in (real, imaginary)], 0)


def resized(x: Node, size: int) -> Node:
    """The axis in front of the last one cut off, or filled with zeros, to a size."""
    had = x.shape[-2]
    assert isinstance(had, int)
    if size <= had:
        return cut(x, 0, size)
    return build.pad(x, [(0, 0)] * (x.rank - 2) + [(0, size - had), (0, 0)], build.const(0, x.dtype))


def cut(x: Node, start: int, size: int, step: int = 1, axis: int = -2) -> Node:
    """Some places of an axis."""
    return build.slice_(x, [(start, size, step) if k == axis % x.rank else (0, n, 1) for k, n in enumerate(x.shape)])


@functools.lru_cache(maxsize=256)
def _chirp(size: int, room: int, sign: int, dtype: DType) -> list[NDArray[Any]]:
    """exp(-pi i k² / size), and the transform of its conjugate, laid around a circle of `room` places."""
    squares = np.arange(size, dtype=np.int64) ** 2 % (2 * size)
    chirp = np.exp(-1j * sign * np.pi * squares / size)
    circle = np.zeros(room, np.complex128)
    circle[:size] = chirp.conj()
    circle[room - size + 1 :] = chirp.conj()[:0:-1]
    spectrum = np.fft.fft(circle) / room
    return [numbers(part, dtype) for x in (chirp, spectrum) for part in (x.real, x.imag)]


def _by_convolution(x: Node, size: int, sign: int) -> Node:
    """Bluestein: 2 j k = j² + k² - (k - j)²."""
    room = next(k for k in range(2 * size - 1, 4 * size) if is_smooth(k, MOST) and k % 16 == 0)
    # It rounds several times as much as other sizes do, so float32 is computed in float64.
    kind, wide = x.dtype, dtypes.float64
    cosine, sine, real, imaginary = map(constant, _chirp(size, room, sign, wide))
    x = resized(turned(build.cast(x, wide), cosine, sine), room)
    x = transformed(turned(transformed(x, 1), real, imaginary), -1)
    return build.cast(turned(resized(x, size), cosine, sine), kind)


@functools.lru_cache(maxsize=256)
def _half(size: int, dtype: DType) -> tuple[NDArray[Any], NDArray[Any]]:
    turned = angles(size, 2, size // 2 + 1)[1]
    return numbers(turned.real, dtype), numbers(turned.imag, dtype)


def half_turns(size: int, dtype: DType) -> tuple[Node, Node]:
    """exp(-2 pi i k / size) for k up to half of the size."""
    cosine, sine = _half(size, dtype)
    return constant(cosine), constant(sine)
