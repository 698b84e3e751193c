"""What is refused at the call, and what when values are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, AxisError, DTypeError, LinearAlgebraError, ShapeError, SmeltError
from tests.linalg.table import la

X, WIDE, VECTOR = sm.ones(3, 3), sm.ones(2, 3), sm.ones(3)

AT_THE_CALL: list[tuple[Callable[[], Any], type[SmeltError], str]] = [
    *(
        (lambda name=name: getattr(la, name)(WIDE), ShapeError, rf"{name}: the matrices are not square(.|\n)*\(2, 3\)")
        for name in ("cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet")
    ),
    *(
        (lambda name=name: getattr(la, name)(VECTOR), ShapeError, rf"{name}: shape \(3,\) has rank 1")
        for name in ("cholesky", "det", "eigh", "inv", "svd", "svdvals", "qr", "pinv", "matrix_rank", "matrix_norm")
    ),
    (lambda: la.diagonal(VECTOR), ShapeError, "diagonal: .*rank 1"),
    (lambda: la.trace(sm.asarray(1.0)), ShapeError, "trace: .*rank 0"),
    (lambda: la.solve(WIDE, VECTOR), ShapeError, "solve: the matrices are not square"),
    (lambda: la.solve(X, sm.ones(2)), ShapeError, "solve: the sizes of the equations differ"),
    (lambda: la.solve(X, sm.ones(2, 2)), ShapeError, "need as many rows"),
    (lambda: la.solve(sm.ones(2, 3, 3), sm.ones(4, 3, 1)), ShapeError, "solve: .*broadcast"),
    (lambda: la.solve(X, sm.asarray(1.0)), ShapeError, "solve: .*rank 0"),
    (lambda: la.solve_triangular(WIDE, VECTOR), ShapeError, "solve_triangular: the matrices are not square"),
    (lambda: la.solve_triangular(X, VECTOR, upper=1), ArgumentError, "upper must be True or False"),  # type: ignore[arg-type]
    (lambda: la.cholesky(X, upper="yes"), ArgumentError, "cholesky: upper must be True or False"),  # type: ignore[arg-type]
    (lambda: la.svd(X, full_matrices=None), ArgumentError, "svd: full_matrices must be"),  # type: ignore[arg-type]
    (lambda: la.qr(X, mode="r"), ArgumentError, "qr: mode='r'"),  # type: ignore[arg-type]
    (lambda: la.matrix_norm(X, ord=3), ArgumentError, "matrix_norm: ord=3"),
    (lambda: la.matrix_norm(X, ord=True), ArgumentError, "matrix_norm: ord=True"),
    (lambda: la.matrix_norm(X, ord="max"), ArgumentError, "one of 'fro', 'nuc'"),
    (lambda: la.matrix_norm(sm.zeros(2, 0), ord=-1), SmeltError, "empty|no elements|size 0"),
    (lambda: la.matrix_power(X, 1.5), ArgumentError, "matrix_power: n must be an integer"),  # type: ignore[arg-type]
    (lambda: la.matrix_power(sm.ones(2, 2, dtype=sm.int32), -1), DTypeError, "no negative powers"),
    (lambda: la.matrix_power(sm.ones(2, 2, dtype=sm.bool), 2), DTypeError, "matrix_power: bool"),
    (lambda: la.matrix_power(WIDE, 2), ShapeError, "matrix_power: the matrices are not square"),
    (lambda: la.pinv(sm.ones(4, 3, 3), rtol=sm.ones(3)), ShapeError, "pinv"),
    (lambda: la.matrix_rank(sm.ones(4, 3, 3), rtol=sm.ones(3)), ShapeError, "matrix_rank"),
    (lambda: la.cross(sm.ones(2), sm.ones(2)), ShapeError, "cross: the vectors have no three elements"),
    (lambda: la.cross(sm.ones(2, 3), sm.ones(3), axis=1), AxisError, "cross"),
    (lambda: la.cross(sm.ones(3, 3), sm.ones(3), axis=0), ShapeError, "is not the same one"),
    (lambda: la.cross(sm.ones(3, dtype=sm.bool), sm.ones(3, dtype=sm.bool)), DTypeError, "cross: bool"),
    (lambda: la.cross(sm.ones(3, 3), sm.ones(2, 3)), ShapeError, "broadcast"),
    (lambda: la.inv(sm.ones(2, 2, dtype=sm.int4)), DTypeError, "inv: int4"),
    (lambda: la.lstsq, AttributeError, "lstsq"),
]


@pytest.mark.parametrize(("call", "error", "text"), AT_THE_CALL)
def test_mistakes_are_errors_at_the_call(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert "test_errors.py" in str(caught.value)


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
GOOD = np.array([[4.0, 2.0], [2.0, 5.0]])
WHEN_ASKED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "inv": (la.inv, SINGULAR, "inv: the matrix is singular(.|\n)*pinv"),
    "solve": (lambda x: la.solve(x, sm.ones(2)), SINGULAR, "solve: the matrix is singular"),
    "batch": (la.inv, np.stack([GOOD, GOOD, SINGULAR]), r"inv: matrix \[2\] of the batch is singular"),
    "deeper": (la.inv, np.stack([[GOOD] * 3, [GOOD, SINGULAR, GOOD]]), r"matrix \[1, 1\] of the batch is singular"),
    "cholesky": (la.cholesky, -GOOD, "cholesky: the matrix is not positive definite(.|\n)*diagonal"),
    "triangle": (
        lambda x: la.solve_triangular(x - 1, sm.ones(2)),
        SINGULAR,
        "solve_triangular: the matrix is singular",
    ),
    "svd": (lambda x: la.svd(x).S, np.full((2, 2), np.nan), "svd: the matrix has singular values that were not found"),
    "infinite": (lambda x: la.svd(x).U, np.array([[1.0, 2.0], [np.inf, 3.0]]), "svd: the matrix has singular values"),
    "infinite, of a batch": (
        la.pinv,
        np.stack([GOOD, np.array([[1.0, 2.0], [np.inf, 3.0]])]),
        r"pinv: matrix \[1\] of the batch has singular values",
    ),
    "pinv": (la.pinv, np.full((2, 2), np.nan), "pinv: .*(.|\n)*every element must be finite"),
}


@pytest.mark.parametrize("name", WHEN_ASKED)
def test_matrices_without_an_answer_are_errors_when_values_are_asked_for(name: str) -> None:
    call, x, text = WHEN_ASKED[name]
    for function in (call, sm.jit(call)):
        with pytest.raises(LinearAlgebraError, match=text) as caught:
            function(sm.from_numpy(x)).numpy()
        assert "test_errors.py" in str(caught.value)
        assert isinstance(caught.value, np.linalg.LinAlgError)


def test_a_program_goes_on_after_an_error() -> None:
    inverse = sm.jit(lambda x: la.inv(x) * 2)
    for _ in range(2):
        with pytest.raises(LinearAlgebraError):
            inverse(sm.from_numpy(SINGULAR)).numpy()
        np.testing.assert_allclose(inverse(sm.from_numpy(GOOD)).numpy(), 2 * np.linalg.inv(GOOD))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "eigvalsh", "eigh", "cholesky", "qr", "svdvals"])
def test_what_is_not_finite_is_as_in_numpy(name: str, value: float) -> None:
    x = GOOD.copy()
    x[1, 1] = value
    with np.errstate(all="ignore"):
        try:
            expected = getattr(np.linalg, name)(x)
        except np.linalg.LinAlgError:
            with pytest.raises(LinearAlgebraError):
                np.asarray(getattr(la, name)(sm.from_numpy(x)))
            return
    found = getattr(la, name)(sm.from_numpy(x))
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for got, array in pairs:
        np.testing.assert_array_equal(got.numpy(), array)


def test_determinants_of_singular_matrices_are_no_errors() -> None:
    x = sm.from_numpy(SINGULAR)
    assert la.det(x).item() == 0 and la.matrix_rank(x).item() == 1
    assert [part.item() for part in la.slogdet(x)] == [0.0, -np.inf]
