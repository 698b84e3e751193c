"""What operations read: tensors at sums of axes, which are operands with indexing maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from smelt.errors import UnsupportedOp
from smelt.formats.linalg.affine import is_sum
from smelt.formats.linalg.code import Code, Value
from smelt.formats.linalg.scalars import refused
from smelt.formats.mlir import Array, Ranked
from smelt.graph import ZERO, Index, Variable, as_index, of
from smelt.kernel import Access, Expression, extent, variables_of

Place = tuple[Index, ...]  # which axis each axis of a tensor is, or ZERO for one of size 1


class Operand(NamedTuple):
    """A tensor that an operation reads, and its index in terms of axes."""

    value: Value
    at: Place


class Operands:
    """The tensors of a region: the `buffers` by name, and those of reductions that are done."""

    def __init__(self, code: Code, buffers: Mapping[str, Value]) -> None:
        self.code, self.buffers = code, buffers
        self.reduced: dict[Expression, Operand] = {}
        self._slices: dict[tuple[Value, Place], Value] = {}

    def operand(self, e: Expression, axes: Iterable[Variable]) -> Operand | None:
        """What an operation over these axes can take as an operand: a reduced tensor, or a load at sums of axes."""
        if e in self.reduced:
            return self.reduced[e]
        if e.op != "load" or e.arguments or not variables_of(e.attribute.index) <= {*axes}:
            return None
        access: Access = e.attribute
        sizes = known_sizes(access.buffer.shape)
        if not all(is_sum(i) and i.low >= 0 and i.high < n for i, n in zip(access.index, sizes, strict=True)):
            return None
        return self._sliced(self.buffers[access.buffer.name], access.index)

    def _sliced(self, value: Value, index: Place) -> Operand:
        """A tensor read at an index, from end to end: along an axis of the region, the slice that it reads."""
        assert isinstance(value.type, Ranked)
        spans = [_span(i, size) for i, size in zip(index, known_sizes(value.type.sizes), strict=True)]
        inner = tuple(i if span.whole else span.inner for i, span in zip(index, spans, strict=True))
        if all(span.whole for span in spans):
            return Operand(value, index)
        if (value, index) not in self._slices:
            kept = Ranked(tuple(span.size for span in spans), value.type.element)
            self._slices[value, index] = self.code.one(
                "tensor.extract_slice",
                (value,),
                kept,
                static_offsets=Array("i64", tuple(span.start for span in spans)),
                static_sizes=Array("i64", tuple(span.size for span in spans)),
                static_strides=Array("i64", tuple(span.step for span in spans)),
                operandSegmentSizes=Array("i32", (1, 0, 0, 0)),
            )
        return Operand(self._slices[value, index], inner)


def unknown_size(size: object) -> UnsupportedOp:
    """The error about a size that is no number."""
    return refused(f"the size {size}", "only sizes that are known are written.", "Give numbers for all shapes.")


class _Span(NamedTuple):
    """Elements start, start + step, … of an axis, and the index among them; or `whole`, all of it."""

    start: int
    size: int
    step: int
    inner: Index
    whole: bool


def _span(i: Index, size: int) -> _Span:
    variables = sorted(i.variables(), key=lambda v: v.name)
    if len(variables) > 1:  # windows: the map is a sum
        return _Span(0, size, 1, i, True)
    if not variables:
        return _Span(i.constant, 1, 1, ZERO, size == 1)
    [axis] = variables
    step = i.coefficient(axis).constant
    count = known_sizes([extent(axis)])[0]
    return _Span(i.constant, count, step, of(axis), (i.constant, count, step) == (0, size, 1))


def known_sizes(shape: Iterable[object]) -> list[int]:
    """Sizes as numbers."""
    found: list[int] = []
    for size in shape:
        known = size if isinstance(size, int) else as_index(size).value  # type: ignore[arg-type]
        if known is None:
            raise unknown_size(size)
        found.append(known)
    return found


def axis_size(i: Index) -> int:
    """How long an axis of a place is."""
    return known_sizes([extent(axis) for axis in i.variables()] or [1])[0]
