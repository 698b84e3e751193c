"""The function that is being written: values with types, and operations one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from smelt.dtypes import DType, Scalar, bool_, int32, int64
from smelt.errors import UnsupportedOp
from smelt.formats.mlir import (
    Argument,
    Array,
    Attribute,
    Block,
    Coded,
    Dense,
    Opaque,
    Operation,
    Ranked,
    Region,
    Symbol,
    Typed,
)
from smelt.formats.stablehlo import types
from smelt.graph import (
    Atom,
    Index,
    IndexLike,
    Maximum,
    Minimum,
    Node,
    Quotient,
    Remainder,
    Shape,
    Span,
    Variable,
    as_index,
    constant_bytes,
    size_of,
    upper,
)
from smelt.graph import Operation as SizeOperation

if TYPE_CHECKING:
    from smelt.formats.stablehlo.writing.program import Program

I64: Final = Opaque("i64")
I32: Final = Opaque("i32")


_OPERATIONS: Final[dict[type, str]] = {
    Quotient: "divide",
    Remainder: "remainder",
    Minimum: "minimum",
    Maximum: "maximum",
}


def variable_of(size: IndexLike) -> Variable | None:
    """The dim that a size is, if it is just that."""
    if isinstance(size, int) or size.constant or len(size.terms) != 1:
        return None
    [(product, coefficient)] = size.terms.items()
    atom = product[0]
    return atom if coefficient == len(product) == 1 and isinstance(atom, Variable) else None


def _is_static(shape: Shape) -> bool:
    return all(isinstance(size, int) for size in shape)


def reaches_end(span: Span, whole: IndexLike) -> bool:
    """Whether elements are taken as long as there are any."""
    return size_of((as_index(whole) - span.start + (span.step - 1)) // span.step) == span.size


def _limit(span: Span, whole: IndexLike) -> IndexLike:
    """Where a span ends: behind its last element. What may have none ends with the axis."""
    if not isinstance(span.size, int) and span.step > 1 and reaches_end(span, whole):
        return whole
    return span.start if span.size == 0 else span.start + (span.size - 1) * span.step + 1


class Value(NamedTuple):
    """The name of what an operation gives, and its type."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def type(self) -> Ranked:
        return ranked(self.dtype, self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)


def ranked(dtype: DType, shape: Shape) -> Ranked:
    """The type of a tensor; `?` where a size is not known."""
    if dtype not in types.NAMES:
        raise UnsupportedOp(f"StableHLO has no element type for {dtype}", str(dtype), 0, 0)
    return Ranked(tuple(size if isinstance(size, int) else None for size in shape), types.NAMES[dtype])


def integers(values: Iterable[int]) -> Array:
    """`array<i64: …>`."""
    return Array("i64", tuple(values))


def pairs_of(values: Sequence[tuple[int, int]]) -> Dense:
    """`dense<[[low, high], …]>`, a pair of int64 for each axis."""
    data = b"".join(n.to_bytes(8, "little", signed=True) for pair in values for n in pair)
    return Dense(Ranked((len(values), 2), "i64"), False, data)


def word(kind: str, name: str) -> Coded:
    """One of an enumeration: `#stablehlo<kind NAME>`."""
    return Coded("#stablehlo", (), (kind, name))


def number(value: int) -> Typed:
    return Typed(value, I64)


class Body:
    """A function, or a region inside of one, which reads the values around it."""

    def __init__(self, program: Program, around: Body | None = None) -> None:
        self.program = program
        self.operations: list[Operation] = []
        self._counter: Any = itertools.count() if around is None else around._counter
        self._arguments: Any = itertools.count() if around is None else around._arguments
        # What is written once: constants, and tensors turned around.
        self._once: dict[Any, Value] = {} if around is None else dict(around._once)
        # Where dims are read: the first argument, and its axis, that has one as its whole size.
        self._dims: dict[Atom, tuple[Value, int]] = {} if around is None else around._dims

    # --- operations

    def argument(self, dtype: DType, shape: Shape) -> Value:
        """A new argument, of the function or of a region."""
        value = Value(f"%arg{next(self._arguments)}", dtype, shape)
        for axis, size in enumerate(shape):
            atom = variable_of(size)
            if atom is not None:
                self._dims.setdefault(atom, (value, axis))
        return value

    def op(self, name: str, operands: Sequence[Value], dtype: DType, shape: Shape, **attributes: Attribute) -> Value:
        """An operation with one result, of StableHLO unless the name says which dialect it is of."""
        [result] = self.ops(name, operands, [(dtype, shape)], attributes)
        return result

    def ops(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[DType, Shape]],
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """An operation with any number of results."""
        base = f"%{next(self._counter)}" if results else ""
        names = [base] if len(results) == 1 else [f"{base}#{k}" for k in range(len(results))]
        values = [Value(name_, *type_) for name_, type_ in zip(names, results, strict=True)]
        self.operations.append(
            Operation(
                name if "." in name else f"stablehlo.{name}",
                names if results else [],
                [x.name for x in operands],
                attributes or {},
                list(regions),
                tuple([x.type for x in operands]),
                tuple([x.type for x in values]),
            )
        )
        return values

    def region(self, given: Sequence[tuple[DType, Shape]], write: Callable[..., Sequence[Value]]) -> Region:
        """A region over arguments of these types: `write` takes its body and the arguments, and gives its results."""
        inner = Body(self.program, self)
        arguments = [inner.argument(*type_) for type_ in given]
        results = write(inner, *arguments)
        inner.ends("stablehlo.return", results)
        return Region([Block([Argument(x.name, x.type, {}) for x in arguments], inner.operations)])

    def ends(self, name: str, results: Sequence[Value]) -> None:
        """What the body gives."""
        self.operations.append(
            Operation(name, [], [x.name for x in results], {}, [], tuple([x.type for x in results]), ())
        )

    def call(self, function: str, operands: Sequence[Value], results: Sequence[tuple[DType, Shape]]) -> list[Value]:
        """A function of the module."""
        return self.ops("func.call", operands, results, {"callee": Symbol(function)})

    # --- constants

    def constant(self, value: Scalar, dtype: DType, shape: Shape = ()) -> Value:
        """A number, everywhere: written once, before it is first read."""
        return self.bits(constant_bytes(value, dtype), dtype, shape)

    def bits(self, data: bytes, dtype: DType, shape: Shape) -> Value:
        """The same for the bytes of the number."""
        data = b"" if 0 in shape else data
        key = data, dtype, shape
        if key not in self._once:
            self._once[key] = self._new_constant(data, dtype, shape)
        return self._once[key]

    def _new_constant(self, data: bytes, dtype: DType, shape: Shape) -> Value:
        if not _is_static(shape):
            return self.spread(self.bits(data, dtype, ()), shape, ())
        value = Dense(ranked(dtype, shape), 0 not in shape, data)
        return self.op("constant", [], dtype, shape, value=value)

    def array(self, values: Any, dtype: DType) -> Value:
        """An array of NumPy's."""
        kind = ranked(dtype, values.shape)
        flat = np.ascontiguousarray(values).reshape(-1)
        same = flat.size > 0 and not (flat.view(np.uint8).reshape(flat.size, -1) != flat[:1].view(np.uint8)).any()
        if same:
            return self.bits(flat[:1].tobytes(), dtype, tuple(values.shape))
        return self.op("constant", [], dtype, tuple(values.shape), value=Dense(kind, False, flat.tobytes()))

    # --- sizes that are not known

    def size(self, size: IndexLike, dtype: DType = int64) -> Value:
        """A size as a scalar: computed once, from those of arguments."""
        if isinstance(size, int):
            return self.constant(size, dtype)
        key = "size", size, dtype
        if key not in self._once:
            self._once[key] = self._sum(size) if dtype is int64 else self.convert(self.size(size), dtype)
        return self._once[key]

    def _sum(self, size: Index) -> Value:
        total: Value | None = None
        for product, coefficient in sorted(size.terms.items(), key=lambda item: [atom.text for atom in item[0]]):
            term = self._atom(product[0])
            for atom in product[1:]:
                term = self.binary("multiply", term, self._atom(atom))
            if coefficient != 1:
                term = self.binary("multiply", term, self.constant(coefficient, int64))
            total = term if total is None else self.binary("add", total, term)
        assert total is not None
        return self.binary("add", total, self.constant(size.constant, int64)) if size.constant else total

    def _atom(self, atom: Atom) -> Value:
        if atom in self._dims:
            key = "dim", atom
            if key not in self._once:
                x, axis = self._dims[atom]
                found = self.op("get_dimension_size", [x], int32, (), dimension=number(axis))
                self._once[key] = self.convert(found, int64)
            return self._once[key]
        name = _OPERATIONS.get(type(atom))
        if name is None or not isinstance(atom, SizeOperation) or (name in ("divide", "remainder") and atom.a.low < 0):
            raise UnsupportedOp(f"export: the size {atom.text} is that of no argument", "size", 0, 0)
        return self.binary(name, self.size(size_of(atom.a)), self.size(size_of(atom.b)))

    def extents(self, sizes: Sequence[IndexLike]) -> Value:
        """Sizes as a vector."""
        return self.concatenate([self.reshape(self.size(size), (1,)) for size in sizes], 0)

    # --- what every row uses

    def unary(self, name: str, x: Value) -> Value:
        return self.op(name, [x], x.dtype, x.shape)

    def binary(self, name: str, a: Value, b: Value) -> Value:
        return self.op(name, [a, b], a.dtype, a.shape)

    def compare(self, direction: str, a: Value, b: Value, kind: str = "") -> Value:
        """Elements compared, by the rules of their type unless others are asked for."""
        kind = kind or self._kind(a)
        return self.op(
            "compare",
            [a, b],
            bool_,
            a.shape,
            comparison_direction=word("comparison_direction", direction),
            compare_type=word("comparison_type", kind),
        )

    @staticmethod
    def _kind(a: Value) -> str:
        return "FLOAT" if a.dtype.is_float else "SIGNED" if a.dtype.is_signed else "UNSIGNED"

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.op("select", [condition, yes, no], yes.dtype, yes.shape)

    def convert(self, x: Value, dtype: DType) -> Value:
        """Another type; x itself if it has that."""
        return x if x.dtype is dtype else self.op("convert", [x], dtype, x.shape)

    def like(self, value: Scalar, x: Value) -> Value:
        """A number of a value's type and shape."""
        return self.constant(value, x.dtype, x.shape)

    def reshape(self, x: Value, shape: Shape) -> Value:
        if x.shape == shape:
            return x
        if _is_static(shape):
            return self.op("reshape", [x], x.dtype, shape)
        return self.op("dynamic_reshape", [x, self.extents(shape)], x.dtype, shape)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """x with its axes in another order."""
        if list(axes) == list(range(x.rank)):
            return x
        return self.op("transpose", [x], x.dtype, tuple(x.shape[k] for k in axes), permutation=integers(axes))

    def spread(self, x: Value, shape: Shape, axes: Sequence[int]) -> Value:
        """x with its axes at these places of a shape, and repeated along all others."""
        if x.shape == shape and list(axes) == list(range(x.rank)):
            return x
        if _is_static(shape):
            return self.op("broadcast_in_dim", [x], x.dtype, shape, broadcast_dimensions=integers(axes))
        given = [x, self.extents(shape)]
        return self.op("dynamic_broadcast_in_dim", given, x.dtype, shape, broadcast_dimensions=integers(axes))

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        """The elements along some axes from the last to the first: written once."""
        key = x.name, *axes
        if axes and key not in self._once:
            self._once[key] = self.op("reverse", [x], x.dtype, x.shape, dimensions=integers(axes))
        return self._once[key] if axes else x

    def iota(self, dtype: DType, shape: Shape, axis: int) -> Value:
        """The position along an axis."""
        if _is_static(shape):
            return self.op("iota", [], dtype, shape, iota_dimension=number(axis))
        return self.op("dynamic_iota", [self.extents(shape)], dtype, shape, iota_dimension=number(axis))

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        if len(xs) == 1:
            return xs[0]
        total = sum(x.shape[axis] for x in xs)
        shape = (*xs[0].shape[:axis], total, *xs[0].shape[axis + 1 :])
        return self.op("concatenate", xs, xs[0].dtype, shape, dimension=number(axis))

    def slice(self, x: Value, spans: Sequence[Span]) -> Value:
        """So many elements from a start on by a step, on each axis."""
        shape = tuple([span.size for span in spans])
        limits = [_limit(span, whole) for span, whole in zip(spans, x.shape, strict=True)]
        if not _is_static((*x.shape, *shape, *limits)):
            parts = [self.extents(part) for part in ([s.start for s in spans], limits, [s.step for s in spans])]
            return self.op("real_dynamic_slice", [x, *parts], x.dtype, shape)
        return self.op(
            "slice",
            [x],
            x.dtype,
            shape,
            start_indices=integers([upper(span.start) for span in spans]),
            limit_indices=integers([upper(limit) for limit in limits]),
            strides=integers([span.step for span in spans]),
        )

    def reduce(self, x: Value, init: Value, axes: Sequence[int], function: Callable[..., Value]) -> Value:
        """Axes folded by a function of a body and two scalars."""
        shape = tuple(size for k, size in enumerate(x.shape) if k not in axes)
        region = self.region([(x.dtype, ())] * 2, lambda body, a, b: [function(body, a, b)])
        [result] = self.ops("reduce", [x, init], [(x.dtype, shape)], {"dimensions": integers(axes)}, [region])
        return result


Rule = Callable[..., Any]  # of a body, a node, and the values of its sources: its value, or values


def refuse(node: Node, reason: str, hint: str = "") -> UnsupportedOp:
    """The error about a node that has no form in StableHLO."""
    return UnsupportedOp(f"export: {node.op.value}: {reason}", node.op.value, 0, 0, hint=hint)
