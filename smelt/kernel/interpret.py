"""A slow interpreter of kernels: tiles are NumPy arrays with one dimension per part, loops are Python loops.

Local memory starts as NaN (or another value that no correct kernel reads), and every access is checked against its
buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping

import numpy as np

from smelt.dtypes import DType, cast_array
from smelt.errors import InternalError
from smelt.graph import fold_array, scan_array, upper
from smelt.kernel import ir
from smelt.kernel.ir import DOTS, PRODUCTS, Kernel, Part, Statement, Value
from smelt.kernel.numbers import Array, Memory, dot, elementwise, positions

Parts = tuple[Part, ...]


def interpret(kernel: Kernel, arrays: MutableMapping[str, Array], integers: Mapping[str, int]) -> None:
    """Run a kernel on `arrays`: the storage of each buffer by name, one-dimensional. Outputs are written in place."""
    for buffer in kernel.buffers:
        if arrays[buffer.name].ndim != 1 or arrays[buffer.name].dtype != buffer.dtype.numpy:
            raise InternalError(f"{buffer.name} needs a one-dimensional array of {buffer.dtype}")
    with np.errstate(all="ignore"):
        _Machine(arrays, integers).run(kernel.body)


class _Machine(Memory):
    def __init__(self, arrays: MutableMapping[str, Array], integers: Mapping[str, int]) -> None:
        super().__init__(arrays, integers)
        self.values: dict[str, Array] = {}

    def run(self, body: list[Statement] | tuple[Statement, ...]) -> None:
        for statement in body:
            match statement:
                case ir.For():
                    for i in range(int(self.number(statement.count))):
                        self.integers[statement.variable.name] = i
                        self.run(statement.body)
                case ir.If(condition, inside, other):
                    self.place(())
                    self.run(inside if self.condition(condition) else other)
                case ir.Let(variable, expression):
                    at = int(self.number(expression))
                    if not self.number(variable.first) <= at <= self.number(variable.last):
                        raise InternalError(f"{variable.name} = {at} is outside its bounds")
                    self.integers[variable.name] = at
                case ir.Ask(variable, asked):
                    first, last = int(self.number(variable.first)), int(self.number(variable.last))
                    self.integers[variable.name] = min(max(int(self.values[asked.name]), first), last)
                case ir.Local(buffer):
                    size = math.prod(upper(n) for n in buffer.shape)
                    self.memory[buffer.name] = np.full(size, _poison(buffer.dtype), buffer.dtype.numpy)
                case ir.Barrier():
                    pass  # a tile is computed for all threads at once
                case ir.Load():
                    self.load(statement)
                case ir.Store():
                    self.store(statement)
                case ir.Compute():
                    self.compute(statement)
                case ir.Accumulator(value, initial):
                    self.values[value.name] = np.full(_shape(value.parts), initial, value.dtype.numpy)
                case ir.Update():
                    self.update(statement)
                case ir.Reduce():
                    self.reduce(statement)
                case ir.Scan():
                    self.scan(statement)

    # --- memory

    def place(self, parts: Parts) -> None:
        """From now on indices are those of the elements of a tile."""
        self.shape = _shape(parts)
        self.integers.update(zip((part.name for part in parts), positions(self.shape), strict=True))

    def load(self, statement: ir.Load) -> None:
        value = statement.value
        self.place(value.parts)
        picks = [(variable, self.aligned(chosen, value.parts)) for variable, chosen in statement.picks]
        self.values[value.name] = self.read(value.dtype, statement, picks)

    def store(self, statement: ir.Store) -> None:
        buffer, value = statement.buffer, statement.value
        self.place(value.parts)
        where, inside = self.address(buffer, statement.index, statement.mask)
        self.memory[buffer.name][where[inside]] = cast_array(self.values[value.name][inside], buffer.dtype)

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

    def compute(self, statement: ir.Compute) -> None:
        value = statement.value
        self.place(value.parts)
        arguments = [self.aligned(a, value.parts) for a in statement.arguments]
        result = self.value(statement.op, value.dtype, statement.attribute, arguments)
        self.values[value.name] = np.broadcast_to(result, self.shape)

    def update(self, statement: ir.Update) -> None:
        accumulator, dtype = statement.accumulator, statement.accumulator.dtype
        mine = {part.name for part in accumulator.parts}
        extra = {p.name: p for a in statement.arguments for p in a.parts if p.name not in mine}
        parts = (*accumulator.parts, *extra.values())
        arguments = [self.aligned(a, parts) for a in statement.arguments]
        x = arguments[0]
        if statement.op in PRODUCTS:
            x = dot(statement.op, *arguments) if statement.op in DOTS else np.multiply(*arguments, dtype=np.float64)
            x = x.sum(tuple(range(len(accumulator.parts), len(parts))), dtype=x.dtype)
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

    def reduce(self, statement: ir.Reduce) -> None:
        source, value = statement.source, statement.value
        over = {part.name for part in statement.parts}
        axes = tuple(at for at, part in enumerate(source.parts) if part.name in over)
        folded = fold_array(self.values[source.name], value.dtype, statement.op, axes)
        left = [part.name for part in source.parts if part.name not in over]
        self.values[value.name] = np.transpose(folded, [left.index(part.name) for part in value.parts])

    def scan(self, statement: ir.Scan) -> None:
        value, source, carry = statement.value, statement.source, statement.carry
        # The carry first, then the elements of the parts in order, along one last axis.
        moved = self.aligned(source, (*carry.parts, *statement.parts))
        rows = moved.reshape(*_shape(carry.parts), -1)
        whole = np.concatenate([self.values[carry.name][..., None].astype(rows.dtype), rows], axis=-1)
        result = scan_array(whole, value.dtype, statement.op, whole.ndim - 1)[..., 1:]
        self.values[carry.name] = result[..., -1].copy()
        order = [part.name for part in (*carry.parts, *statement.parts)]
        self.values[value.name] = np.transpose(result.reshape(moved.shape), [order.index(p.name) for p in value.parts])


def _shape(parts: Parts) -> tuple[int, ...]:
    return tuple(part.extent for part in parts)


def _poison(dtype: DType) -> float | int | bool:
    return float("nan") if dtype.is_float else True if dtype.is_bool else dtype.maximum
