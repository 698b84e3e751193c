"""Steps of exact programs that find elements by value and put them there, and that order, scan and look by windows.

What a function refuses (an axis too short for a window, sums of booleans) is left out of the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes
from smelt.errors import InternalError, SmeltError
from tests.property.programs import (
    Program,
    any_slice,
    elementwise,
    leaf_array,
    movement,
    numbers,
    other,
    partner,
    reduction,
    some_axes,
)

Shape = tuple[int, ...]
SIZES = (0, 1, 2, 3, 5, 9)
COMPUTED_SIZES = 0.15  # how often a size depends on values: that is computed, and compiled, as the program is built


def indices(program: Program, shape: Shape, size: int) -> sm.Tensor:
    """Integers of a shape that lie in an axis: computed from a tensor of the program, or drawn."""
    rng = program.rng
    known = [x for x in program.tensors if x.dtype.is_integer and x.shape == shape]
    if known and rng.random() < 0.6:
        x = rng.choice(known).astype(rng.choice((dtypes.int64, dtypes.int32)))
        return x % size if rng.random() < 0.7 else x.clip(-size, size - 1)
    drawn = [rng.randrange(-size, size) for _ in range(int(np.prod(shape)))]
    return sm.from_numpy(np.array(drawn, rng.choice((np.int64, np.int32, np.int16))).reshape(shape))


def index_shape(program: Program) -> Shape:
    rng = program.rng
    shapes = [x.shape for x in program.tensors if x.dtype.is_integer and x.ndim <= 2 and x.size <= 40]
    if shapes and rng.random() < 0.6:
        return rng.choice(shapes)
    return tuple(rng.choice(SIZES) for _ in range(rng.randint(0, 2)))


def along_shape(rng: random.Random, x: sm.Tensor, axis: int) -> Shape:
    """No larger than x, but along the axis."""
    return tuple(rng.choice(SIZES) if k == axis else rng.randint(0, n) for k, n in enumerate(x.shape))


def any_key(program: Program, x: sm.Tensor) -> tuple[Any, ...]:
    """Index tensors that broadcast, among slices, integers, masks and new axes."""
    rng = program.rng
    shape = index_shape(program)
    key: list[Any] = []
    for size in x.shape:
        if rng.random() < 0.1:
            key.append(None)
        kind = rng.random()
        if size and kind < 0.5:
            part = tuple(1 if rng.random() < 0.3 else n for n in shape)
            key.append(indices(program, part[rng.randint(0, len(part)) :], size))
        elif size and kind < 0.6:
            key.append(rng.randrange(-size, size))
        elif size and kind < 0.65:
            key.append(np.arange(size) == rng.randrange(size))
        else:
            key.append(any_slice(rng, size))
    if len(key) > 1 and rng.random() < 0.2:
        key[-1] = Ellipsis
    return tuple(key)


def lookup(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    axis = rng.randrange(x.ndim) if x.ndim else 0
    size = x.shape[axis] if x.ndim else 0
    kind = rng.choice(("key", "key", "take", "along", "gather", "mask", "one_hot", "searchsorted", "masked_fill"))
    match kind:
        case "take" if size:
            return kind, sm.take(x, indices(program, index_shape(program), size), axis=axis)
        case "along" if size:
            shape = tuple(rng.choice(SIZES) if k == axis else rng.choice((1, n)) for k, n in enumerate(x.shape))
            return kind, sm.take_along_axis(x, indices(program, shape, size), axis)
        case "gather" if size:
            return kind, sm.gather(x, axis, indices(program, along_shape(rng, x, axis), size))
        case "mask" if rng.random() < COMPUTED_SIZES:
            return kind, sm.masked_select(x, x if x.dtype.is_bool else x > 1)
        case "one_hot":
            return kind, sm.one_hot(x if x.dtype.is_integer else (x != 0).astype(dtypes.int8), 4)
        case "searchsorted":
            return kind, sm.searchsorted(x.flatten().sort(), partner(program, x), side=rng.choice(("left", "right")))
        case "masked_fill":
            return kind, sm.masked_fill(x, x != x.flip(), 1)
        case _:
            return kind, x[any_key(program, x)]


def update(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    axis = rng.randrange(x.ndim) if x.ndim else 0
    if x.ndim and x.shape[axis] and rng.random() < 0.4:
        shape = along_shape(rng, x, axis)
        reduce = rng.choice((None, "add", "min", "max"))
        wide = x.flip().pad([(0, max(0, m - n)) for m, n in zip(shape, x.shape, strict=True)])
        source: Any = 1 if rng.random() < 0.3 else wide
        return f"scatter {reduce}", sm.scatter(x, axis, indices(program, shape, x.shape[axis]), source, reduce=reduce)
    chosen = x.at[any_key(program, x)]
    name = rng.choice(("set", "add", "min", "max"))
    values: Any = True if x.dtype.is_bool else 1
    if rng.random() < 0.7:
        values = chosen.get()
        values = values.flip(some_axes(rng, values))
    return f"at.{name}", getattr(chosen, name)(values)


def order(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    axis = rng.randrange(x.ndim) if x.ndim else 0
    flag, computed = rng.random() < 0.5, rng.random() < COMPUTED_SIZES
    kind = rng.choice(("sort", "argsort", "topk", "nonzero", "bincount", "isin", "unique", "median"))
    match kind:
        case "topk":
            return kind, rng.choice(sm.topk(x, rng.randint(0, min(3, *x.shape, 3)), axis, largest=flag))
        case "nonzero":
            return kind, rng.choice(sm.nonzero(x, size=None if computed else rng.choice(SIZES), fill_value=-1))
        case "bincount":
            whole = x.flatten() if x.dtype.is_integer else (x.flatten() != 0).astype(dtypes.int32)
            return kind, sm.bincount(whole % 6) if computed else sm.bincount(whole, length=5)
        case "isin":
            return kind, sm.isin(x, partner(program, x), invert=flag)
        case "unique" if computed:
            return kind, rng.choice(sm.unique(x, return_index=True, return_inverse=True, return_counts=True))
        case "median" if x.size:
            return kind, sm.median(x.astype(dtypes.float32).clip(-3, 3), axis=axis)
        case _:
            return kind, (sm.argsort if kind == "argsort" else sm.sort)(x, axis=axis, descending=flag)


def running(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    name = rng.choice(("cumsum", "cummax", "cummin", "diff", "cumulative_sum"))
    options = {"include_initial": rng.random() < 0.5} if name == "cumulative_sum" else {}
    return name, getattr(sm, name)(x, axis=rng.randrange(max(1, x.ndim)), **options)


def window(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    count = rng.randint(1, 2)
    while x.ndim < count + 2:
        x = x.expand_dims(0)
    while x.ndim > count + 2:
        x = x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))
    sizes = [rng.randint(1, 3) for _ in range(count)]
    stride, dilation, padding = rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 2)
    kind = rng.choice(("conv", "max_pool", "avg_pool", "unfold", "pad", "narrow"))
    match kind:
        case "conv":
            weight = numbers(rng, dtypes.int8, (rng.randint(1, 6), x.shape[1], *sizes), True) % 4
            convolve = sm.conv1d if count == 1 else sm.conv2d
            options = {"stride": stride, "padding": padding, "dilation": dilation}
            return kind, convolve(x, sm.from_numpy(weight).astype(x.dtype), **options)
        case "max_pool":
            pool = sm.max_pool1d if count == 1 else sm.max_pool2d
            return kind, pool(x, sizes, stride=stride, padding=min(sizes) // 2, dilation=dilation)
        case "avg_pool":
            mean = sm.avg_pool1d if count == 1 else sm.avg_pool2d
            return kind, mean(x.astype(dtypes.float32).clip(-8, 8), 2, stride=stride, padding=padding % 2)
        case "pad":
            mode = rng.choice(("edge", "reflect", "wrap"))
            return f"pad {mode}", x.pad([(rng.randint(0, 1), rng.randint(0, 1)) for _ in x.shape], mode=mode)
        case "narrow":
            return kind, x.astype(rng.choice(dtypes.STORAGE[:2]) if x.dtype.is_float else dtypes.int4).astype(x.dtype)
        case _:
            return kind, sm.unfold(x, sizes, stride=stride) if count == 2 else x.unfold(-1, sizes[0], stride)


Step = Callable[[Program, sm.Tensor], tuple[str, sm.Tensor]]
STEPS: tuple[Step, ...] = (lookup, lookup, update, order, running, window, movement, elementwise, reduction, other)


def indexing_program(seed: int, steps: int) -> Program:
    """An exact program of about so many steps, most of which index."""
    rng = random.Random(seed)
    program = Program(rng, exact=True)
    for _ in range(rng.randint(1, 3)):
        dtype = rng.choice(dtypes.ALL)
        program.add(sm.from_numpy(leaf_array(rng, dtype, exact=True)), f"leaf {dtype}")
    for _ in range(steps):
        x = program.pick()
        try:
            name, result = rng.choice(STEPS)(program, x)
            program.add(result, f"{name} of {x.dtype}{list(x.shape)}")
        except InternalError:
            raise
        except SmeltError:
            continue
    return program
