"""Random differentiable programs as data: steps over earlier values, which any namespace of the table can evaluate.

A program is made while the reference computes its values, so that they stay near one and no comparison is a near tie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from tests.peers.ops import BINARY, OPS, REDUCTIONS, SCANS, UNARY, written
from tests.property.programs import evaluated

Array = NDArray[Any]
Shape = tuple[int, ...]
T = TypeVar("T")

SIZES = (1, 1, 2, 3, 5, 7)
MOST_ELEMENTS = 400
MOST_AXES = 4
LARGEST = 3.0  # larger values go through tanh
SMALLEST_GAP = 1e-6  # of values that are compared: rounding must not decide

EQUATIONS = {
    1: ("i,i->", "i,j->ij", "i,ij->j", "i->"),
    2: ("ij,jk->ik", "ij,kj->ki", "ij->ji", "ij->j", "ij,ij->i", "ij,j,jk->k", "ij,kl->ljki"),
    3: ("bij,bjk->bik", "ijk,kl->ijl", "bij,bij->b", "ijk->kj", "bij,bkj->bik"),
    4: ("bhij,bhjk->bhik", "abcd,cd->ba", "abcd->dbca", "bihd,bjhd->bhij"),
}


@dataclass(frozen=True)
class Step:
    op: str
    operands: tuple[int, ...]  # numbers of values; the inputs are the first
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Program:
    """Inputs and steps; its outputs are the values that no step uses."""

    seed: int
    inputs: tuple[Array, ...]
    steps: tuple[Step, ...]
    shapes: tuple[Shape, ...]  # of all values

    def values(self, xp: Any, inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs)
        for step in self.steps:
            values.append(OPS[step.op](xp, *(values[k] for k in step.operands), **step.parameters))
        return values

    def unused(self) -> list[int]:
        used = {k for step in self.steps for k in step.operands}
        return [k for k in range(len(self.shapes)) if k not in used]

    def outputs(self, xp: Any, *inputs: Any) -> tuple[Any, ...]:
        values = self.values(xp, inputs)
        return tuple(values[k] for k in self.unused())

    def total(self, xp: Any, *inputs: Any) -> Any:
        """All outputs as one number: every element counts, each differently."""
        outputs = self.outputs(xp, *inputs)
        weights = (drawn(self.seed, k, self.shapes[k], 0.5, 1.5) for k in self.unused())
        return sum((xp.sum(y * xp.asarray(w)) for y, w in zip(outputs, weights, strict=True)), start=0.0)

    def shortened(self, count: int) -> Program:
        """The first steps only."""
        return replace(self, steps=self.steps[:count], shapes=self.shapes[: len(self.inputs) + count])

    def without(self, number: int) -> Program:
        """Less one of the unused values."""
        assert number in self.unused() and number >= len(self.inputs)

        def moved(step: Step) -> Step:
            return replace(step, operands=tuple(k - (k > number) for k in step.operands))

        at = number - len(self.inputs)
        steps = (*self.steps[:at], *map(moved, self.steps[at + 1 :]))
        return replace(self, steps=steps, shapes=(*self.shapes[:number], *self.shapes[number + 1 :]))

    def __str__(self) -> str:
        lines = [f"v{k} = input  # {self.shapes[k]}" for k in range(len(self.inputs))]
        for number, step in enumerate(self.steps, len(self.inputs)):
            operands = [f"v{k}" for k in step.operands]
            parameters = [f"{name}={written(value)}" for name, value in step.parameters.items()]
            lines.append(f"v{number} = {step.op}({', '.join(operands + parameters)})  # {self.shapes[number]}")
        return "\n".join(lines)


def drawn(seed: int, number: int, shape: Shape, low: float, high: float) -> Array:
    """Numbers that depend on nothing but the arguments."""
    return np.asarray(np.random.default_rng((seed, number)).uniform(low, high, shape))


class Refused(Exception):
    """A step that the program does without: too large, empty, or undecided."""


@dataclass
class Builder:
    rng: np.random.Generator
    values: list[Array] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(self, op: str, *operands: int, **parameters: Any) -> int:
        """Take a step, and the number of its value."""
        arrays = [self.values[k] for k in operands]
        if op == "where" and np.abs(arrays[0] - arrays[1]).min() < SMALLEST_GAP:
            raise Refused
        value = evaluated(OPS[op](sm, *map(sm.from_numpy, arrays), **parameters))
        if not 0 < value.size <= MOST_ELEMENTS or value.ndim > MOST_AXES:
            raise Refused
        assert np.isfinite(value).all(), f"{op} of {arrays} with {parameters}"
        self.values.append(value)
        self.steps.append(Step(op, operands, parameters))
        if np.abs(value).max() > LARGEST:
            return self.add("tanh", len(self.values) - 1)
        return len(self.values) - 1

    def shape(self, x: int) -> Shape:
        return self.values[x].shape

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def one_of(self, choices: Iterable[T]) -> T:
        listed = list(choices)
        if not listed:
            raise Refused
        return listed[self.number(0, len(listed) - 1)]

    def pick(self) -> int:
        """A value, more likely a late one."""
        return len(self.values) - 1 if self.chance(0.5) else self.number(0, len(self.values) - 1)

    def axis(self, x: int) -> int:
        """One of the axes, counted from either end."""
        rank = len(self.shape(x))
        return self.one_of(range(-rank, rank))

    def indices(self, shape: Shape, size: int) -> Array:
        return self.rng.integers(0, size, shape)

    def shaped(self, shape: Shape) -> int:
        """A value of a shape: one that is there, or elements of another."""
        fitting = [k for k, value in enumerate(self.values) if value.shape == shape]
        if fitting and self.chance(0.7):
            return self.one_of(fitting)
        if not 0 < math.prod(shape) <= MOST_ELEMENTS:
            raise Refused
        return self.add("spread", self.pick(), shape=shape, step=self.one_of((1, 1, 2, 5, -1)))

    def broadcastable(self, shape: Shape) -> Shape:
        """A shape that broadcasts with another."""
        part = tuple(1 if self.chance(0.3) else size for size in shape[self.number(0, len(shape)) :])
        return (2, *shape) if self.chance(0.1) else shape if self.chance(0.4) else part


# --- steps, by family: each takes a value and adds what it makes of it


def elementwise(b: Builder, x: int) -> None:
    match b.one_of((*("unary",) * 5, *("binary",) * 3, "where", "select", "clip")):
        case "unary":
            b.add(b.one_of(UNARY), x)
        case "clip":
            b.add("clip", x, low=-0.7, high=0.6)
        case kind:
            operands = [x, b.shaped(b.broadcastable(b.shape(x)))]
            first, second = operands[::-1] if b.chance(0.5) else operands
            if kind == "binary":
                b.add(b.one_of(BINARY), first, second)
            elif kind == "where":
                b.add("where", first, second, compare=b.one_of(("less", "less_equal", "greater", "greater_equal")))
            else:
                b.add("select", first, second, mask=b.rng.random(b.broadcastable(b.shape(x))) < 0.5)


def product(b: Builder, x: int) -> None:
    shape = b.shape(x)
    match b.one_of(("matmul", "matmul", "einsum", "einsum", "attention")):
        case "matmul" if shape:
            columns = (b.one_of(SIZES),) if b.chance(0.8) else ()
            batch = shape[:-2] if b.chance(0.6) and columns else ()
            b.add("matmul", x, b.shaped((*batch, shape[-1], *columns)))
        case "attention" if len(shape) > 1:
            key = b.shaped((*shape[:-2], b.one_of(SIZES), shape[-1]))
            b.add("attention", x, key, b.shaped((*b.shape(key)[:-1], b.one_of(SIZES))), causal=b.chance(0.5))
        case _:
            equation = b.one_of(EQUATIONS.get(len(shape), ()))
            first, *others = equation.split("->")[0].split(",")
            sizes = dict(zip(first, shape, strict=True))
            shapes = [tuple(sizes.setdefault(letter, b.one_of(SIZES)) for letter in other) for other in others]
            b.add("einsum", x, *map(b.shaped, shapes), equation=equation)


def movement(b: Builder, x: int) -> None:
    shape = b.shape(x)
    rank = len(shape)
    match b.one_of(MOVEMENTS if rank else SCALAR_MOVEMENTS):
        case "permute":
            b.add("permute", x, axes=tuple(int(axis) for axis in b.rng.permutation(rank)))
        case "swapaxes":
            b.add("swapaxes", x, first=b.axis(x), second=b.axis(x))
        case "reshape":
            b.add("reshape", x, shape=other_shape(b, math.prod(shape)))
        case "expand_dims":
            b.add("expand_dims", x, axis=b.number(-rank - 1, rank))
        case "squeeze":
            b.add("squeeze", x, axis=b.one_of(axis for axis, size in enumerate(shape) if size == 1))
        case "broadcast_to":
            wide = tuple(b.one_of(SIZES) if size == 1 else size for size in shape)
            b.add("broadcast_to", x, shape=(b.one_of(SIZES), *wide) if b.chance(0.5) else wide)
        case "pad":
            b.add("pad", x, widths=[(b.number(0, 2), b.number(0, 2)) for _ in shape], value=b.one_of((0.0, 0.5)))
        case "flip":
            b.add("flip", x, axis=some_axes(b, x))
        case "roll":
            b.add("roll", x, shift=b.number(-8, 8), axis=b.axis(x))
        case "tile":
            b.add("tile", x, repetitions=tuple(b.number(1, 2) for _ in shape))
        case "repeat":
            b.add("repeat", x, repeats=b.number(1, 3), axis=b.axis(x))
        case "tril" | "diagonal" if rank < 2:
            raise Refused
        case "tril":
            b.add("tril", x, k=b.number(-1, 1))
        case "diagonal":
            b.add("diagonal", x, offset=b.number(1 - min(2, shape[-2]), min(2, shape[-1]) - 1))
        case "concat":
            axis = b.axis(x)
            other = list(shape)
            other[axis] = b.one_of(SIZES)
            b.add("concat", x, b.shaped(tuple(other)), x, axis=axis)
        case "stack":
            b.add("stack", x, b.shaped(shape), axis=b.number(0, rank))
        case _:
            b.add("index", x, key=any_key(b, shape))


SCALAR_MOVEMENTS = ("reshape", "expand_dims", "broadcast_to", "stack")
MOVEMENTS = (
    *("permute", "swapaxes", "squeeze", "pad", "flip", "roll", "tile", "repeat", "tril", "diagonal", "concat"),
    *("index", "index", "index"),
    *SCALAR_MOVEMENTS,
)


def other_shape(b: Builder, count: int) -> Shape:
    """Any shape of so many elements."""
    shape: list[int] = []
    while count > 1 and len(shape) < MOST_AXES - 1:
        shape.append(b.one_of([n for n in range(1, count + 1) if count % n == 0]))
        count //= shape[-1]
    shape.insert(b.number(0, len(shape)), count)
    return tuple(shape)


def some_axes(b: Builder, x: int) -> Shape:
    return tuple(axis for axis in range(len(b.shape(x))) if b.chance(0.5))


def any_slice(b: Builder, size: int) -> slice:
    step = b.one_of((1, 1, 2, 3, -1, -2))
    start, stop = b.number(0, size - 1), b.number(0, size)
    return slice(*((start, None) if b.chance(0.5) else (None, stop) if b.chance(0.5) else (None, None)), step)


def any_key(b: Builder, shape: Shape) -> tuple[Any, ...]:
    """Slices of any step, integers, new axes, and sometimes an axis by constant indices."""
    key: list[Any] = []
    for size in shape:
        if b.chance(0.1):
            key.append(None)
        key.append(b.number(-size, size - 1) if b.chance(0.15) else any_slice(b, size))
    if b.chance(0.3):
        size = shape[0]
        key = [b.indices((b.one_of(SIZES),), size), *(any_slice(b, size) for size in shape[1:])]
    return tuple(key)


def lookup(b: Builder, x: int) -> None:
    shape, axis = b.shape(x), b.axis(x)
    along = list(shape)
    along[axis] = b.one_of(SIZES)
    match b.one_of(("take", "take_along_axis", "gather")):
        case "take":
            b.add("take", x, indices=b.indices((b.one_of(SIZES),), shape[axis]), axis=axis)
        case "gather":
            smaller = tuple(n if k == axis % len(shape) else b.number(1, n) for k, n in enumerate(along))
            b.add("gather", x, indices=b.indices(smaller, shape[axis]), axis=axis % len(shape))
        case name:
            b.add(name, x, indices=b.indices(tuple(along), shape[axis]), axis=axis)


def update(b: Builder, x: int) -> None:
    shape, axis = b.shape(x), b.axis(x)
    if b.chance(0.3):
        along = tuple(b.one_of(SIZES) if k == axis % len(shape) else n for k, n in enumerate(shape))
        b.add("scatter_add", x, b.shaped(along), indices=b.indices(along, shape[axis]), axis=axis % len(shape))
        return
    unique = b.rng.permutation(shape[0])[: b.number(1, shape[0])]
    key = (unique,) if b.chance(0.5) else tuple(any_slice(b, size) for size in shape)
    name = b.one_of(("at_set", "at_add", "at_add", "at_multiply"))
    b.add(name, x, b.shaped(np.empty(shape)[key].shape), key=key)


def along_axes(b: Builder, x: int) -> None:
    if not b.shape(x) or b.chance(0.4):
        b.add(b.one_of(REDUCTIONS), x, axis=some_axes(b, x), keepdims=b.chance(0.5))
        return
    axis = b.axis(x)
    match b.one_of((*SCANS, "layer_norm", "sort", "topk")):
        case "layer_norm":
            b.add("layer_norm", x)
        case "sort":
            b.add("sort", x, axis=axis, descending=b.chance(0.5))
        case "topk":
            b.add("topk", x, k=b.number(1, b.shape(x)[axis]), axis=axis)
        case name:
            b.add(name, x, axis=axis)


def window(b: Builder, x: int) -> None:
    if len(b.shape(x)) != 4:
        x = b.shaped((b.number(1, 2), b.number(1, 4), b.number(3, 7), b.number(3, 7)))
    channels, *sides = b.shape(x)[1:]
    size = (b.number(1, min(3, sides[0])), b.number(1, min(3, sides[1])))
    match b.one_of(("conv2d", "conv2d", "max_pool2d", "avg_pool2d")):
        case "conv2d":
            groups = b.one_of([n for n in range(1, channels + 1) if channels % n == 0])
            weight = b.shaped((groups * b.number(1, 2), channels // groups, *size))
            options = {"stride": b.number(1, 2), "padding": b.number(0, 2), "groups": groups}
            fits = all(2 * n - 1 <= side for n, side in zip(size, sides, strict=True))
            b.add("conv2d", x, weight, dilation=b.number(1, 2) if fits else 1, **options)
        case name:
            b.add(name, x, size=size, stride=b.number(1, 3), padding=b.number(0, min(size) // 2))


FAMILIES = (*(elementwise,) * 5, *(movement,) * 3, *(along_axes,) * 2, product, lookup, update, window)


def random_program(seed: int) -> Program:
    """A program of about 5 to 25 steps over one to three inputs."""
    b = Builder(np.random.default_rng(seed))
    for number in range(b.number(1, 3)):
        shape = tuple(b.one_of(SIZES) for _ in range(b.number(0, MOST_AXES)))
        b.values.append(drawn(seed, number, shape, -2, 2))
    inputs = tuple(b.values)
    count = b.number(5, 22)
    while len(b.steps) < count:
        try:
            b.one_of(FAMILIES)(b, b.pick())
        except Refused:
            continue
    return Program(seed, inputs, tuple(b.steps), tuple(value.shape for value in b.values))
