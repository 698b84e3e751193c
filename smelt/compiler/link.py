"""From launches over nodes to a record: where every value lies, and which integers each kernel is given."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from smelt.compiler.record import GraphRecord, output_fields
from smelt.compiler.trace import Argument, GraphKey, count_starts
from smelt.device.protocol import Device, Launch
from smelt.fuse import Group
from smelt.graph.index import product_of, upper
from smelt.graph.node import Node
from smelt.graph.ops import Op
from smelt.graph.shapes import row_major
from smelt.kernel import Kernel, Routine, Temporary, print_kernel
from smelt.plan import ARENA, INPUTS, SCALARS, Alias, KernelRecord, Lifetime, Placed, Stored, assign

SCALAR_BYTES = 8
Value = Node | Temporary  # what lies behind a buffer


@dataclass(eq=False)
class Built:
    """A kernel in memory, shared by every launch and graph with the same region or routine."""

    kernel: Kernel | Routine
    text: str  # of the region or routine
    grain: int
    schedule: str = ""
    source: str = ""
    library: str = ""  # key of the library that holds it
    workspace: int = 0


@dataclass(frozen=True)
class Work:
    """One launch: the group, its kernel, the node behind each buffer, and what its parameters are called in the
    graph. The first nodes are what it writes; for each of them, those in `overwritable` may lie in the same memory.
    """

    group: Group
    built: Built
    nodes: Sequence[Value]
    names: dict[str, str]
    overwritable: Sequence[Sequence[Value]] = ()


def link(
    key: GraphKey,
    device: Device,
    work: Sequence[Work],
    outputs: Sequence[Stored | Alias],
    results: Sequence[int],
    stored: Sequence[Node],
    explain: bool,
) -> GraphRecord:
    """Place every value and write the launches down."""
    entries, _, bounds = key
    n_inputs = max((entry[4] + 1 for entry in entries if entry[0] is Op.LEAF), default=0)
    names = [f"d{k}" for k in range(len(bounds))] + [f"s{k}" for k in range(count_starts(key))]
    integers = {name: k for k, name in enumerate(names)}
    place: dict[Value, tuple[int, int]] = {node: (INPUTS + n_inputs + k, 0) for k, node in enumerate(stored)}
    temporaries = _temporaries(work, place)
    offsets, arena = _offsets(work, temporaries)
    place.update({node: (ARENA, offset) for node, offset in offsets.items()})
    slots: dict[tuple[int, int], int] = {}
    libraries: dict[str, int] = {}
    launches: list[Launch] = []
    for item in work:
        built = item.built
        buffers = tuple(slots.setdefault(_slot(node, place), len(slots)) for node in item.nodes)
        tasks = built.kernel.tasks.value
        launches.append(
            Launch(
                libraries.setdefault(built.library, len(libraries)),
                built.kernel.name,
                device.count(built.kernel) if tasks is None else "",
                tasks or 0,
                built.grain,
                built.kernel.threads,
                buffers,
                tuple(integers[item.names[v.name]] for v in built.kernel.parameters),
            )
        )
    placed = [
        Placed(life.nbytes, offsets[node], life.first, life.last, repr(node)) for node, life in temporaries.items()
    ]
    largest = [(p.nbytes, p.text) for p in placed]
    largest += [(o.nbytes, f"result {o.dtype}{list(o.shape)}") for o in outputs if isinstance(o, Stored)]
    return GraphRecord(
        tuple(libraries),
        tuple(launches),
        tuple(slots),
        max((item.built.workspace for item in work), default=0),
        arena,
        tuple(output_fields(output) for output in outputs),
        tuple(results),
        n_inputs,
        bounds,
        tuple(_fields(item, explain) for item in work),
        tuple(tuple(p) for p in placed),
        tuple(sorted(largest, reverse=True)[:8]),
        _in_place(work, stored, {output.input for output in outputs if isinstance(output, Alias)}),
    )


def _in_place(work: Sequence[Work], stored: Sequence[Node], shown: Set[int]) -> tuple[tuple[int, int], ...]:
    """Results that may be written over an input, should its owner give it up: (number of the result, of the input).

    Inputs that are `shown` as results stay what they are.
    """
    numbers: dict[Value, int] = {node: k for k, node in enumerate(stored)}
    inputs: dict[Value, int] = {
        node: node.attribute.number
        for item in work
        for node in item.nodes
        if isinstance(node, Node) and node.op is Op.LEAF and node.attribute.kind == "input"
    }
    last = {inputs[node]: k for k, item in enumerate(work) for node in item.nodes if node in inputs}
    found: dict[int, int] = {}  # by input
    for k, item in enumerate(work):
        for written, candidates in zip(item.nodes, item.overwritable, strict=False):
            free = [node for node in candidates if node in inputs and inputs[node] not in {*found, *shown}]
            for node in free if written in numbers else ():
                if last[inputs[node]] == k and _is_alike(node, written):
                    found[inputs[node]] = numbers[written]
                    break
    return tuple(sorted((result, number) for number, result in found.items()))


def _is_alike(node: Value, written: Value) -> bool:
    """Whether an input has the size of a result, and no gaps."""
    argument = node.attribute if isinstance(node, Node) else None
    whole = isinstance(argument, Argument) and argument.strides == row_major(node.shape)
    return whole and node.shape == written.shape and node.dtype is written.dtype


def _slot(node: Value, place: dict[Value, tuple[int, int]]) -> tuple[int, int]:
    at = place.get(node)
    if at is not None or isinstance(node, Temporary):
        return at or place[node]
    argument: Argument = node.attribute
    return (INPUTS + argument.number, 0) if argument.kind == "input" else (SCALARS, SCALAR_BYTES * argument.number)


def _temporaries(work: Sequence[Work], place: dict[Value, tuple[int, int]]) -> dict[Value, Lifetime]:
    """Values that live only inside the graph, with the launches between which they live."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            if node not in place and (isinstance(node, Temporary) or node.op is not Op.LEAF):
                first.setdefault(node, k)
                last[node] = k
    return {node: Lifetime(_bytes(node), first[node], last[node]) for node in first}


def _offsets(work: Sequence[Work], temporaries: dict[Value, Lifetime]) -> tuple[dict[Value, int], int]:
    """Where each temporary lies in the arena, and the size of the arena.

    What a launch writes takes the place of an equally large value that this launch is the last to read, where it may.
    """
    home = {node: node for node in temporaries}
    lives = dict(temporaries)  # of homes, with all who live there one after the other
    for k, item in enumerate(work):
        taken: set[Value] = set()
        for written, candidates in zip(item.nodes, item.overwritable, strict=False):
            if written not in temporaries or temporaries[written].first != k:
                continue
            for node in candidates:
                old = home.get(node)
                if old is None or old in taken or lives[old].last != k or lives[old].nbytes != lives[written].nbytes:
                    continue
                home[written] = old
                lives[old] = lives[old]._replace(last=lives.pop(written).last)
                taken.add(old)
                break
    offsets, arena = assign(list(lives.values()))
    at = dict(zip(lives, offsets, strict=True))
    return {node: at[home[node]] for node in temporaries}, arena


def _bytes(node: Value) -> int:
    return upper(product_of(node.shape)) * node.dtype.itemsize


def _fields(item: Work, explain: bool) -> tuple[Any, ...]:
    """The fields of a KernelRecord; the long texts only when somebody wants to read them."""
    built = item.built
    record = KernelRecord(
        built.kernel.name,
        built.text if explain else "",
        built.schedule,
        kernel_text(built) if explain else "",
        repr(item.group.sink),
        tuple(_describe(node) for node in reversed(item.group.inside)),
        str(built.kernel.tasks),
        sum(_bytes(node) for node in dict.fromkeys(item.nodes)),
        built.kernel.operations if isinstance(built.kernel, Routine) else _flops(item.group),
    )
    return tuple(getattr(record, name) for name in KernelRecord.__dataclass_fields__)


def kernel_text(built: Built) -> str:
    """The IR of a kernel; a routine has no other text than the one that it is known by."""
    return built.text if isinstance(built.kernel, Routine) else print_kernel(built.kernel)


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
