"""Under `jit` and `vmap`, in loops, and with sizes that are known at the call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.linalg.table import CASES, definite, la, listed, regular, tensors


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_turns(3)
def test_batches_by_vmap(name: str) -> None:
    case = CASES[name]
    arrays = [np.stack(pair) for pair in zip(case.inputs(3, seed=1), case.inputs(3, seed=2), strict=True)]
    found = listed(sm.jit(sm.vmap(case.call))(*tensors(arrays)))
    for k in range(2):
        expected = listed(case.reference(*(x[k] for x in arrays)))
        for got, value in zip(found, expected, strict=True):
            np.testing.assert_allclose(got[k].numpy(), value, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (1, 0)])
def test_batches_of_one_side(axes: tuple[int | None, int | None]) -> None:
    rng = np.random.default_rng(0)
    a, b = regular(rng.standard_normal((4, 4, 4))), rng.standard_normal((4, 4, 2))
    given = [x[0] if axis is None else x for x, axis in zip((a, b), axes, strict=True)]
    whole = [x if axis is None else np.moveaxis(x, axis, 0) for x, axis in zip(given, axes, strict=True)]
    for call, reference in (
        (la.solve, np.linalg.solve),
        (la.solve_triangular, lambda a, b: np.linalg.solve(np.tril(a), b)),
    ):
        found = sm.vmap(call, in_axes=axes)(*tensors(given))
        np.testing.assert_allclose(found.numpy(), reference(*whole), rtol=1e-8, atol=1e-9)


def test_gradients_of_batches() -> None:
    x = regular(np.random.default_rng(0).standard_normal((3, 4, 4)))
    each = sm.vmap(sm.grad(lambda x: la.slogdet(x).logabsdet))(sm.from_numpy(x))
    np.testing.assert_allclose(each.numpy(), np.linalg.inv(x).mT, rtol=1e-9, atol=1e-12)
    jacobian = sm.jacobian(la.inv)(sm.from_numpy(x[0])).numpy()
    inverse = np.linalg.inv(x[0])
    np.testing.assert_allclose(jacobian, -np.einsum("ia,bj->ijab", inverse, inverse), rtol=1e-9, atol=1e-12)


def test_compiled_once_and_right_every_time() -> None:
    @sm.jit
    def program(x: Any, b: Any) -> Any:
        w, v = la.eigh(x @ x.mT + sm.eye(4, dtype=sm.float64))
        return la.solve(x, b) * 2, v * w, la.svd(x + 1)

    rng = np.random.default_rng(0)
    for _ in range(3):
        x, b = regular(rng.standard_normal((4, 4))), rng.standard_normal(4)
        y, scaled, parts = program(*tensors([x, b]))
        np.testing.assert_allclose(y.numpy(), 2 * np.linalg.solve(x, b), rtol=1e-9, atol=1e-12)
        w, v = np.linalg.eigh(x @ x.T + np.eye(4))
        np.testing.assert_allclose(abs(scaled.numpy()), abs(v * w), rtol=1e-8, atol=1e-9)
        assert type(parts).__name__ == "SVDResult"
        np.testing.assert_allclose(((parts.U * parts.S) @ parts.Vh).numpy(), x + 1, atol=1e-12)


def test_in_loops_and_branches() -> None:
    x = definite(np.random.default_rng(0).standard_normal((4, 4)))

    @sm.jit
    def root(x: Any) -> Any:
        """By Newton's method."""
        return sm.fori_loop(0, 12, lambda _, y: 0.5 * (y + la.solve(y, x)), sm.eye(4, dtype=sm.float64))

    y = root(sm.from_numpy(x)).numpy()
    np.testing.assert_allclose(y @ y, x, rtol=1e-9, atol=1e-10)
    gradient = sm.jit(sm.grad(lambda x: la.trace(root(x))))(sm.from_numpy(x))
    np.testing.assert_allclose(gradient.numpy(), 0.5 * np.linalg.inv(y).T, rtol=1e-7, atol=1e-9)
    chosen = sm.jit(lambda x: sm.cond(x[0, 0] > 0, la.inv, lambda x: x, x))
    np.testing.assert_allclose(chosen(sm.from_numpy(x)).numpy(), np.linalg.inv(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(chosen(sm.from_numpy(-x)).numpy(), -x)


N, M, B = sm.Dim("n", 1, 12), sm.Dim("m", 1, 12), sm.Dim("b", 1, 8)
DIMS: dict[str, tuple[Any, Any, list[Any], Any]] = {
    "cholesky": (la.cholesky, np.linalg.cholesky, [(B, N, N)], definite),
    "det": (la.det, np.linalg.det, [(B, N, N)], regular),
    "eigvalsh": (la.eigvalsh, np.linalg.eigvalsh, [(N, N)], definite),
    "inv": (la.inv, np.linalg.inv, [(B, N, N)], regular),
    "pinv": (la.pinv, np.linalg.pinv, [(N, M)], None),
    "qr": (lambda x: la.qr(x).R, lambda x: np.linalg.qr(x).R, [(N, M)], None),
    "rank": (la.matrix_rank, np.linalg.matrix_rank, [(N, M)], None),
    "slogdet": (lambda x: la.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1], [(N, N)], regular),
    "solve": (la.solve, np.linalg.solve, [(B, N, N), (B, N, M)], regular),
    "solve for many": (la.solve, np.linalg.solve, [(N, N), (B, N, M)], regular),
    "svdvals": (la.svdvals, np.linalg.svdvals, [(B, N, M)], None),
    "norm": (lambda x: la.matrix_norm(x, ord=2), lambda x: np.linalg.matrix_norm(x, ord=2), [(N, M)], None),
    "power": (lambda x: la.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2), [(N, N)], regular),
    "trace": (la.trace, np.trace, [(N, M)], None),
}


@pytest.mark.parametrize("name", DIMS)
@pytest.mark.by_turns(2)
def test_symbolic_sizes(name: str) -> None:
    call, reference, shapes, make = DIMS[name]
    program = sm.jit(call, shapes=shapes)
    for n, m, b in ((1, 1, 1), (5, 3, 2), (3, 7, 4)):
        sizes = {N: n, M: m, B: b}
        rng = np.random.default_rng(n)
        arrays = [rng.standard_normal([sizes[size] for size in shape]) for shape in shapes]
        arrays[0] = arrays[0] if make is None else make(arrays[0])
        np.testing.assert_allclose(program(*tensors(arrays)).numpy(), reference(*arrays), rtol=1e-8, atol=1e-9)


def test_gradients_with_symbolic_sizes() -> None:
    program = sm.jit(sm.grad(lambda x: la.slogdet(la.inv(x))[1] + la.cholesky(x @ x.mT).sum()), shapes=[(N, N)])
    for n in (2, 5):
        x = regular(np.random.default_rng(n).standard_normal((n, n)))
        plain = sm.grad(lambda x: la.slogdet(la.inv(x))[1] + la.cholesky(x @ x.mT).sum())(sm.from_numpy(x))
        np.testing.assert_allclose(program(sm.from_numpy(x)).numpy(), plain.numpy(), rtol=1e-9, atol=1e-10)


def test_it_is_loaded_when_it_is_used() -> None:
    code = "import sys, smelt as sm; before = 'smelt.linalg' in sys.modules; sm.linalg; print(before)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False"]


def test_equal_calls_are_one() -> None:
    x = sm.from_numpy(definite(np.ones((3, 3))))
    assert la.inv(x)._node is la.inv(x)._node
