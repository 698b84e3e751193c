"""Values: those of NumPy, and residuals of what must hold of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.linalg.table import BATCHED, BATCHES, CASES, SIZES, Array, definite, la, listed, regular, tensors

DTYPES = ["float32", "float64"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_turns(3)
def test_values_are_those_of_numpy(name: str) -> None:
    case = CASES[name]
    found: list[tuple[sm.Tensor, Array]] = []
    for size in SIZES:
        for batch in BATCHES if name in BATCHED else BATCHES[:1]:
            if size < case.least:
                continue
            arrays = case.inputs(size, batch)
            got, expected = listed(case.call(*tensors(arrays))), listed(case.reference(*arrays))
            found += zip(got, expected, strict=True)
    sm.realize(*(tensor for tensor, _ in found))
    for tensor, array in found:
        assert tensor.shape == np.shape(array)
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-9, atol=1e-10)


def size(x: Array) -> Any:
    """The largest norm of a matrix of a batch."""
    return max(float(np.linalg.norm(x, axis=(-2, -1)).max(initial=0)), 1e-30)


def gram(q: Array) -> Array:
    return q.mT @ q - np.eye(q.shape[-1])


def residuals(a: Array, b: Array) -> dict[str, float]:
    """How far results are from what they should be, as shares of what they are made of. In float64."""
    given, right, whole = sm.from_numpy(a), sm.from_numpy(b), sm.from_numpy(definite(a))
    lower, inverse, y = la.cholesky(whole), la.inv(given), la.solve(given, right)
    (w, v), (q, r), (u, s, vh) = la.eigh(whole), la.qr(given), la.svd(given)
    names = ["lower", "inverse", "y", "w", "v", "q", "r", "u", "s", "vh"]
    values = sm.realize(lower, inverse, y, w, v, q, r, u, s, vh)
    at = {name: value.numpy().astype(np.float64) for name, value in zip(names, values, strict=True)}
    a, b, symmetric = a.astype(np.float64), b.astype(np.float64), whole.numpy().astype(np.float64)
    unit = np.eye(a.shape[-1])
    return {
        "cholesky": size(at["lower"] @ at["lower"].mT - symmetric) / size(symmetric),
        "inv": size(a @ at["inverse"] - unit) / (size(a) * size(at["inverse"])),
        "solve": size(a @ at["y"] - b) / (size(a) * size(at["y"])),
        "eigh": size(symmetric @ at["v"] - at["v"] * at["w"][..., None, :]) / size(symmetric),
        "eigenvectors": size(gram(at["v"])),
        "qr": size(at["q"] @ at["r"] - a) / size(a),
        "q": size(gram(at["q"])),
        "svd": size((at["u"] * at["s"][..., None, :]) @ at["vh"] - a) / size(a),
        "u": size(gram(at["u"])),
        "vh": size(gram(at["vh"].mT)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 31, 127])
def test_residuals_are_as_small_as_rounding_lets_them_be(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    for batch in ((), (3,)):
        a, b = regular(rng.standard_normal((*batch, n, n))).astype(dtype), rng.standard_normal((*batch, n, 2))
        for name, residual in residuals(a, b.astype(dtype)).items():
            assert residual <= 10 * n * np.finfo(dtype).eps, f"{name} of {batch} {n}: {residual}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 200])
def test_triangles_of_many_blocks(n: int, upper: bool, dtype: str) -> None:
    rng = np.random.default_rng(n)
    a, b = regular(rng.standard_normal((2, n, n))).astype(dtype), rng.standard_normal((2, n, 3)).astype(dtype)
    triangle = (np.triu if upper else np.tril)(a).astype(np.float64)
    for transposed in (False, True):
        y = la.solve_triangular(*tensors([a, b]), upper=upper, transposed=transposed).numpy().astype(np.float64)
        matrix = triangle.mT if transposed else triangle
        assert size(matrix @ y - b) / (size(matrix) * size(y)) <= 10 * n * np.finfo(dtype).eps


def test_other_memory_layouts() -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((10, 4, 8))
    for x in (wide[::2, :, ::2], wide[:, :, :4].transpose(0, 2, 1), wide[::-1, ::-1, 3::-1], wide.T[:4, :, 3]):
        tensor = sm.from_numpy(x)
        np.testing.assert_allclose(la.inv(tensor).numpy(), np.linalg.inv(x), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(la.svdvals(tensor.mT).numpy(), np.linalg.svdvals(x), rtol=1e-9)
        np.testing.assert_allclose(la.det(tensor).numpy(), np.linalg.det(x), rtol=1e-9, atol=1e-9)


def test_only_one_triangle_is_read() -> None:
    x = definite(np.random.default_rng(0).standard_normal((4, 4)))
    spoiled = np.where(np.tri(4, dtype=bool), x, np.nan)
    lower = sm.from_numpy(spoiled)
    np.testing.assert_allclose(la.cholesky(lower).numpy(), np.linalg.cholesky(x))
    np.testing.assert_allclose(la.cholesky(lower.mT, upper=True).numpy(), np.linalg.cholesky(x).T)
    np.testing.assert_allclose(la.eigvalsh(lower).numpy(), np.linalg.eigvalsh(x))
    y = la.solve_triangular(lower, sm.ones(4, dtype=sm.float64))
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(np.tril(x), np.ones(4)))


def test_right_sides_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = regular(rng.standard_normal((3, 1, 4, 4))), rng.standard_normal((5, 4, 2))
    pairs = [(a, b), (a[0, 0], b), (a[0, 0], b[0, :, 0]), (a[:1], b), (a, b[0]), (a[0, 0], b[:0])]
    for left, right in pairs:
        got = la.solve(*tensors([left, right])).numpy()
        np.testing.assert_allclose(got, np.linalg.solve(left, right), rtol=1e-9, atol=1e-12)
    assert la.solve(*tensors([a, b[0, :, 0]])).shape == (3, 1, 4)


def test_full_matrices() -> None:
    for shape in ((5, 3), (2, 3, 5), (0, 3), (3, 0), (2, 0, 3)):
        x = np.random.default_rng(0).standard_normal(shape)
        u, s, vh = (part.numpy() for part in la.svd(sm.from_numpy(x)))
        rows, columns = shape[-2:]
        count = min(rows, columns)
        assert (u.shape[-2:], s.shape[-1], vh.shape[-2:]) == ((rows, rows), count, (columns, columns))
        np.testing.assert_allclose(u[..., :count] * s[..., None, :] @ vh[..., :count, :], x, atol=1e-12)
        assert size(gram(u)) < 1e-13 and size(gram(vh.mT)) < 1e-13
        q, r = (part.numpy() for part in la.qr(sm.from_numpy(x), mode="complete"))
        assert q.shape[-2:] == (rows, rows) and r.shape == x.shape and size(gram(q)) < 1e-13
        np.testing.assert_allclose(q @ r, x, atol=1e-12)


def test_other_dtypes() -> None:
    x = np.array([[4, 2], [2, 5]])
    for dtype in ("float16", "bfloat16", "float32"):
        tensor = sm.asarray(x, dtype=dtype)
        assert la.cholesky(tensor).dtype is tensor.dtype and la.cholesky(tensor).tolist() == [[2, 0], [1, 2]]
        assert {part.dtype for part in la.eigh(tensor)} == {tensor.dtype} == {la.det(tensor).dtype}
    assert la.inv(sm.asarray(x)).dtype is sm.float32  # as every function of real numbers
    assert la.solve(sm.asarray(x), sm.ones(2, dtype=sm.float64)).dtype is sm.float64
    assert la.matrix_power(sm.asarray(x), 3).tolist() == np.linalg.matrix_power(x, 3).tolist()
    assert la.matrix_rank(sm.asarray(x)).dtype is sm.int64 and la.trace(sm.asarray(x)).dtype is sm.int64
    assert la.trace(sm.asarray(x, dtype=sm.int8), dtype=sm.float64).dtype is sm.float64


def test_tolerances() -> None:
    x = np.diag([4.0, 2.0, 1e-3, 0.0])
    tensor = sm.from_numpy(x)
    assert [la.matrix_rank(tensor, rtol=r).item() for r in (None, 0.0, 1e-2, 0.5)] == [3, 3, 2, 1]
    assert la.matrix_rank(sm.stack([tensor] * 2), rtol=sm.asarray([1e-2, 0.6])).tolist() == [2, 1]
    assert la.matrix_rank(sm.zeros(2, 3)).item() == la.matrix_rank(sm.zeros(0, 3)).item() == 0
    np.testing.assert_allclose(la.pinv(tensor, rtol=1e-2).numpy(), np.diag([0.25, 0.5, 0, 0]))
    several = la.pinv(tensor, rtol=sm.asarray([1e-2, 0.6])).numpy()
    np.testing.assert_allclose(several, [np.diag([0.25, 0.5, 0, 0]), np.diag([0.25, 0, 0, 0])])


def test_axes_of_vector_products() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 3, 5)), rng.standard_normal((3, 1))
    got = la.cross(*tensors([x, y]), axis=-2).numpy()
    np.testing.assert_allclose(got, np.cross(x, np.broadcast_to(y, x.shape), axis=-2))
    np.testing.assert_allclose(la.cross(*tensors([x, x + 1]), axis=1).numpy(), np.cross(x, x + 1, axis=1))


def test_norms_keep_axes_and_of_nothing_are_zero() -> None:
    x = sm.ones(2, 3, 4)
    assert la.matrix_norm(x, keepdims=True).shape == la.matrix_norm(x, keepdims=True, ord=2).shape == (2, 1, 1)
    for order in ("fro", "nuc", 1, 2, np.inf):
        assert la.matrix_norm(sm.zeros(2, 0, 3), ord=order).tolist() == [0, 0]


def test_large_and_small_determinants() -> None:
    for factor, sign in ((-1e30, 1.0), (1e-30, 1.0), (0.0, 0.0)):
        found = la.slogdet(sm.eye(4) * factor)
        assert found.sign.item() == sign
        assert np.isclose(found.logabsdet.item(), -np.inf if factor == 0 else 4 * np.log(abs(np.float32(factor))))
