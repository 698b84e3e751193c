"""Complex matrices: NumPy's values, residuals, derivatives against differences, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import GradientError, LinearAlgebraError
from tests.linalg.table import BATCHED, BATCHES, CASES, Array, complex_inputs, definite, la, listed, regular, tensors

SIZES = [0, 1, 2, 5]
# Vectors are determined but for a number of size 1, which LAPACK chooses: of those, sizes and projections are compared.


def adjoint(x: Any) -> Any:
    return x.mT.conj()


def shown(name: str, found: Any) -> list[Any]:
    """What is determined of a result, and depends on all of it."""
    parts = listed(found)
    if name == "eigh":
        w, v = parts
        return [w, (v * (w[..., None, :] ** 2)) @ adjoint(v), abs(v)]
    if name.startswith("svd") and len(parts) == 3:
        u, s, vh = parts
        k = s.shape[-1]
        return [s, (u[..., :k] * s[..., None, :] ** 2) @ vh[..., :k, :], abs(u[..., :k]), abs(vh[..., :k, :])]
    return parts


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_turns(6)
def test_values_are_those_of_numpy(name: str) -> None:
    case = CASES[name]
    found: list[tuple[sm.Tensor, Array]] = []
    for size in SIZES:
        for batch in BATCHES if name in BATCHED else BATCHES[:1]:
            if size < case.least:
                continue
            arrays = complex_inputs(case, size, batch)
            got, expected = shown(name, case.call(*tensors(arrays))), shown(name, case.reference(*arrays))
            found += zip(got, expected, strict=True)
    sm.realize(*(tensor for tensor, _ in found))
    for tensor, array in found:
        assert tensor.shape == np.shape(array) and tensor.numpy().dtype == array.dtype
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-9, atol=1e-10)


def size(x: Array) -> Any:
    return max(float(np.linalg.norm(x, axis=(-2, -1)).max(initial=0)), 1e-30)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 7, 31, 127])
def test_residuals_are_as_small_as_rounding_lets_them_be(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    for batch in ((), (3,)):
        a, b = (rng.standard_normal((*batch, n, k)) + 1j * rng.standard_normal((*batch, n, k)) for k in (n, 2))
        a = regular(a / 2**0.5).astype(dtype)
        given, right, whole = sm.asarray(a), sm.asarray(b.astype(dtype)), sm.asarray(definite(a).astype(dtype))
        lower, inverse, y, under = la.cholesky(whole), la.inv(given), la.solve(given, right), la.pinv(given)
        upper, triangle = la.cholesky(whole, upper=True), la.solve_triangular(given, right, upper=True)
        (w, v), (q, r), (u, s, vh) = la.eigh(whole), la.qr(given), la.svd(given)
        found = sm.realize(lower, inverse, y, under, upper, triangle, w, v, q, r, u, s, vh)
        assert {x.dtype for x in (w, s)} == {sm.finfo(given.dtype).dtype} and v.dtype is u.dtype is given.dtype
        wide = [x.numpy().astype(np.complex128) for x in found]
        lower, inverse, y, under, upper, triangle, w, v, q, r, u, s, vh = wide
        a, b, whole = (x.numpy().astype(np.complex128) for x in (given, right, whole))
        unit = np.eye(n)
        residuals = {
            "cholesky": size(lower @ adjoint(lower) - whole) / size(whole),
            "upper": size(adjoint(upper) @ upper - whole) / size(whole),
            "inv": size(a @ inverse - unit) / (size(a) * size(inverse)),
            "pinv": size(a @ under - unit) / (size(a) * size(under)),
            "solve": size(a @ y - b) / (size(a) * size(y)),
            "solve_triangular": size(np.triu(a) @ triangle - b) / (size(a) * size(triangle)),
            "eigh": size(whole @ v - v * w[..., None, :]) / size(whole),
            "qr": size(q @ r - a) / size(a),
            "svd": size((u * s[..., None, :]) @ vh - a) / size(a),
            **{f"{k}": size(adjoint(x) @ x - unit) for k, x in enumerate((v, q, u, adjoint(vh)))},
        }
        for name, residual in residuals.items():
            assert residual <= 10 * n * np.finfo(dtype).eps, f"{name} of {batch} {n}: {residual}"


def weighed(name: str, call: Callable[..., Any], given: list[sm.Tensor]) -> sm.Tensor:
    """A real number that depends on all that is determined."""
    rng, found = np.random.default_rng(1), sm.asarray(0.0, dtype=sm.float64)
    for part in shown(name, call(*given)):
        weights = rng.uniform(0.5, 1.5, part.shape) + 1j * rng.uniform(0.5, 1.5, part.shape)
        found = found + (part * sm.asarray(weights)).real.sum()
    return found


def slope(call: Callable[[list[Array]], float], arrays: list[Array], along: list[Array], step: float) -> float:
    """By differences, of fourth order."""
    at = [call([x + k * step * y for x, y in zip(arrays, along, strict=True)]) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


SMOOTH = [name for name in CASES if not name.startswith(("matrix_rank", "matrix_norm -2"))]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.by_turns(6)
def test_derivatives_are_those_of_differences(name: str) -> None:
    case = CASES[name]
    for batch in ((), (2,)) if name in BATCHED else ((),):
        arrays = complex_inputs(case, 3, batch, seed=3)
        along = complex_inputs(case._replace(make=lambda x: x), 3, batch, seed=5)
        call = lambda given: weighed(name, case.call, given)  # noqa: E731
        expected = slope(lambda moved: call(tensors(moved)).item(), arrays, along, 1e-3)  # noqa: B023
        gradients = sm.grad(call)(tensors(arrays))
        # JAX's convention: the change is the real part of the sum of gradients times changes, without conjugates.
        pulled = sum(float((g.numpy() * y).sum().real) for g, y in zip(gradients, along, strict=True))
        _, pushed = sm.jvp(call, (tensors(arrays),), (tensors(along),))
        np.testing.assert_allclose([pulled, pushed.item()], [expected] * 2, rtol=1e-6, atol=1e-7)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", ["solve", "cholesky", "det", "qr tall", "eigh", "svd tall", "pinv", "slogdet"])
def test_derivatives_of_derivatives(name: str) -> None:
    case = CASES[name]
    arrays, along = complex_inputs(case, 3, seed=3), complex_inputs(case._replace(make=lambda x: x), 3, seed=5)

    def moved(given: list[sm.Tensor]) -> sm.Tensor:
        return sm.jvp(lambda given: weighed(name, case.call, given), (given,), (tensors(along),))[1]

    expected = slope(lambda arrays: moved(tensors(arrays)).item(), arrays, along, 1e-3)
    gradients = sm.grad(moved)(tensors(arrays))
    pulled = sum(float((g.numpy() * y).sum().real) for g, y in zip(gradients, along, strict=True))
    np.testing.assert_allclose(pulled, expected, rtol=1e-6, atol=1e-6)


def test_determinants_of_singular_matrices_have_gradients() -> None:
    x = np.outer([1, 2j, 3], [1, -1, 2 + 1j]) + np.outer([1j, 0, 1], [0, 1, 1])  # rank 2
    cofactors = np.array(
        [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)] for i in range(3)]
    )
    found = sm.grad(lambda x: la.det(x).real)(sm.asarray(x))
    np.testing.assert_allclose(found.numpy(), cofactors, atol=1e-12)


@pytest.mark.parametrize("name", ["solve", "eigh", "svd tall", "qr", "slogdet", "det", "pinv", "cholesky", "inv"])
def test_batches_and_jit(name: str) -> None:
    case = CASES[name]
    arrays = complex_inputs(case, 3, (4,))
    call = lambda *given: shown(name, case.call(*given))  # noqa: E731
    plain = call(*tensors(arrays))
    for found in (sm.vmap(call)(*tensors(arrays)), sm.jit(call)(*tensors(arrays))):
        for a, b in zip(found, plain, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)
    if len(arrays) == 2:  # one matrix for all right sides
        first = sm.asarray(arrays[0][0])
        shared = sm.vmap(lambda b: case.call(first, b))(sm.asarray(arrays[1]))
        np.testing.assert_allclose(shared.numpy(), np.linalg.solve(arrays[0][0], arrays[1]), atol=1e-12)


def test_real_matrices_meet_complex_ones() -> None:
    a, b = regular(np.random.default_rng(0).standard_normal((3, 3))), np.ones((3, 2)) * (1 + 2j)
    np.testing.assert_allclose(la.solve(sm.asarray(a), sm.asarray(b)).numpy(), np.linalg.solve(a, b))
    slope = sm.grad(lambda a: abs(la.solve(a, sm.asarray(b))).sum())(sm.asarray(a))
    assert slope.dtype is sm.float64


def test_mistakes() -> None:
    x = sm.asarray(np.array([[1, 1j], [-1j, 1]]))  # of rank 1
    with pytest.raises(LinearAlgebraError, match="solve: the matrix is singular"):
        sm.realize(la.solve(x, sm.ones(2)))
    with pytest.raises(LinearAlgebraError, match=r"matrix \[1\] of the batch is not positive definite"):
        sm.realize(la.cholesky(sm.stack([sm.eye(2) + 0j, x - sm.eye(2)])))
    with pytest.raises(GradientError, match="full_matrices=False"):
        sm.grad(lambda x: abs(la.svd(x).U[:, 2]).sum())(sm.ones((3, 2)) + 0j)
    assert la.matrix_rank(x).item() == 1 and la.matrix_norm(x).dtype is sm.float64
