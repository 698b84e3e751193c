"""The reference of a region: every expression as one NumPy array over all its axes, with no schedule at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smelt.dtypes import cast_array
from smelt.graph import fold_array, scan_array
from smelt.kernel.numbers import Array, Memory, positions
from smelt.kernel.region import Expression, Region, extent, walk


def evaluate_region(region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
    """Compute a region's outputs into `arrays`: the storage of each buffer by name, one-dimensional."""
    with np.errstate(all="ignore"):
        for output in region.outputs:
            evaluator = _Evaluator(region, arrays, integers)
            value = evaluator.run(output.value)
            where, _ = evaluator.address(output.buffer, output.index, ())
            parallel = region.parallel_axes(output)
            shape = [n if axis in parallel else 1 for axis, n in zip(region.axes, evaluator.sizes, strict=True)]
            stored = cast_array(np.broadcast_to(value, shape), output.buffer.dtype)
            arrays[output.buffer.name][np.broadcast_to(where, shape)] = stored


class _Evaluator(Memory):
    """Arrays have one dimension per axis of the region, of size one where they do not vary."""

    def __init__(self, region: Region, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
        super().__init__(arrays, integers)
        self.region, self.shape = region, (1,) * len(region.axes)
        self.sizes = tuple(int(self.number(extent(axis))) for axis in region.axes)
        self.integers.update(zip((axis.name for axis in region.axes), positions(self.sizes), strict=True))

    def run(self, root: Expression) -> Array:
        values: dict[Expression, Array] = {}
        for e in walk([root]):
            values[e] = self.compute(e, [values[a] for a in e.arguments])
        return values[root]

    def compute(self, e: Expression, arguments: list[Array]) -> Array:
        match e.op:
            case "load":
                return self.read(e.dtype, e.attribute, zip(e.attribute.picks, arguments, strict=True))
            case "reduce":
                axes = tuple(self.region.axes.index(axis) for axis in e.attribute.axes)
                folded = fold_array(self.along(arguments[0], axes), e.dtype, e.attribute.op, axes)
                return np.expand_dims(folded, axes)
            case "scan":
                axis = self.region.axes.index(e.attribute.axis)
                return scan_array(self.along(arguments[0], (axis,)), e.dtype, e.attribute.op, axis)
        return self.value(e.op, e.dtype, e.attribute, arguments)

    def along(self, x: Array, axes: tuple[int, ...]) -> Array:
        """An array with all the elements of some axes, also where it does not vary."""
        return np.broadcast_to(x, [size if at in axes else x.shape[at] for at, size in enumerate(self.sizes)])
