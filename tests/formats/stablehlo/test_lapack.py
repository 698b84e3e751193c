"""LAPACK's routines: what the results are for, and the calls of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ParseError, UnsupportedOp
from smelt.formats.stablehlo.lapack import ROUTINES, UNIT
from tests.interpreted import interpreted

Array = Any
KINDS = [np.float32, np.float64, np.complex64, np.complex128]
SHAPES = [(4, 4), (2, 5, 3), (3, 2, 5), (1, 1), (0, 3, 3), (2, 0, 0)]
SQUARE = [(4, 4), (2, 3, 5, 5), (1, 1), (0, 3, 3), (0, 0)]


def draw(shape: tuple[int, ...], kind: Any) -> Array:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.dtype(kind).kind == "c" else 0)
    return x.astype(kind)


def adjoint(x: Array) -> Array:
    return np.swapaxes(x, -1, -2).conj()


def close(a: Array, b: Array) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    tolerance = 1e-3 if np.finfo(b.dtype).bits == 32 else 1e-10
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def product(vectors: Array, factors: Array, columns: int) -> Array:
    """The first columns of the product of reflections."""
    [q] = ROUTINES["ungqr"](np.ascontiguousarray(vectors[..., :columns]), factors)
    return q


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors(shape: tuple[int, ...], kind: Any) -> None:
    a = draw(shape, kind)
    count = min(shape[-2:])
    vectors, factors = ROUTINES["geqrf"](a)
    close(product(vectors, factors, count) @ np.triu(vectors[..., :count, :]), a)
    factored, pivots, info = ROUTINES["getrf"](a)
    lower = np.tril(factored[..., :, :count], -1) + np.eye(shape[-2], count, dtype=kind)
    whole = lower @ np.triu(factored[..., :count, :])
    for at in np.ndindex(*shape[:-2]):
        for k in range(count - 1, -1, -1):
            other = pivots[(*at, k)] - 1
            whole[at][[k, other]] = whole[at][[other, k]]
    close(whole, a)
    assert not info.any() and info.shape == shape[:-2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_with_exchanged_columns(shape: tuple[int, ...], kind: Any) -> None:
    a = draw(shape, kind)
    fixed = np.zeros((*shape[:-2], shape[-1]), np.int32)
    fixed[..., -1:] = 1
    count = min(shape[-2:])
    vectors, order, factors = ROUTINES["geqp3"](a, fixed)
    r = np.triu(vectors[..., :count, :])
    close(product(vectors, factors, count) @ r, np.take_along_axis(a, order[..., None, :].astype(int) - 1, -1))
    assert (order[..., :1] == shape[-1]).all()
    sizes = abs(np.diagonal(r, axis1=-2, axis2=-1))[..., 1:]
    assert (np.diff(sizes, axis=-1) <= 1e-5).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SQUARE)
def test_similar_matrices(shape: tuple[int, ...], kind: Any) -> None:
    a, size = draw(shape, kind), shape[-1]
    reduced, factors, _ = ROUTINES["gehrd"](a, low=1, high=size)
    q = np.broadcast_to(np.eye(size, dtype=kind), shape).copy()
    if size > 1:
        q[..., 1:, 1:] = product(reduced[..., 1:, :-1], factors, size - 1)
    close(q @ np.triu(reduced, -1) @ adjoint(q), a)
    a = a + adjoint(a)
    for uplo in "LU":
        reduced, diagonal, beside, factors, _ = ROUTINES["sytrd"](a, uplo=ord(uplo))
        t = np.zeros(shape, kind)
        for k in range(size):
            t[..., k, k] = diagonal[..., k]
            if k + 1 < size:
                t[..., k, k + 1] = t[..., k + 1, k] = beside[..., k]
        if size == 0:
            continue
        np.testing.assert_allclose(np.linalg.eigvalsh(t), np.linalg.eigvalsh(a), rtol=1e-3, atol=1e-3)
        assert not factors.size or (abs(factors) <= 2.001).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SQUARE)
def test_eigenvalues(shape: tuple[int, ...], kind: Any) -> None:
    a = draw(shape, kind)
    *values, left, right, _ = ROUTINES["geev"](a, compute_left=ord("V"), compute_right=ord("V"))
    w = values[0] + 1j * values[1] if len(values) == 2 else values[0]
    np.testing.assert_allclose(a @ right, right * w[..., None, :], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(adjoint(left) @ a, w[..., :, None] * adjoint(left), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(left, axis=-2), np.ones(w.shape), rtol=1e-3)


def test_a_matrix_with_too_few_eigenvectors() -> None:
    a = np.array([[2.0, 1.0], [0.0, 2.0]])
    *_, left, right, _ = ROUTINES["geev"](a, compute_left=ord("V"), compute_right=ord("V"))
    np.testing.assert_allclose(adjoint(left) @ a, 2 * adjoint(left), atol=1e-7)
    np.testing.assert_allclose(a @ right, 2 * right, atol=1e-7)
    assert np.isnan(ROUTINES["geev"](a * np.nan)[0]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("turned", "NTC")
def test_triangular_systems(turned: str, uplo: str, side: str, kind: Any) -> None:
    a, b = draw((2, 3, 3), kind) + 3 * np.eye(3, dtype=kind), draw((2, 3, 3), kind)
    parameters = {"side": ord(side), "uplo": ord(uplo), "trans_x": ord(turned)}
    for diag in (ord("N"), UNIT):
        [x] = ROUTINES["trsm"](a, b, **parameters, diag=diag)
        op = np.tril(a) if uplo == "L" else np.triu(a)
        if diag == UNIT:
            op[..., range(3), range(3)] = 1
        op = {"N": op, "T": np.swapaxes(op, -1, -2), "C": adjoint(op)}[turned]
        close(op @ x if side == "L" else x @ op, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_tridiagonal_systems(size: int, kind: Any) -> None:
    below, diagonal, above = (draw((2, size), kind) * k for k in (1, 0, 2))  # without pivoting nothing can be solved
    diagonal = diagonal + (1 if size % 2 else 0)
    b = draw((2, size, 3), kind)
    x = ROUTINES["gtsv"](below, diagonal, above, b)[3]
    for k in range(2):
        full = np.diag(diagonal[k]) + np.diag(below[k, 1:], -1) + np.diag(above[k, :-1], 1)
        np.testing.assert_allclose(full @ x[k], b[k], rtol=1e-2, atol=1e-2)


def spoiled(good: Array, element: float) -> Array:
    """Three matrices, of which the one in the middle has such an element below its diagonal."""
    bad = good.copy()
    bad[-1, 0] = element
    return np.stack([good, bad, good])


SEARCHES: list[tuple[str, dict[str, int], slice]] = [
    ("syevd", {"uplo": ord("L")}, slice(0, 2)),
    ("heevd", {"uplo": ord("L")}, slice(0, 2)),
    ("gesdd", {"mode": ord("N")}, slice(1, 2)),
    ("gesdd", {"mode": ord("A")}, slice(1, 4)),
    ("gesdd", {"mode": ord("S")}, slice(1, 4)),
    ("geev", {"compute_left": ord("V"), "compute_right": ord("V")}, slice(0, -1)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("element", [np.nan, np.inf])
@pytest.mark.parametrize(("name", "parameters", "found"), SEARCHES)
def test_what_is_not_found_is_nan_for_that_matrix_alone(
    name: str, parameters: dict[str, int], found: slice, element: float, kind: Any
) -> None:
    good = draw((3, 3), kind)
    *values, info = ROUTINES[name](spoiled(good, element), **parameters)
    *wanted, _ = ROUTINES[name](good, **parameters)
    assert info.tolist() == [0, 1, 0] and info.dtype == np.int32
    for value, one in zip(values[found], wanted[found], strict=True):
        assert value.dtype == one.dtype and np.isnan(value[1]).all()
        np.testing.assert_array_equal(value[[0, 2]], np.stack([one, one]))
    *values, info = ROUTINES[name](spoiled(good, element)[1], **parameters)
    assert info == 1 and info.shape == () and all(np.isnan(value).all() for value in values[found])


def test_the_triangle_that_is_not_read_may_have_any_elements() -> None:
    a = draw((3, 3), np.float32)
    vectors, values, info = ROUTINES["syevd"](spoiled(a, np.nan), uplo=ord("U"))
    assert not info.any() and np.isfinite(vectors).all() and (values == values[0]).all()


def test_a_search_that_fails_is_repeated_without_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    a = draw((3, 2, 2), np.float64)
    a[1] = 5.0
    svd = np.linalg.svd

    def refusing(x: Array, **options: bool) -> Any:
        if (x == 5.0).any():
            raise np.linalg.LinAlgError("SVD did not converge")
        return svd(x, **options)

    monkeypatch.setattr(np.linalg, "svd", refusing)
    _, values, _, _, info = ROUTINES["gesdd"](a, mode=ord("N"))
    assert info.tolist() == [0, 1, 0] and np.isnan(values[1]).all()
    np.testing.assert_array_equal(values[[0, 2]], svd(a[[0, 2]], compute_uv=False))
    assert np.isnan(ROUTINES["gesdd"](a[1], mode=ord("N"))[1]).all()


def called(target: str, configuration: str, operands: str, results: str, names: str) -> sm.stablehlo.Imported:
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in zip("ab", operands.split("; "), strict=False))
    kinds = operands.replace("; ", ", ")
    given = ", ".join(f"%{name}" for name, _ in zip("ab", operands.split("; "), strict=False))
    count = results.count("tensor")
    return sm.stablehlo.load(f"""func.func @main({arguments}) -> ({results}) {{
      %0:{count} = stablehlo.custom_call @{target}({given}) {{mhlo.backend_config = {{{configuration}}}}} :
        ({kinds}) -> ({results})
      return {names} : {results} }}""")


@pytest.mark.parametrize("compiled", [False, True])
def test_a_call_of_complex_numbers(compiled: bool) -> None:
    a = draw((3, 3), np.complex64)
    a = a @ adjoint(a) + np.eye(3, dtype=np.complex64)
    kind = "tensor<3x3xcomplex<f32>>"
    program = called("lapack_cpotrf_ffi", "uplo = 76 : ui8", kind, f"{kind}, tensor<i32>", "%0#0, %0#1")
    factor, info = program(a)
    found = factor.numpy() if compiled else np.array(interpreted([factor])[0] + 1j * interpreted([factor])[1])
    np.testing.assert_allclose(np.tril(found) @ adjoint(np.tril(found)), a, rtol=1e-4, atol=1e-4)
    assert info.item() == 0


@pytest.mark.parametrize("element", [np.nan, np.inf])
def test_a_call_says_which_matrices_it_found_nothing_for(element: float) -> None:
    a = spoiled(np.diag(np.array([3, 2, 1], np.float32)), element)
    kind = "tensor<3x3x3xf32>"
    results = f"{kind}, tensor<3x3xf32>, {kind}, {kind}, tensor<3xi32>"
    program = called("lapack_sgesdd_ffi", "mode = 65 : ui8", kind, results, ", ".join(f"%0#{k}" for k in range(5)))
    _, values, _, _, info = program(a)
    assert info.tolist() == [0, 1, 0] and np.isnan(values.numpy()[1]).all()
    np.testing.assert_allclose(values.numpy()[[0, 2]], [[3, 2, 1]] * 2, rtol=1e-6)


def test_operations_on_complex_matrices() -> None:
    a = draw((3, 3), np.complex64)
    a = a @ adjoint(a) + np.eye(3, dtype=np.complex64)
    kind = "tensor<3x3xcomplex<f32>>"
    solve = """"stablehlo.triangular_solve"(%0, %x) <{left_side = true, lower = true, unit_diagonal = false,
      transpose_a = #stablehlo<transpose ADJOINT>}>"""
    program = sm.stablehlo.load(f"""func.func @main(%x: {kind}) -> {kind} {{
      %0 = "stablehlo.cholesky"(%x) <{{lower = true}}> : ({kind}) -> {kind}
      %1 = {solve} : ({kind}, {kind}) -> {kind}
      return %1 : {kind} }}""")
    wanted = np.linalg.solve(adjoint(np.linalg.cholesky(a)), a)
    np.testing.assert_allclose(program(a).numpy(), wanted, rtol=1e-3, atol=1e-3)


def test_what_is_no_call_is_said() -> None:
    kind = "tensor<3x3xf32>"
    with pytest.raises(UnsupportedOp, match="no target 'lapack_sgees_ffi'"):
        called("lapack_sgees_ffi", "", kind, f"{kind}, tensor<i32>", "%0#0, %0#1").check()
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = "stablehlo.cholesky"(%x) <{lower = true}> : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32> }"""
    with pytest.raises(ParseError, match="matrices"):
        sm.stablehlo.load(text).check()
