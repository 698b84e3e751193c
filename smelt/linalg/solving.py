"""Equations: Cholesky factors, solutions, inverses, determinants. Each with its routine, and the derivative of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smelt.errors import GradientError, ShapeError
from smelt.graph import build, marked, product_of
from smelt.linalg import small
from smelt.linalg.hosted import SINGULAR, Applied, Array, Rules, Tensors, called, register
from smelt.linalg.matrices import (
    adjoint,
    batch_of,
    diagonal_values,
    finite,
    half_triangle,
    matrices,
    on_diagonal,
    pair_of,
    rounded,
    shape_of,
    spread,
    square_matrices,
    symmetric,
)
from smelt.tensor import Tensor, flag, where, wrap

__all__ = ["SlogdetResult", "cholesky", "det", "inv", "slogdet", "solve", "solve_triangular"]

_NEEDS_INVERSE = "a matrix that has an inverse is needed."
_BLOCK = 64  # rows of a triangle that are solved at once; the rest is products


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


def _small_or(small: Callable[..., Any], large: Callable[..., Any]) -> Callable[..., Any]:
    """Many small matrices side by side, all others by LAPACK."""

    def compute(*arrays: Array) -> Any:
        found = small(*arrays)
        return large(*arrays) if found is None else found

    return compute


# --- Cholesky


def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with x = L @ L.mT, of symmetric matrices whose eigenvalues are positive.

    With `upper` it is U with x = U.mT @ U. Only that triangle of x is read, but a gradient is symmetric: it is that of
    a function of symmetric matrices. A matrix that is not positive definite is an error when values are asked for.
    Complex matrices are Hermitian, with the conjugate transpose for mT.

    >>> import smelt as sm
    >>> sm.linalg.cholesky(sm.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    given, dtype = square_matrices(x, "cholesky")
    if flag(upper, "cholesky", "upper"):
        return rounded(adjoint(_factor(adjoint(given))), dtype)
    return rounded(_factor(given), dtype)


def _factor(x: Tensor) -> Tensor:
    return called("cholesky", [x], [shape_of(x)])[0]


def _cholesky_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (lower,) = tangents, call.values
    assert change is not None
    half = solved_triangle(lower, symmetric(change))
    return [lower @ half_triangle(solved_triangle(lower, adjoint(half)))]


register(
    "cholesky",
    Rules(
        _small_or(small.cholesky, np.linalg.cholesky),
        "is not positive definite",
        "it takes symmetric matrices whose eigenvalues are all positive.",
        _cholesky_forward,
        lambda sources, options: [_factor(*sources)],
        hint="If rounding is to blame, add a little to the diagonal: x + 1e-6 * sm.eye(n).",
    ),
)


# --- solutions


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The y with a @ y = b, where a has square matrices.

    A vector b is one right side; otherwise its last two axes are matrices, whose columns are right sides, and axes in
    front broadcast. A matrix that has no inverse is an error when values are asked for.

    >>> import smelt as sm
    >>> sm.linalg.solve(sm.asarray([[2.0, 0.0], [0.0, 4.0]]), sm.asarray([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    matrix, right, dtype, is_vector = _equations(a, b, "solve")
    y = solved(matrix, right)
    return rounded(y[..., 0] if is_vector else y, dtype)


def _equations(x1: Any, x2: Any, name: str) -> tuple[Tensor, Tensor, Any, bool]:
    a, b, dtype = pair_of(x1, x2, name)
    square_matrices(a, name)
    is_vector = b.ndim == 1
    if not is_vector:
        matrices(b, name)
    rows = shape_of(b)[0 if is_vector else -2]
    if rows != shape_of(a)[-1]:
        places = {a.ndim - 1}, {0 if is_vector else b.ndim - 2}
        raise ShapeError(
            f"{name}: the sizes of the equations differ\n"
            + marked((shape_of(a), places[0]), "  and  ", (shape_of(b), places[1])),
            rule="the right sides need as many rows as the matrices have.",
        )
    return a, (b.reshape(rows, 1) if is_vector else b), dtype, is_vector


def solved(a: Tensor, b: Tensor) -> Tensor:
    """Solutions for matrices of right sides."""
    return _with_columns("solve", a, b, ())


def _with_columns(name: str, a: Tensor, b: Tensor, options: tuple[Any, ...]) -> Tensor:
    """A routine for equations. One matrix for a batch of right sides is factored once, for all of their columns."""
    if all(size == 1 for size in batch_of(a)) and b.ndim > 2:
        batch, (rows, columns) = batch_of(b), shape_of(b)[-2:]
        count = product_of(batch)
        matrix = wrap(build.reshape(a._node, (rows, rows)))
        stacked = build.permute(build.reshape(b._node, (count, rows, columns)), (1, 0, 2))
        flat = wrap(build.reshape(stacked, (rows, product_of((count, columns)))))
        found = called(name, [matrix, flat], [shape_of(flat)], options)[0]
        apart = build.permute(build.reshape(found._node, (rows, count, columns)), (1, 0, 2))
        lead = (1,) * max(0, a.ndim - b.ndim)
        return wrap(build.reshape(apart, (*lead, *batch, rows, columns)))
    a, b = spread(a, b, name)
    return called(name, [a, b], [shape_of(b)], options)[0]


def _solve_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (a, _), (y,), (for_a, for_b) = call.sources, call.values, tangents
    right = _difference(for_b, None if for_a is None else for_a @ y)
    return [solved(a, right)]


def _solve_back(call: Applied, given: Mapping[int, Tensor]) -> Sequence[Tensor | None]:
    for_b = solved(adjoint(call.sources[0]), given[0])
    return [-(for_b @ adjoint(call.values[0])), for_b]


def _difference(a: Tensor | None, b: Tensor | None) -> Tensor:
    if b is None:
        assert a is not None
        return a
    return -b if a is None else a - b


register(
    "solve",
    Rules(
        _small_or(small.solve, np.linalg.solve),
        SINGULAR,
        _NEEDS_INVERSE,
        _solve_forward,
        lambda sources, options: [solved(sources[0], sources[1])],
        _solve_back,
    ),
)


# --- triangles


def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool = False, transposed: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """`solve` for triangular matrices: of a only the lower triangle is read, or with `upper` the upper one.

    With `transposed` it is the y with a.mT @ y = b. With `unit_diagonal` the diagonal counts as ones, and is not
    read either.

    >>> import smelt as sm
    >>> lower = sm.asarray([[2.0, 0.0], [1.0, 4.0]])
    >>> sm.linalg.solve_triangular(lower, sm.asarray([2.0, 9.0])).tolist()
    [1.0, 2.0]
    """
    name = "solve_triangular"
    matrix, right, dtype, is_vector = _equations(a, b, name)
    words = {"upper": upper, "transposed": transposed, "unit_diagonal": unit_diagonal}
    y = solved_triangle(matrix, right, *(flag(value, name, word) for word, value in words.items()))
    return rounded(y[..., 0] if is_vector else y, dtype)


def solved_triangle(
    a: Tensor, b: Tensor, upper: bool = False, transposed: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """Solutions for matrices of right sides."""
    return _with_columns("solve_triangular", a, b, (upper, transposed, unit_diagonal))


def _triangle_of(x: Tensor, upper: bool, unit_diagonal: bool) -> Tensor:
    """What is read of a matrix."""
    kept = x.triu() if upper else x.tril()
    return where(on_diagonal(shape_of(x)[-1]), 0.0, kept) if unit_diagonal else kept


def _triangle_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (a, _), (y,), (for_a, for_b) = call.sources, call.values, tangents
    upper, transposed, unit = call.options
    moved = None
    if for_a is not None:
        change = _triangle_of(for_a, upper, unit)
        moved = (change.mT if transposed else change) @ y
    return [solved_triangle(a, _difference(for_b, moved), *call.options)]


def _triangle_back(call: Applied, given: Mapping[int, Tensor]) -> Sequence[Tensor | None]:
    upper, transposed, unit = call.options
    for_b = solved_triangle(call.sources[0].conj(), given[0], upper, not transposed, unit)
    outer = for_b @ adjoint(call.values[0])
    return [-_triangle_of(outer.mT if transposed else outer, upper, unit), for_b]


def _solve_triangles(a: Array, b: Array, upper: bool, transposed: bool, unit_diagonal: bool) -> Array:
    """By blocks: solutions on the diagonal, products elsewhere. Many small ones side by side."""
    found = small.triangle(a, b, upper, transposed, unit_diagonal)
    if found is not None:
        return found
    a = np.triu(a) if upper else np.tril(a)
    if transposed:
        a, upper = np.swapaxes(a, -1, -2), not upper
    if unit_diagonal:
        places = np.arange(a.shape[-1])
        a[..., places, places] = 1
    y, size = np.array(b), a.shape[-1]
    starts = range(0, size, _BLOCK)
    for start in reversed(starts) if upper else starts:
        at, rest = slice(start, start + _BLOCK), slice(0, start) if upper else slice(start + _BLOCK, size)
        y[..., at, :] = _solve_block(a[..., at, at], y[..., at, :], upper)
        if y[..., rest, :].size:
            y[..., rest, :] -= a[..., rest, at] @ y[..., at, :]
    return y


def _solve_block(a: Array, b: Array, upper: bool) -> Array:
    """LU factors of an upper triangle are itself, so its solution is the one by substitution."""
    if upper:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


register(
    "solve_triangular",
    Rules(
        _solve_triangles,
        SINGULAR,
        "no element of the diagonal may be 0.",
        _triangle_forward,
        lambda sources, options: [solved_triangle(sources[0], sources[1], *options)],
        _triangle_back,
    ),
)


# --- inverses


def inv(x: Tensor) -> Tensor:
    """The inverse of square matrices. A matrix that has none is an error when values are asked for.

    To multiply by it, `solve` is faster and more accurate.

    >>> import smelt as sm
    >>> sm.linalg.inv(sm.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    given, dtype = square_matrices(x, "inv")
    return rounded(inverted(given), dtype)


def inverted(x: Tensor) -> Tensor:
    """The inverse, of floats that are wide enough."""
    return called("inv", [x], [shape_of(x)])[0]


def _inv_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (inverse,) = tangents, call.values
    assert change is not None
    return [-(inverse @ change @ inverse)]


register(
    "inv",
    Rules(
        _small_or(small.inv, np.linalg.inv),
        SINGULAR,
        _NEEDS_INVERSE,
        _inv_forward,
        lambda sources, options: [inverted(*sources)],
        hint="sm.linalg.pinv gives the pseudo-inverse, which every matrix has.",
    ),
)


# --- determinants


def det(x: Tensor) -> Tensor:
    """The determinant of square matrices. Its gradient, the matrix of cofactors, is right for singular ones as well.

    >>> import smelt as sm
    >>> round(sm.linalg.det(sm.asarray([[1.0, 2.0], [3.0, 4.0]])).item(), 5)
    -2.0
    """
    given, dtype = square_matrices(x, "det")
    return rounded(_determinant(given), dtype)


def _determinant(x: Tensor) -> Tensor:
    return called("det", [x], [batch_of(x)])[0]


def _cofactors(x: Tensor) -> Tensor:
    return called("det cofactors", [x], [shape_of(x)])[0]


def _det_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,) = tangents
    assert change is not None
    return [(_cofactors(call.sources[0]) * change).sum((-2, -1))]


def _by_singular_values(x: Array) -> tuple[Array, Array, Array, Array]:
    """Singular values and vectors, and the sign that those give to the determinant."""
    u, s, vh = np.linalg.svd(finite(x))
    sign = np.sign(np.linalg.det(u) * np.linalg.det(vh))
    return u, s, vh, sign[..., None, None]


def _cofactor_values(x: Array) -> Array:
    """The gradient of the determinant: of a diagonal matrix, the products of all other elements."""
    u, s, vh, sign = _by_singular_values(x)
    result: Array = sign * ((u.conj() * _others(s)[..., None, :]) @ vh.conj())
    return result


def _others(s: Array) -> Array:
    """The product of all other elements of a row, for each."""
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, s[..., :0:-1]], -1), -1)[..., ::-1]
    result: Array = before * after
    return result


def _cofactors_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    """In the coordinates of the singular vectors: what is left when two of the singular values are left out."""
    (change,), (x,) = tangents, call.sources
    assert change is not None
    u, vh, pairs = called("det pairs", [x], [shape_of(x)] * 3)
    inner = adjoint(u) @ change @ adjoint(vh)
    along = (pairs @ diagonal_values(inner)[..., None])[..., 0]
    moved = where(on_diagonal(shape_of(x)[-1]), along[..., None], -(pairs * inner.mT))
    return [u.conj() @ moved @ vh.conj()]


def _pair_values(x: Array) -> tuple[Array, Array, Array]:
    """Singular vectors, and for each two of the singular values the product of all others, with the sign of the
    determinant of the vectors. 0 on the diagonal.
    """
    u, s, vh, sign = _by_singular_values(x)
    size = s.shape[-1]
    pairs = np.zeros_like(x)
    for k in range(size):
        others = np.delete(s, k, -1)
        pairs[..., k, [j for j in range(size) if j != k]] = _others(others)
    return u, vh, sign * pairs


def _pairs_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    raise GradientError("det: its third derivative is not known", hint="Use slogdet, if no matrix is singular.")


_NOT_FOUND = "has singular values that were not found"
_FINITE = "every element must be finite."

register(
    "det",
    Rules(
        _small_or(small.det, np.linalg.det),
        _NOT_FOUND,
        _FINITE,
        _det_forward,
        lambda sources, options: [_determinant(*sources)],
    ),
)
register(
    "det cofactors",
    Rules(_cofactor_values, _NOT_FOUND, _FINITE, _cofactors_forward, lambda sources, options: [_cofactors(*sources)]),
)
register(
    "det pairs",
    Rules(
        _pair_values,
        _NOT_FOUND,
        _FINITE,
        _pairs_forward,
        lambda sources, options: called("det pairs", sources, [shape_of(sources[0])] * 3),
    ),
)


def slogdet(x: Tensor) -> SlogdetResult:
    """The sign of the determinant of square matrices, and the logarithm of its absolute value. A complex determinant
    has the number of size 1 as its sign that it is the absolute value times.

    Both are right where the determinant itself is too large or too small for a float. A singular matrix has 0 and -inf;
    its gradient is an error.

    >>> import smelt as sm
    >>> sign, logarithm = sm.linalg.slogdet(sm.eye(2) * -1e-30)
    >>> sign.item(), round(logarithm.item(), 3)
    (1.0, -138.155)
    """
    given, dtype = square_matrices(x, "slogdet")
    return SlogdetResult(*(rounded(value, dtype) for value in _logarithm(given)))


def _logarithm(x: Tensor) -> Tensors:
    return called("slogdet", [x], [batch_of(x)] * 2)


def _slogdet_forward(call: Applied, tangents: list[Tensor | None]) -> Sequence[Tensor | None]:
    (change,), (x,) = tangents, call.sources
    assert change is not None
    share = (inverted(x).mT * change).sum((-2, -1))
    return [call.values[0] * (share - share.real) if share._node.dtype.is_complex else None, share]


register(
    "slogdet",
    Rules(
        _small_or(small.slogdet, lambda x: tuple(np.linalg.slogdet(x))),
        _NOT_FOUND,
        _FINITE,
        _slogdet_forward,
        lambda sources, options: _logarithm(*sources),
        real=(1,),
    ),
)
