"""Regions: what one kernel computes, before it is decided how.

A region is an expression DAG over named axes. Movement has already become index expressions: `load` reads a buffer at
an index made of axes and integer parameters. `reduce` folds axes away; `scan` combines along one and keeps it. Outputs
say which expression is stored where. A region says nothing about loops, vectors or threads: that is the schedule's (see
`actions`).

Values are in compute types: 16-bit floats exist only in buffers (loads widen, stores round) and as the `round16`
function, which rounds a float32 to what the 16-bit type named in its attribute can hold.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from smelt.dtypes import DType, bool_
from smelt.graph import Index, IndexLike, Variable, as_index, size_of


class Place(enum.Enum):
    """Where a buffer lives."""

    ARGUMENT = "argument"
    LOCAL = "local"  # memory of one thread, for the time of one grid iteration


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory seen as an array: element [i, j] lies at offset + i*strides[0] + j*strides[1], counted in elements."""

    name: str
    dtype: DType
    shape: tuple[IndexLike, ...]
    strides: tuple[IndexLike, ...]
    offset: IndexLike = 0
    place: Place = Place.ARGUMENT

    def address(self, index: Iterable[Index]) -> Index:
        """The element number of an index."""
        total = as_index(self.offset)
        for i, stride in zip(index, self.strides, strict=True):
            total = total + i * stride
        return total

    def viewed(self, dtype: DType) -> Buffer | None:
        """The same memory as elements of another type: as large, or words of several neighbors along unit stride.

        None where some row does not begin and end with whole words.
        """
        factor, rest = divmod(dtype.itemsize, self.dtype.itemsize)
        if rest:
            return None
        if factor == 1:
            return replace(self, dtype=dtype)
        units = [at for at, stride in enumerate(self.strides) if stride == 1]
        if len(units) != 1:
            return None
        shape, strides = list(self.shape), list(self.strides)
        size, strides[units[0]] = shape[units[0]], factor
        whole = [n // factor for n in (size, self.offset, *strides) if isinstance(n, int) and n % factor == 0]
        if len(whole) != 2 + len(strides):
            return None
        shape[units[0]] = whole[0]
        return Buffer(self.name, dtype, tuple(shape), tuple(whole[2:]), whole[1], self.place)


class Less(NamedTuple):
    """The condition a < b."""

    a: Index
    b: Index

    def __str__(self) -> str:
        return f"{self.a} < {self.b}"

    def substitute(self, values: Mapping[Variable, IndexLike]) -> Less:
        """The condition with other expressions for variables."""
        return Less(self.a.substitute(values), self.b.substitute(values))


Mask = tuple[Less, ...]  # all of them hold


def variables_of(index: Iterable[Index], mask: Mask = ()) -> set[Variable]:
    """The variables of indices and conditions."""
    sides = [side for condition in mask for side in condition]
    return set[Variable]().union(*[i.variables() for i in (*index, *sides)])


class Access(NamedTuple):
    """The attribute of a load: where it reads, and under which condition. Elsewhere it gives zero and reads nothing.

    `picks` stand for the arguments of the load, integers that lie within the bounds of their variables wherever the
    mask holds. They are known to this index only.
    """

    buffer: Buffer
    index: tuple[Index, ...]  # type: ignore[assignment]
    mask: Mask = ()
    picks: tuple[Variable, ...] = ()


class Fold(NamedTuple):
    """The attribute of a reduce, add, mul, max or min over axes; and of a scan, which combines each element along one
    axis with all before it, by one of `graph.ops.SCANS`.
    """

    op: str
    axes: tuple[Variable, ...]


class Expression:
    """A node of a region. Compared by identity; builders share equal ones.

    op: `load` (attribute Access; the arguments are indices that are values), `const` (a Python scalar), `index` (an
    Index, as int32 or int64), `mask` (a Mask, as bool), `reduce` and `scan` (a Fold), `cast`, `cast_odd` (to
    float32, for a rounding to 16 bits that follows), `bitcast` (the stored types on both sides, where the values are
    wider), `round16` (the DType), `where`, an inner product of words (`ir.DOTS`), or an elementwise function of
    `graph.ops`.
    """

    __slots__ = ("arguments", "attribute", "axes", "dtype", "op")

    def __init__(self, op: str, dtype: DType, arguments: tuple[Expression, ...] = (), attribute: Any = None) -> None:
        self.op, self.dtype, self.arguments, self.attribute = op, dtype, arguments, attribute
        self.axes: frozenset[Variable] = _axes(self)

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype} over {sorted(a.name for a in self.axes)}>"


def _axes(e: Expression) -> frozenset[Variable]:
    """The variables that a value depends on (axes and parameters)."""
    found: set[Variable] = set()
    for argument in e.arguments:
        found |= argument.axes
    if e.op == "load":
        found |= variables_of(e.attribute.index, e.attribute.mask).difference(e.attribute.picks)
    elif e.op == "index":
        found |= e.attribute.variables()
    elif e.op == "mask":
        found |= variables_of((), e.attribute)
    elif e.op == "reduce":
        found -= set(e.attribute.axes)
    elif e.op == "scan":
        found |= set(e.attribute.axes)
    return frozenset(found)


class Output(NamedTuple):
    """An expression stored to a buffer; the index names each of the output's axes."""

    buffer: Buffer
    index: tuple[Index, ...]  # type: ignore[assignment]
    value: Expression


@dataclass(frozen=True)
class Region:
    """Outputs over axes (variables from 0 to extent - 1), with integer parameters known when the kernel is called.

    Names: `%k` is the k-th expression in `order()`; `roles` adds names with a meaning ("A", "B", "y"). `schedule`
    actions use both.
    """

    outputs: tuple[Output, ...]
    axes: tuple[Variable, ...]  # parallel axes in loop order, then reduced ones
    parameters: tuple[Variable, ...] = ()
    roles: tuple[tuple[str, Expression], ...] = ()

    def order(self) -> tuple[Expression, ...]:
        """All expressions, arguments first."""
        return self._order

    @cached_property
    def _order(self) -> tuple[Expression, ...]:
        return tuple(walk([output.value for output in self.outputs]))

    def named(self) -> dict[str, Expression]:
        """Every expression by every name that it has."""
        names = {f"%{k}": e for k, e in enumerate(self.order())}
        names.update(self.roles)
        return names

    def parallel_axes(self, output: Output) -> tuple[Variable, ...]:
        """The axes over which an output is stored, in loop order."""
        used = variables_of(output.index)
        return tuple(axis for axis in self.axes if axis in used)

    def buffers(self) -> list[Buffer]:
        """The arguments in calling order: outputs first, then inputs by first use, those also read as words in the form
        with the smallest elements.
        """
        found: dict[str, Buffer] = {output.buffer.name: output.buffer for output in self.outputs}
        for e in self.order():
            if e.op != "load":
                continue
            buffer: Buffer = e.attribute.buffer
            if buffer.dtype.itemsize < found.setdefault(buffer.name, buffer).dtype.itemsize:
                found[buffer.name] = buffer
        return list(found.values())


def extent(axis: Variable) -> IndexLike:
    """How many values an axis takes."""
    return size_of(axis.last - axis.first + 1)


def walk(roots: Iterable[Expression]) -> Iterator[Expression]:
    """The expressions below the roots, arguments first, each once, without recursion."""
    order: dict[Expression, None] = {}
    seen: set[Expression] = set()
    stack = list(reversed(list(roots)))
    while stack:
        e = stack[-1]
        if e in seen:  # all of its arguments are done, or it is itself
            order[stack.pop()] = None
        else:
            seen.add(e)
            stack += [a for a in reversed(e.arguments) if a not in seen]
    return iter(order)


def mask_expression(mask: Mask) -> Expression:
    """A mask as a boolean value."""
    return Expression("mask", bool_, (), mask)
