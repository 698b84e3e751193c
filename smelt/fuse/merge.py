"""Neighboring axes that every access walks as one become one axis: longer vectors, fewer loops, simpler indices.

Axes a and b (b inside) merge if in every address the step of a is the step of b times the extent of b. The merged
region addresses its buffers as flat memory.
"""

from __future__ import annotations

from smelt.fuse.canonical import rebuild_region
from smelt.graph import Index, IndexLike, Operation, Variable, as_index, size_of
from smelt.graph import variable as make_variable
from smelt.kernel import Buffer, Region, extent


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
    folds = dict.fromkeys(e.attribute.axes for e in expressions if e.op == "reduce")
    folds |= dict.fromkeys((e.attribute.axis,) for e in expressions if e.op == "scan")
    parallel = tuple(axis for axis in region.axes if not any(axis in axes for axes in folds))
    taken = {address: _opaque(address) for address in addresses}
    replaced: dict[Variable, Index] = {}
    # Reductions and scans that walk only one of two neighbors keep them apart.
    groups = [frozenset(axes) for axes in folds]
    for axes in (parallel, *folds):
        _merge_row(axes, addresses, taken, groups, replaced)
    return _rebuild(region, replaced) if replaced else region


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
        total: IndexLike = 1
        for axis in run:
            total = as_index(total) * extent(axis)
        merged = make_variable(run[0].name, 0, as_index(total) - 1)
        for axis in run:
            replaced[axis] = as_index(0)
        replaced[run[-1]] = merged


def _joined(a: Variable, b: Variable, address: Index, opaque: set[Variable]) -> bool:
    if a in opaque or b in opaque:
        return False
    return address.coefficient(a) == address.coefficient(b) * extent(b)


def _rebuild(region: Region, replaced: dict[Variable, Index]) -> Region:
    flat: dict[str, Buffer] = {}

    def access(buffer: Buffer, index: tuple[Index, ...]) -> tuple[Buffer, tuple[Index, ...]]:
        if buffer.name not in flat:
            last = as_index(1)
            for size, stride in zip(buffer.shape, buffer.strides, strict=True):
                last = last + (as_index(size) - 1) * stride
            flat[buffer.name] = Buffer(buffer.name, buffer.dtype, (size_of(last),), (1,), buffer.offset, buffer.place)
        return flat[buffer.name], (buffer.address(index) - buffer.offset,)

    return rebuild_region(region, replaced, access)
