"""The driver: a graph key through every stage to a CompiledGraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from smelt.compiler.link import Built, Work, kernel_text, link
from smelt.compiler.record import assemble, store_graph
from smelt.compiler.stages import Stages
from smelt.compiler.trace import Argument, GraphKey, LeafView, leaf_view, rebuild
from smelt.config import settings
from smelt.device.protocol import Device, Library
from smelt.fuse import (
    ROUTINES,
    Chain,
    Group,
    Layout,
    build_region,
    contiguous,
    merge_axes,
    name_slots,
    overwritable,
    partition,
    prepared,
    split_reductions,
    storable,
    weigh_last,
    whole_words,
)
from smelt.graph import composites
from smelt.graph.index import product_of, upper
from smelt.graph.node import Node, private_nodes, topological, with_sources
from smelt.graph.ops import Op
from smelt.graph.text import print_graph
from smelt.graph.verify import verify_graph
from smelt.kernel import Region, print_region, print_routine, verify
from smelt.locks import new_lock
from smelt.plan import Alias, CompiledGraph, Stored
from smelt.rewrite import rewrite
from smelt.schedule import choose, routine_steps

KERNEL_LIMIT = 4096  # kernels kept in memory
UNIT_KERNELS = 24  # kernels in one translation unit; more are compiled side by side


_kernels: dict[tuple[str, str], Built] = {}  # by device, and the text of the region or routine
_libraries: dict[str, Library] = {}
_lock = new_lock()


def compile_key(key: GraphKey, device: Device, stages: Stages, digest: str, explain: bool) -> CompiledGraph:
    """Run every stage. With a `digest` the result is kept on disk; with `explain` the texts of the stages are."""
    with _lock, private_nodes():
        return _compile(key, device, stages, digest, explain)


def _compile(key: GraphKey, device: Device, stages: Stages, digest: str, explain: bool) -> CompiledGraph:
    texts: dict[str, str] = {}
    with stages.stage("rebuild"):
        roots = rebuild(key)
    if explain:
        texts["graph"] = print_graph(roots)
    with stages.stage("rewrite"):
        roots = simplify(roots)
    if explain:
        texts["rewritten"] = print_graph(roots)
    if settings().verify:
        verify_graph(roots)
    with stages.stage("fuse"):
        roots, pieces = split_reductions(prepared(roots, _layout))
        chains: list[Chain] = []
        if not device.profile.group_threads:  # work-groups multiply no words, and contract in several kernels
            roots, pieces = whole_words(roots, pieces, device.profile)
            roots, pieces, chains = weigh_last(roots, pieces)
        outputs, results, stored = _outputs(roots)
        groups = partition(stored, pieces, chains)
    work: list[Work] = []
    new: dict[tuple[str, str], Built] = {}
    for group in groups:
        if any(size == 0 for size in group.result.shape):
            continue
        if group.sink.op in ROUTINES:
            work += _routine_work(group, device, new)
            continue
        with stages.stage("regions"):
            region, nodes = build_region(group, _layout)
            places = tuple(nodes[k] for k in overwritable(region))
            region, names = name_slots(merge_axes(region))
            text = print_region(region)
        work.append(Work(group, _kernel(region, text, device, new, stages), nodes, names, places))
    with stages.stage("render"):
        units = _render(list(new.values()), device)
    with stages.stage("compile"):
        _build(units, device)
        _remember(new)
    with stages.stage("plan"):
        record = link(key, device, work, outputs, results, stored, explain)
        compiled = assemble(record, device, [_libraries[name] for name in record.libraries])
    if digest:
        with stages.stage("store"):
            store_graph(digest, record)
    compiled.stages = texts
    compiled.source = "\n".join(dict.fromkeys(w.built.source for w in work))
    return compiled


def simplify(roots: Sequence[Node]) -> list[Node]:
    """Rewrite, write composites out, and rewrite what they became."""
    roots = rewrite(roots)
    if not any(node.op is Op.COMPOSITE for node in topological(roots)):
        return roots
    return rewrite(_expanded(roots))


def _expanded(roots: Sequence[Node]) -> list[Node]:
    new: dict[Node, Node] = {}
    for node in topological(roots):
        sources = tuple([new[source] for source in node.sources])
        replaced = with_sources(node, sources)
        new[node] = _written_out(replaced) if node.op is Op.COMPOSITE else replaced
    return [new[root] for root in roots]


def _written_out(node: Node) -> Node:
    """A composite in primitive ops; composites may be made of composites."""
    expansion = composites.expand(node)
    if any(inner.op is Op.COMPOSITE for inner in topological([expansion])):
        return _expanded([expansion])[0]
    return expansion


def _outputs(roots: Sequence[Node]) -> tuple[list[Stored | Alias], list[int], list[Node]]:
    """What each root becomes, and the nodes that have to be stored."""
    views: dict[Node, LeafView | None] = {}
    for node in topological(roots):
        views[node] = leaf_view(node, views) if _input_below(node, views) else None
    outputs: list[Stored | Alias] = []
    stored: dict[Node, int] = {}
    results: list[int] = []
    for root in roots:
        view = views[root]
        if view is not None:
            argument: Argument = view.leaf.attribute
            outputs.append(Alias(argument.number, view.shape, view.strides, view.offset))
            results.append(len(outputs) - 1)
            continue
        root = storable(root)
        if root not in stored:
            stored[root] = len(outputs)
            outputs.append(Stored(root.dtype, root.shape, upper(product_of(root.shape)) * root.dtype.itemsize))
        results.append(stored[root])
    return outputs, results, list(stored)


def _input_below(node: Node, views: dict[Node, LeafView | None]) -> bool:
    if node.op is Op.LEAF:
        argument: Argument = node.attribute
        return argument.kind == "input"
    return bool(node.sources) and views.get(node.sources[0]) is not None


def _layout(node: Node) -> Layout:
    if node.op is Op.LEAF:
        argument: Argument = node.attribute
        return Layout(node.shape, argument.strides)
    return contiguous(node)


def _kernel(region: Region, text: str, device: Device, new: dict[tuple[str, str], Built], stages: Stages) -> Built:
    """The kernel for a region: known, already on its way, or lowered now."""
    key = (device.name, text)
    known = _kernels.get(key) or new.get(key)
    if known is not None:
        return known
    with stages.stage("schedule"):
        schedule, kernel = choose(region, device.profile)
    if settings().verify:
        with stages.stage("verify"):
            verify(kernel)
    built = new[key] = Built(kernel, text, schedule.grain, schedule.text())
    return built


def _routine_work(group: Group, device: Device, new: dict[tuple[str, str], Built]) -> Iterator[Work]:
    """The launches of a node that is a routine."""
    for routine, buffers in routine_steps(group.sink, _layout, device.profile):
        text = print_routine(routine)
        key = (device.name, text)
        built = _kernels.get(key) or new.setdefault(key, Built(routine, text, routine.grain))
        yield Work(group, built, list(buffers), {v.name: v.name for v in routine.parameters})


def _render(new: list[Built], device: Device) -> list[tuple[list[Built], str]]:
    """Translation units for new kernels, as even as possible."""
    for number, built in enumerate(new):
        built.kernel = replace(built.kernel, name=f"k{number}")
        built.workspace = device.workspace_bytes(built.kernel)
    count = 1 if len(new) < 4 else 1 + -(-len(new) // UNIT_KERNELS)
    parts = [new[k::count] for k in range(min(count, len(new)))]
    return [(part, device.render([built.kernel for built in part])) for part in parts]


def _build(units: list[tuple[list[Built], str]], device: Device) -> None:
    libraries = device.build([source for _, source in units])
    for (part, source), library in zip(units, libraries, strict=True):
        _libraries[library.key] = library
        for built in part:
            built.source, built.library = source, library.key


def _remember(new: dict[tuple[str, str], Built]) -> None:
    """Keep new kernels for later graphs, the oldest making room."""
    _kernels.update(new)
    while len(_kernels) > KERNEL_LIMIT:
        del _kernels[next(iter(_kernels))]


def print_kernels() -> Iterator[str]:
    """The IR of every kernel in memory."""
    yield from dict.fromkeys(kernel_text(built) for built in _kernels.values())
