"""Calls of code outside of the text: custom_call by a table, linear algebra through NumPy while a program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smelt.dtypes import DType
from smelt.formats.mlir import Typed
from smelt.formats.stablehlo import elementwise, sorts
from smelt.formats.stablehlo.rows import Call, Row, Value, rows, stand_in
from smelt.graph import Hosted, Node, build, values_of

Array = Any
Parameters = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HostCall:
    """One of `ROUTINES` with its parameters: equal ones compute the same."""

    name: str
    parameters: Parameters
    dtypes: tuple[DType, ...]

    def __call__(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        wide = [x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind != "i" else x for x in arrays]
        with np.errstate(all="ignore"):
            found = ROUTINES[self.name](*wide, **dict(self.parameters))
        return [
            np.ascontiguousarray(np.broadcast_to(np.asarray(x), shape).astype(dtype.numpy)).reshape(shape)
            for x, dtype, shape in zip(found, self.dtypes, shapes, strict=True)
        ]


def hosted(call: Call, name: str, sources: Sequence[Node], parameters: dict[str, int]) -> list[Value]:
    """A routine as a call of Python's while the program runs, with the results that the operation declares."""
    types = [call.type(k) for k in range(len(call.operation.types))]
    function = HostCall(name, tuple(sorted(parameters.items())), tuple(dtype for dtype, _ in types))
    return list(values_of(Hosted(function, tuple(types)), list(sources)))


# --- routines, with LAPACK's names, parameters and results. Matrices are the last two axes.

_LOWER, _UNIT, _LEFT, _NO = (ord(letter) for letter in "LULN")


def _potrf(a: Array, uplo: int = _LOWER) -> list[Array]:
    """The factor of a positive definite matrix, of which one triangle is read and the other one left as it is; NaN and
    an info of 1 if it is none.
    """
    lower, other = uplo == _LOWER, np.triu(a, 1) if uplo == _LOWER else np.tril(a, -1)
    a = np.tril(a) if lower else np.swapaxes(np.triu(a), -1, -2)
    full = a + np.swapaxes(np.tril(a, -1), -1, -2)
    result, info = np.full_like(full, np.nan), np.ones(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        try:
            result[at], info[at] = np.linalg.cholesky(full[at]), 0
        except np.linalg.LinAlgError:
            pass
    return [(result if lower else np.swapaxes(result, -1, -2)) + other, info]


def _trsm(
    a: Array, b: Array, side: int = _LEFT, uplo: int = _LOWER, trans_x: int = _NO, diag: int = _NO
) -> list[Array]:
    """op(a) x = b or x op(a) = b, for a triangle of a."""
    a = np.tril(a) if uplo == _LOWER else np.triu(a)
    if diag == _UNIT:
        a = a - a * np.eye(a.shape[-1], dtype=a.dtype) + np.eye(a.shape[-1], dtype=a.dtype)
    flipped = (trans_x != _NO) != (side != _LEFT)
    lower = (uplo == _LOWER) != flipped
    a = np.swapaxes(a, -1, -2) if flipped else a
    x = np.swapaxes(b, -1, -2).copy() if side != _LEFT else b.copy()
    size = a.shape[-1]
    for k in range(size) if lower else range(size - 1, -1, -1):
        done = slice(0, k) if lower else slice(k + 1, size)
        rest = x[..., k, :] - np.einsum("...i,...ij->...j", a[..., k, done], x[..., done, :])
        x[..., k, :] = rest / a[..., k, k, None]
    return [np.swapaxes(x, -1, -2) if side != _LEFT else x]


def _getrf(a: Array) -> list[Array]:
    """L and U in one matrix, the rows that were exchanged (counted from 1), and the first pivot that is 0."""
    a = a.copy()
    count = min(a.shape[-2:])
    pivots, info = np.zeros((*a.shape[:-2], count), np.int32), np.zeros(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        m = a[at]
        for k in range(count):
            best = k + int(np.argmax(np.abs(m[k:, k])))
            pivots[(*at, k)] = best + 1
            m[[k, best]] = m[[best, k]]
            if m[k, k] == 0:
                info[at] = info[at] or k + 1
            else:
                m[k + 1 :, k] /= m[k, k]
                m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return [a, pivots, info]


def _geqrf(a: Array) -> list[Array]:
    """Householder's vectors below R, and their factors."""
    if 0 in a.shape:
        return [a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)]
    vectors, factors = np.linalg.qr(a, mode="raw")
    return [np.swapaxes(vectors, -1, -2), factors]


def _orgqr(a: Array, factors: Array) -> list[Array]:
    """The first columns of the product of reflections."""
    rows_, columns = a.shape[-2:]
    q = np.broadcast_to(np.eye(rows_, columns, dtype=a.dtype), a.shape).copy()
    for k in range(factors.shape[-1] - 1, -1, -1):
        v = a[..., :, k].copy()
        v[..., :k], v[..., k] = 0, 1
        q -= factors[..., k, None, None] * v[..., :, None] * np.einsum("...i,...ij->...j", v, q)[..., None, :]
    return [q]


def _syevd(a: Array, mode: int = 0, uplo: int = _LOWER) -> list[Array]:
    """Eigenvectors as columns, eigenvalues in ascending order."""
    values, vectors = np.linalg.eigh(a, "L" if uplo == _LOWER else "U")
    return [vectors, values, np.zeros(a.shape[:-2], np.int32)]


def _gesdd(a: Array, mode: int = ord("A")) -> list[Array]:
    """Singular values, and the vectors on both sides: all of them, as many as values, or none."""
    info = np.zeros(a.shape[:-2], np.int32)
    if mode == ord("N"):
        nothing = np.zeros((), a.dtype)
        return [a, np.linalg.svd(a, compute_uv=False), nothing, nothing, info]
    u, values, vt = np.linalg.svd(a, full_matrices=mode != ord("S"))
    return [a, values, u, vt, info]


ROUTINES: Final[dict[str, Callable[..., list[Array]]]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
}
_PARAMETERS: Final = {"uplo", "side", "trans_x", "diag", "mode"}


def _cholesky(call: Call) -> list[Value]:
    uplo = _LOWER if call.flag("lower") else ord("U")
    (x,) = call.operands
    found = HostCall("potrf", (("uplo", uplo),), (x.dtype, elementwise.SIGNED[32]))
    return [values_of(Hosted(found, ((x.dtype, x.shape), (elementwise.SIGNED[32], x.shape[:-2]))), [x])[0]]


def _triangular_solve(call: Call) -> list[Value]:
    transposed = call.word("transpose_a", "NO_TRANSPOSE") != "NO_TRANSPOSE"
    parameters = {
        "side": _LEFT if call.flag("left_side") else ord("R"),
        "uplo": _LOWER if call.flag("lower") else ord("U"),
        "trans_x": ord("T") if transposed else _NO,
        "diag": _UNIT if call.flag("unit_diagonal") else _NO,
    }
    return hosted(call, "trsm", call.operands, parameters)


# --- custom_call


def _configuration(call: Call) -> dict[str, Any]:
    """What a call's target is told."""
    found = call.attribute("mhlo.backend_config")
    found = call.attribute("backend_config") if found is None else found
    known = found if isinstance(found, dict) else {}
    return {name: value.value if isinstance(value, Typed) else value for name, value in known.items()}


def _custom_call(call: Call) -> list[Value]:
    target = call.symbol("call_target_name")
    if target in _SAME:
        return list(call.operands)
    function = _TARGETS.get(target)
    if function is not None:
        return function(call)
    name = target.removeprefix("lapack_").removesuffix("_ffi")
    if target.startswith("lapack_") and name[:1] in ("s", "d") and name[1:] in ROUTINES:
        return hosted(
            call, name[1:], call.operands, {k: v for k, v in _configuration(call).items() if k in _PARAMETERS}
        )
    call.refuse(f"there is no target {target!r}")


def _approximate_top_k(call: Call) -> list[Value]:
    """The best elements of an axis: found exactly."""
    told = _configuration(call)
    count = len(call.operands) // 2
    xs, axis = call.operands[:count], told.get("reduction_dim")
    names = call.attribute("called_computations") or (None,)
    sides = [stand_in(x.dtype, ()) for x in xs for _ in range(2)]
    [first] = call.reading.function(getattr(names[0], "name", ""), sides, call.operation)
    if not isinstance(axis, int) or call.shape[axis] != told.get("top_k"):
        call.refuse("approximate results that are not the best k")
    for direction in ("GT", "LT"):
        for kind in ("", "TOTALORDER"):
            if first is elementwise.compare(direction, sides[0], sides[1], kind):
                size = call.shape[axis]
                order = build.sort(xs[0], axis, descending=direction == "GT", indices=True, count=size)
                return [sorts.taken(x, order, axis) for x in xs]
    call.refuse("an order that is neither < nor >")


_SAME: Final = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"})
_TARGETS: Final[dict[str, Callable[[Call], list[Value]]]] = {"ApproxTopK": _approximate_top_k}

ROWS: Final = rows(
    {
        "cholesky": Row(_cholesky, ("lower",), 1, "by NumPy while the program runs; no gradient"),
        "triangular_solve": Row(
            _triangular_solve,
            ("left_side", "lower", "unit_diagonal", "transpose_a"),
            2,
            "by NumPy while the program runs; no gradient",
        ),
        "custom_call": Row(
            _custom_call, ("call_target_name", "backend_config"), None, "LAPACK's routines, shardings, ApproxTopK"
        ),
    }
)
