"""LAPACK's routines by NumPy, with their parameters and results as XLA calls them. Matrices are the last two axes, of
real or complex numbers; what a routine leaves in memory is a result, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = Any

LOWER, UNIT, LEFT, NO, VECTORS = (ord(letter) for letter in "LULNV")
_ADJOINT = ord("C")


def _adjoint(a: Array) -> Array:
    return np.swapaxes(a, -1, -2).conj()


def _each(function: Callable[..., list[Array]], rank: int = 2) -> Callable[..., list[Array]]:
    """A routine whose first operand has so many axes, for several at once. Without any, results are shaped as those of
    zeros.
    """

    def batched(*arrays: Array, **parameters: int) -> list[Array]:
        batch = arrays[0].shape[: arrays[0].ndim - rank]
        if 0 in batch:
            found = function(*(np.zeros(x.shape[len(batch) :], x.dtype) for x in arrays), **parameters)
            return [np.zeros((*batch, *np.shape(x)), np.asarray(x).dtype) for x in found]
        rows = [function(*(x[at] for x in arrays), **parameters) for at in np.ndindex(*batch)]
        return [np.stack(column).reshape((*batch, *np.shape(column[0]))) for column in zip(*rows, strict=True)]

    return batched


# --- triangles


def _potrf(a: Array, uplo: int = LOWER) -> list[Array]:
    """The factor of a positive definite matrix, of which one triangle is read and the other one left as it is; NaN and
    an info of 1 if it is none.
    """
    lower, other = uplo == LOWER, np.triu(a, 1) if uplo == LOWER else np.tril(a, -1)
    a = np.tril(a) if lower else _adjoint(np.triu(a))
    full = a + _adjoint(np.tril(a, -1))
    result, info = np.full_like(full, np.nan), np.ones(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        try:
            result[at], info[at] = np.linalg.cholesky(full[at]), 0
        except np.linalg.LinAlgError:
            pass
    return [(result if lower else _adjoint(result)) + other, info]


def _trsm(a: Array, b: Array, side: int = LEFT, uplo: int = LOWER, trans_x: int = NO, diag: int = NO) -> list[Array]:
    """op(a) x = b or x op(a) = b, for a triangle of a."""
    a = np.tril(a) if uplo == LOWER else np.triu(a)
    if diag == UNIT:
        a = a - a * np.eye(a.shape[-1], dtype=a.dtype) + np.eye(a.shape[-1], dtype=a.dtype)
    a = a.conj() if trans_x == _ADJOINT else a
    flipped = (trans_x != NO) != (side != LEFT)
    lower = (uplo == LOWER) != flipped
    a = np.swapaxes(a, -1, -2) if flipped else a
    x = np.swapaxes(b, -1, -2).copy() if side != LEFT else b.copy()
    size = a.shape[-1]
    for k in range(size) if lower else range(size - 1, -1, -1):
        done = slice(0, k) if lower else slice(k + 1, size)
        rest = x[..., k, :] - np.einsum("...i,...ij->...j", a[..., k, done], x[..., done, :])
        x[..., k, :] = rest / a[..., k, k, None]
    return [np.swapaxes(x, -1, -2) if side != LEFT else x]


def _getrf(a: Array) -> list[Array]:
    """L and U in one matrix, the rows that were exchanged (counted from 1), and the first pivot that is 0."""
    a, info = a.copy(), np.int32(0)
    count = min(a.shape)
    pivots = np.zeros(count, np.int32)
    for k in range(count):
        best = k + int(np.argmax(abs(a[k:, k].real) + abs(a[k:, k].imag)))
        pivots[k] = best + 1
        a[[k, best]] = a[[best, k]]
        if a[k, k] == 0:
            info = info or np.int32(k + 1)
        else:
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return [a, pivots, info]


def _gtsv(below: Array, diagonal: Array, above: Array, b: Array) -> list[Array]:
    """x of a tridiagonal system, row by row with partial pivoting. The first element below and the last one above the
    diagonal are none.
    """
    size = diagonal.shape[0]
    full = np.diag(diagonal) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)
    info = np.int32(0)
    x = b.copy()
    for k in range(size):
        if k + 1 < size and abs(full[k + 1, k]) > abs(full[k, k]):
            full[[k, k + 1]], x[[k, k + 1]] = full[[k + 1, k]], x[[k + 1, k]]
        if full[k, k] == 0:
            info = info or np.int32(k + 1)
        for below_ in range(k + 1, min(k + 2, size)):
            factor = full[below_, k] / full[k, k]
            full[below_] -= factor * full[k]
            x[below_] -= factor * x[k]
    for k in range(size - 1, -1, -1):
        x[k] = (x[k] - full[k, k + 1 : k + 3] @ x[k + 1 : k + 3]) / full[k, k]
    return [below, diagonal, above, x, info]


# --- reflections: I - factor v v*, where v begins with 1


def _reflection(x: Array) -> tuple[Array, Array, Array]:
    """The reflection whose adjoint makes of x its first axis: v, its factor, and the length with its sign."""
    v, alpha = x.copy(), x[0]
    v[0] = 1
    if not x[1:].any() and alpha.imag == 0:
        return v, x.dtype.type(0), alpha.real
    beta = -np.copysign(np.linalg.norm(x), alpha.real).astype(x.real.dtype)
    v[1:] /= alpha - beta
    return v, (beta - alpha) / beta, beta


def _geqrf(a: Array) -> list[Array]:
    """Householder's vectors below R, and their factors."""
    if 0 in a.shape:
        return [a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)]
    vectors, factors = np.linalg.qr(a, mode="raw")
    return [np.swapaxes(vectors, -1, -2), factors]


def _geqp3(a: Array, fixed: Array) -> list[Array]:
    """The same with columns exchanged, so that each is the longest left; the columns, counted from 1. Fixed ones
    come first.
    """
    a, order = a.copy(), np.argsort(fixed == 0, kind="stable").astype(np.int32)
    a = a[:, order]
    factors = np.zeros(min(a.shape), a.dtype)
    for k in range(min(a.shape)):
        if k >= np.count_nonzero(fixed):
            best = k + int(np.argmax(np.linalg.norm(a[k:, k:], axis=0)))
            a[:, [k, best]], order[[k, best]] = a[:, [best, k]], order[[best, k]]
        v, factors[k], length = _reflection(a[k:, k])
        a[k:, k + 1 :] -= factors[k].conj() * np.outer(v, v.conj() @ a[k:, k + 1 :])
        a[k, k], a[k + 1 :, k] = length, v[1:]
    return [a, order + 1, factors]


def _orgqr(a: Array, factors: Array) -> list[Array]:
    """The first columns of the product of reflections."""
    rows, columns = a.shape[-2:]
    q = np.broadcast_to(np.eye(rows, columns, dtype=a.dtype), a.shape).copy()
    for k in range(factors.shape[-1] - 1, -1, -1):
        v = a[..., :, k].copy()
        v[..., :k], v[..., k] = 0, 1
        q -= factors[..., k, None, None] * v[..., :, None] * np.einsum("...i,...ij->...j", v.conj(), q)[..., None, :]
    return [q]


def _gehrd(a: Array, low: int = 1, high: int = 0) -> list[Array]:
    """Hessenberg's form in rows and columns `low` to `high`, with Householder's vectors below it, and their factors."""
    a = a.copy()
    size = a.shape[0]
    factors = np.zeros(max(size - 1, 0), a.dtype)
    for k in range(low - 1, high - 1):
        v, factors[k], length = _reflection(a[k + 1 : high, k])
        a[:high, k + 1 : high] -= factors[k] * np.outer(a[:high, k + 1 : high] @ v, v.conj())
        a[k + 1 : high, k + 1 :] -= factors[k].conj() * np.outer(v, v.conj() @ a[k + 1 : high, k + 1 :])
        a[k + 1, k], a[k + 2 : high, k] = length, v[1:]
    return [a, factors, np.int32(0)]


def _sytrd(a: Array, uplo: int = LOWER) -> list[Array]:
    """A Hermitian matrix made tridiagonal: vectors in the triangle that is read, diagonal, elements beside it, factors.

    The upper triangle is the lower one of the matrix with its axes turned around.
    """
    if uplo != LOWER:
        turned, diagonal, beside, factors, info = _sytrd(a[::-1, ::-1])
        return [turned[::-1, ::-1], diagonal[::-1], beside[::-1], factors[::-1], info]
    kept = np.triu(a, 1)
    a = np.tril(a) + _adjoint(np.tril(a, -1))
    a[np.diag_indices_from(a)] = a.diagonal().real
    size = a.shape[0]
    beside, factors = np.zeros(max(size - 1, 0), a.real.dtype), np.zeros(max(size - 1, 0), a.dtype)
    for k in range(size - 1):
        v, factors[k], beside[k] = _reflection(a[k + 1 :, k])
        rest = a[k + 1 :, k + 1 :]
        rest -= factors[k] * np.outer(rest @ v, v.conj())
        rest -= factors[k].conj() * np.outer(v, v.conj() @ rest)
        a[k + 1, k], a[k + 2 :, k] = beside[k], v[1:]
    return [np.tril(a) + kept, a.diagonal().real.copy(), beside, factors, np.int32(0)]


# --- eigenvalues and singular values


def _found(function: Callable[[Array], Sequence[Array]], a: Array) -> list[Array]:
    """What NumPy finds for each matrix, and an info: NaN and 1 for those that it finds nothing for, others are as they
    would be by themselves. For elements that are infinite LAPACK may search forever, so those are not asked about.
    """
    refused = np.asarray(~np.isfinite(a).all((-2, -1)))
    try:
        values = function(_without(a, refused))
    except np.linalg.LinAlgError:
        for at in np.ndindex(*refused.shape):
            refused[at] |= _is_refused(function, a[at])
        values = function(_without(a, refused))
    found = [np.array(x) for x in values]
    for x in found:
        x[refused] = complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan
    return [*found, refused.astype(np.int32)]


def _without(a: Array, refused: Array) -> Array:
    return np.where(refused[..., None, None], a.dtype.type(0), a)


def _is_refused(function: Callable[[Array], Sequence[Array]], matrix: Array) -> bool:
    try:
        function(matrix)
    except np.linalg.LinAlgError:
        return True
    return False


def _syevd(a: Array, mode: int = 0, uplo: int = LOWER) -> list[Array]:
    """Eigenvectors as columns, eigenvalues in ascending order."""
    triangle = np.tril(a) if uplo == LOWER else np.triu(a)
    values, vectors, info = _found(lambda x: np.linalg.eigh(x, "L" if uplo == LOWER else "U"), triangle)
    return [vectors, values, info]


def _gesdd(a: Array, mode: int = ord("A")) -> list[Array]:
    """Singular values, and the vectors on both sides: all of them, as many as values, or none."""
    if mode == NO:
        nothing = np.zeros((), a.dtype)
        values, info = _found(lambda x: [np.linalg.svd(x, compute_uv=False)], a)
        return [a, values, nothing, nothing, info]
    u, values, vt, info = _found(lambda x: np.linalg.svd(x, full_matrices=mode != ord("S")), a)
    return [a, values, u, vt, info]


def _geev(a: Array, compute_left: int = NO, compute_right: int = NO) -> list[Array]:
    """Eigenvalues (of real matrices in two parts), and the vectors of each from both sides, of length 1."""
    wide = np.complex64 if a.dtype == np.float32 else np.complex128 if a.dtype == np.float64 else a.dtype

    def eigen(x: Array) -> list[Array]:
        values, right = (found.astype(wide) for found in np.linalg.eig(x))
        left = _from_the_left(x, values, right) if compute_left == VECTORS else np.full_like(right, np.nan)
        return [values, left, right]

    values, left, right, info = _found(eigen, a)
    parts = [values] if a.dtype.kind == "c" else [values.real, values.imag]
    return [*parts, left, right, info]


def _from_the_left(a: Array, values: Array, right: Array) -> Array:
    """The vectors u with u* a = value u*: columns of the inverse's adjoint, or where there is none, those of the
    adjoint matrix whose values come closest.
    """
    if a.shape[-1] == 0:
        return right
    try:
        found = _adjoint(np.linalg.inv(right))
    except np.linalg.LinAlgError:
        others, vectors = np.linalg.eig(_adjoint(a))
        nearest = abs(others.conj()[..., None, :] - values[..., :, None]).argmin(-1)
        found = np.take_along_axis(vectors, nearest[..., None, :], -1)
    return found / np.linalg.norm(found, axis=-2, keepdims=True)


ROUTINES: Final[dict[str, Callable[..., list[Array]]]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _each(_getrf),
    "geqrf": _geqrf,
    "geqp3": _each(_geqp3),
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "gehrd": _each(_gehrd),
    "sytrd": _each(_sytrd),
    "hetrd": _each(_sytrd),
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "geev": _geev,
    "gtsv": _each(_gtsv, 1),
}
PARAMETERS: Final = frozenset(
    {"uplo", "side", "trans_x", "diag", "mode", "low", "high", "compute_left", "compute_right"}
)
