"""The driver: a graph key through every stage to a CompiledGraph."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from smelt.compiler.trace import Argument, GraphKey, leaf_view, rebuild
from smelt.config import settings
from smelt.device.cpu import CPU, LaunchSpec
from smelt.errors import InternalError
from smelt.fuse import Group, Layout, build_region, contiguous, merge_axes, name_slots, partition, storable
from smelt.graph import composites
from smelt.graph.index import IndexLike, Variable, as_index, product_of, upper
from smelt.graph.node import Node, make, topological
from smelt.graph.ops import Op
from smelt.graph.text import print_graph
from smelt.graph.verify import verify_graph
from smelt.kernel import Kernel, Region, print_kernel, print_region, verify
from smelt.plan import ARENA, INPUTS, Alias, CompiledGraph, KernelRecord, Lifetime, Placed, Stored, assign
from smelt.render import render, workspace_bytes
from smelt.rewrite import rewrite
from smelt.schedule import Scheduled, choose

SOURCE_LIMIT = 24  # kernels in one translation unit; more are compiled side by side


@dataclass(eq=False)
class Built:
    """A kernel in memory, shared by every launch and graph with the same region and schedule."""

    kernel: Kernel
    schedule: Scheduled
    region: Region
    text: str
    source: str = ""
    address: int = 0
    count_address: int = 0
    workspace: int = 0


@dataclass
class _Work:
    """One launch on its way: the group, its kernel, the node behind each buffer, and what its parameters are called."""

    group: Group
    built: Built
    nodes: list[Node]
    names: dict[str, str]


@dataclass
class _Stages:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


_kernels: dict[tuple[str, str], Built] = {}
_lock = threading.RLock()


def compile_graph(key: GraphKey, device: CPU, explain: bool = False) -> CompiledGraph:
    """Compile the graph of a key. With `explain`, the text of every stage is kept."""
    with _lock:
        return _compile(key, device, explain)


def _compile(key: GraphKey, device: CPU, explain: bool) -> CompiledGraph:
    stages = _Stages()
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
        outputs, results, stored = _outputs(roots)
        groups = partition(stored)
    work: list[_Work] = []
    new: dict[tuple[str, str], Built] = {}
    for group in groups:
        if any(size == 0 for size in group.result.shape):
            continue
        with stages.stage("regions"):
            region, nodes = build_region(group, _layout)
            region, names = name_slots(merge_axes(region))
            text = print_region(region)
        built = _kernel(region, text, device, new, stages)
        work.append(_Work(group, built, nodes, names))
    with stages.stage("render"):
        sources = _render(new)
    with stages.stage("compile"):
        _build(new, sources, device)
    with stages.stage("plan"):
        compiled = _link(key, device, work, outputs, results, stored, explain)
    compiled.seconds, compiled.stages = stages.seconds, texts
    compiled.source = "\n".join(dict.fromkeys(w.built.source for w in work))
    if settings().debug:
        _report(compiled)
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
        if sources != node.sources:
            replaced = make(node.op, node.dtype, node.shape, sources, node.attribute)
        else:
            replaced = node
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
    views: dict[Node, object] = {}
    for node in topological(roots):
        views[node] = leaf_view(node, views) if _input_below(node, views) else None  # type: ignore[arg-type]
    outputs: list[Stored | Alias] = []
    stored: dict[Node, int] = {}
    results: list[int] = []
    for root in roots:
        view = views[root]
        if view is not None:
            outputs.append(Alias(view.leaf.attribute.number, view.shape, view.strides, view.offset))  # type: ignore[attr-defined]
            results.append(len(outputs) - 1)
            continue
        root = storable(root)
        if root not in stored:
            stored[root] = len(outputs)
            outputs.append(Stored(root.dtype, root.shape, upper(product_of(root.shape)) * root.dtype.itemsize))
        results.append(stored[root])
    return outputs, results, list(stored)


def _input_below(node: Node, views: dict[Node, object]) -> bool:
    if node.op is Op.LEAF:
        argument: Argument = node.attribute
        return argument.kind == "input"
    return bool(node.sources) and views.get(node.sources[0]) is not None


def _layout(node: Node) -> Layout:
    if node.op is Op.LEAF:
        argument: Argument = node.attribute
        return Layout(node.shape, argument.strides)
    return contiguous(node)


def _kernel(
    region: Region, text: str, device: CPU, new: dict[tuple[str, str], Built], stages: _Stages
) -> Built:
    """The kernel for a region: known, already on its way, or lowered now."""
    key = (text, device.name)
    known = _kernels.get(key) or new.get(key)
    if known is not None:
        return known
    with stages.stage("schedule"):
        schedule, kernel = choose(region, device.profile)
    if settings().verify:
        with stages.stage("verify"):
            verify(kernel)
    built = new[key] = Built(kernel, schedule, region, text)
    return built


def _render(new: dict[tuple[str, str], Built]) -> list[tuple[list[Built], str]]:
    """Translation units for new kernels, as even as possible."""
    waiting = list(new.values())
    if not waiting:
        return []
    for number, built in enumerate(waiting):
        built.kernel = _renamed(built.kernel, f"k{number}")
        built.workspace = workspace_bytes(built.kernel)
    units = max(1, min(len(waiting) // 2, -(-len(waiting) // SOURCE_LIMIT) + 1 if len(waiting) > 3 else 1))
    parts = [waiting[k::units] for k in range(units)]
    return [(part, render([built.kernel for built in part])) for part in parts]


def _renamed(kernel: Kernel, name: str) -> Kernel:
    return Kernel(name, kernel.buffers, kernel.parameters, kernel.body, kernel.tasks)


def _build(new: dict[tuple[str, str], Built], sources: list[tuple[list[Built], str]], device: CPU) -> None:
    libraries = device.build([source for _, source in sources])
    for (part, source), library in zip(sources, libraries, strict=True):
        for built in part:
            built.source = source
            built.address = library.address(built.kernel.name)
            if built.kernel.tasks.value is None:
                built.count_address = library.address(f"{built.kernel.name}_tasks")
    _kernels.update(new)


def _link(
    key: GraphKey,
    device: CPU,
    work: list[_Work],
    outputs: list[Stored | Alias],
    results: list[int],
    stored: list[Node],
    explain: bool,
) -> CompiledGraph:
    entries, _, bounds = key
    n_inputs = max((entry[4] + 1 for entry in entries if entry[0] is Op.LEAF), default=0)
    n_scalars = max((entry[3] + 1 for entry in entries if entry[0] is Op.CONST and entry[2] is None), default=0)
    integer_names = [f"d{k}" for k in range(len(bounds))]
    integer_names += [f"s{k}" for k in range(_count_starts(entries))]
    integers = {name: k for k, name in enumerate(integer_names)}
    place: dict[Node, tuple[int, int]] = {}
    number = 0
    for node in stored:
        place[node] = (INPUTS + n_inputs + number, 0)
        number += 1
    scalar_bytes = -(-8 * n_scalars // 64) * 64
    temporaries = _temporaries(work, place)
    offsets, arena = assign([lifetime for _, lifetime in temporaries])
    for (node, _), offset in zip(temporaries, offsets, strict=True):
        place[node] = (ARENA, scalar_bytes + offset)
    slots: dict[tuple[int, int], int] = {}
    launches: list[LaunchSpec] = []
    for item in work:
        buffers = []
        for node in item.nodes:
            at = place.get(node)
            if at is None:
                argument: Argument = node.attribute
                at = (INPUTS + argument.number, 0) if argument.kind == "input" else (ARENA, 8 * argument.number)
            buffers.append(slots.setdefault(at, len(slots)))
        built = item.built
        tasks = built.kernel.tasks.value
        wanted = tuple(integers[item.names[v.name]] for v in built.kernel.parameters)
        spec = LaunchSpec(built.address, built.count_address, tasks or 0, built.schedule.grain, tuple(buffers), wanted)
        launches.append(spec)
    scratch = max((item.built.workspace for item in work), default=0)
    program = device.program(launches, list(slots), scratch, scalar_bytes + arena) if launches else None
    largest = sorted(((lifetime.nbytes, repr(node)) for node, lifetime in temporaries), reverse=True)
    largest += [(o.nbytes, f"result {o.dtype}{list(o.shape)}") for o in outputs if isinstance(o, Stored)]
    return CompiledGraph(
        device,
        program,
        tuple(outputs),
        tuple(results),
        n_inputs,
        tuple(Variable(f"d{k}", low, high) for k, (low, high) in enumerate(bounds)),
        arena,
        tuple(_record(item, explain) for item in work),
        layout=tuple(
            Placed(life.nbytes, scalar_bytes + offset, life.first, life.last, repr(node))
            for (node, life), offset in zip(temporaries, offsets, strict=True)
        ),
        largest=tuple(sorted(largest, reverse=True)[:8]),
    )


def _count_starts(entries: Sequence[tuple[object, ...]]) -> int:
    return sum(span[0] is None for entry in entries if entry[0] is Op.SLICE for span in entry[3])  # type: ignore[attr-defined]


def _temporaries(work: list[_Work], place: dict[Node, tuple[int, int]]) -> list[tuple[Node, Lifetime]]:
    """Values that live only inside the graph, with the launches between which they live."""
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            if node.op is not Op.LEAF and node not in place:
                first.setdefault(node, k)
                last[node] = k
    nbytes = {node: upper(product_of(node.shape)) * node.dtype.itemsize for node in first}
    return [(node, Lifetime(nbytes[node], first[node], last[node])) for node in first]


def _record(item: _Work, explain: bool) -> KernelRecord:
    built = item.built
    buffers = {node: upper(product_of(node.shape)) * node.dtype.itemsize for node in item.nodes}
    tasks = str(built.kernel.tasks)
    names = tuple(_describe(node) for node in reversed(item.group.inside))
    return KernelRecord(
        built.kernel.name,
        built.text,
        built.schedule.text(),
        print_kernel(built.kernel) if explain else "",
        repr(item.group.sink),
        names,
        tasks,
        sum(buffers.values()),
        _flops(item.group),
    )


def _describe(node: Node) -> str:
    if node.op in (Op.UNARY, Op.BINARY):
        return str(node.attribute)
    return f"{node.op.value}.{node.attribute.op}" if node.op is Op.REDUCE else node.op.value


def _flops(group: Group) -> int:
    total = 0
    for node in group.inside:
        if node.op is Op.CONTRACT:
            left, right, _ = node.attribute
            sizes = dict(zip(left + right, node.sources[0].shape + node.sources[1].shape, strict=True))
            total += 2 * upper(product_of(sizes.values()))
        elif node.op is Op.REDUCE:
            total += upper(product_of(node.sources[0].shape))
        elif node.op in (Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST):
            total += upper(product_of(node.shape))
    return total


def _report(compiled: CompiledGraph) -> None:
    level = settings().debug
    total = sum(compiled.seconds.values())
    spent = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in compiled.seconds.items())
    print(f"smelt: {len(compiled.kernels)} kernels in {1e3 * total:.1f} ms ({spent})", file=sys.stderr)
    if level >= 2:
        for record in compiled.kernels:
            print(f"  {record.name} {record.sink} <- {' '.join(record.nodes)}", file=sys.stderr)
            print(f"    {record.schedule}", file=sys.stderr)
    if level >= 3:
        for text in dict.fromkeys(print_kernel(b.kernel) for b in _kernels.values()):
            print(text, file=sys.stderr)
    if level >= 4:
        print(compiled.source, file=sys.stderr)
