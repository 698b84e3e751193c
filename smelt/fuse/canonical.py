"""Regions in their simplest form: as few axes as their accesses allow, and names by the order of their use.

Neighboring axes that every access walks as one become one axis: longer vectors, fewer loops, simpler indices. Axes a
and b (b inside) merge if in every address the step of a is the step of b times the extent of b. The merged region
addresses its buffers as flat memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from smelt.graph import ZERO, Index, Operation, Variable, as_index, of, product_of, size_of, variable
from smelt.kernel import Access, Buffer, Expression, Fold, Mask, Output, Region, extent, walk

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
        elif e.op in ("reduce", "scan"):
            attribute = Fold(attribute.op, _axes(attribute.axes, values))
        new[e] = Expression(e.op, e.dtype, tuple(new[a] for a in e.arguments), attribute)
    return new


def _axes(axes: Iterable[Variable], values: Values) -> tuple[Variable, ...]:
    """The axes of what replaces some, each once."""
    return tuple(dict.fromkeys(v for axis in axes for v in values.get(axis, of(axis)).variables()))


def _rebuilt(region: Region, values: Values, access: AccessRule = lambda *place: place) -> Region:
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
    renamed = _rebuilt(region, {old: of(new) for old, new in fresh.items()})
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


# --- fewer axes


def merge_axes(region: Region) -> Region:
    """The region with as few axes as its accesses allow."""
    expressions = region.order()
    if any(e.op == "mask" or (e.op == "load" and e.attribute.mask) for e in expressions):
        return region
    accesses = [(o.buffer, o.index) for o in region.outputs]
    accesses += [(e.attribute.buffer, e.attribute.index) for e in expressions if e.op == "load"]
    if not all(_flattens(buffer) for buffer, _ in accesses):
        return region
    addresses = [buffer.address(index) for buffer, index in accesses]
    addresses += [e.attribute for e in expressions if e.op == "index"]
    folds = dict.fromkeys(e.attribute.axes for op in ("reduce", "scan") for e in expressions if e.op == op)
    parallel = tuple(axis for axis in region.axes if not any(axis in axes for axes in folds))
    taken = {address: _opaque(address) for address in addresses}
    replaced: dict[Variable, Index] = {}
    # Reductions and scans that walk only one of two neighbors keep them apart.
    groups = [frozenset(axes) for axes in folds]
    for axes in (parallel, *folds):
        _merge_row(axes, addresses, taken, groups, replaced)
    return _flattened(region, replaced) if replaced else region


def _flattens(buffer: Buffer) -> bool:
    return all(as_index(stride).low >= 0 for stride in buffer.strides)


def _opaque(address: Index) -> set[Variable]:
    """Variables inside a division or remainder, which cannot be merged."""
    return {
        v for atom in address.atoms() if isinstance(atom, Operation) for v in atom.a.variables() | atom.b.variables()
    }


def _merge_row(
    axes: tuple[Variable, ...],
    addresses: list[Index],
    opaque: dict[Index, set[Variable]],
    groups: list[frozenset[Variable]],
    replaced: dict[Variable, Index],
) -> None:
    """Merge runs of neighbors in one list of axes, noting what each axis becomes."""
    run: list[Variable] = []
    runs = [run]
    for axis in axes:
        together = run and all((run[-1] in group) == (axis in group) for group in groups)
        if run and not (together and all(_joined(run[-1], axis, a, opaque[a]) for a in addresses)):
            run = []
            runs.append(run)
        run.append(axis)
    for run in runs:
        if len(run) < 2:
            continue
        total = as_index(product_of(extent(axis) for axis in run))
        replaced |= dict.fromkeys(run, ZERO) | {run[-1]: variable(run[0].name, 0, total - 1)}


def _joined(a: Variable, b: Variable, address: Index, opaque: set[Variable]) -> bool:
    if a in opaque or b in opaque:
        return False
    return address.coefficient(a) == address.coefficient(b) * extent(b)


def _flattened(region: Region, replaced: dict[Variable, Index]) -> Region:
    flat: dict[str, Buffer] = {}

    def access(buffer: Buffer, index: tuple[Index, ...]) -> Location:
        if buffer.name not in flat:
            last = buffer.address(as_index(size) - 1 for size in buffer.shape) - buffer.offset
            flat[buffer.name] = replace(buffer, shape=(size_of(last + 1),), strides=(1,))
        return flat[buffer.name], (buffer.address(index) - buffer.offset,)

    return _rebuilt(region, replaced, access)
