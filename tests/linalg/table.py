"""The functions of `sm.linalg` with NumPy's for the same, and matrices that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import smelt as sm

Array = NDArray[Any]
la = sm.linalg
SIZES = [0, 1, 2, 3, 7, 31]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 0), (2, 1, 3)]


class Case(NamedTuple):
    """A call, the reference, and the shapes of its arguments for a size n; `make` changes the first of them."""

    call: Callable[..., Any]
    reference: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]]
    make: Callable[[Array], Array] = lambda x: x
    least: int = 0  # the smallest size that it takes

    def inputs(self, size: int, batch: tuple[int, ...] = (), seed: int = 0, dtype: str = "float64") -> list[Array]:
        rng = np.random.default_rng([seed, size, len(batch)])
        first, *others = [rng.standard_normal((*batch, *shape)) for shape in self.shapes(size)]
        return [self.make(first).astype(dtype), *(x.astype(dtype) for x in others)]


def complex_inputs(case: Case, size: int, batch: tuple[int, ...] = (), seed: int = 0) -> list[Array]:
    """Matrices of complex numbers; the first is made what the case takes."""
    plain = case._replace(make=lambda x: x)
    both = zip(plain.inputs(size, batch, seed), plain.inputs(size, batch, seed + 1000), strict=True)
    first, *others = [a + 1j * b for a, b in both]
    return [case.make(first), *others]


def definite(x: Array) -> Array:
    """Symmetric, with eigenvalues between 1 and about 5."""
    n = x.shape[-1]
    product: Array = x @ np.swapaxes(x, -1, -2).conj() / max(n, 1) + np.eye(n)
    return product


def regular(x: Array) -> Array:
    """Far from singular."""
    return x / max(1, x.shape[-1]) ** 0.5 + 3 * np.eye(x.shape[-1])


def symmetrized(x: Any) -> Any:
    return (x + x.mT.conj()) * 0.5


def square(n: int) -> list[tuple[int, ...]]:
    return [(n, n)]


def tall(n: int) -> list[tuple[int, ...]]:
    return [(n + 2, n)]


def wide(n: int) -> list[tuple[int, ...]]:
    return [(n, n + 3)]


def _triangle(a: Array, upper: bool, transposed: bool, unit: bool) -> Array:
    a = np.triu(a) if upper else np.tril(a)
    if unit:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.swapaxes(a, -1, -2) if transposed else a


def _triangular(upper: bool, transposed: bool, unit: bool) -> Case:
    return Case(
        lambda a, b: la.solve_triangular(a, b, upper=upper, transposed=transposed, unit_diagonal=unit),
        lambda a, b: np.linalg.solve(_triangle(a, upper, transposed, unit), b),
        lambda n: [(n, n), (n, 2)],
        lambda x: 0.3 * regular(x),
    )


ORDERS = ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]

CASES: dict[str, Case] = {
    "cholesky": Case(lambda x: la.cholesky(symmetrized(x)), np.linalg.cholesky, square, definite),
    "cholesky upper": Case(
        lambda x: la.cholesky(symmetrized(x), upper=True), lambda x: np.linalg.cholesky(x).mT.conj(), square, definite
    ),
    "cross": Case(lambda x, y: la.cross(x, y, axis=-2), lambda x, y: np.cross(x, y, axis=-2), lambda n: [(3, n)] * 2),
    "det": Case(la.det, np.linalg.det, square),
    "diagonal": Case(la.diagonal, lambda x: np.diagonal(x, axis1=-2, axis2=-1), tall),
    "diagonal below": Case(lambda x: la.diagonal(x, offset=-1), lambda x: np.diagonal(x, -1, axis1=-2, axis2=-1), tall),
    "eigh": Case(lambda x: la.eigh(symmetrized(x)), np.linalg.eigh, square, definite),
    "eigvalsh": Case(lambda x: la.eigvalsh(symmetrized(x)), np.linalg.eigvalsh, square, definite),
    "inv": Case(la.inv, np.linalg.inv, square, regular),
    "matmul": Case(la.matmul, np.matmul, lambda n: [(n, n + 1), (n + 1, 2)]),
    **{
        f"matrix_norm {order}": Case(
            lambda x, order=order: la.matrix_norm(x, ord=order),
            lambda x, order=order: np.linalg.matrix_norm(x, ord=order),
            wide,
            least=1,
        )
        for order in ORDERS
    },
    **{
        f"matrix_power {n}": Case(
            lambda x, n=n: la.matrix_power(x, n),
            lambda x, n=n: np.linalg.matrix_power(x, n),
            square,
            lambda x: 0.3 * regular(x),
        )
        for n in (-2, 0, 1, 3, 6)
    },
    "matrix_rank": Case(la.matrix_rank, np.linalg.matrix_rank, tall, least=1),
    "matrix_transpose": Case(la.matrix_transpose, np.matrix_transpose, tall),
    "pinv": Case(la.pinv, np.linalg.pinv, tall),
    "pinv wide": Case(la.pinv, np.linalg.pinv, wide),
    "qr": Case(la.qr, np.linalg.qr, square, regular),
    "qr tall": Case(la.qr, np.linalg.qr, tall),
    "qr wide": Case(la.qr, np.linalg.qr, wide),
    "slogdet": Case(la.slogdet, np.linalg.slogdet, square, regular),
    "solve": Case(la.solve, np.linalg.solve, lambda n: [(n, n), (n, 2)], regular),
    "svd": Case(la.svd, np.linalg.svd, square),
    "svd tall": Case(lambda x: la.svd(x, full_matrices=False), lambda x: np.linalg.svd(x, full_matrices=False), tall),
    "svd wide": Case(lambda x: la.svd(x, full_matrices=False), lambda x: np.linalg.svd(x, full_matrices=False), wide),
    "svdvals": Case(la.svdvals, np.linalg.svdvals, tall),
    "tensordot": Case(
        lambda x, y: la.tensordot(x, y, axes=1), lambda x, y: np.tensordot(x, y, 1), lambda n: [(n, n), (n, 2)]
    ),
    "trace": Case(la.trace, lambda x: np.trace(x, axis1=-2, axis2=-1), tall),
    "trace above": Case(lambda x: la.trace(x, offset=1), lambda x: np.trace(x, 1, axis1=-2, axis2=-1), tall),
    "vecdot": Case(la.vecdot, np.vecdot, lambda n: [(2, n)] * 2),
    "vector_norm": Case(la.vector_norm, np.linalg.vector_norm, lambda n: [(2, n)]),
    **{
        f"solve_triangular{' upper' * upper}{' transposed' * transposed}{' unit' * unit}": _triangular(
            upper, transposed, unit
        )
        for upper in (False, True)
        for transposed in (False, True)
        for unit in (False, True)
    },
}
SEVERAL = ("eigh", "qr", "qr tall", "qr wide", "slogdet", "svd", "svd tall", "svd wide")
BATCHED = [name for name in CASES if name not in ("tensordot", "vector_norm")]
EXACT = {"diagonal", "diagonal below", "matrix_transpose", "matrix_rank", "matrix_power 0", "matrix_power 1"}


def tensors(arrays: list[Array]) -> list[sm.Tensor]:
    return [sm.from_numpy(x) for x in arrays]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]
