"""Regions with other variables and names: the common part of merging axes and of naming what a kernel is given."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from smelt.graph import Index, Variable, of
from smelt.kernel import Access, Buffer, Expression, Fold, Less, Mask, Output, Prefix, Region, walk

AccessRule = Callable[[Buffer, tuple[Index, ...]], tuple[Buffer, tuple[Index, ...]]]
AxesRule = Callable[[tuple[Variable, ...], dict[Variable, Index]], tuple[Variable, ...]]


def rebuild_region(region: Region, values: dict[Variable, Index], access: AccessRule, axes: AxesRule) -> Region:
    """A region with variables replaced everywhere; `access` and `axes` say what becomes of accesses and lists of
    axes. Inputs are named b0, b1, … in calling order.
    """
    named: dict[Buffer, Buffer] = {}  # what each form of a buffer becomes
    names: dict[str, str] = {output.buffer.name: output.buffer.name for output in region.outputs}
    outputs_first = len(names)

    def renamed(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Buffer, tuple[Index, ...]]:
        buffer, index = access(buffer, index)
        if buffer not in named:
            name = names.setdefault(buffer.name, f"b{len(names) - outputs_first}")
            named[buffer] = buffer if name == buffer.name else replace(buffer, name=name)
        return named[buffer], index

    def masked(mask: Mask) -> Mask:
        return tuple(Less(c.a.substitute(values), c.b.substitute(values)) for c in mask)

    new: dict[Expression, Expression] = {}
    for e in walk([o.value for o in region.outputs]):
        attribute = e.attribute
        if e.op == "load":
            attribute = Access(*renamed(attribute.buffer, attribute.index), masked(attribute.mask), attribute.picks)
        elif e.op == "index":
            attribute = attribute.substitute(values)
        elif e.op == "mask":
            attribute = masked(attribute)
        elif e.op == "reduce":
            attribute = Fold(attribute.op, axes(attribute.axes, values))
        elif e.op == "scan":
            attribute = Prefix(attribute.op, *axes((attribute.axis,), values))
        new[e] = Expression(e.op, e.dtype, tuple(new[a] for a in e.arguments), attribute)
    outputs = tuple(Output(*access(o.buffer, o.index), new[o.value]) for o in region.outputs)
    roles = tuple((name, new[e]) for name, e in region.roles)
    return Region(outputs, axes(region.axes, values), region.parameters, roles)


def name_slots(region: Region) -> tuple[Region, dict[str, str]]:
    """Slice starts named p0, p1, … and inputs b0, b1, … by their first use, so that equal kernels are equal wherever
    they occur: what they are called in the graph depends on all that is computed before.

    Also gives what each parameter of the region is called in the graph.
    """
    slots = _slots(region)
    names = {v.name: v.name for v in region.parameters if v not in slots}
    if not slots and _inputs_are_in_order(region):
        return region, names
    fresh = {v: Variable(f"p{k}", v.first, v.last) for k, v in enumerate(slots)}
    values = {old: of(new) for old, new in fresh.items()}

    def access(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Buffer, tuple[Index, ...]]:
        return buffer, tuple(i.substitute(values) for i in index)

    renamed = rebuild_region(region, values, access, lambda axes, _: axes)
    others = [v for v in region.parameters if v not in fresh]
    names.update((fresh[v].name, v.name) for v in slots)
    return Region(renamed.outputs, renamed.axes, (*others, *fresh.values()), renamed.roles), names


def _slots(region: Region) -> list[Variable]:
    """The slice starts of a region, those that loads use first, in the order of their use."""
    slots = {v for v in region.parameters if v.name.startswith("s")}
    if not slots:
        return []
    indices = [i for e in region.order() if e.op == "load" for i in e.attribute.index]
    used = dict.fromkeys(v for i in indices for v in _by_number(i.variables() & slots))
    return list(used | dict.fromkeys(_by_number(slots)))


def _by_number(slots: AbstractSet[Variable]) -> list[Variable]:
    return sorted(slots, key=lambda v: (len(v.name), v.name))


def _inputs_are_in_order(region: Region) -> bool:
    outputs = {output.buffer.name for output in region.outputs}
    names = [buffer.name for buffer in region.buffers() if buffer.name not in outputs]
    return names == [f"b{k}" for k in range(len(names))]
