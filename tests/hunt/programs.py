"""Whole programs as users write them, for any namespace of the array API: NumPy computes what smelt must give.

A program is data: inputs, and steps of the table below over earlier values. NumPy runs it while it is made, so that
shapes are known and values stay small whole numbers, for which every order of summation gives the same result.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SIZES = (0, 1, 1, 2, 3, 5, 7, 16, 17)
MOST_ELEMENTS = 2000
LARGEST = 1000.0  # of floats; integers wrap
FLOATS, INTEGERS = ("float32", "float64"), ("int8", "uint8", "int16", "int32", "int64")
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"))


@dataclass(frozen=True)
class Step:
    name: str
    operands: tuple[int, ...]
    parameters: dict[str, Any]

    def __str__(self) -> str:
        values = [f"v{k}" for k in self.operands] + [f"{key}={value!r}" for key, value in self.parameters.items()]
        return f"{self.name}({', '.join(values)})"


@dataclass(frozen=True)
class Program:
    """Inputs by dtype and shape, and steps over them; the values that no step uses are its results."""

    seed: int
    inputs: tuple[tuple[str, tuple[int, ...], bool], ...]  # dtype, shape, whether NaN and infinities may occur
    steps: tuple[Step, ...]

    def arrays(self, draw: int) -> list[Array]:
        """Inputs of the same kind, other values for each draw."""
        return [_numbers(np.random.default_rng((self.seed, draw, k)), *one) for k, one in enumerate(self.inputs)]

    def results(self, xp: Any, inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs)
        for step in self.steps:
            values.append(STEPS[step.name](xp, *[values[k] for k in step.operands], **step.parameters))
        return [values[k] for k in self.outputs()]

    def outputs(self) -> list[int]:
        used = {k for step in self.steps for k in step.operands}
        return [k for k in range(len(self.inputs), len(self.inputs) + len(self.steps)) if k not in used]

    def without(self, number: int) -> Program:
        """Less one step that nothing uses."""
        value = len(self.inputs) + number

        def moved(step: Step) -> Step:
            return replace(step, operands=tuple(k - (k > value) for k in step.operands))

        return replace(self, steps=(*self.steps[:number], *map(moved, self.steps[number + 1 :])))

    def __str__(self) -> str:
        lines = [f"v{k} = {dtype}{list(shape)}" for k, (dtype, shape, _) in enumerate(self.inputs)]
        lines += [f"v{len(self.inputs) + k} = {step}" for k, step in enumerate(self.steps)]
        return "\n".join(lines)


def _numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], special: bool) -> Array:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTEGERS:
        low = 0 if dtype == "uint8" else -9
        values = rng.integers(low, 10, shape)
        ends = np.where(rng.random(shape) < 0.5, np.iinfo(dtype).min, np.iinfo(dtype).max)
        return np.where(rng.random(shape) < 0.05, ends, values).astype(dtype)
    floats = rng.integers(-9, 10, shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), floats).astype(dtype) if special else floats


# --- steps: the same text for every namespace


def _gather(xp: Any, x: Any, i: Any, *, axis: int) -> Any:
    return xp.take(x, xp.remainder(i, xp.asarray(x.shape[axis], dtype=i.dtype)), axis=axis)


def _normalized(xp: Any, x: Any, *, axis: int) -> Any:
    return x - xp.max(x, axis=axis, keepdims=True)


def _chosen(xp: Any, x: Any, *, axis: int) -> Any:
    return xp.take_along_axis(x, xp.argsort(x, axis=axis, stable=True), axis=axis)


def _indexed(xp: Any, x: Any, *, key: tuple[Any, ...]) -> Any:
    return x[key]


def _called(name: str, xp: Any, *values: Any, **parameters: Any) -> Any:
    return getattr(xp, name)(*values, **parameters)


_UNARY = ("abs", "negative", "square", "sign")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "greater_equal", "not_equal")
_REDUCTIONS = ("sum", "max", "min", "any", "all")

STEPS: dict[str, Callable[..., Any]] = {
    **{name: functools.partial(_called, name) for name in _UNARY + _BINARY + _REDUCTIONS},
    "plus": lambda xp, x, number: x + number,
    "times": lambda xp, x, number: number * x,
    "where": lambda xp, c, x, y: xp.where(xp.astype(c, xp.bool), x, y),
    "clip": lambda xp, x, low, high: xp.clip(x, low, high),
    "astype": lambda xp, x, dtype: xp.astype(x, getattr(xp, dtype)),
    "reshape": lambda xp, x, shape: xp.reshape(x, shape),
    "permute": lambda xp, x, axes: xp.permute_dims(x, axes),
    "expand": lambda xp, x, axis: xp.expand_dims(x, axis=axis),
    "flip": lambda xp, x, axis: xp.flip(x, axis=axis),
    "roll": lambda xp, x, shift, axis: xp.roll(x, shift, axis=axis),
    "concat": lambda xp, x, y, axis: xp.concat([x, y], axis=axis),
    "stack": lambda xp, x, y, axis: xp.stack([x, y], axis=axis),
    "broadcast": lambda xp, x, shape: xp.broadcast_to(x, shape),
    "tril": lambda xp, x, k: xp.tril(x, k=k),
    "matmul": lambda xp, x, y: xp.matmul(x, y),
    "sort": lambda xp, x, axis, descending: (
        xp.flip(xp.sort(x, axis=axis), axis=axis) if descending else xp.sort(x, axis=axis)
    ),
    "argsort": lambda xp, x, axis: xp.argsort(x, axis=axis, stable=True),
    "argmax": lambda xp, x, axis: xp.argmax(x, axis=axis),
    "cumsum": lambda xp, x, axis: xp.cumulative_sum(x, axis=axis),
    "gather": _gather,
    "normalized": _normalized,
    "chosen": _chosen,
    "index": _indexed,
    "repeat": lambda xp, x, count, axis: xp.repeat(x, count, axis=axis),
}


# --- making programs


def made(seed: int) -> Program:
    """A random program."""
    rng = random.Random(seed)
    special = rng.random() < 0.2
    inputs = []
    for _ in range(rng.randint(1, 3)):
        shape = [rng.choice(SIZES) for _ in range(rng.randint(0, 4))]
        while np.prod(shape, dtype=int) > 300:
            shape.pop()
        inputs.append((rng.choice((*FLOATS, *FLOATS, *INTEGERS, "bool")), tuple(shape), special))
    program = Program(seed, tuple(inputs), ())
    values = program.arrays(0)
    for _ in range(40):
        if len(program.steps) == 8:
            break
        x = rng.randrange(len(values)) if rng.random() < 0.5 else len(values) - 1
        step = _step(rng, values, x, special)
        if step is None:
            continue
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(STEPS[step.name](np, *[values[k] for k in step.operands], **step.parameters))
        except (ValueError, TypeError, IndexError):
            continue
        if value.size > MOST_ELEMENTS or value.ndim > 5 or not _stays_exact(step, value):
            continue
        values.append(value)
        program = replace(program, steps=(*program.steps, step))
    return program if program.steps else made(seed + 1_000_000_007)


def _stays_exact(step: Step, value: Array) -> bool:
    if value.dtype.kind != "f":
        return value.dtype.kind in "biu"
    finite = np.abs(value[np.isfinite(value)])
    return not finite.size or bool(finite.max() <= LARGEST)


def _step(rng: random.Random, values: list[Array], x: int, special: bool) -> Step | None:
    array = values[x]
    name = rng.choice(list(STEPS))
    axis = rng.randrange(-array.ndim, array.ndim) if array.ndim else None
    same = [k for k, one in enumerate(values) if one.dtype == array.dtype]
    y = rng.choice(same)
    integers = [k for k, one in enumerate(values) if one.dtype.kind == "i" and one.ndim == 1 and one.size]
    is_bool, is_float = array.dtype == bool, array.dtype.kind == "f"
    match name:
        case "abs" | "negative" | "square" | "sign":
            return None if is_bool or (name == "negative" and array.dtype.kind == "u") else Step(name, (x,), {})
        case "add" | "subtract" | "multiply" | "maximum" | "minimum" | "less" | "greater_equal":
            return None if is_bool else Step(name, (x, y), {})
        case "equal" | "not_equal":
            return Step(name, (x, y), {})
        case "sum" | "max" | "min" | "any" | "all":
            if is_bool != (name in ("any", "all")) or (name in ("max", "min") and array.size == 0):
                return None
            return Step(name, (x,), {"axis": rng.choice((axis, None)), "keepdims": rng.random() < 0.5})
        case "plus" | "times":
            number = rng.choice((0, 1, 2, -1, 3)) if not is_float else rng.choice((0.5, 2, -1.0, 0))
            return None if is_bool or (array.dtype.kind == "u" and number < 0) else Step(name, (x,), {"number": number})
        case "where":
            return Step(name, (rng.randrange(len(values)), x, y), {})
        case "clip":
            return None if is_bool else Step(name, (x,), {"low": 0, "high": rng.choice((1, 5))})
        case "astype":
            # Smelt saturates where NumPy leaves to the processor what becomes of a float that does not fit.
            wanted = rng.choice((*FLOATS, "int32", "int64", "bool") if is_float else (*FLOATS, *INTEGERS, "bool"))
            fits = not (is_float and special) or wanted in FLOATS
            return Step(name, (x,), {"dtype": wanted}) if fits else None
        case "reshape":
            return Step(
                name, (x,), {"shape": rng.choice(((-1,), (array.size,), (1, -1), tuple(reversed(array.shape))))}
            )
        case "permute":
            return Step(name, (x,), {"axes": tuple(rng.sample(range(array.ndim), array.ndim))})
        case "expand":
            return Step(name, (x,), {"axis": rng.randint(0, array.ndim)})
        case "broadcast":
            return Step(name, (x,), {"shape": (rng.choice((1, 2, 3)), *array.shape)})
        case "tril":
            return Step(name, (x,), {"k": rng.randint(-2, 2)}) if array.ndim > 1 else None
        case "matmul":
            return None if is_bool else Step(name, (x, y), {})
        case "index":
            return Step(name, (x,), {"key": _key(rng, array)})
        case "gather":
            fits = axis is not None and integers and array.shape[axis]
            return Step(name, (x, rng.choice(integers)), {"axis": axis}) if fits else None
    if axis is None:
        return None
    match name:
        case "flip" | "cumsum":
            return None if name == "cumsum" and is_bool else Step(name, (x,), {"axis": axis})
        case "argsort" | "chosen" | "argmax" | "normalized":
            return None if is_bool or not array.shape[axis] else Step(name, (x,), {"axis": axis})
        case "roll":
            return Step(name, (x,), {"shift": rng.randint(-5, 5), "axis": axis})
        case "concat" | "stack":
            return Step(name, (x, y), {"axis": axis})
        case "sort":
            return None if is_bool else Step(name, (x,), {"axis": axis, "descending": rng.random() < 0.5})
        case "repeat":
            return Step(name, (x,), {"count": rng.randint(0, 3), "axis": axis})
    raise AssertionError(name)


def _key(rng: random.Random, array: Array) -> tuple[Any, ...]:
    key: list[Any] = []
    for size in array.shape:
        kind = rng.random()
        if kind < 0.1:
            key.append(None)
        if size and kind < 0.4:
            key.append(rng.randrange(-size, size))
        else:
            ends = [None, *range(-size - 1, size + 2)]
            key.append(slice(rng.choice(ends), rng.choice(ends), rng.choice((None, 1, 2, -1, -3))))
    return tuple(key) if rng.random() < 0.8 else (*key[: len(key) // 2], Ellipsis)
