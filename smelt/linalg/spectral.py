"""Factors: eigenvalues, singular values, Q and R, and the pseudo-inverse. Each with its routine and its derivative.

Vectors of equal values are not determined, so they have no derivative: it is infinite or NaN, as division by the gap
gives it. Values alone have one, and functions of values do not ask for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from smelt.errors import ArgumentError, GradientError
from smelt.graph import IndexLike, broadcast_shapes, build, minimum, size_of
from smelt.linalg.hosted import Applied, Rules, Tensors, called, register
from smelt.linalg.matrices import (
    adjoint,
    batch_of,
    diagonal_values,
    finite,
    gap_reciprocals,
    matrices,
    over,
    rounded,
    shape_of,
    square_matrices,
    symmetric,
    turning,
)
from smelt.linalg.solving import solved_triangle
from smelt.tensor import Tensor, concat, finfo, flag, floating, wrap

__all__ = ["EighResult", "QRResult", "SVDResult", "eigh", "eigvalsh", "matrix_rank", "pinv", "qr", "svd", "svdvals"]

_FINITE = "every element must be finite."


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


# --- eigenvalues of symmetric matrices


def eigh(x: Tensor) -> EighResult:
    """Eigenvalues of symmetric (or complex Hermitian) matrices, in ascending order, and eigenvectors as columns.

    Only the lower triangle of x is read, but a gradient is symmetric: it is that of a function of symmetric matrices.

    >>> import smelt as sm
    >>> sm.linalg.eigh(sm.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    given, dtype = square_matrices(x, "eigh")
    return EighResult(*(rounded(value, dtype) for value in _eigen(given)))


def _eigen(x: Tensor) -> Tensors:
    return called("eigh", [x], [shape_of(x)[:-1], shape_of(x)])


def _eigh_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (w, v) = tangents, call.values
    assert change is not None
    inner = adjoint(v) @ symmetric(change) @ v
    gaps = w[..., None, :] - w[..., :, None]
    return [diagonal_values(inner), v @ (gap_reciprocals(gaps) * inner)]


def eigvalsh(x: Tensor) -> Tensor:
    """Eigenvalues of symmetric (or complex Hermitian) matrices, in ascending order. Only their lower triangle is read.

    >>> import smelt as sm
    >>> sm.linalg.eigvalsh(sm.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    given, dtype = square_matrices(x, "eigvalsh")
    return rounded(_eigenvalues(given), dtype)


def _eigenvalues(x: Tensor) -> Tensor:
    return called("eigvalsh", [x], [shape_of(x)[:-1]])[0]


def _eigvalsh_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (x,) = tangents, call.sources
    assert change is not None
    v = _eigen(x)[1]
    return [((symmetric(change) @ v) * v.conj()).sum(-2)]


register(
    "eigh",
    Rules(
        lambda x: tuple(np.linalg.eigh(x)),
        "has eigenvalues that were not found",
        _FINITE,
        _eigh_forward,
        lambda sources, options: _eigen(*sources),
        real=(0,),
    ),
)
register(
    "eigvalsh",
    Rules(
        np.linalg.eigvalsh,
        "has eigenvalues that were not found",
        _FINITE,
        _eigvalsh_forward,
        lambda sources, options: [_eigenvalues(*sources)],
        real=(0,),
    ),
)


# --- singular values


def svd(x: Tensor, *, full_matrices: bool = True) -> SVDResult:
    """U, S and Vh with x = U @ diag(S) @ Vh: columns of U and rows of Vh are orthonormal, S descends.

    Without `full_matrices`, U and Vh have only as many of them as there are singular values. Where there are more,
    these are any that fit, so U and Vh have no derivative.

    >>> import smelt as sm
    >>> [part.shape for part in sm.linalg.svd(sm.ones(5, 3), full_matrices=False)]
    [(5, 3), (3,), (3, 3)]
    """
    given, dtype = matrices(x, "svd")
    rows, columns = shape_of(given)[-2:]
    full = flag(full_matrices, "svd", "full_matrices") and rows != columns
    return SVDResult(*(rounded(value, dtype) for value in (_full_parts(given) if full else _parts(given))))


def _smaller(x: Tensor) -> IndexLike:
    """How many singular values there are."""
    rows, columns = shape_of(x)[-2:]
    return rows if rows == columns else size_of(minimum(rows, columns))


def _parts(x: Tensor) -> Tensors:
    batch, (rows, columns), count = batch_of(x), shape_of(x)[-2:], _smaller(x)
    return called("svd", [x], [(*batch, rows, count), (*batch, count), (*batch, count, columns)])


def _full_parts(x: Tensor) -> Tensors:
    batch, (rows, columns), count = batch_of(x), shape_of(x)[-2:], _smaller(x)
    return called("svd full", [x], [(*batch, rows, rows), (*batch, count), (*batch, columns, columns)])


def _svd_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (u, s, vh) = tangents, call.values
    assert change is not None
    (rows, columns), count = shape_of(change)[-2:], shape_of(s)[-1]
    right = change @ adjoint(vh)  # rows x count
    inner = adjoint(u) @ right
    down, across = s[..., :, None], s[..., None, :]
    gaps = gap_reciprocals((across - down) * (across + down))
    for_u = u @ (gaps * (inner * across + down * adjoint(inner)))
    for_v = adjoint(vh) @ (gaps * (down * inner + adjoint(inner) * across))
    if change._node.dtype.is_complex:
        for_u = for_u + u @ (turning(inner) / across)
    if rows != count:
        for_u = for_u + (right - u @ inner) / across
    if columns != count:
        left = adjoint(change) @ u
        for_v = for_v + (left - adjoint(vh) @ adjoint(inner)) / across
    return [for_u, diagonal_values(inner), adjoint(for_v)]


def _full_svd_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    raise _not_determined("svd", "full_matrices=False")


def _full_svd_back(call: Applied, given: Mapping[int, Tensor]) -> Sequence[Tensor | None]:
    if set(given) != {1}:
        raise _not_determined("svd", "full_matrices=False")
    u, s, vh = call.values
    count = shape_of(s)[-1]
    return [(u[..., :, :count] * given[1][..., None, :]) @ vh[..., :count, :]]


def _not_determined(name: str, hint: str) -> GradientError:
    return GradientError(
        f"{name}: vectors beyond those of the matrix have no derivative",
        rule="any that complete the others would do.",
        hint=f"Write {hint}.",
    )


def svdvals(x: Tensor) -> Tensor:
    """Singular values, in descending order.

    >>> import smelt as sm
    >>> sm.linalg.svdvals(sm.asarray([[0.0, 2.0], [1.0, 0.0]])).tolist()
    [2.0, 1.0]
    """
    given, dtype = matrices(x, "svdvals")
    return rounded(singular_values(given), dtype)


def singular_values(x: Tensor) -> Tensor:
    """The same, of floats that are wide enough."""
    return called("svdvals", [x], [(*batch_of(x), _smaller(x))])[0]


def _svdvals_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (x,) = tangents, call.sources
    assert change is not None
    u, _, vh = _parts(x)
    return [(u.conj() * (change @ adjoint(vh))).sum(-2)]


_UNKNOWN = "has singular values that were not found"

register(
    "svd",
    Rules(
        lambda x: tuple(np.linalg.svd(finite(x), full_matrices=False)),
        _UNKNOWN,
        _FINITE,
        _svd_forward,
        lambda sources, options: _parts(*sources),
        real=(1,),
    ),
)
register(
    "svd full",
    Rules(
        lambda x: tuple(np.linalg.svd(finite(x))),
        _UNKNOWN,
        _FINITE,
        _full_svd_forward,
        lambda sources, options: _full_parts(*sources),
        _full_svd_back,
        real=(1,),
    ),
)
register(
    "svdvals",
    Rules(
        lambda x: np.linalg.svd(x, compute_uv=False),
        _UNKNOWN,
        _FINITE,
        _svdvals_forward,
        lambda sources, options: [singular_values(*sources)],
        real=(0,),
    ),
)


def _tolerance(rtol: Any, x: Tensor, name: str) -> Tensor:
    """How small singular values count as 0, as a share of the largest: by default, what rounding leaves of a 0."""
    part = x._node.dtype.part
    if rtol is None:
        longest = build.maximum(*(build.size_node(size, part) for size in shape_of(x)[-2:]))
        return wrap(longest) * finfo(part).eps
    node = build.cast(floating(rtol, name), part)
    broadcast_shapes(node.shape, batch_of(x), name)
    return wrap(node)


def matrix_rank(x: Tensor, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest one.

    Without `rtol`: the larger size of the matrix, times what the dtype rounds.

    >>> import smelt as sm
    >>> sm.linalg.matrix_rank(sm.ones(3, 3)).item()
    1
    """
    given, _ = matrices(x, "matrix_rank")
    s = singular_values(given)
    largest = concat([wrap(build.const(0, s._node.dtype, (*batch_of(given), 1))), s], axis=-1).max(axis=-1)
    return (s > (largest * _tolerance(rtol, given, "matrix_rank"))[..., None]).astype("int64").sum(-1)


def pinv(x: Tensor, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse: the least y with x @ y as near to the identity as can be.

    Singular values that are no larger than `rtol` times the largest one count as 0. Without `rtol`: the larger size of
    the matrix, times what the dtype rounds.

    >>> import smelt as sm
    >>> sm.linalg.pinv(sm.asarray([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    given, dtype = matrices(x, "pinv")
    tolerance = _tolerance(rtol, given, "pinv")
    return rounded(_pseudo_inverse(given, tolerance), dtype)


def _pseudo_inverse(x: Tensor, tolerance: Tensor) -> Tensor:
    batch = broadcast_shapes(batch_of(x), shape_of(tolerance), "pinv")
    x, tolerance = over(x, batch), wrap(build.broadcast_to(tolerance._node, batch))
    rows, columns = shape_of(x)[-2:]
    return called("pinv", [x, tolerance], [(*batch, columns, rows)])[0]


def _pinv_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    """By Golub and Pereyra; a change of the tolerance changes nothing."""
    (x, _), (p,), change = call.sources, call.values, tangents[0]
    if change is None:
        return [None]
    turned = adjoint(change)
    left = p @ (adjoint(p) @ (turned - turned @ x @ p))
    outer = turned @ adjoint(p)
    right = (outer - p @ (x @ outer)) @ p
    return [left + right - p @ change @ p]


register(
    "pinv",
    Rules(
        lambda x, tolerance: np.linalg.pinv(finite(x), rcond=tolerance),
        _UNKNOWN,
        _FINITE,
        _pinv_forward,
        lambda sources, options: [_pseudo_inverse(*sources)],
    ),
)


# --- Q and R


def qr(x: Tensor, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Q with orthonormal columns and an upper triangular R with x = Q @ R.

    `mode="complete"` gives a square Q also of matrices with more rows than columns. The further columns are any that
    fit, so they have no derivative.

    >>> import smelt as sm
    >>> [part.shape for part in sm.linalg.qr(sm.ones(5, 3))]
    [(5, 3), (3, 3)]
    """
    given, dtype = matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode={mode!r:.40}", rule="it is 'reduced' or 'complete'.")
    more = mode == "complete" and _smaller(given) != shape_of(given)[-2]
    return QRResult(*(rounded(value, dtype) for value in (_complete_factors if more else _factors)(given)))


def _factors(x: Tensor) -> Tensors:
    batch, (rows, columns), count = batch_of(x), shape_of(x)[-2:], _smaller(x)
    return called("qr", [x], [(*batch, rows, count), (*batch, count, columns)])


def _complete_factors(x: Tensor) -> Tensors:
    batch, (rows, columns) = batch_of(x), shape_of(x)[-2:]
    return called("qr complete", [x], [(*batch, rows, rows), (*batch, rows, columns)])


def _qr_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    """Of a wide matrix, the first columns are a square one, which has the same Q; the others are Q times those of R."""
    (change,), (x,), (q, r) = tangents, call.sources, call.values
    assert change is not None
    columns, count = shape_of(x)[-1], shape_of(q)[-1]
    if columns == count:
        return _tall_forward(change, q, r)
    first, others = (slice(None, count), slice(count, None))
    for_q, for_first = _tall_forward(change[..., first], q, r[..., first])
    for_others = adjoint(q) @ change[..., others] + adjoint(for_q) @ x[..., others]
    return [for_q, concat([for_first, for_others], axis=-1)]


def _tall_forward(change: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    moved = solved_triangle(r, change.mT, True, True).mT  # change @ inv(r)
    inner = adjoint(q) @ moved
    below = inner.tril(-1)
    turned = below - adjoint(below)
    if change._node.dtype.is_complex:
        turned = turned + turning(inner)
    return q @ (turned - inner) + moved, (inner - turned) @ r


def _complete_qr_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    raise _not_determined("qr", "mode='reduced'")


register(
    "qr",
    Rules(
        lambda x: tuple(np.linalg.qr(x)),
        "has no Q and R that were found",
        _FINITE,
        _qr_forward,
        lambda sources, options: _factors(*sources),
    ),
)
register(
    "qr complete",
    Rules(
        lambda x: tuple(np.linalg.qr(x, mode="complete")),
        "has no Q and R that were found",
        _FINITE,
        _complete_qr_forward,
        lambda sources, options: _complete_factors(*sources),
    ),
)
