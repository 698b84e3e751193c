"""The reference of a region: every expression as one NumPy array over all its axes, with no schedule at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.dtypes import cast_array
from smelt.errors import InternalError
from smelt.graph.index import Index, IndexLike, as_index
from smelt.graph.ops import identity
from smelt.kernel.numbers import Array, elementwise, fold, scan, viewed
from smelt.kernel.region import Access, Buffer, Expression, Mask, Region, extent, walk


def evaluate_region(region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
    """Compute a region's outputs into `arrays`: the storage of each buffer by name, one-dimensional."""
    with np.errstate(all="ignore"):
        for output in region.outputs:
            evaluator = _Evaluator(region, arrays, integers)
            value = evaluator.run(output.value)
            where = evaluator.address(output.buffer, output.index, ())
            shape = [1] * len(region.axes)
            for axis in region.parallel_axes(output):
                at = region.axes.index(axis)
                shape[at] = evaluator.sizes[at]
            stored = cast_array(np.broadcast_to(value, shape), output.buffer.dtype)
            arrays[output.buffer.name][np.broadcast_to(where, shape)] = stored


class _Evaluator:
    """Arrays have one dimension per axis of the region, of size one where they do not vary."""

    def __init__(self, region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
        self.region, self.arrays, self.integers = region, arrays, integers
        self.sizes = [int(as_index(extent(axis)).evaluate(integers)) for axis in region.axes]
        self.environment: dict[str, Any] = dict(integers)
        rank = len(region.axes)
        for at, (axis, size) in enumerate(zip(region.axes, self.sizes, strict=True)):
            self.environment[axis.name] = np.arange(size).reshape([-1 if i == at else 1 for i in range(rank)])

    def run(self, root: Expression) -> Array:
        values: dict[Expression, Array] = {}
        for e in walk([root]):
            values[e] = self.compute(e, [values[a] for a in e.arguments])
        return values[root]

    def compute(self, e: Expression, arguments: list[Array]) -> Array:
        match e.op:
            case "const":
                return self.full(np.asarray(e.attribute, e.dtype.numpy))
            case "index":
                return self.full(np.asarray(self.number(e.attribute)).astype(e.dtype.numpy))
            case "mask":
                return self.condition(e.attribute)
            case "load":
                return self.load(e, arguments)
            case "reduce":
                return self.reduce(e, arguments[0])
            case "scan":
                return self.scan(e, arguments[0])
        return elementwise(e.op, e.dtype, arguments, e.attribute)

    def full(self, x: Array) -> Array:
        return x if x.ndim == len(self.sizes) else x.reshape([1] * len(self.sizes))

    def number(self, index: IndexLike) -> Any:
        return as_index(index).evaluate(self.environment)

    def condition(self, mask: Mask) -> Array:
        result = self.full(np.asarray(True))
        for c in mask:
            result = result & self.full(np.asarray(self.number(c.a) < self.number(c.b)))
        return result

    def address(self, buffer: Buffer, index: tuple[Index, ...], mask: Mask) -> Array:
        """Element numbers; 0 where the mask does not hold."""
        inside = self.condition(mask)
        total = self.number(buffer.offset)
        for i, size, stride in zip(index, buffer.shape, buffer.strides, strict=True):
            at = self.number(i)
            if not np.all((at >= 0) & (at < self.number(size)) | ~inside):
                raise InternalError(f"{buffer.name}: index {i} leaves [0, {size})")
            total = total + at * self.number(stride)
        return np.where(inside, self.full(np.asarray(total)), 0)

    def load(self, e: Expression, arguments: list[Array]) -> Array:
        access: Access = e.attribute
        inside = self.condition(access.mask)
        for variable, chosen in zip(access.picks, arguments, strict=True):
            chosen = chosen.astype(np.int64)
            allowed = (chosen >= self.number(variable.first)) & (chosen <= self.number(variable.last))
            if not np.all(allowed | ~inside):
                raise InternalError(f"{access.buffer.name}: {variable.name} leaves its bounds")
            self.environment[variable.name] = chosen
        where = self.address(access.buffer, access.index, access.mask)
        inside = np.broadcast_to(inside, where.shape)
        memory = viewed(self.arrays[access.buffer.name], access.buffer.dtype)
        result = np.zeros(where.shape, e.dtype.numpy)
        result[inside] = cast_array(memory[where[inside]], e.dtype)
        return result

    def reduce(self, e: Expression, x: Array) -> Array:
        places = tuple(self.region.axes.index(axis) for axis in e.attribute.axes)
        shape = [size if at in places else x.shape[at] for at, size in enumerate(self.sizes)]
        start = identity(e.attribute.op, e.dtype)
        return fold(e.attribute.op, e.dtype, np.broadcast_to(x, shape), places, start, keep=True)

    def scan(self, e: Expression, x: Array) -> Array:
        along = self.region.axes.index(e.attribute.axis)
        shape = [size if at == along else x.shape[at] for at, size in enumerate(self.sizes)]
        return scan(e.attribute.op, e.dtype, np.broadcast_to(x, shape), along)
