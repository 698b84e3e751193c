"""Calls of every function of the standard that takes or makes arrays, as NumPy and smelt both understand them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from tests.arrayapi.standard import FUNCTIONS, Function
from tests.ops.samples import Sample, call

Array = NDArray[Any]


class Make(Protocol):
    """An array of the dtype that is being tested; without negative numbers if `low` is 0."""

    def __call__(self, *shape: int, low: int = -3) -> Array: ...


def maker(dtype: str) -> Make:
    """Small numbers, which depend on the dtype and shape only; floats lie between -1 and 1."""

    def make(*shape: int, low: int = -3) -> Array:
        generator = np.random.default_rng(zlib.crc32(f"{dtype}{shape}".encode()))
        if dtype == "bool":
            return generator.integers(0, 2, shape).astype(np.bool_)
        if dtype.startswith("float"):
            return generator.uniform(0.0 if low == 0 else -1.0, 1.0, shape).astype(dtype)
        return generator.integers(max(low, 0) if dtype.startswith("u") else low, 6, shape).astype(dtype)

    return make


def _one(make: Make) -> list[Sample]:
    return [call(make(2, 3)), call(make()), call(make(0, 3)), call(make(3, 1, 5)[..., ::-2])]


def _two(make: Make) -> list[Sample]:
    # Shifts and integer powers need a right operand that is not negative.
    return [
        call(make(2, 3), make(2, 3, low=0)),
        call(make(2, 1, 3), make(4, 1, low=0)),
        call(make(), make(5, low=0)),
        call(make(0, 1), make(1, 3, low=0)),
        call(make(2, 3), 1),
        call(1, make(2, 3, low=0)),
    ]


def _folds(make: Make, *, empty: bool = True) -> list[Sample]:
    calls = [
        call(make(3, 4)),
        call(make(3, 4), axis=0),
        call(make(2, 3, 4), axis=(0, -1), keepdims=True),
        call(make()),
        call(make(3, 0), axis=0),
    ]
    return [*calls, call(make(0))] if empty else calls


def _positions(make: Make) -> list[Sample]:
    return [call(make(3, 4)), call(make(3, 4), axis=-1), call(make(3, 4), axis=0, keepdims=True), call(make())]


def _scans(make: Make) -> list[Sample]:
    return [
        call(make(5)),
        call(make(3, 4), axis=0),
        call(make(3, 4), axis=-1, include_initial=True),
        call(make(2, 0), axis=1, include_initial=True),
    ]


def _sorts(make: Make) -> list[Sample]:
    return [
        call(make(7)),
        call(make(3, 5), axis=0),
        call(make(3, 5), axis=-1, descending=True),
        call(make(0)),
        call(make(6), stable=False),
    ]


def _sets(make: Make) -> list[Sample]:
    return [call(make(7)), call(make(2, 3)), call(make(0))]


INDICES = np.array([1, 0, 2])
Calls = Callable[[Make], list[Sample]]
CALLS: dict[str, Calls] = {
    "arange": lambda make: [call(5), call(1, 7, 2), call(3, 0, -1), call(0.0, 1.0, 0.25), call(2, stop=5, step=2)],
    "asarray": lambda make: [*_one(make), call(make(3), copy=True), call(make(3), copy=False)],
    "empty": lambda make: [],
    "empty_like": lambda make: [],
    "eye": lambda make: [call(3), call(2, 4, k=1), call(4, 2, k=-2), call(0), call(3, k=7)],
    "from_dlpack": _one,
    "full": lambda make: [call((2, 3), 7), call(4, 0.5), call(shape=(), fill_value=True), call((0,), 1)],
    "full_like": lambda make: [call(make(2, 3), 1), call(make(), 0), call(make(0), fill_value=1)],
    "linspace": lambda make: [call(0, 1, 5), call(-2.0, 3.0, num=4, endpoint=False), call(1, 1, 1), call(0, 1, 0)],
    "meshgrid": lambda make: [call(make(2), make(3)), call(make(2), make(3), make(1), indexing="ij"), call(make(4))],
    "ones": lambda make: [call((2, 3)), call(4), call(shape=()), call((0, 2))],
    "ones_like": _one,
    "tril": lambda make: [call(make(3, 4)), call(make(2, 3, 3), k=1), call(make(3, 3), k=-5)],
    "triu": lambda make: [call(make(3, 4)), call(make(2, 3, 3), k=1), call(make(3, 3), k=-5)],
    "zeros": lambda make: [call((2, 3)), call(4), call(shape=()), call((0, 2))],
    "zeros_like": _one,
    "astype": lambda make: [call(make(2, 3), dtype) for dtype in ("bool", "int16", "float64")],
    "clip": lambda make: [call(make(3, 4), 0, 2), call(make(3), min=1), call(make(3), max=make(3)), call(make(2))],
    "take": lambda make: [call(make(4, 3), INDICES, axis=0), call(make(5), INDICES)],
    "take_along_axis": lambda make: [call(make(3, 3), INDICES[:, None], axis=1), call(make(3), INDICES)],
    "matmul": lambda make: [
        call(make(3, 4), make(4, 5)),
        call(make(4), make(4, 2)),
        call(make(2, 3, 4), make(4)),
        call(make(4), make(4)),
        call(make(2, 1, 3, 4), make(5, 4, 2)),
        call(make(2, 0), make(0, 3)),
    ],
    "matrix_transpose": lambda make: [call(make(2, 3)), call(make(4, 2, 3))],
    "tensordot": lambda make: [
        call(make(2, 3, 4), make(3, 4, 5)),
        call(make(2, 3), make(4), axes=0),
        call(make(2, 3, 4), make(4, 3), axes=((1, 2), (1, 0))),
    ],
    "vecdot": lambda make: [call(make(2, 3), make(3)), call(make(3, 2), make(3, 2), axis=-2), call(make(3), make(3))],
    "broadcast_arrays": lambda make: [call(make(3, 1), make(4)), call(make(2))],
    "broadcast_to": lambda make: [call(make(3, 1), (2, 3, 4)), call(make(), shape=(2,))],
    "concat": lambda make: [
        call([make(2, 3), make(4, 3)]),
        call((make(2, 3), make(2, 1)), axis=-1),
        call([make(2, 2), make(3)], axis=None),
    ],
    "expand_dims": lambda make: [call(make(2, 3), 1), call(make(3), axis=-1), call(make(), 0)],
    "flip": lambda make: [call(make(2, 3)), call(make(2, 3), axis=0), call(make(2, 3, 4), axis=(0, -1))],
    "moveaxis": lambda make: [call(make(2, 3, 4), 0, -1), call(make(2, 3, 4), (0, 1), (2, 0))],
    "permute_dims": lambda make: [call(make(2, 3, 4), (2, 0, 1)), call(make(2, 3), axes=(1, 0)), call(make(), ())],
    "repeat": lambda make: [
        *(call(make(2, 3), 2), call(make(2, 3), 3, axis=1), call(make(2), 0)),
        call(make(2, 3), np.array([2, 0, 1]), axis=1),
    ],
    "reshape": lambda make: [call(make(2, 6), (3, -1)), call(make(4), shape=(2, 2), copy=True), call(make(1), ())],
    "roll": lambda make: [call(make(2, 3), 1), call(make(2, 3), (1, -2), axis=(0, 1)), call(make(5), shift=7, axis=0)],
    "squeeze": lambda make: [call(make(1, 3, 1), 0), call(make(1, 3, 1), axis=(0, -1))],
    "stack": lambda make: [call([make(2, 3), make(2, 3)]), call((make(3), make(3)), axis=-1)],
    "tile": lambda make: [call(make(2, 3), (2,)), call(make(2), (2, 1, 3)), call(make(2, 3), (0, 1))],
    "unstack": lambda make: [call(make(3, 2)), call(make(3, 2), axis=-1)],
    "argmax": _positions,
    "argmin": _positions,
    "count_nonzero": _folds,
    "nonzero": lambda make: [call(make(7)), call(make(3, 4)), call(make(0))],
    "searchsorted": lambda make: [
        call(np.sort(make(5)), make(2, 3)),
        call(np.sort(make(5)), make(4), side="right"),
        call(make(5), make(4), sorter=np.argsort(make(5))),
    ],
    "where": lambda make: [
        call(np.array([True, False, True]), make(2, 3), make(3)),
        call(np.array(False), make(2), make(2)),
        call(np.array([True, False]), make(2), 1),
    ],
    "unique_all": _sets,
    "unique_counts": _sets,
    "unique_inverse": _sets,
    "unique_values": _sets,
    "argsort": _sorts,
    "sort": _sorts,
    "cumulative_prod": _scans,
    "cumulative_sum": _scans,
    "max": lambda make: _folds(make, empty=False),
    "min": lambda make: _folds(make, empty=False),
    "mean": _folds,
    "prod": _folds,
    "std": lambda make: [*_folds(make), call(make(5), correction=1)],
    "sum": _folds,
    "var": lambda make: [*_folds(make), call(make(3, 4), axis=1, correction=0.5)],
    "all": _folds,
    "any": _folds,
    "diff": lambda make: [
        call(make(5)),
        call(make(4, 3), axis=0, n=2),
        call(make(2, 3), prepend=make(2, 1), append=make(2, 2)),
    ],
}


def calls(function: Function, dtype: str) -> list[Sample]:
    """The calls of a function with arrays of a dtype; the first one is the plainest."""
    default = _one if function.arrays == 1 else _two
    found = CALLS.get(function.name, default)(maker(dtype))
    if dtype == "bool" and function.result in ("promoted", "bool"):  # a number must be of the array's kind
        found = [c for c in found if not any(type(a) is int for a in c.args)]
    return found


def tensors(value: Any) -> Any:
    """Arrays as tensors that share their memory, also inside lists."""
    if isinstance(value, np.ndarray):
        return sm.from_numpy(value)
    if isinstance(value, list | tuple):
        return type(value)(tensors(v) for v in value)
    return value


def without_calls() -> set[str]:
    """Functions that give no arrays, or unspecified ones."""
    return {f.name for f in FUNCTIONS.values() if f.result == "none"} | {"empty", "empty_like", "conj", "imag", "real"}


def _sorted(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    return np.flip(np.sort(x, axis=axis), axis=axis) if descending else np.sort(x, axis=axis)


def _argsorted(x: Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Equal elements keep their order, also when descending: sort the reverse and read the positions backwards."""
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    size = x.shape[axis]
    return size - 1 - np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, stable=True), axis=axis)


REFERENCES: dict[str, Callable[..., Any]] = {
    "sort": _sorted,
    "argsort": _argsorted,
    "unique_values": lambda x: np.unique(x, equal_nan=False),  # in order, which NumPy's own need not be
}


def reference(name: str) -> Callable[..., Any]:
    """NumPy's function, which follows the same standard, or ours where NumPy's lacks an argument."""
    return REFERENCES.get(name) or getattr(np, name)  # type: ignore[no-any-return]
