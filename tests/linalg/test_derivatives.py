"""Derivatives of first and second order, both ways, against differences; in float64 and to 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import GradientError, LinearAlgebraError
from tests.derive.checking import Subject, check_here, slope
from tests.linalg.table import CASES, Array, la, listed, symmetrized, tensors

FACTORS = ("solve", "svd", "qr", "pinv", "cholesky", "eigh")
SMOOTH = [name for name in CASES if name not in ("matrix_rank", "matrix_norm -2")]


def subject(name: str, call: Callable[..., Any], arrays: list[Array]) -> Subject:
    """All results weighed and added up."""

    def total(given: list[sm.Tensor]) -> sm.Tensor:
        rng, found = np.random.default_rng(1), sm.asarray(0.0, dtype=sm.float64)
        for part in listed(call(*given)):
            found = found + (part * sm.from_numpy(rng.uniform(0.5, 1.5, part.shape))).sum()
        return found

    return Subject(name, total, arrays)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.by_turns(3)
def test_derivatives_are_those_of_differences(name: str) -> None:
    case = CASES[name]
    for batch in ((), (2,)) if name.startswith(FACTORS) else ((),):
        assert check_here(subject(name, case.call, case.inputs(3, batch, seed=3)), seed=5), name


# Where matrices are singular, or have equal values.
EDGES: dict[str, tuple[Callable[[Any], Any], Array]] = {
    "det of rank n - 1": (la.det, np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])),
    "det of rank n - 2": (la.det, np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])),
    "det of zeros": (la.det, np.zeros((2, 2))),
    "det of the identity": (la.det, np.eye(3)),
    "eigenvalues squared of the identity": (lambda x: (la.eigvalsh(symmetrized(x)) ** 2).sum(), np.eye(3)),
    "pinv of rank 1": (
        lambda x: la.pinv(x[:, None] * x[None, :2]),
        np.array([1.0, 2.0, 3.0]),
    ),
    "nuclear norm of equal values": (lambda x: la.matrix_norm(x, ord="nuc"), np.eye(2, 3)),
    "nuclear norm": (lambda x: la.matrix_norm(x, ord="nuc"), np.array([[1.0, 2.0, 0.5], [0.3, 4.0, 1.0]])),
}


@pytest.mark.parametrize("name", EDGES)
def test_singular_matrices_and_equal_values(name: str) -> None:
    call, at = EDGES[name]
    one = subject(name, call, [at])
    along = np.random.default_rng(2).uniform(-1, 1, at.shape)
    expected = slope(lambda arrays: one.call(tensors(arrays)).item(), [at], [along], 1e-3)
    gradient = sm.grad(one.call)(tensors([at]))[0].numpy()
    _, pushed = sm.jvp(one.call, (tensors([at]),), (tensors([along]),))
    np.testing.assert_allclose([(gradient * along).sum(), pushed.item()], [expected] * 2, rtol=1e-6, atol=1e-6)


def test_vectors_of_equal_values_have_no_derivative() -> None:
    """Also of functions that would have one: a wrong number would be worse than none."""
    for call in (lambda x: la.eigh(x).eigenvectors, lambda x: la.svd(x).U):
        gradient = sm.grad(lambda x, call=call: (call(x) * sm.asarray([1.0, 2.0])).sum())(sm.eye(2))
        assert not np.isfinite(gradient.numpy()).all()


def test_second_derivatives_of_determinants_of_singular_matrices() -> None:
    for name in ("det of rank n - 1", "det of rank n - 2", "det of the identity"):
        assert check_here(subject(name, la.det, [EDGES[name][1]]), seed=1)


def test_what_is_not_determined_has_no_derivative() -> None:
    x = sm.ones(3, 2)
    for call in (lambda x: la.svd(x).U, lambda x: la.qr(x, mode="complete").Q):
        with pytest.raises(GradientError, match=r"vectors beyond those of the matrix(.|\n)*Write (full_m|mode)"):
            sm.grad(lambda x, call=call: call(x).sum())(x)
        with pytest.raises(GradientError, match="vectors beyond"):
            sm.jvp(call, (x,), (x,))
    given = sm.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], dtype=sm.float64)
    found = sm.grad(lambda x: la.svd(x).S.sum())(given)
    np.testing.assert_allclose(found.numpy(), sm.grad(lambda x: la.svdvals(x).sum())(given).numpy())


def test_derivatives_of_matrices_without_one_name_the_function() -> None:
    calls: list[tuple[str, Callable[[Any], Any]]] = [
        ("slogdet", lambda x: la.slogdet(x).logabsdet),
        ("qr", lambda x: la.qr(x).R.sum()),
    ]
    for name, call in calls:
        for function in (sm.grad(call), sm.jit(sm.grad(call))):
            with pytest.raises(LinearAlgebraError, match=f"^{name}: in its derivative, the matrix is singular"):
                function(sm.zeros(2, 2)).numpy()


def test_a_value_and_its_gradient_share_the_factors() -> None:
    counts: list[int] = []
    x = sm.asarray([[4.0, 2.0], [2.0, 5.0]])
    program = sm.jit(sm.value_and_grad(lambda x: la.cholesky(x).sum()))
    compute = np.linalg.cholesky
    try:
        np.linalg.cholesky = lambda x: (counts.append(1), compute(x))[1]  # type: ignore[assignment]
        program(x)[1].numpy()
    finally:
        np.linalg.cholesky = compute
    assert len(counts) <= 1


def test_gaussian_likelihoods_are_fitted() -> None:
    """A covariance that is found by descent from samples of it."""
    rng = np.random.default_rng(0)
    wanted = np.array([[2.0, 0.6], [0.6, 1.0]])
    data = sm.from_numpy(rng.multivariate_normal([0, 0], wanted, 4000))

    @sm.jit
    def step(factor: Any) -> Any:
        def loss(factor: Any) -> Any:
            covariance = factor @ factor.mT + 1e-3 * sm.eye(2, dtype=sm.float64)
            white = la.solve_triangular(la.cholesky(covariance), data.mT)
            return (white * white).sum() / data.shape[0] + la.slogdet(covariance).logabsdet

        return factor - 0.2 * sm.grad(loss)(factor)

    factor = sm.eye(2, dtype=sm.float64)
    for _ in range(60):
        factor = step(factor)
    np.testing.assert_allclose((factor @ factor.mT).numpy(), np.cov(data.numpy().T), atol=0.02)
