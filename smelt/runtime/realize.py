"""Computing values: nodes to leaves, through the cache of compiled graphs."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from smelt.device import NOWHERE
from smelt.errors import TraceError, user_location
from smelt.graph import DONE, Node, Op, constant_array, living_items, pairs, shown, upper, with_sizes
from smelt.runtime.devices import common_device
from smelt.runtime.lines import held_values, note_compiled
from smelt.runtime.state import current
from smelt.runtime.storage import Storage, leaf, signature
from smelt.runtime.tracing import is_traced_input, is_tracing, is_transforming

# The compiler is loaded when something is first computed: `import smelt` stays instant.
if TYPE_CHECKING:
    from smelt.compiler import CompiledGraph, GraphKey, Traced
    from smelt.device import Device, Memory
    from smelt.graph import Check

MANY_NUMBERS = 1 << 24  # that take longer to write than a compiled graph takes to begin


def realize(nodes: Sequence[Node]) -> list[Node]:
    """The leaves that hold these nodes' values; what is not there yet is computed, all in one graph."""
    if any([node.op is Op.COMPLEX for node in nodes]):
        return pairs.through_parts(nodes, realize)
    pending = list(dict.fromkeys(node for node in nodes if node.leaf is None and node.op is not Op.LEAF))
    constants: dict[Node, Node] = {}
    if pending and all(map(_is_small_number, pending)):  # nothing to compile: memory is filled
        constants = {node: _filled(node) for node in pending}
    elif pending:
        traced, storages, device = _traced(pending)
        compiled = current().graphs.get((device.name, traced.key))
        if compiled is None:
            place = user_location()
            # What is done is done once.
            more = held_values(pending, traced.key, place) if place and DONE not in traced.checks else []
            if more:
                pending += more
                traced, storages, device = _traced(pending)
            compiled = find(traced.key, device)
            if place:
                note_compiled(traced, place)
        for node, storage in zip(pending, _run(compiled, traced, storages, {}), strict=True):
            if _is_plain(node):
                constants[node] = leaf(storage)
                continue
            node.leaf = leaf(storage)
            storage.has_history = True
    return [node.leaf or constants.get(node, node) for node in nodes]


def realize_sized(nodes: Sequence[Node], dims: Mapping[str, int], contracts: str | None = None) -> list[Node]:
    """Leaves with the values of nodes whose shapes have dims, for given values of the dims, which are at least 1.
    Contracts are those in force unless given.

    Inside a transform the nodes themselves come back, with these sizes: they keep their history.
    """
    if is_transforming():
        return with_sizes(nodes, dims)
    if any([node.op is Op.COMPLEX for node in nodes]):
        return pairs.through_parts(nodes, lambda parts: realize_sized(parts, dims, contracts))
    from smelt.compiler import trace

    traced = trace(nodes, contracts, integers=True)
    if any(is_traced_input(view.leaf) for view in traced.inputs):
        raise TraceError(
            "a size depends on values, and is needed while its function is being traced",
            hint="Inside jit and vmap give the size as an argument, or use sm.where.",
        )
    storages, device = arguments(traced)
    sizes = {f"d{k}": dims[v.name] for k, v in enumerate(traced.dims)}
    return [leaf(storage) for storage in _run(find(traced.key, device), traced, storages, sizes)]


def _run(compiled: CompiledGraph, traced: Traced, storages: Sequence[Storage], dims: dict[str, int]) -> list[Storage]:
    fixed = Fixed.of(traced, compiled.device)
    return run(compiled, fixed.pointers(storages), storages, fixed, dims)


class Fixed(NamedTuple):
    """What is the same in every call of a compiled graph: at which elements its inputs start, its scalars, eight bytes
    each, where its slices start, and what its last results check.
    """

    offsets: list[int]
    scalars: Memory | None
    starts: bytes
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, traced: Traced, device: Device) -> Fixed:
        offsets = [view.offset for view in traced.inputs]
        scalars = b"".join([scalar.ljust(8, b"\0") for scalar in traced.scalars])
        starts = struct.pack(f"{len(traced.starts)}q", *traced.starts)
        return cls(offsets, device.upload(scalars) if scalars else None, starts, traced.checks)

    def pointers(self, storages: Sequence[Storage]) -> list[bytes]:
        """The pointers to inputs; of one that was donated, it raises."""
        pairs = zip(storages, self.offsets, strict=True)
        return [storage.shifted(at) if at or storage.pointer is None else storage.pointer for storage, at in pairs]


def run(
    compiled: CompiledGraph,
    pointers: list[bytes],
    storages: Sequence[Storage],
    fixed: Fixed,
    dims: dict[str, int],
    into: Mapping[int, Memory] | None = None,
) -> list[Storage]:
    """The values of the roots, given the inputs and the pointers to them, and the values of the dims. `into` is memory
    for results. Checks of indices may raise.
    """
    offsets, scalars, starts, checks = fixed
    memories = compiled.run(pointers, NOWHERE if scalars is None else scalars.pointer, starts, dims, into)
    results = _outputs(compiled, memories, storages, offsets, dims)
    if checks:
        checked = results[-len(checks) :]
        del results[-len(checks) :]
        for check, found in zip(checks, checked, strict=True):
            if check is not DONE:
                check.report(int(found.numpy()))
    return results


def _traced(pending: list[Node]) -> tuple[Traced, list[Storage], Device]:
    """What is computed, with its arguments. A loop that runs gives all of its values at once."""
    from smelt.compiler import trace

    pending += [item for item in living_items(pending) if item.leaf is None and item not in pending]
    traced = trace(pending, integers=True)
    return traced, *arguments(traced)


def arguments(traced: Traced) -> tuple[list[Storage], Device]:
    """The storages of a graph's inputs, on the device that it runs on."""
    storages: list[Storage] = []
    for view in traced.inputs:
        if is_traced_input(view.leaf):
            raise _without_value(view.leaf)
        storages.append(view.leaf.attribute)
    device = common_device(storages)
    return [storage.on(device.name) for storage in storages], device


def _without_value(stand_in: Node) -> TraceError:
    if is_tracing() or is_transforming():
        return TraceError(
            "the value of a tensor is needed while its function is being traced",
            hint="In jit and vmap use sm.where or sm.cond instead of Python conditions, or return the tensor.",
        )
    return TraceError(
        f"a {stand_in.dtype} tensor has no value: it is what a function left behind when it was traced",
        rule="jit, vmap, cond and loops run a function with stand-ins for its inputs; what it puts into lists, "
        "dictionaries or modules of a closure is computed from these.",
        hint="Return the tensor from the function, or carry it in the state of the loop.",
    )


def _is_plain(node: Node) -> bool:
    """True of numbers, one by one or repeated. They stay what they are: every graph shares these nodes, and what is
    known when compiling needs no memory.
    """
    return shown(node).op in (Op.CONST, Op.IOTA)


def _is_small_number(node: Node) -> bool:
    """Whether a node is one number, repeated less often than is worth several threads."""
    return node.elements < MANY_NUMBERS and shown(node).op is Op.CONST


def _filled(node: Node) -> Node:
    """A leaf for a number that is repeated."""
    array = np.broadcast_to(constant_array(shown(node)), [upper(size) for size in node.shape])
    return leaf(Storage.of(array, copy=True))


def find(key: GraphKey, device: Device) -> CompiledGraph:
    """The compiled graph for a key on a device, compiled if need be: by one thread, while others that want it wait."""
    runtime = current()

    def compiled() -> CompiledGraph:
        from smelt.plan import watcher

        began = time.perf_counter()
        made = runtime.compiler.compile(key, device)
        seeing = watcher()
        if seeing is not None:
            seeing.compiled(made, began)
        return made

    return runtime.graphs.get_or_make((device.name, key), compiled)


def _outputs(
    compiled: CompiledGraph,
    memories: Sequence[Memory],
    inputs: Sequence[Storage],
    offsets: Sequence[int],
    dims: dict[str, int],
) -> list[Storage]:
    """The storage of each root: fresh memory, or a view of an input."""
    if compiled.plain is not None:
        return [Storage(memory, known) for memory, known in zip(memories, compiled.plain, strict=True)]
    from smelt.plan import Alias, concrete

    made = iter(memories)
    distinct: list[Storage] = []
    for output in compiled.outputs:
        shape = concrete(output.shape, dims)
        if isinstance(output, Alias):
            start = offsets[output.input] + output.offset
            distinct.append(inputs[output.input].view(shape, concrete(output.strides, dims), start))
        else:
            distinct.append(Storage(next(made), signature(output.dtype, shape, device=compiled.device.name)))
    if not compiled.dims and len(memories) == len(compiled.results) and compiled.results == tuple(range(len(distinct))):
        compiled.plain = [storage.signature for storage in distinct]
    return [distinct[k] for k in compiled.results]
