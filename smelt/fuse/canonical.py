"""Expressions and regions with other variables and names: the common part of merging axes, of naming what a kernel is
given, and of putting numbers together into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from smelt.graph import Index, Variable, of
from smelt.kernel import Access, Buffer, Expression, Fold, Mask, Output, Prefix, Region, walk

Location = tuple[Buffer, tuple[Index, ...]]
AccessRule = Callable[[Buffer, tuple[Index, ...]], Location]
Values = Mapping[Variable, Index]


def moved(
    roots: Iterable[Expression], values: Values, access: AccessRule = lambda *place: place, mask: Mask = ()
) -> dict[Expression, Expression]:
    """What expressions become with variables replaced everywhere; `access` says what becomes of accesses then, which
    read only where a mask holds.
    """

    def masked(mask: Mask) -> Mask:
        return tuple(condition.substitute(values) for condition in mask)

    new: dict[Expression, Expression] = {}
    for e in walk(roots):
        attribute = e.attribute
        if e.op == "load":
            place = access(attribute.buffer, tuple(i.substitute(values) for i in attribute.index))
            attribute = Access(*place, masked((*attribute.mask, *mask)), attribute.picks)
        elif e.op == "index":
            attribute = attribute.substitute(values)
        elif e.op == "mask":
            attribute = masked(attribute)
        elif e.op == "reduce":
            attribute = Fold(attribute.op, _axes(attribute.axes, values))
        elif e.op == "scan":
            attribute = Prefix(attribute.op, *_axes((attribute.axis,), values))
        new[e] = Expression(e.op, e.dtype, tuple(new[a] for a in e.arguments), attribute)
    return new


def _axes(axes: Iterable[Variable], values: Values) -> tuple[Variable, ...]:
    """The axes of what replaces some, each once."""
    return tuple(dict.fromkeys(v for axis in axes for v in values.get(axis, of(axis)).variables()))


def rebuild_region(region: Region, values: Values, access: AccessRule = lambda *place: place) -> Region:
    """A region with variables replaced everywhere; `access` says what becomes of accesses then. Inputs are named b0,
    b1, … in calling order.
    """
    named: dict[Buffer, Buffer] = {}  # what each form of a buffer becomes
    names: dict[str, str] = {output.buffer.name: output.buffer.name for output in region.outputs}
    outputs_first = len(names)

    def renamed(buffer: Buffer, index: tuple[Index, ...]) -> Location:
        buffer, index = access(buffer, index)
        if buffer not in named:
            name = names.setdefault(buffer.name, f"b{len(names) - outputs_first}")
            named[buffer] = buffer if name == buffer.name else replace(buffer, name=name)
        return named[buffer], index

    new = moved([o.value for o in region.outputs], values, renamed)
    places = [access(o.buffer, tuple(i.substitute(values) for i in o.index)) for o in region.outputs]
    outputs = tuple(Output(*place, new[o.value]) for place, o in zip(places, region.outputs, strict=True))
    roles = tuple((name, new[e]) for name, e in region.roles)
    return Region(outputs, _axes(region.axes, values), region.parameters, roles)


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
    renamed = rebuild_region(region, values)
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
