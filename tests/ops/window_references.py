"""What functions of windows give, written with NumPy as loops over the places of a window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples import Array


def each(value: Any, count: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


def pairs(padding: Any, window: tuple[int, ...], gaps: tuple[int, ...]) -> list[tuple[int, int]]:
    if padding == "valid":
        return [(0, 0)] * len(window)
    if padding == "same":
        totals = [(size - 1) * gap for size, gap in zip(window, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    return [width if isinstance(width, tuple) else (width, width) for width in each(padding, len(window))]


def conv(
    x: Array, w: Array, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Array:
    count = w.ndim - 2
    if x.ndim == count + 1:
        return conv(x[None], w, b, stride, padding, dilation, groups)[0]
    window, steps, gaps = w.shape[2:], each(stride, count), each(dilation, count)
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, window, gaps)])
    sizes = [
        (extent - (size - 1) * gap - 1) // step + 1
        for extent, size, gap, step in zip(x.shape[2:], window, gaps, steps, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes), np.result_type(x, w))
    outputs, inner = w.shape[0] // groups, w.shape[1]
    for g, place in itertools.product(range(groups), itertools.product(*map(range, window))):
        cut = tuple(
            slice(k * gap, k * gap + (size - 1) * step + 1, step)
            for k, gap, size, step in zip(place, gaps, sizes, steps, strict=True)
        )
        part = x[(slice(None), slice(g * inner, (g + 1) * inner), *cut)]
        weights = w[(slice(g * outputs, (g + 1) * outputs), slice(None), *place)]
        out[:, g * outputs : (g + 1) * outputs] += np.einsum("oc,nc...->no...", weights, part)
    return out if b is None else out + b.reshape(-1, *(1,) * count)


def conv_transpose(
    x: Array,
    w: Array,
    b: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    count = w.ndim - 2
    if x.ndim == count + 1:
        return conv_transpose(x[None], w, b, stride, padding, output_padding, groups, dilation)[0]
    steps, gaps, cuts = each(stride, count), each(dilation, count), each(padding, count)
    extra = each(output_padding, count)
    whole = [
        (extent - 1) * step + (size - 1) * gap + 1 + more
        for extent, step, size, gap, more in zip(x.shape[2:], steps, w.shape[2:], gaps, extra, strict=True)
    ]
    outputs, inner = w.shape[1], w.shape[0] // groups
    out = np.zeros((x.shape[0], outputs * groups, *whole), np.result_type(x, w))
    for g, place in itertools.product(range(groups), itertools.product(*map(range, w.shape[2:]))):
        cut = tuple(
            slice(k * gap, k * gap + (extent - 1) * step + 1, step)
            for k, gap, extent, step in zip(place, gaps, x.shape[2:], steps, strict=True)
        )
        weights = w[(slice(g * inner, (g + 1) * inner), slice(None), *place)]
        part = x[:, g * inner : (g + 1) * inner]
        out[(slice(None), slice(g * outputs, (g + 1) * outputs), *cut)] += np.einsum("co,nc...->no...", weights, part)
    keep = tuple(slice(cut, size - cut) for cut, size in zip(cuts, whole, strict=True))
    out = out[(slice(None), slice(None), *keep)]
    return out if b is None else out + b.reshape(-1, *(1,) * count)


def pooled(
    fold: Callable[[Array], Any],
    x: Array,
    count: int,
    window: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    fill: Any = 0,
) -> Array:
    """A function of the elements of each window; `fill` stands for the padding."""
    sizes, gaps = each(window, count), each(dilation, count)
    steps = sizes if stride is None else each(stride, count)
    widths = pairs(padding, sizes, gaps)
    lead = x.shape[: x.ndim - count]
    numbers = []
    for extent, size, gap, step, (low, high) in zip(x.shape[len(lead) :], sizes, gaps, steps, widths, strict=True):
        room = extent + low + high - (size - 1) * gap - 1
        number = (-(-room // step) if ceil_mode else room // step) + 1
        numbers.append(number - 1 if ceil_mode and (number - 1) * step >= extent + low else number)
    grown = np.pad(
        x,
        [(0, 0)] * len(lead) + [(low, high + 2 * max(sizes) * max(gaps)) for low, high in widths],
        constant_values=fill,
    )
    out = []
    for at in itertools.product(*map(range, numbers)):
        cut = tuple(
            slice(i * step, i * step + (size - 1) * gap + 1, gap)
            for i, step, size, gap in zip(at, steps, sizes, gaps, strict=True)
        )
        out.append(fold(grown[(Ellipsis, *cut)].reshape(*lead, -1)))
    return np.stack(out, -1).reshape(*lead, *numbers) if out else np.zeros((*lead, *numbers))


def max_pool(count: int) -> Callable[..., Array]:
    def reference(x: Array, *args: Any, **kwargs: Any) -> Array:
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return pooled(lambda w: w.max(-1), x, count, *args, fill=lowest, **kwargs)

    return reference


def avg_pool(count: int) -> Callable[..., Array]:
    def reference(
        x: Array,
        window: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Array:
        total = pooled(lambda w: w.sum(-1), x, count, window, stride, padding, 1, ceil_mode)
        if divisor_override is not None:
            return total / divisor_override
        ones = np.ones(x.shape)
        if not count_include_pad:
            counts = pooled(lambda w: w.sum(-1), ones, count, window, stride, padding, 1, ceil_mode)
        else:
            widths = pairs(padding, each(window, count), (1,) * count)
            lead = [(0, 0)] * (x.ndim - count)
            padded = np.pad(ones, [*lead, *widths], constant_values=1)
            counts = pooled(lambda w: w.sum(-1), padded, count, window, stride, 0, 1, ceil_mode)
            counts = counts[(Ellipsis, *(slice(0, size) for size in total.shape[x.ndim - count :]))]
        return total / counts

    return reference


def lp_pool(count: int) -> Callable[..., Array]:
    def reference(x: Array, norm: float, *args: Any, **kwargs: Any) -> Array:
        stride = args[1] if len(args) > 1 else kwargs.get("stride")
        ceil_mode = kwargs.get("ceil_mode", False)
        fold = (lambda w: np.abs(w).max(-1)) if norm == np.inf else lambda w: (np.abs(w) ** norm).sum(-1) ** (1 / norm)
        return pooled(fold, x, count, args[0], stride, 0, 1, ceil_mode)

    return reference


def adaptive(fold: Callable[..., Any], count: int) -> Callable[..., Array]:
    def reference(x: Array, output_size: Any) -> Array:
        sizes = each(output_size, count)
        for axis, size in enumerate(sizes, x.ndim - count):
            extent = x.shape[axis]
            size = extent if size is None else size
            ends = [(i * extent // size, -(-(i + 1) * extent // size)) for i in range(size)]
            x = np.stack([fold(np.take(x, range(low, high), axis), axis) for low, high in ends], axis)
        return x

    return reference


def fractional(
    x: Array, window: Any, output_size: Any = None, output_ratio: Any = None, random_samples: Any = None
) -> Array:
    sizes = each(output_size, 2)
    if output_size is None:
        sizes = tuple(int(extent * ratio) for extent, ratio in zip(x.shape[2:], each(output_ratio, 2), strict=True))
    out = np.zeros((*x.shape[:2], *sizes), x.dtype)
    for n, c in itertools.product(range(x.shape[0]), range(x.shape[1])):
        begins = []
        for axis, (size, length) in enumerate(zip(sizes, each(window, 2), strict=True)):
            room, u = x.shape[2 + axis] - length, float(random_samples[n, c, axis])
            step = room / (size - 1) if size > 1 else 0.0
            begins.append([int((i + u) * step) - int(u * step) for i in range(size - 1)] + [room])
        for i, j in itertools.product(range(sizes[0]), range(sizes[1])):
            top, left = begins[0][i], begins[1][j]
            height, width = each(window, 2)
            out[n, c, i, j] = x[n, c, top : top + height, left : left + width].max()
    return out


def unfolded(
    x: Array, axis: Any, size: Any = None, step: int = 1, *, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Array:
    if size is not None:
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        return np.take(windows, range(0, windows.shape[axis], step), axis)
    count = len(axis) if isinstance(axis, tuple) else x.ndim - 2
    if x.ndim == count + 1:
        return unfolded(x[None], axis, dilation=dilation, padding=padding, stride=stride)[0]
    window, gaps, steps = each(axis, count), each(dilation, count), each(stride, count)
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, window, gaps)])
    rows = []
    for channel, place in itertools.product(range(x.shape[1]), itertools.product(*map(range, window))):
        cut = tuple(
            slice(k * gap, extent - (size - 1 - k) * gap, step)
            for k, gap, extent, size, step in zip(place, gaps, x.shape[2:], window, steps, strict=True)
        )
        rows.append(x[(slice(None), channel, *cut)].reshape(x.shape[0], -1))
    return np.stack(rows, 1)


def folded(x: Array, output_size: Any, window: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    if x.ndim == 2:
        return folded(x[None], output_size, window, dilation, padding, stride)[0]
    count = len(output_size)
    window, gaps, steps, cuts = (each(value, count) for value in (window, dilation, stride, padding))
    channels = x.shape[1] // math.prod(window)
    out = np.zeros(
        (x.shape[0], channels, *(size + 2 * cut for size, cut in zip(output_size, cuts, strict=True))), x.dtype
    )
    numbers = [
        (extent - (size - 1) * gap - 1) // step + 1
        for extent, size, gap, step in zip(out.shape[2:], window, gaps, steps, strict=True)
    ]
    columns = x.reshape(x.shape[0], channels, *window, *numbers)
    for place in itertools.product(*map(range, window)):
        cut = tuple(
            slice(k * gap, k * gap + (number - 1) * step + 1, step)
            for k, gap, number, step in zip(place, gaps, numbers, steps, strict=True)
        )
        out[(slice(None), slice(None), *cut)] += columns[(slice(None), slice(None), *place)]
    return out[(slice(None), slice(None), *(slice(c, c + size) for c, size in zip(cuts, output_size, strict=True)))]


def interpolated(
    x: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False
) -> Array:
    count = x.ndim - 2
    if size is None:
        factors = each(scale_factor, count)
        sizes = tuple(math.floor(extent * f) for extent, f in zip(x.shape[2:], factors, strict=True))
        scales = [1 / f for f in factors]
    else:
        sizes = each(size, count)
        scales = [extent / wanted for extent, wanted in zip(x.shape[2:], sizes, strict=True)]
    if mode == "area":
        return adaptive(np.mean, count)(x, sizes)
    for axis, (wanted, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        extent = x.shape[axis]
        i = np.arange(wanted)
        if mode == "nearest":
            x = np.take(x, np.minimum(np.floor(i * scale + 1e-9).astype(int), extent - 1), axis)
            continue
        if mode == "nearest-exact":
            x = np.take(x, np.minimum(np.floor((i + 0.5) * scale + 1e-9).astype(int), extent - 1), axis)
            continue
        source = i * ((extent - 1) / max(1, wanted - 1)) if align_corners else (i + 0.5) * scale - 0.5
        low = np.floor(source + 1e-9).astype(int)
        t = (source - low).reshape(-1, *(1,) * (x.ndim - 1 - axis))
        weights = cubic(t) if mode == "bicubic" else {0: 1 - t, 1: t}
        x = sum(np.take(x, np.clip(low + k, 0, extent - 1), axis) * w for k, w in weights.items())
    return x


def cubic(t: Array) -> dict[int, Array]:
    a = -0.75

    def weight(d: Array) -> Array:
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        return np.where(d <= 1, near, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a)

    return {k: weight(np.abs(t - k)) for k in (-1, 0, 1, 2)}
