"""The cases of the ops suite: for each, the inputs, what smelt runs, and the ways in which NumPy can do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import smelt as sm

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Way = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """`ways` are NumPy's, by name, the best of which counts; `flops` is for work that has a peak to be measured by."""

    summary: str
    inputs: Callable[[bool], list[Array]]  # smaller ones for a quick look
    smelt: Way
    ways: dict[str, Way]
    jit: bool = True
    flops: float = 0.0


def _floats(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _rows(quick: bool) -> tuple[Array, Array, Array]:
    rows, count = (1000, 10_000) if quick else (100_000, 1_000_000)
    ids = np.random.default_rng(1).integers(0, rows, count)
    return _floats(rows, 64), ids, _floats(count, 64)


def _size(quick: bool, full: int) -> int:
    return full // 64 if quick else full


def _side(quick: bool) -> int:
    return 128 if quick else 4096


def _recycled(function: Way) -> Way:
    """The same into memory that was used before, which costs no fresh pages."""
    kept: list[Array] = []

    def way(*inputs: Array) -> Array:
        if not kept:
            kept.append(function(*inputs, None))
        return function(*inputs, kept[0])  # type: ignore[no-any-return]

    return way


def _rows_added(x: Array, out: Array | None) -> Array:
    """The sums down the columns, a row at a time."""
    result = np.empty_like(x) if out is None else out
    result[0] = x[0]
    for before, row, after in zip(result, x[1:], result[1:], strict=False):
        np.add(before, row, out=after)
    return result


def _top(x: Array) -> tuple[Array, Array]:
    found = np.argpartition(x, -100)[-100:]
    order = np.argsort(-x[found], kind="stable")
    return x[found][order], found[order]


def _add_sorted(table: Array, ids: Array, updates: Array) -> Array:
    order = np.argsort(ids, kind="stable")
    places, starts = np.unique(ids[order], return_index=True)
    result = table.copy()
    result[places] += np.add.reduceat(updates[order], starts, axis=0)
    return result


def _add_at(table: Array, ids: Array, updates: Array) -> Array:
    result = table.copy()
    np.add.at(result, ids, updates)
    return result


def _add_columns(table: Array, ids: Array, updates: Array) -> Array:
    result = table.copy()
    for k in range(table.shape[1]):
        result[:, k] += np.bincount(ids, updates[:, k], len(table))
    return result


def _images(quick: bool) -> Array:
    return _floats(1, 8, 56, 56) if quick else _floats(64, 64, 56, 56)


def _convolved(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def _convolved_by_offset(x: Array, w: Array) -> Array:
    """Nine matrix products, which need no copy of all windows."""
    n, c, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    result = np.zeros((n, len(w), height * width), np.float32)
    for i in range(3):
        for j in range(3):
            part = np.ascontiguousarray(padded[:, :, i : i + height, j : j + width]).reshape(n, c, -1)
            result += w[:, :, i, j] @ part
    return result.reshape(n, len(w), height, width)


def _pooled_windows(x: Array) -> Array:
    result: Array = sliding_window_view(x, (2, 2), axis=(2, 3))[:, :, ::2, ::2].max((4, 5))
    return result


def _pooled_slices(x: Array, out: Array | None = None) -> Array:
    result = np.maximum(x[:, :, ::2, ::2], x[:, :, ::2, 1::2], out=out)
    np.maximum(result, x[:, :, 1::2, ::2], out=result)
    return np.maximum(result, x[:, :, 1::2, 1::2], out=result)


CASES: dict[str, Case] = {
    "sort": Case(
        "sort 1M floats",
        lambda quick: [_floats(_size(quick, 1 << 20))],
        lambda x: sm.sort(x, axis=0),
        {"np.sort": np.sort},
    ),
    "topk": Case(
        "the 100 largest of 1M floats, with their places",
        lambda quick: [_floats(_size(quick, 1 << 20))],
        lambda x: sm.topk(x, 100),
        {"argpartition": _top},
    ),
    "cumsum rows": Case(
        "cumsum along axis 1 of 4096²",
        lambda quick: [_floats(_side(quick), _side(quick))],
        lambda x: sm.cumsum(x, axis=1),
        {
            "np.cumsum": lambda x: np.cumsum(x, 1),
            "np.cumsum, recycled": _recycled(lambda x, out: np.cumsum(x, 1, out=out)),
        },
    ),
    "cumsum columns": Case(
        "cumsum along axis 0 of 4096²",
        lambda quick: [_floats(_side(quick), _side(quick))],
        lambda x: sm.cumsum(x, axis=0),
        {"np.cumsum": lambda x: np.cumsum(x, 0), "rows added, recycled": _recycled(_rows_added)},
    ),
    "gather": Case(
        "1M rows of 64 from a table of 100k",
        lambda quick: list(_rows(quick)[:2]),
        lambda table, ids: sm.take(table, ids, axis=0),
        {
            "np.take": lambda table, ids: np.take(table, ids, 0),
            "x[ids]": lambda table, ids: table[ids],
            # Only so does it write into the given memory at once.
            "np.take, clipped, recycled": _recycled(lambda table, ids, out: np.take(table, ids, 0, out, "clip")),
        },
    ),
    "scatter": Case(
        "add 1M rows of 64 into a table of 100k",
        lambda quick: list(_rows(quick)),
        lambda table, ids, updates: table.at[ids].add(updates),
        {"np.add.at": _add_at, "sort and reduceat": _add_sorted, "bincount by column": _add_columns},
    ),
    "mask": Case(
        "x[mask], 16M floats, half of them taken",
        lambda quick: [_floats(_size(quick, 1 << 24)), _floats(_size(quick, 1 << 24)) > 0],
        lambda x, mask: x[mask],
        {"x[mask]": lambda x, mask: x[mask], "flatnonzero": lambda x, mask: x[np.flatnonzero(mask)]},
        jit=False,
    ),
    "conv2d": Case(
        "convolution 64×64×56×56, 3×3",
        lambda quick: [_images(quick), _floats(64, 8 if quick else 64, 3, 3)],
        lambda x, w: sm.conv2d(x, w, padding=1),
        {"windows and tensordot": _convolved, "nine products": _convolved_by_offset},
        flops=2.0 * 64 * 56 * 56 * 64 * 64 * 9,
    ),
    "max-pool": Case(
        "max-pool 64×64×56×56, 2×2",
        lambda quick: [_images(quick)],
        lambda x: sm.max_pool2d(x, 2),
        {"slices": _pooled_slices, "slices, recycled": _recycled(_pooled_slices), "windows": _pooled_windows},
    ),
}
