"""From a group of nodes to a region: expressions over axes, with all movement folded into indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from smelt.dtypes import ROUNDED_BY_FLOAT32, DType, bool_, compute_dtype, float32, int4, int32, int64, uint4, uint64
from smelt.fuse.group import Group, Result, concat_pieces, demands
from smelt.fuse.layout import Layout
from smelt.fuse.movement import Place, pad_mask
from smelt.graph import (
    ELEMENTWISE,
    VIEWS,
    ZERO,
    Atom,
    Index,
    IndexLike,
    Node,
    Op,
    Operation,
    Ranges,
    Variable,
    constant_value,
    least,
    of,
    row_major,
)
from smelt.kernel import (
    Access,
    Buffer,
    Expression,
    Fold,
    Mask,
    Output,
    Region,
    mask_expression,
    variables_of,
    walk,
)

# Functions whose result is one of their arguments, or needs no more bits: nothing to round.
_INDEX_OPERATIONS = {"//": "floordiv", "%": "mod", "min": "min", "max": "max"}
_UNROUNDED = frozenset({"neg", "abs", "sign", "max", "min", "floor", "ceil", "trunc", "round"})


def build_region(group: Group, layout: Callable[[Node], Layout], moved: bool = False) -> tuple[Region, list[Node]]:
    """The region of a group, and the node behind each of its buffers in calling order (the sinks first). Pieces may be
    `moved` to where they begin by whoever calls it.
    """
    builder = _Builder(group, layout)
    stored = group.results
    if moved:
        stored = [r if r.piece is None else r._replace(piece=r.piece.moved) for r in stored]
    outputs = tuple(builder.output(f"o{k}" if k else "o", result) for k, result in enumerate(stored))
    expressions = list(walk([output.value for output in outputs]))
    loads = [e.attribute.buffer.name for e in expressions if e.op == "load"]
    reduced = [v for e in expressions if e.op == "reduce" for v in e.attribute.axes]
    axes = tuple(dict.fromkeys((*group.axes, *reduced)))
    region = Region(outputs, axes, _parameters(outputs, axes), tuple(builder.roles.items()))
    nodes = {buffer.name: node for node, buffer in builder.buffers.items()}
    return region, [*(result.sink for result in stored), *(nodes[name] for name in dict.fromkeys(loads))]


def _parameters(outputs: tuple[Output, ...], axes: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Integers that the kernel needs from its caller: dims and slots, wherever they occur."""
    expressions = list(walk([output.value for output in outputs]))
    accesses = [e.attribute for e in expressions if e.op == "load"]
    buffers = {place.buffer for place in (*outputs, *accesses)}
    sizes: list[IndexLike] = [size for b in buffers for size in (*b.shape, *b.strides, b.offset)]
    sizes += [bound for axis in axes for bound in (axis.first, axis.last)]
    sizes += [pick.last for access in accesses for pick in access.picks]
    sizes += [i for output in outputs for i in output.index]
    found = {v for e in expressions for v in e.axes}
    found.update(*(i.variables() for i in sizes if not isinstance(i, int)))
    # By number, s9 before s10: layers that differ only in the numbers of their slots share kernels.
    return tuple(sorted(found - set(axes), key=lambda v: (len(v.name), v.name)))


class _Builder:
    def __init__(self, group: Group, layout: Callable[[Node], Layout]) -> None:
        self.group, self.layout = group, layout
        self.buffers: dict[Node, Buffer] = {}
        self.roles: dict[str, Expression] = {}
        self.memo: dict[tuple[Node, Place], Expression] = {}
        self.shared: dict[tuple[Any, ...], Expression] = {}
        self.ranges = Ranges()
        # Sources first, so that nothing recurses: every argument is there when it is asked for.
        # Views wait: where they are asked for by index, that index may come later.
        self.views = {node for node in group.inside if node.op in VIEWS}
        for node in reversed(group.inside):
            for place in group.places[node] if node not in self.views else ():
                self.memo[node, place] = self._compute(node, place)

    def output(self, name: str, stored: Result) -> Output:
        return Output(self._buffer(name, stored), stored.place.indices, self.value(stored.result, stored.place))

    def _buffer(self, name: str, stored: Result) -> Buffer:
        sink, shape = stored.sink, stored.result.shape
        if stored.piece is not None:
            return Buffer(name, sink.dtype, shape, stored.piece.strides, stored.piece.start)
        return Buffer(name, sink.dtype, shape, self.layout(sink).strides if shape == sink.shape else row_major(shape))

    def value(self, node: Node, place: Place) -> Expression:
        asked = (node, place)
        while node in self.views:
            ((node, place),) = demands(self.group, node, place)
        known = self.memo.get((node, place))
        if known is None:
            known = self.memo[node, place] = self._read(node, place)
        self.memo[asked] = known
        return known

    def make(self, op: str, dtype: DType, arguments: tuple[Expression, ...] = (), attribute: Any = None) -> Expression:
        """Expressions are shared: equal ones are one object."""
        # -0.0 equals 0.0 and True equals 1, but they are different constants.
        mark = (repr(attribute), dtype) if op == "const" else attribute
        key = (op, dtype, arguments, mark)
        known = self.shared.get(key)
        if known is None:
            known = self.shared[key] = Expression(op, dtype, arguments, attribute)
        return known

    def _read(self, node: Node, place: Place) -> Expression:
        dtype = compute_dtype(node.dtype)
        if node.op is Op.CONST:
            return self.make("const", dtype, (), constant_value(node))
        if node.op is Op.IOTA:
            position = self._number(place.indices[0], int32 if dtype is int32 else int64)
            return position if position.dtype is dtype else self.make("cast", dtype, (position,))
        if node not in self.buffers:
            layout = self.layout(node)
            self.buffers[node] = Buffer(f"b{len(self.buffers)}", node.dtype, layout.shape, layout.strides)
        # Along an axis that memory repeats, all elements are the first one.
        strides = self.buffers[node].strides
        index = tuple(ZERO if stride == 0 else i for i, stride in zip(place.indices, strides, strict=True))
        found = [v for i in index for v in sorted(i.variables(), key=lambda v: v.name) if v in self.group.picks]
        # Named by their order in each load, so that equal kernels are equal wherever they occur.
        names = {v: Variable(f"g{k}", v.first, v.last) for k, v in enumerate(dict.fromkeys(found))}
        arguments = tuple(self._clamped(v) for v in names)
        if names:
            index = tuple(i.substitute({v: of(name) for v, name in names.items()}) for i in index)
        mask = place.mask if names else _about(place.mask, index, self.buffers[node])
        access = Access(self.buffers[node], index, mask, tuple(names.values()))
        return self.make("load", dtype, arguments, access)

    def _clamped(self, stand_in: Variable) -> Expression:
        """The index that a variable stands for, moved into the variable's bounds where it may lie outside."""
        node, place = self.group.picks[stand_in]
        value, (low, high) = self.value(node, place), self.ranges(node)
        last = stand_in.last
        outside = low < 0 or high > last.low
        if outside and last.value is None and value.dtype is not int64 and value.dtype is not uint64:
            value = self.make("cast", int64, (value,))
        if high > last.low:
            end = self._number(last) if last.value is None else self.make("const", value.dtype, (), last.value)
            end = end if end.dtype is value.dtype else self.make("cast", value.dtype, (end,))
            value = self.make("min", value.dtype, (value, end))
        if low < 0:
            value = self.make("max", value.dtype, (value, self.make("const", value.dtype, (), 0)))
        return value

    def _number(self, index: Index, dtype: DType = int64) -> Expression:
        """An index as a value, in the dtype wanted if that is simple; stand-ins become what they stand for."""
        if not any(v in self.group.picks for v in index.variables()):
            return self.make("index", dtype, (), index)
        total: Expression | None = None
        for product, coefficient in sorted(index.terms.items(), key=lambda item: [atom.text for atom in item[0]]):
            term = self.make("const", int64, (), coefficient)
            for atom in product:
                term = self.make("mul", int64, (term, self._atom(atom)))
            total = term if total is None else self.make("add", int64, (total, term))
        assert total is not None
        return self.make("add", int64, (total, self.make("const", int64, (), index.constant)))

    def _atom(self, atom: Atom) -> Expression:
        if isinstance(atom, Operation):
            op = _INDEX_OPERATIONS[atom.symbol]
            return self.make(op, int64, (self._number(atom.a), self._number(atom.b)))
        if not isinstance(atom, Variable) or atom not in self.group.picks:
            return self.make("index", int64, (), of(atom))
        value = self._clamped(atom)
        return value if value.dtype is int64 else self.make("cast", int64, (value,))

    def _compute(self, node: Node, place: Place) -> Expression:
        dtype = compute_dtype(node.dtype)
        if node.op is Op.CONCAT:
            return self._select(node, place)
        arguments = tuple(self.value(source, at) for source, at in demands(self.group, node, place))
        if node.op is Op.PAD:
            inner = tuple(i - before for i, (before, _) in zip(place.indices, node.attribute, strict=True))
            mask = pad_mask(node, inner)
            if not mask or _is_zero_beyond(mask, *arguments):
                return arguments[0]
            return self.make("where", dtype, (self._mask(mask), *arguments))
        if node.op is Op.REDUCE:
            return self._rounded(
                node, self._fold(node.attribute.op, dtype, arguments[0], self.group.reduced[node, place])
            )
        if node.op is Op.SCAN:
            (variable,) = place.indices[node.attribute.axis].variables()
            return self._rounded(node, self.make("scan", dtype, arguments, Fold(node.attribute.op, (variable,))))
        if node.op is Op.CONTRACT:
            return self._rounded(node, self._contract(node, dtype, arguments, self.group.reduced[node, place]))
        if node.op in ELEMENTWISE:
            return self._elementwise(node, dtype, arguments)
        return arguments[-1]  # of a gather: what it finds, after the indices

    def _mask(self, mask: Mask) -> Expression:
        return self.shared.setdefault(("mask", mask), mask_expression(mask))

    def _select(self, node: Node, place: Place) -> Expression:
        pieces = list(concat_pieces(node, place))
        result = self.value(*pieces[-1])
        for source, at in reversed(pieces[:-1]):
            piece, mask = self.value(source, at), at.mask[len(place.mask) :]
            result = self.make("where", result.dtype, (self._mask(mask), piece, result)) if mask else piece
        return result

    def _fold(self, op: str, dtype: DType, argument: Expression, axes: tuple[Index, ...]) -> Expression:
        variables = tuple(v for i in axes for v in i.variables())
        return self.make("reduce", dtype, (argument,), Fold(op, variables)) if variables else argument

    def _contract(
        self, node: Node, dtype: DType, arguments: tuple[Expression, ...], axes: tuple[Index, ...]
    ) -> Expression:
        left, right = (a if a.dtype is dtype else self.make("cast", dtype, (a,)) for a in arguments)
        result = self._fold("add", dtype, self.make("mul", dtype, (left, right)), axes)
        self.roles.update(A=left, B=right, y=result)
        return result

    def _elementwise(self, node: Node, dtype: DType, arguments: tuple[Expression, ...]) -> Expression:
        match node.op:
            case Op.WHERE:
                return self.make("where", dtype, arguments)
            case Op.CAST:
                source = node.sources[0].dtype
                argument = arguments[0]
                if node.dtype is int4 or node.dtype is uint4:
                    return self._four_bits(node.dtype, argument)
                if argument.dtype is not dtype:
                    odd = dtype is not node.dtype and source in ROUNDED_BY_FLOAT32
                    argument = self.make("cast_odd" if odd else "cast", dtype, (argument,))
                exact = source.bits < node.dtype.bits or (source.bits <= 8 and not source.is_float)
                return argument if exact and source.is_float else self._rounded(node, argument)
            case Op.BITCAST:
                # The attribute names the stored types, since 16-bit floats are wider while they are computed with.
                return self.make("bitcast", dtype, arguments, (node.sources[0].dtype, node.dtype))
        result = self.make(node.attribute, bool_ if node.dtype is bool_ else dtype, arguments)
        return result if node.attribute in _UNROUNDED else self._rounded(node, result)

    def _four_bits(self, target: DType, value: Expression) -> Expression:
        """A cast to a 4-bit integer, which is computed in 8 bits: floats saturate, integers wrap."""
        inside = compute_dtype(target)
        if value.dtype.is_float:
            low, high = (self.make("const", value.dtype, (), float(x)) for x in (target.minimum, target.maximum))
            value = self.make("max", value.dtype, (self.make("min", value.dtype, (value, high)), low))
            return self.make("cast", inside, (value,))
        if value.dtype is not inside:
            value = self.make("cast", inside, (value,))
        four = self.make("const", inside, (), 4)
        return self.make("shr", inside, (self.make("shl", inside, (value, four)), four))

    def _rounded(self, node: Node, value: Expression) -> Expression:
        """A 16-bit result is rounded after every operation, so that values do not depend on what was fused."""
        if value.dtype is float32 and node.dtype is not float32 and node.dtype.is_float:
            return self.make("round16", float32, (value,), node.dtype)
        return value


def _about(mask: Mask, index: tuple[Index, ...], buffer: Buffer) -> Mask:
    """The conditions that an element needs which is there anyway: those about its own axes. Without the others, what is
    read once for a row is computed once for a row.
    """
    if not mask or any(i.low < 0 or i.high >= least(size) for i, size in zip(index, buffer.shape, strict=True)):
        return mask
    used = variables_of(index)
    return tuple(x for x in mask if not used.isdisjoint(variables_of((), (x,))))


def _is_zero_beyond(mask: Mask, inside: Expression, fill: Expression) -> bool:
    """Whether a value is a load that is zero where the mask does not hold anyway, and zero is the fill."""
    zero = fill.op == "const" and fill.attribute == 0 and math.copysign(1, fill.attribute) > 0
    return zero and inside.op == "load" and set(mask) <= set(inside.attribute.mask)
