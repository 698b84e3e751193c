"""A slow interpreter of kernels: tiles are NumPy arrays with one dimension per part, loops are Python loops.

Local memory starts as NaN (or another value that no correct kernel reads), and every access is checked against its
buffer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from smelt.dtypes import DType, cast_array
from smelt.errors import InternalError
from smelt.graph.index import IndexLike, as_index, upper
from smelt.graph.ops import identity
from smelt.kernel.ir import (
    DOTS,
    PRODUCTS,
    Accumulator,
    Ask,
    Barrier,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Part,
    Reduce,
    Scan,
    Statement,
    Store,
    Update,
    Value,
)
from smelt.kernel.numbers import Array, dot, elementwise, fold, scan, viewed
from smelt.kernel.region import Buffer, Mask

Parts = tuple[Part, ...]


def interpret(kernel: Kernel, arrays: MutableMapping[str, Array], integers: Mapping[str, int]) -> None:
    """Run a kernel on `arrays`: the storage of each buffer by name, one-dimensional. Outputs are written in place."""
    for buffer in kernel.buffers:
        if arrays[buffer.name].ndim != 1 or arrays[buffer.name].dtype != buffer.dtype.numpy:
            raise InternalError(f"{buffer.name} needs a one-dimensional array of {buffer.dtype}")
    with np.errstate(all="ignore"):
        _Machine(arrays, integers).run(kernel.body)


class _Machine:
    def __init__(self, arrays: MutableMapping[str, Array], integers: Mapping[str, int]) -> None:
        self.memory: dict[str, Array] = dict(arrays)
        self.integers: dict[str, Any] = dict(integers)
        self.values: dict[str, Array] = {}

    def run(self, body: list[Statement] | tuple[Statement, ...]) -> None:
        for statement in body:
            match statement:
                case For():
                    for i in range(self.number(statement.count)):
                        self.integers[statement.variable.name] = i
                        self.run(statement.body)
                case If(condition, inside, other):
                    self.run(inside if bool(np.all(self.condition(condition, ()))) else other)
                case Let(variable, expression):
                    at = self.number(expression)
                    if not self.number(variable.first) <= at <= self.number(variable.last):
                        raise InternalError(f"{variable.name} = {at} is outside its bounds")
                    self.integers[variable.name] = at
                case Ask(variable, flag):
                    self.integers[variable.name] = int(bool(self.values[flag.name]))
                case Local(buffer):
                    size = math.prod(upper(n) for n in buffer.shape)
                    self.memory[buffer.name] = np.full(size, _poison(buffer.dtype), buffer.dtype.numpy)
                case Barrier():
                    pass  # a tile is computed for all threads at once
                case Load():
                    self.load(statement)
                case Store():
                    self.store(statement)
                case Compute():
                    self.compute(statement)
                case Accumulator(value, initial):
                    self.values[value.name] = np.full(_shape(value.parts), initial, value.dtype.numpy)
                case Update():
                    self.update(statement)
                case Reduce():
                    self.reduce(statement)
                case Scan():
                    self.scan(statement)

    # --- integers

    def number(self, index: IndexLike) -> int:
        return int(as_index(index).evaluate(self.integers))

    def tile_number(self, index: IndexLike, parts: Parts) -> Any:
        """An index for every element of a tile; one number stands for all where they agree."""
        if isinstance(index, int):
            return index
        for part, positions in zip(parts, _positions(parts), strict=True):
            self.integers[part.name] = positions
        return index.evaluate(self.integers)

    def condition(self, mask: Mask, parts: Parts) -> Array:
        result = np.ones(_shape(parts), np.bool_)
        for c in mask:
            result = result & (self.tile_number(c.a, parts) < self.tile_number(c.b, parts))
        return result

    # --- memory

    def address(self, statement: Load | Store) -> tuple[Array, Array]:
        """The element number for each element of a tile, and where the mask holds."""
        buffer, parts = statement.buffer, statement.value.parts
        inside = self.condition(statement.mask, parts)
        total = self.tile_number(buffer.offset, ())
        for i, size, stride in zip(statement.index, buffer.shape, buffer.strides, strict=True):
            at = self.tile_number(i, parts)
            if not np.all((at >= 0) & (at < self.tile_number(size, ())) | ~inside):
                raise InternalError(f"{buffer.name}: index {i} leaves [0, {size})")
            total = total + at * self.tile_number(stride, ())
        return np.where(inside, total, 0), inside

    def load(self, statement: Load) -> None:
        for variable, chosen in statement.picks:
            at = self.aligned(chosen, statement.value.parts).astype(np.int64)
            inside = (at >= self.number(variable.first)) & (at <= self.number(variable.last))
            if not np.all(inside | ~self.condition(statement.mask, statement.value.parts)):
                raise InternalError(f"{variable.name} is outside its bounds")
            self.integers[variable.name] = at
        where, inside = self.address(statement)
        value = statement.value
        memory = viewed(self.memory[statement.buffer.name], statement.buffer.dtype)
        read = cast_array(memory[where[inside]], value.dtype)
        result = np.zeros(inside.shape, value.dtype.numpy)
        result[inside] = read
        self.values[value.name] = result

    def store(self, statement: Store) -> None:
        where, inside = self.address(statement)
        buffer: Buffer = statement.buffer
        value = self.values[statement.value.name]
        self.memory[buffer.name][where[inside]] = cast_array(value[inside], buffer.dtype)

    # --- values

    def aligned(self, value: Value, parts: Parts) -> Array:
        """A tile with one dimension for each of these parts, of size one for those that it lacks."""
        x = self.values[value.name]
        have = [part.name for part in value.parts]
        order = [have.index(part.name) for part in parts if part.name in have]
        if len(order) < len(have):
            raise InternalError(f"{value.name} has parts that its user lacks")
        sizes = {part.name: size for part, size in zip(value.parts, x.shape, strict=True)}
        return np.transpose(x, order).reshape([sizes.get(part.name, 1) for part in parts])

    def compute(self, statement: Compute) -> None:
        value, attribute = statement.value, statement.attribute
        shape, dtype = _shape(value.parts), value.dtype
        match statement.op:
            case "const":
                result = np.full(shape, attribute, dtype.numpy)
            case "index":
                result = np.asarray(self.tile_number(attribute, value.parts)).astype(dtype.numpy)
            case "mask":
                result = self.condition(attribute, value.parts)
            case _:
                arguments = [self.aligned(a, value.parts) for a in statement.arguments]
                result = elementwise(statement.op, dtype, arguments, attribute)
        self.values[value.name] = np.broadcast_to(result, shape)

    def update(self, statement: Update) -> None:
        accumulator, dtype = statement.accumulator, statement.accumulator.dtype
        mine = {part.name for part in accumulator.parts}
        extra = {p.name: p for a in statement.arguments for p in a.parts if p.name not in mine}
        parts = (*accumulator.parts, *extra.values())
        arguments = [self.aligned(a, parts) for a in statement.arguments]
        if statement.op == "fma":
            x = arguments[0].astype(np.float64) * arguments[1].astype(np.float64)
            x = x.sum(tuple(range(len(accumulator.parts), len(parts))))
        elif statement.op in DOTS:
            x = dot(statement.op, *arguments)
            x = x.sum(tuple(range(len(accumulator.parts), len(parts))), dtype=x.dtype)
        else:
            (x,) = arguments
        old = self.values[accumulator.name]
        lengths = {p.name: p.extent for a in statement.arguments for p in a.parts}
        prefix = tuple(slice(0, lengths.get(part.name, part.extent)) for part in accumulator.parts)
        new = old.copy()
        if statement.op == "set":
            new[prefix] = x
        else:
            op = "add" if statement.op in PRODUCTS else statement.op
            new[prefix] = elementwise(op, dtype, [old[prefix].astype(x.dtype), x], None)
        self.values[accumulator.name] = new

    def reduce(self, statement: Reduce) -> None:
        source, value = statement.source, statement.value
        over = {part.name for part in statement.parts}
        axes = tuple(at for at, part in enumerate(source.parts) if part.name in over)
        start = identity(statement.op, value.dtype)
        folded = fold(statement.op, value.dtype, self.values[source.name], axes, start)
        left = [part.name for part in source.parts if part.name not in over]
        self.values[value.name] = np.transpose(folded, [left.index(part.name) for part in value.parts])

    def scan(self, statement: Scan) -> None:
        value, source, carry = statement.value, statement.source, statement.carry
        # The carry first, then the elements of the parts in order, along one last axis.
        moved = self.aligned(source, (*carry.parts, *statement.parts))
        rows = moved.reshape(*_shape(carry.parts), -1)
        whole = np.concatenate([self.values[carry.name][..., None].astype(rows.dtype), rows], axis=-1)
        result = scan(statement.op, value.dtype, whole, whole.ndim - 1)[..., 1:]
        self.values[carry.name] = result[..., -1].copy()
        order = [part.name for part in (*carry.parts, *statement.parts)]
        self.values[value.name] = np.transpose(result.reshape(moved.shape), [order.index(p.name) for p in value.parts])


@functools.lru_cache(1024)
def _positions(parts: Parts) -> tuple[Array, ...]:
    """For each part the position along it, shaped to broadcast with the others."""
    rank = len(parts)
    return tuple(
        np.arange(part.extent).reshape([-1 if i == at else 1 for i in range(rank)]) for at, part in enumerate(parts)
    )


def _shape(parts: Parts) -> tuple[int, ...]:
    return tuple(part.extent for part in parts)


def _poison(dtype: DType) -> float | int | bool:
    return float("nan") if dtype.is_float else True if dtype.is_bool else dtype.maximum
