"""One `linalg.generic`: axes are iterators, its body computes one element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smelt.dtypes import DType
from smelt.formats.linalg.affine import LESS, affine, number
from smelt.formats.linalg.code import BOOL, INDEX, Value, scalar_type, tensor_type
from smelt.formats.linalg.operands import Operand, Operands, Place, axis_size
from smelt.formats.linalg.scalars import cast, elementwise, refused, select
from smelt.formats.mlir import Array, Coded, Opaque, Ranked, Typed, tokens
from smelt.graph import ZERO, Index, Variable, of
from smelt.kernel import Access, Expression, Mask, walk


class Generic:
    """A `linalg.generic` over the axes of a place, then reduced ones."""

    def __init__(self, tensors: Operands, place: Place, reduced: Sequence[Variable]) -> None:
        self.tensors, self.code = tensors, tensors.code
        # An axis of size 1 has an iterator as well: results are stored at permutations of iterators.
        self.results = [next(iter(i.variables()), Variable(f"one{k}", 0, 0)) for k, i in enumerate(place)]
        self.axes = [*self.results, *reduced]
        self.reduced = reduced
        self.body = self.code.inside()
        self.operands: dict[Operand, Value] = {}
        self.positions: dict[Variable, Value] = {}
        self.known: dict[Expression, Value] = {}

    def write(
        self, given: Sequence[Expression], types: Sequence[DType], into: Sequence[Value], folds: Sequence[str] = ()
    ) -> list[Value]:
        """The operation that gives these expressions, each folded by its function if there are `folds`, as elements of
        these types.
        """
        taken = self._needed(given)
        arguments = []
        for e in taken:
            operand = self.tensors.operand(e, self.axes)
            if operand is not None and operand not in self.operands:
                assert isinstance(operand.value.type, Ranked)
                arguments.append(self.body.argument(Opaque(operand.value.type.element)))
                self.operands[operand] = Value(arguments[-1].name, arguments[-1].type)
        inputs = [*self.operands]
        missing = self._missing(types[0])
        if missing is not None:
            inputs.append(missing)
            arguments.append(self.body.argument(scalar_type(types[0])))
        for e in taken:
            self.known[e] = self._value(e)
        outs = [self.body.argument(scalar_type(dtype)) for dtype in types]
        yielded = []
        for k, (e, dtype, out) in enumerate(zip(given, types, outs, strict=True)):
            value = cast(self.body, e.dtype, dtype, self.known[e])
            if folds:
                fold = folds[k]
                value = elementwise(self.body, fold, dtype, dtype, (Value(out.name, out.type), value), None)
            yielded.append(value)
        maps = [*(self._map(o.at) for o in inputs), *[self._map([of(axis) for axis in self.results])] * len(into)]
        kinds = ["parallel"] * len(self.results) + ["reduction"] * len(self.reduced)
        return self.code.several(
            "linalg.generic",
            [*(o.value for o in inputs), *into],
            [value.type for value in into],
            [self.body.region([*arguments, *outs], yielded)],
            indexing_maps=tuple(maps),
            iterator_types=tuple(Coded("#linalg.iterator_type", (), (kind,)) for kind in kinds),
            operandSegmentSizes=Array("i32", (len(inputs), len(into))),
        )

    def _needed(self, given: Iterable[Expression]) -> list[Expression]:
        """The expressions below, down to what has been reduced before."""
        needed: list[Expression] = []
        below: set[Expression] = set()
        stack = [*given]
        while stack:
            e = stack.pop()
            if e not in below:
                below.add(e)
                stack += [] if e in self.tensors.reduced else e.arguments
        for e in walk(given):
            if e in below:
                needed.append(e)
        return needed

    def _missing(self, dtype: DType) -> Operand | None:
        """What says how long reduced axes are which no operand has by themselves."""
        found = {i for operand in self.operands for i in operand.at}
        left = [axis for axis in self.reduced if of(axis) not in found]
        if not left:
            return None
        sizes = [axis_size(of(axis)) for axis in left]
        return Operand(self.code.one("tensor.empty", (), tensor_type(dtype, sizes)), tuple(map(of, left)))

    def _map(self, index: Iterable[Index]) -> Coded:
        """An index as an indexing map."""
        names = {axis: f"d{k}" for k, axis in enumerate(self.axes)}
        shown = ", ".join(affine(i, names) for i in index)
        words = tokens(f"({', '.join(names.values())}) -> ({shown})")
        return Coded("affine_map", (), tuple(words[:-1]))

    # --- the body

    def _value(self, e: Expression) -> Value:
        operand = self.tensors.operand(e, self.axes)
        if operand is not None:
            value = self.operands[operand]
            if e.op != "load":
                return value
            access: Access = e.attribute
            return self._masked(e, access.mask, cast(self.body, access.buffer.dtype, e.dtype, value))
        match e.op:
            case "load":
                return self._extract(e, e.attribute)
            case "const":
                given = e.attribute
                return self.body.constant(bool(given) if e.dtype.is_bool else given, scalar_type(e.dtype))
            case "index":
                return self.body.one("arith.index_cast", (self._number(e.attribute),), scalar_type(e.dtype))
            case "mask":
                return self._mask(e.attribute)
            case "scan":
                raise refused("scan", "it is no reduction: every element of it is a result.")
        arguments = [self.known[a] for a in e.arguments]
        return elementwise(self.body, e.op, e.dtype, e.arguments[0].dtype, arguments, e.attribute)

    def _extract(self, e: Expression, access: Access) -> Value:
        """An element at indices that are computed; where the mask does not hold, nothing is read but the first."""
        picks = dict(zip(access.picks, [self.known[a] for a in e.arguments], strict=True))
        for variable, value in picks.items():
            self.positions[variable] = self.body.one("arith.index_cast", (value,), INDEX)
        tensor = self.tensors.buffers[access.buffer.name]
        inside = self._mask(access.mask) if access.mask else None
        places = []
        for i in access.index:
            place = self._number(i)
            places.append(place if inside is None else select(self.body, inside, place, self._number(ZERO)))
        for variable in picks:
            del self.positions[variable]
        value = self.body.one("tensor.extract", (tensor, *places), scalar_type(access.buffer.dtype))
        return self._masked(e, access.mask, cast(self.body, access.buffer.dtype, e.dtype, value))

    def _masked(self, e: Expression, mask: Mask, value: Value) -> Value:
        if not mask:
            return value
        zero: bool | float = False if e.dtype.is_bool else 0.0 if e.dtype.is_float else 0
        return select(self.body, self._mask(mask), value, self.body.constant(zero, value.type))

    def _mask(self, mask: Mask) -> Value:
        """Whether all conditions hold."""
        holds = None
        for condition in mask:
            sides = (self._number(condition.a), self._number(condition.b))
            one = self.body.one("arith.cmpi", sides, BOOL, predicate=LESS)
            holds = one if holds is None else self.body.one("arith.andi", (holds, one), BOOL)
        return self.body.constant(True, BOOL) if holds is None else holds

    def _number(self, index: Index) -> Value:
        return number(self.body, index, self._position)

    def _position(self, axis: Variable) -> Value:
        if axis not in self.positions:
            if axis not in self.axes:
                raise refused(
                    f"the size {axis}", "only sizes that are known are written.", "Give numbers for all shapes."
                )
            dim = self.axes.index(axis)
            self.positions[axis] = self.body.one("linalg.index", (), INDEX, dim=Typed(dim, Opaque("i64")))
        return self.positions[axis]
