"""Whole programs as users write them, and what NumPy says about their results.

A program is data: inputs, and steps of the table over earlier values. NumPy runs it while it is made, so that shapes
are known. It computes floats in 64 bits and keeps with every element how far from it a result may be:

- nothing, for integers, bools, and floats that no operation had to round: elements of inputs that are moved, ordered,
  compared; and sums and products of small multiples of 1/16, for which every order of summation gives the same result.
  16-bit floats are computed in wider ones and rounded once after every operation, so these are known exactly as well.
- otherwise a bound by the first-order theory of rounding: what the operands' bounds become, plus some units in the last
  place of the result, plus one for every element of a sum. Steps that jump (comparisons, orders as integers, floors)
  are not asked about such values, and elements close to the end of a float's range are not compared.

NaN and infinities are NumPy's: the minimum, the maximum and sums with a NaN are NaN, sorting puts NaN last, `argmax`
finds the first. Zeros are equal whatever their sign. Casts from float to integer are smelt's own: they saturate.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hunt.spaces import DTYPES, FLOATS, FLOATS16, NUMPY, UNSIGNED
from tests.hunt.table import STEPS, Draw, Unfit, kind

Array = NDArray[Any]

SIZES = (*(0, 33, 65), *(1, 2, 3, 5, 7, 16, 17) * 3)
MOST_ELEMENTS = 2000
MOST_STEPS = 8
LARGEST = 500.0
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
RANGE = {"float64": 1e308, "float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}
SMALLEST = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf)


@dataclass(frozen=True)
class Value:
    """What NumPy knows of a value: floats in 64 bits, rounded to the dtype, and how far from them one may be."""

    dtype: str
    array: Array
    error: Array | float = 0.0

    @property
    def exact(self) -> bool:
        return not np.any(self.error)


@dataclass(frozen=True)
class Step:
    name: str
    operands: tuple[int, ...]
    parameters: dict[str, Any]

    def __str__(self) -> str:
        values = [f"v{k}" for k in self.operands] + [f"{key}={value!r}" for key, value in self.parameters.items()]
        return f"{self.name}({', '.join(values)})"

    def run(self, xp: Any, values: Sequence[Any]) -> Any:
        return STEPS[self.name].run(xp, *[values[k] for k in self.operands], **self.parameters)


Input = tuple[str, tuple[int, ...], str]  # dtype, shape, style: "whole", "special", "wide" or "real"


@dataclass(frozen=True)
class Program:
    """Inputs, and steps over them; the values that no step uses are its results."""

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    slopes: bool = False  # to be differentiated: all values are finite

    def values(self, draw: int) -> list[Value]:
        """Inputs of the same kind, other values for each draw."""
        return [_numbers(np.random.default_rng((self.seed, draw, k)), *one) for k, one in enumerate(self.inputs)]

    def results(self, xp: Any, inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs)
        for step in self.steps:
            values.append(step.run(xp, values))
        return [values[k] for k in self.outputs()]

    def trail(self, inputs: Sequence[Value]) -> list[Value]:
        """All values, by NumPy. Unfit, if these inputs lead to where it does not know."""
        values = list(inputs)
        for step in self.steps:
            value = _judged(step, values)
            if not _is_sound(value, self.slopes):
                raise Unfit
            values.append(value)
        return values

    def expected(self, inputs: Sequence[Value]) -> list[Value]:
        """The results, by NumPy."""
        values = self.trail(inputs)
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

    def resized(self, old: int, new: int) -> Program:
        """The same text over inputs in which every size `old` is another one."""
        inputs = [(dtype, tuple(new if n == old else n for n in shape), style) for dtype, shape, style in self.inputs]
        return replace(self, inputs=tuple(inputs))

    @property
    def eager(self) -> bool:
        return any(STEPS[step.name].eager for step in self.steps)

    def __str__(self) -> str:
        lines = [f"v{k} = {dtype}{list(shape)}, {style}" for k, (dtype, shape, style) in enumerate(self.inputs)]
        lines += [f"v{len(self.inputs) + k} = {step}" for k, step in enumerate(self.steps)]
        return "\n".join(lines)


def native(value: Value) -> Array:
    """A value as an array of its own dtype."""
    return np.asarray(value.array, dtype=value.dtype)


def _numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], style: str) -> Value:
    if dtype == "bool":
        return Value(dtype, rng.random(shape) < 0.5)
    if dtype not in FLOATS:
        info = np.iinfo(dtype)
        values = rng.integers(0 if dtype in UNSIGNED else -9, 10, shape)
        ends = np.where(rng.random(shape) < 0.5, info.min, info.max).astype(dtype)
        return Value(dtype, np.where(rng.random(shape) < 0.05, ends, values.astype(dtype)))
    if style == "real":
        return Value(dtype, _rounded(rng.normal(size=shape) * 2, dtype))
    values = rng.integers(-9, 10, shape).astype(np.float64)
    if style in ("special", "wide"):
        ends = (RANGE[dtype], -RANGE[dtype], 1.5 * SMALLEST[dtype], SMALLEST[dtype] * 3) if style == "wide" else ()
        values = np.where(rng.random(shape) < 0.1, rng.choice((*SPECIAL, *ends), shape), values)
    return Value(dtype, _rounded(values, dtype))


def _rounded(values: Array, dtype: str) -> Array:
    with np.errstate(all="ignore"):
        return values.astype(dtype).astype(np.float64)


# --- the judge


def _judged(step: Step, values: Sequence[Value]) -> Value:
    """The result of a step, and how far from it one may be."""
    row, operands = STEPS[step.name], [values[k] for k in step.operands]
    floats = [v for v in operands if v.dtype in FLOATS]
    exact = all(v.exact for v in floats)
    if row.mixes and floats:
        dtype = _promoted([v.dtype for v in floats])
        operands = [v if v.dtype in FLOATS else Value(dtype, _rounded(v.array, dtype)) for v in operands]
    if row.jumps and not exact:
        raise Unfit

    def run(arrays: Sequence[Any]) -> Array:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                return np.asarray(row.run(NUMPY, *arrays, **step.parameters))
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise Unfit from error

    found = run([v.array for v in operands])
    if found.size > MOST_ELEMENTS or found.ndim > 5 or found.dtype.kind not in "biuf":
        raise Unfit
    if found.dtype.kind != "f":
        return Value(str(found.dtype), found)
    if any(v.array.dtype.kind in "iu" and np.any(np.abs(v.array.astype(float)) > 2**15) for v in operands):
        exact = False  # as floats, large integers are rounded
    dtype = str(step.parameters.get("dtype") or _promoted([v.dtype for v in floats]))
    if row.several and (dtype in FLOATS16 or any(v.dtype in FLOATS16 for v in floats)):
        raise Unfit
    result = _rounded(found, dtype)
    most = run([_sizes(v) for v in operands]) if row.errors == "sums" else found
    plain = _is_plain(found) and all(_is_plain(x, 2.0**15) for x in (most, *(v.array for v in floats)))
    if exact and (not row.rounds or (plain and not row.curved and "prod" not in step.name)):
        return Value(dtype, result)
    with np.errstate(all="ignore"):
        unit = UNIT[dtype]
        error = _carried(row.errors, run, operands, found, most)
        error = error + (2 if dtype in FLOATS16 else 8) * unit * np.abs(found) + SMALLEST[dtype]
        if isinstance(row.errors, float):
            largest = max(np.max(np.abs(v.array[np.isfinite(v.array)]), initial=0.0) for v in floats)
            error = error + 8 * min(unit, UNIT["float32"]) * row.errors * largest
        if row.errors == "sums":
            error = error + max(v.array.size for v in operands) * min(unit, UNIT["float32"]) * np.abs(most)
        if row.several:  # numbers on the way may be larger than the result
            error = error + 8 * unit * (1 + np.abs(found))
        if "prod" in step.name:  # a product may leave the range on its way, and come back by another one
            size = np.abs(operands[0].array)
            ends = run([np.maximum(size, 1)]), run([np.where(size == 0, 1, np.minimum(size, 1))])
            error = np.where((ends[0] > RANGE[dtype]) | (ends[1] < SMALLEST[dtype] / unit), np.inf, error)
    return Value(dtype, result, np.where(np.isfinite(error), error, np.inf))


def _carried(errors: Any, run: Any, operands: Sequence[Value], found: Array, most: Array) -> Array:
    """What becomes of the operands' errors."""
    uncertain = [k for k, v in enumerate(operands) if not v.exact]
    if not uncertain:
        return np.zeros_like(found)
    if errors == "sums":
        larger = [_sizes(v) + (v.error if k in uncertain else 0) for k, v in enumerate(operands)]
        return np.abs(run(larger) - most)
    if errors != "corners":
        return np.full_like(found, errors * max(np.max(operands[k].error, initial=0.0) for k in uncertain))
    carried = np.zeros_like(found)
    for signs in itertools.product((-1, 1), repeat=len(uncertain)):
        arrays = [v.array for v in operands]
        for k, sign in zip(uncertain, signs, strict=True):
            arrays[k] = arrays[k] + sign * np.asarray(operands[k].error)
        moved = np.abs(run(arrays) - found)
        carried = np.maximum(carried, np.where(np.isnan(moved), np.inf, moved))
    return 2 * carried


def _sizes(value: Value) -> Array:
    """Without signs; as floats, since the smallest integer has no absolute value."""
    return np.abs(value.array.astype(np.float64))


def _is_plain(values: Array, largest: float = LARGEST) -> bool:
    """Whether all are small multiples of 1/16, or not finite."""
    finite = values[np.isfinite(values)]
    return bool(np.all(np.abs(finite) <= largest) and np.all(finite * 16 == np.round(finite * 16)))


def _promoted(dtypes: Sequence[str]) -> str:
    """The dtype of a float result."""
    if "float64" in dtypes:
        return "float64"
    return dtypes[0] if len(set(dtypes)) == 1 else "float32"


def disagreement(found: Any, value: Value) -> str | None:
    """What is wrong with a result; None if nothing is."""
    found = np.asarray(found)
    if found.shape != value.array.shape:
        return f"shape {found.shape}, expected {value.array.shape}"
    if str(found.dtype) != value.dtype:
        return f"dtype {found.dtype}, expected {value.dtype}"
    if value.dtype not in FLOATS:
        wrong = found != value.array
    else:
        found, error = found.astype(np.float64), np.broadcast_to(value.error, found.shape)
        near_end = (error > 0) & ~(np.abs(value.array) + error < RANGE[value.dtype] / 2)
        with np.errstate(all="ignore"):
            same = (found == value.array) | (np.isnan(found) & np.isnan(value.array))
            wrong = ~(same | near_end | (np.abs(found - value.array) <= 2 * error))
    if not np.any(wrong):
        return None
    first = tuple(int(k) for k in np.argwhere(wrong)[0])
    bound = np.broadcast_to(value.error, found.shape)[first]
    return (
        f"{value.dtype}{list(found.shape)}: {int(np.sum(wrong))} elements differ, first at {first}: "
        f"{found[first]}, expected {value.array[first]} ± {2 * bound:.3g}\n{found}\nexpected\n{value.array}"
    )


# --- making programs


def made(seed: int, slopes: bool = False) -> Program:
    """A random program; one to be differentiated has floats that are no ties."""
    rng = random.Random(seed)
    style = rng.choice(("whole", "whole", "whole", "special", "wide", "real"))
    dtypes: Sequence[str] = (*FLOATS, *FLOATS, *DTYPES)
    if slopes:
        style, dtypes = "real", ("float64", "float64", "float64", "float32", *FLOATS16, "int32", "bool")
    inputs: list[Input] = []
    for _ in range(rng.randint(1, 3)):
        shape = [rng.choice(SIZES) for _ in range(rng.randint(0, 4))]
        while np.prod(shape, dtype=int) > 1200:
            shape.pop()
        # Sizes that occur before let operands fit.
        known = [n for _, sizes, _ in inputs for n in sizes]
        shape = [rng.choice(known) if known and rng.random() < 0.5 else n for n in shape]
        while np.prod(shape, dtype=int) > 1200:
            shape.pop()
        dtype = inputs[0][0] if inputs and rng.random() < 0.5 else rng.choice(dtypes)
        inputs.append((dtype, tuple(shape), style))
    program = Program(seed, tuple(inputs), (), slopes)
    values = program.values(0)
    for _ in range(60):
        if len(program.steps) == MOST_STEPS:
            break
        x = rng.randrange(len(values)) if rng.random() < 0.5 else len(values) - 1
        name = rng.choice(list(STEPS))
        row = STEPS[name]
        if kind(values[x].dtype) not in row.takes or (slopes and (row.eager or not row.slopes)):
            continue
        try:
            draw = Draw(rng, [v.dtype for v in values], [v.array.shape for v in values], x, style in ("whole", "real"))
            step = Step(name, *row.draw(draw))
            if slopes and row.kinks and any(values[k].dtype in FLOATS16 and not values[k].exact for k in step.operands):
                continue
            value = _judged(step, values)
        except (Unfit, ValueError, IndexError):
            continue
        if not _is_sound(value, slopes):
            continue
        values.append(value)
        program = replace(program, steps=(*program.steps, step))
    return program if program.steps else made(seed + 1_000_000_007, slopes)


def _is_sound(value: Value, finite: bool) -> bool:
    """Whether a value is worth going on with: not too large, and known well."""
    if value.dtype not in FLOATS:
        return True
    if finite and not np.all(np.isfinite(value.array)):
        return False
    finite = np.isfinite(value.array)
    if not value.exact and np.any(np.abs(value.array[finite]) > LARGEST):
        return False
    error = np.broadcast_to(value.error, value.array.shape)[finite]
    return bool(np.all(error <= (0.1 if value.dtype in FLOATS16 else 1e-3) * (1 + np.abs(value.array[finite]))))
