"""Pictures of a run: curves and grids of images, as PNG files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.errors import ArgumentError, ShapeError
from smelt.formats.png import save_png
from smelt.formats.whole import PathLike
from smelt.tensor import Tensor, numpy
from smelt.train.canvas import Canvas, text_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLORS: Final = ((31, 98, 168), (214, 93, 14), (34, 136, 84), (180, 40, 60), (120, 80, 170), (100, 100, 100))
_INK: Final = (60, 60, 60)
_GRID: Final = (225, 225, 225)


def plot(
    path: PathLike,
    curves: Mapping[str, Any],
    title: str = "",
    *,
    size: tuple[int, int] = (800, 500),
    logarithmic: bool = False,
) -> None:
    """Draw curves by name, such as losses: each a list of values, or a pair of lists, steps and values.

    Values that are no numbers (NaN, infinities) make gaps. With `logarithmic` the upright axis is so, and values that
    are not positive make gaps as well.

    >>> import os, tempfile
    >>> import smelt as sm
    >>> path = os.path.join(tempfile.mkdtemp(), "loss.png")
    >>> sm.train.plot(path, {"train": [3.0, 2.0, 1.5], "test": ([0, 2], [3.1, 1.8])}, title="loss")
    """
    width, height = size
    if width < 200 or height < 120:
        raise ArgumentError(f"plot: the size is {size}", rule="at least 200 by 120 dots are needed.")
    lines = {name: _points(name, curve, logarithmic) for name, curve in curves.items()}
    xs = np.concatenate([x[np.isfinite(y)] for x, y in lines.values()] or [np.zeros(0)])
    ys = np.concatenate([y[np.isfinite(y)] for _, y in lines.values()] or [np.zeros(0)])
    if not ys.size:
        raise ArgumentError("plot: there is no finite value to draw")
    x_range, y_range = _padded(xs, 0.0), _padded(ys, 0.05)
    x_ticks, y_ticks = _ticks(*x_range), _log_ticks(*y_range) if logarithmic else _ticks(*y_range)
    left = 18 + max(text_width(label) for _, label in y_ticks)
    box = (left, 34, width - 18, height - 30)
    canvas = Canvas(width, height)

    def across(x: Any) -> Any:
        return box[0] + (x - x_range[0]) / (x_range[1] - x_range[0]) * (box[2] - box[0])

    def up(y: Any) -> Any:
        return box[3] - (y - y_range[0]) / (y_range[1] - y_range[0]) * (box[3] - box[1])

    for x, label in x_ticks:
        canvas.line([(across(x), box[1]), (across(x), box[3])], _GRID, 1.0)
        canvas.text(across(x) - text_width(label) / 2, box[3] + 8, label, _INK)
    for y, label in y_ticks:
        canvas.line([(box[0], up(y)), (box[2], up(y))], _GRID, 1.0)
        canvas.text(box[0] - 8 - text_width(label), up(y) - 5, label, _INK)
    canvas.line([(box[0], box[1]), (box[0], box[3]), (box[2], box[3])], _INK, 1.2)
    for number, (steps, values) in enumerate(lines.values()):
        for start, end in _runs(np.isfinite(values)):
            points = zip(across(steps[start:end]), up(values[start:end]), strict=True)
            canvas.line(list(points), _COLORS[number % 6], 2.0)
    canvas.text(box[0], 12, title, _INK)
    _legend(canvas, list(lines), box[2])
    save_png(path, canvas.pixels())


def _legend(canvas: Canvas, names: Sequence[str], right: float) -> None:
    """Names with their colors, at the top right, the first one leftmost."""
    for number in reversed(range(len(names))):
        right -= text_width(names[number])
        canvas.text(right, 12, names[number], _INK)
        canvas.line([(right - 22, 17), (right - 8, 17)], _COLORS[number % 6], 3.0)
        right -= 40


def _points(name: str, curve: Any, logarithmic: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Steps and values of a curve; the values of a logarithmic axis are logarithms."""
    pair = isinstance(curve, tuple) and len(curve) == 2 and np.ndim(curve[0]) == 1
    x, y = curve if pair else (None, curve)
    values = np.asarray([float(v) for v in y], np.float64)
    steps = np.arange(len(values), dtype=np.float64) if x is None else np.asarray([float(v) for v in x], np.float64)
    if len(steps) != len(values):
        raise ShapeError(f"plot: {name} has {len(steps)} steps and {len(values)} values")
    if logarithmic:
        with np.errstate(all="ignore"):
            values = np.where(values > 0, np.log10(values), np.nan)
    values = np.where(np.isfinite(steps), values, np.nan)
    return steps, values


def _padded(values: NDArray[Any], share: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = (high - low) * share or (0.0 if high > low else max(abs(high), 1.0) * 0.5)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers in a range, five or so."""
    step = 10.0 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    numbers = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(number, f"{number:.6g}") for number in numbers]


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten in a range of logarithms, or round numbers where it is narrow."""
    powers = range(math.ceil(low), math.floor(high) + 1)
    if len(powers) >= 2:
        apart = -(-len(powers) // 8)
        return [(float(power), f"1e{power}") for power in powers[::apart]]
    return [(math.log10(value), label) for value, label in _ticks(10**low, 10**high) if value > 0]


def _runs(flags: NDArray[Any]) -> list[tuple[int, int]]:
    """Where flags are True without a gap: from a number up to another."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def image_grid(path: PathLike, images: Any, columns: int | None = None, scale: int = 1, gap: int = 0) -> None:
    """Write images of shape (count, height, width), (count, 1, height, width) or (count, 3, height, width) as one
    picture, row by row: bytes, or floats from 0 to 1. Each dot becomes a square of `scale` dots; between images there
    are `gap` white ones.

    >>> import os, tempfile
    >>> import smelt as sm
    >>> path = os.path.join(tempfile.mkdtemp(), "grid.png")
    >>> sm.train.image_grid(path, sm.random.uniform((10, 8, 8)), columns=5, scale=4)
    """
    array = numpy(images) if isinstance(images, Tensor) else np.asarray(images)
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.shape[1] not in (1, 3) or 0 in array.shape:
        raise ShapeError(
            f"image_grid: the images have shape {array.shape}",
            rule="it must be (count, height, width), or (count, channels, height, width) with 1 or 3 channels.",
        )
    if scale < 1 or (columns is not None and columns < 1):
        raise ArgumentError(f"image_grid: {columns} columns, each dot {scale} wide", rule="both must be at least 1.")
    if gap < 0:
        raise ArgumentError(f"image_grid: the gap is {gap}", rule="it must not be negative.")
    count, channels, height, width = array.shape
    across = columns or math.ceil(math.sqrt(count))
    down = -(-count // across)
    white = 255 if array.dtype == np.uint8 else 1
    high, wide = height * scale + gap, width * scale + gap
    tiles = np.full((down * across, high, wide, channels), white, array.dtype)
    tiles[:count, : high - gap, : wide - gap] = array.transpose(0, 2, 3, 1).repeat(scale, 1).repeat(scale, 2)
    rows = tiles.reshape(down, across, high, wide, channels).swapaxes(1, 2)
    sheet = rows.reshape(down * high, across * wide, channels)
    save_png(path, sheet[: down * high - gap, : across * wide - gap])  # no gap at the edges
