"""Linear algebra: values and derivatives of `sm.linalg` are those of JAX and of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.linalg.table import CASES, SEVERAL, Array, la, listed, symmetrized, tensors

pytestmark = pytest.mark.peers

TOLERANCE = 1e-8


@pytest.fixture(scope="module")
def jax() -> Any:
    found = pytest.importorskip("jax", reason="peers: jax is not installed (make test-peers installs it)")
    from tests.peers import in_jax  # noqa: F401

    return found


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="peers: torch is not installed (make test-peers installs it)")


def weights(shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.uniform(0.5, 1.5, shape) for shape in shapes]


def total(call: Callable[..., Any], given: list[Array], convert: Callable[[Array], Any]) -> Callable[..., Any]:
    """All results weighed and added up."""

    def function(*inputs: Any) -> Any:
        parts = [part for part in listed(call(*inputs)) if part is not None]
        return sum((part * convert(weight)).sum() for part, weight in zip(parts, given, strict=True))

    return function


IN_JAX: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "cholesky": lambda jnp: jnp.linalg.cholesky,
    "det": lambda jnp: jnp.linalg.det,
    "eigh": lambda jnp: lambda x: tuple(jnp.linalg.eigh(x)),
    "eigvalsh": lambda jnp: jnp.linalg.eigvalsh,
    "inv": lambda jnp: jnp.linalg.inv,
    "matrix_norm nuc": lambda jnp: lambda x: jnp.linalg.matrix_norm(x, ord="nuc"),
    "matrix_norm 2": lambda jnp: lambda x: jnp.linalg.matrix_norm(x, ord=2),
    "matrix_power -2": lambda jnp: lambda x: jnp.linalg.matrix_power(x, -2),
    "pinv": lambda jnp: jnp.linalg.pinv,
    "pinv wide": lambda jnp: jnp.linalg.pinv,
    "qr": lambda jnp: lambda x: tuple(jnp.linalg.qr(x)),
    "qr tall": lambda jnp: lambda x: tuple(jnp.linalg.qr(x)),
    "slogdet": lambda jnp: lambda x: tuple(jnp.linalg.slogdet(x)),
    "solve": lambda jnp: jnp.linalg.solve,
    "svd": lambda jnp: lambda x: tuple(jnp.linalg.svd(x, full_matrices=False)),
    "svd tall": lambda jnp: lambda x: tuple(jnp.linalg.svd(x, full_matrices=False)),
    "svd wide": lambda jnp: lambda x: tuple(jnp.linalg.svd(x, full_matrices=False)),
    "svdvals": lambda jnp: jnp.linalg.svdvals,
}


@pytest.mark.parametrize("name", IN_JAX)
def test_derivatives_are_those_of_jax(name: str, jax: Any) -> None:
    case, theirs = CASES[name], IN_JAX[name](jax.numpy)
    arrays = case.inputs(4, (2,), seed=7)
    results = listed(case.reference(*arrays))
    given = weights([np.shape(part) for part in results])
    # Cholesky factors and eigenvalues are functions of symmetric matrices in both.
    ours = total(case.call, given, sm.from_numpy)
    peer = total(theirs, given, jax.numpy.asarray)
    directions = [np.random.default_rng(9).standard_normal(x.shape) for x in arrays]
    if name.startswith(("cholesky", "eig")):
        directions = [x + x.mT for x in directions]
    for k in range(len(arrays)):
        mine = sm.grad(lambda x, k=k: ours(*tensors(arrays[:k]), x, *tensors(arrays[k + 1 :])))(
            sm.from_numpy(arrays[k])
        )
        wanted = np.asarray(jax.grad(peer, argnums=k)(*arrays))
        wanted = (wanted + wanted.mT) / 2 if name.startswith(("cholesky", "eig")) else wanted
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=TOLERANCE, atol=TOLERANCE)
    _, pushed = sm.jvp(ours, tuple(tensors(arrays)), tuple(tensors(directions)))
    _, wanted = jax.jvp(peer, tuple(arrays), tuple(directions))
    np.testing.assert_allclose(pushed.item(), float(wanted), rtol=1e-7, atol=TOLERANCE)


IN_TORCH: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "cholesky": lambda torch: lambda x: torch.linalg.cholesky((x + x.mT) / 2),
    "det": lambda torch: torch.linalg.det,
    "eigvalsh": lambda torch: lambda x: torch.linalg.eigvalsh((x + x.mT) / 2),
    "inv": lambda torch: torch.linalg.inv,
    "matrix_norm nuc": lambda torch: lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "matrix_norm 1": lambda torch: lambda x: torch.linalg.matrix_norm(x, 1),
    "matrix_power 6": lambda torch: lambda x: torch.linalg.matrix_power(x, 6),
    "pinv": lambda torch: torch.linalg.pinv,
    "qr tall": lambda torch: lambda x: tuple(torch.linalg.qr(x)),
    "qr wide": lambda torch: lambda x: tuple(torch.linalg.qr(x)),
    "slogdet": lambda torch: lambda x: tuple(torch.linalg.slogdet(x)),
    "solve": lambda torch: torch.linalg.solve,
    "solve_triangular": lambda torch: lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
    "solve_triangular upper unit": lambda torch: (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True)
    ),
    "svdvals": lambda torch: torch.linalg.svdvals,
}


@pytest.mark.parametrize("name", IN_TORCH)
def test_gradients_are_those_of_pytorch(name: str, torch: Any) -> None:
    case, theirs = CASES[name], IN_TORCH[name](torch)
    arrays = case.inputs(4, (2,), seed=7)
    given = weights([np.shape(part) for part in listed(case.reference(*arrays))])
    inputs = [torch.tensor(x, requires_grad=True) for x in arrays]
    total(theirs, given, torch.tensor)(*inputs).backward()
    ours = total(case.call, given, sm.from_numpy)
    found = sm.grad(lambda inputs: ours(*inputs))(tensors(arrays))
    for mine, wanted in zip(found, inputs, strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted.grad.numpy(), rtol=TOLERANCE, atol=TOLERANCE)


def test_second_derivatives_are_those_of_jax(jax: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 3)) + 3 * np.eye(3)
    pairs = [
        (la.det, jax.numpy.linalg.det),
        (lambda x: la.inv(x).sum(), lambda x: jax.numpy.linalg.inv(x).sum()),
        (
            lambda x: la.cholesky(symmetrized(x @ x.mT)).sum(),
            lambda x: jax.numpy.linalg.cholesky((x @ x.mT + (x @ x.mT).mT) / 2).sum(),
        ),
        (lambda x: (la.svdvals(x) ** 3).sum(), lambda x: (jax.numpy.linalg.svdvals(x) ** 3).sum()),
    ]
    for ours, theirs in pairs:
        mine, wanted = sm.hessian(ours)(sm.from_numpy(x)).numpy(), np.asarray(jax.hessian(theirs)(x))
        np.testing.assert_allclose(mine, wanted, rtol=1e-7, atol=1e-8)


def test_every_function_with_several_results_is_compared() -> None:
    assert set(SEVERAL) <= {*IN_JAX, *IN_TORCH}


# What JAX computes through LAPACK, of a batch of matrices.
IMPORTED: dict[str, Callable[[Any, Any], Any]] = {
    "cond": lambda jnp, x: jnp.linalg.cond(x),
    "eig": lambda jnp, x: tuple(jnp.linalg.eig(x)),
    "eigh": lambda jnp, x: tuple(jnp.linalg.eigh(x)),
    "eigvals": lambda jnp, x: jnp.linalg.eigvals(x),
    "eigvalsh": lambda jnp, x: jnp.linalg.eigvalsh(x),
    "lstsq": lambda jnp, x: jnp.vectorize(lambda a: jnp.linalg.lstsq(a, a[0])[0], signature="(n,n)->(n)")(x),
    "matrix_rank": lambda jnp, x: jnp.linalg.matrix_rank(x),
    "norm": lambda jnp, x: jnp.linalg.norm(x, ord=2, axis=(-2, -1)),
    "pinv": lambda jnp, x: jnp.linalg.pinv(x),
    "svd": lambda jnp, x: tuple(jnp.linalg.svd(x)),
    "svd tall": lambda jnp, x: tuple(jnp.linalg.svd(x[..., :2], full_matrices=False)),
    "svdvals": lambda jnp, x: jnp.linalg.svd(x, compute_uv=False),
}


@pytest.mark.parametrize("kind", [np.float32, np.complex128])
@pytest.mark.parametrize("name", IMPORTED)
def test_imported_calls_give_nan_for_the_matrix_that_has_one(name: str, kind: Any, jax: Any) -> None:
    """Of infinite elements XLA's own search for singular vectors may never end, so those are no case here."""
    call = IMPORTED[name]
    good = np.random.default_rng(0).normal(size=(3, 3)).astype(kind)
    x = np.stack([good, np.where(np.eye(3) > 0, np.nan, good).astype(kind), good])
    wanted = listed(jax.jit(lambda x: call(jax.numpy, x))(x))
    imported = sm.from_jax(lambda x: call(jax.numpy, x))
    loaded = sm.stablehlo.load(jax.jit(lambda x: call(jax.numpy, x)).lower(x).as_text())
    for found in (imported(sm.asarray(x)), loaded(x)):
        for value, other in zip(listed(found), wanted, strict=True):
            np.testing.assert_allclose(value.numpy(), other, rtol=2e-4, atol=2e-5)
