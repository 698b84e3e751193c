"""The reference of a region: every expression as one NumPy array over all its axes, with no schedule at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.dtypes import cast_array
from smelt.graph import identity
from smelt.kernel.numbers import Array, Memory, elementwise, fold, scan
from smelt.kernel.region import Access, Expression, Region, extent, walk


def evaluate_region(region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
    """Compute a region's outputs into `arrays`: the storage of each buffer by name, one-dimensional."""
    with np.errstate(all="ignore"):
        for output in region.outputs:
            evaluator = _Evaluator(region, arrays, integers)
            value = evaluator.run(output.value)
            where, _ = evaluator.address(output.buffer, output.index, ())
            shape = [1] * len(region.axes)
            for axis in region.parallel_axes(output):
                at = region.axes.index(axis)
                shape[at] = evaluator.sizes[at]
            stored = cast_array(np.broadcast_to(value, shape), output.buffer.dtype)
            arrays[output.buffer.name][np.broadcast_to(where, shape)] = stored


class _Evaluator(Memory):
    """Arrays have one dimension per axis of the region, of size one where they do not vary."""

    def __init__(self, region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
        super().__init__(arrays, integers)
        self.region, self.shape = region, (1,) * len(region.axes)
        self.sizes = [int(self.number(extent(axis))) for axis in region.axes]
        for at, (axis, size) in enumerate(zip(region.axes, self.sizes, strict=True)):
            self.integers[axis.name] = np.arange(size).reshape([-1 if i == at else 1 for i in range(len(self.sizes))])

    def run(self, root: Expression) -> Array:
        values: dict[Expression, Array] = {}
        for e in walk([root]):
            values[e] = self.compute(e, [values[a] for a in e.arguments])
        return values[root]

    def compute(self, e: Expression, arguments: list[Array]) -> Array:
        match e.op:
            case "const":
                return np.full(self.shape, e.attribute, e.dtype.numpy)
            case "index":
                return self.full(self.number(e.attribute)).astype(e.dtype.numpy)
            case "mask":
                return self.condition(e.attribute)
            case "load":
                access: Access = e.attribute
                picks = zip(access.picks, arguments, strict=True)
                return self.read(e.dtype, access.buffer, access.index, access.mask, picks)
            case "reduce":
                return self.reduce(e, arguments[0])
            case "scan":
                return self.scan(e, arguments[0])
        return elementwise(e.op, e.dtype, arguments, e.attribute)

    def full(self, x: Any) -> Array:
        return np.asarray(x) if np.ndim(x) else np.full(self.shape, x)

    def reduce(self, e: Expression, x: Array) -> Array:
        places = tuple(self.region.axes.index(axis) for axis in e.attribute.axes)
        shape = [size if at in places else x.shape[at] for at, size in enumerate(self.sizes)]
        start = identity(e.attribute.op, e.dtype)
        return fold(e.attribute.op, e.dtype, np.broadcast_to(x, shape), places, start, keep=True)

    def scan(self, e: Expression, x: Array) -> Array:
        along = self.region.axes.index(e.attribute.axis)
        shape = [size if at == along else x.shape[at] for at, size in enumerate(self.sizes)]
        return scan(e.attribute.op, e.dtype, np.broadcast_to(x, shape), along)
