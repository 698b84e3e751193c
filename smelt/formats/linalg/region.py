"""A kernel region as `linalg.generic`s: named axes are iterators, loads are operands or `tensor.extract`.

Every reduction makes a tensor of its own; those of one depth over the same axes share an operation. What is left of the
region, elementwise by then, is an operation for all outputs with the same index. So a fused kernel without a reduction
is one operation, and attention is the products, the maximum and the sum that its expansion has.

A load at sums of axes is an operand with an indexing map, of a slice of the buffer where it is not read from end to
end. A load with a mask, or at indices that are values, is a `tensor.extract` in the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.dtypes import DType
from smelt.formats.linalg.code import Code, Value, scalar_type, tensor_type
from smelt.formats.linalg.generic import Generic
from smelt.formats.linalg.named import product_of, write_product
from smelt.formats.linalg.operands import Operand, Operands, Place, axis_size, known_sizes
from smelt.formats.mlir import Array
from smelt.graph import identity, of
from smelt.kernel import Expression, Output, Region


def write_region(code: Code, region: Region, values: Mapping[str, Value]) -> list[Value]:
    """Write what a region computes of tensors, by the names of its buffers. The outputs, shaped as their buffers."""
    tensors = Operands(code, values)
    places: dict[Expression, Place] = {}  # where the first output wants a reduction that it is
    for output in region.outputs:
        if _is_reduction(output):
            places.setdefault(output.value, output.index)
    for reductions in _steps(region.order(), places):
        _reduce(tensors, reductions, places.get(reductions[0]) or _own(reductions[0]))
    alike: dict[Place, list[Output]] = {}
    found: dict[int, Value] = {}
    for k, output in enumerate(region.outputs):
        if places.get(output.value) == output.index:
            found[k] = tensors.reduced[output.value].value
        else:
            alike.setdefault(output.index, []).append(output)
    for index, outputs in alike.items():
        types = [o.buffer.dtype for o in outputs]
        into = [_empty(code, o.buffer.dtype, known_sizes(o.buffer.shape)) for o in outputs]
        made = Generic(tensors, index, ()).write([o.value for o in outputs], types, into)
        found.update(zip([region.outputs.index(o) for o in outputs], made, strict=True))
    return [found[k] for k in range(len(region.outputs))]


def _is_reduction(output: Output) -> bool:
    """Whether an output is a reduction as it is, whose axes are all of the output's that are longer than 1."""
    e = output.value
    over = [v for i in output.index for v in i.variables()]
    return e.op == "reduce" and output.buffer.dtype is e.dtype and len(over) == len(e.axes) and e.axes == {*over}


def _reduce(tensors: Operands, reductions: Sequence[Expression], place: Place) -> None:
    """Write reductions over the same axes, which do not need each other."""
    code = tensors.code
    into = [_filled(code, e, [axis_size(i) for i in place]) for e in reductions]
    product = product_of(reductions[0], place, tensors.operand) if len(reductions) == 1 else None
    if product is not None:
        found = [write_product(code, product, into[0])]
    else:
        given, types = [e.arguments[0] for e in reductions], [e.dtype for e in reductions]
        folds = [e.attribute.op for e in reductions]
        found = Generic(tensors, place, reductions[0].attribute.axes).write(given, types, into, folds)
    tensors.reduced.update((e, Operand(value, place)) for e, value in zip(reductions, found, strict=True))


def _empty(code: Code, dtype: DType, sizes: Sequence[int]) -> Value:
    return code.one("tensor.empty", (), tensor_type(dtype, sizes))


def _filled(code: Code, e: Expression, sizes: Sequence[int]) -> Value:
    """A tensor of what a reduction of nothing gives."""
    start = identity(e.attribute.op, e.dtype)
    first = code.constant(bool(start) if e.dtype.is_bool else start, scalar_type(e.dtype))
    empty = _empty(code, e.dtype, sizes)
    return code.one("linalg.fill", (first, empty), empty.type, operandSegmentSizes=Array("i32", (1, 1)))


def _own(e: Expression) -> Place:
    """The place of a reduction that nobody wants otherwise: the axes that it varies over."""
    return tuple(of(axis) for axis in sorted(e.axes, key=lambda v: (len(v.name), v.name)))


def _steps(order: Sequence[Expression], places: Mapping[Expression, Place]) -> list[list[Expression]]:
    """Reductions in an order in which they can be computed; those over the same axes that do not need each other are
    one step.
    """
    depth: dict[Expression, int] = {}
    steps: dict[tuple[object, ...], list[Expression]] = {}
    for e in order:
        below = max((depth[a] for a in e.arguments), default=0)
        depth[e] = below + (e.op == "reduce")
        if e.op == "reduce":
            key = (depth[e], e.attribute.axes, places.get(e) or _own(e))
            steps.setdefault(key, []).append(e)
    return [steps[key] for key in sorted(steps, key=lambda key: key[0])]  # type: ignore[arg-type,return-value]
