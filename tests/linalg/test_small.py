"""Many small matrices, which C code of smelt's own computes side by side."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.errors import LinearAlgebraError
from smelt.linalg import small
from tests.linalg.table import definite, la, regular, tensors
from tests.linalg.test_values import size


def counts(n: int) -> list[int]:
    """How many matrices there have to be, and more that do not fill the last vector."""
    least = max(small.LEAST_MATRICES, -(-small.LEAST_ELEMENTS // (n * n)))
    return [least, least + 3, 2 * least + 5]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 31, small.LARGEST])
def test_factors_and_solutions(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    limit = 10 * n * np.finfo(dtype).eps
    for count in counts(n):
        x = rng.standard_normal((count, n, n))
        whole, a = definite(x).astype(dtype), regular(x).astype(dtype)
        assert small.cholesky(whole) is not None
        lower = la.cholesky(sm.from_numpy(whole)).numpy()
        assert (np.triu(lower, 1) == 0).all()
        wide = lower.astype(np.float64)
        assert size(wide @ wide.mT - whole) <= limit * size(whole)
        for k in (1, 4, 7):
            b = rng.standard_normal((count, n, k)).astype(dtype)
            for number in range(8):
                upper, transposed, unit = bool(number & 1), bool(number & 2), bool(number & 4)
                y = small.triangle(a, b, upper, transposed, unit)
                assert y is not None
                matrix = (np.triu if upper else np.tril)(a).astype(np.float64)
                if unit:
                    matrix[..., range(n), range(n)] = 1
                matrix = matrix.mT if transposed else matrix
                assert size(matrix @ y - b) <= limit * size(matrix) * size(y.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 31, small.LARGEST_EQUATIONS])
def test_equations(n: int, dtype: str) -> None:
    """Of any matrices: rows have to be exchanged."""
    rng = np.random.default_rng(n)
    limit = 10 * n * np.finfo(dtype).eps
    for count in counts(n):
        a = rng.standard_normal((count, n, n)).astype(dtype)
        wide = a.astype(np.float64)
        inverse, determinant, logarithm = small.inv(a), small.det(a), small.slogdet(a)
        assert inverse is not None and determinant is not None and logarithm is not None
        residual = np.linalg.norm(wide @ inverse.astype(np.float64) - np.eye(n), axis=(-2, -1))
        assert (residual <= limit * np.linalg.norm(wide, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))).all()
        sign, size_of = np.linalg.slogdet(wide)
        assert (logarithm[0] == sign).all() and np.allclose(logarithm[1], size_of, rtol=1e-3, atol=1e-3)
        assert np.allclose(determinant, np.linalg.det(wide), rtol=1e-2 if dtype == "float32" else 1e-9)
        for k in (1, 4, 7):
            b = rng.standard_normal((count, n, k)).astype(dtype)
            y = small.solve(a, b)
            assert y is not None
            off = np.linalg.norm(wide @ y.astype(np.float64) - b, axis=(-2, -1))
            assert (off <= limit * np.linalg.norm(wide, axis=(-2, -1)) * np.linalg.norm(y, axis=(-2, -1))).all()


def test_singular_ones_among_many() -> None:
    x = np.broadcast_to([[0.0, 1.0], [2.0, 0.0]], (1030, 2, 2)).copy()
    tensor = sm.from_numpy(x)
    assert set(la.det(tensor).tolist()) == {-2.0} and set(la.slogdet(tensor).sign.tolist()) == {-1.0}
    np.testing.assert_allclose(la.inv(tensor).numpy(), np.linalg.inv(x))
    x[[3, 1029]] = [[1.0, 2.0], [2.0, 4.0]]
    tensor = sm.from_numpy(x)
    assert [k for k, value in enumerate(la.det(tensor).tolist()) if value == 0] == [3, 1029]
    assert [k for k, value in enumerate(la.slogdet(tensor).logabsdet.tolist()) if value == -np.inf] == [3, 1029]
    for call in (la.inv, lambda x: la.solve(x, x)):
        with pytest.raises(LinearAlgebraError, match=r"matrix \[3\] of the batch is singular"):
            call(tensor).numpy()
    x[3] = np.nan
    assert np.isnan(la.det(sm.from_numpy(x)).numpy()).nonzero()[0].tolist() == [3]


def test_what_is_outside_the_triangle_is_not_read() -> None:
    x = definite(np.random.default_rng(0).standard_normal((200, 5, 5)))
    spoiled = np.where(np.tri(5, dtype=bool), x, np.nan)
    np.testing.assert_allclose(la.cholesky(sm.from_numpy(spoiled)).numpy(), np.linalg.cholesky(x))
    y = la.solve_triangular(*tensors([spoiled, np.ones((200, 5, 1))])).numpy()
    np.testing.assert_allclose(y, np.linalg.solve(np.tril(x), np.ones((200, 5, 1))))


def test_the_matrix_that_has_no_answer_is_named() -> None:
    x = np.broadcast_to(np.eye(3), (10, 50, 3, 3)).copy()
    x[7, 3, 1, 1] = 0
    with pytest.raises(LinearAlgebraError, match=r"cholesky: matrix \[7, 3\] of the batch is not positive definite"):
        la.cholesky(sm.from_numpy(x)).numpy()
    with pytest.raises(LinearAlgebraError, match=r"solve_triangular: matrix \[7, 3\] of the batch is singular"):
        la.solve_triangular(*tensors([x, x])).numpy()
    x[7, 3, 1, 1] = np.nan
    assert np.isnan(la.cholesky(sm.from_numpy(x)).numpy()[7, 3, 1, 1])


def test_few_and_large_ones_are_for_lapack() -> None:
    assert small.cholesky(np.zeros((small.LEAST_MATRICES - 1, 32, 32))) is None
    assert small.cholesky(np.zeros((small.LEAST_ELEMENTS // 4 - 1, 2, 2))) is None
    assert small.cholesky(np.zeros((small.LEAST_MATRICES, small.LARGEST + 1, small.LARGEST + 1))) is None
    assert small.cholesky(np.zeros((100, 0, 0))) is None
