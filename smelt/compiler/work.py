"""What a graph is compiled to before values have places: launches, and loops and branches of launches.

The memory of a body is planned by itself, as one block that lives while its loop or branch runs. The block is a
temporary of the graph around it, so that blocks of bodies inside bodies nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from smelt.device.protocol import Library
from smelt.dtypes import int64, uint8
from smelt.fuse import Group, LoopSizes, base
from smelt.graph import IndexLike, Node, Op, product_of, upper
from smelt.graph.closed import items
from smelt.kernel import Kernel, Routine, Temporary, print_kernel
from smelt.plan import Lifetime, Step, assign, reordered
from smelt.schedule import Choice

Value = Node | Temporary  # what lies behind a buffer


@dataclass(eq=False)
class Built:
    """A kernel in memory, shared by every launch and graph with the same region or routine."""

    kernel: Kernel | Routine
    text: str  # of the region or routine
    choice: Choice
    source: str = ""
    library: Library | None = None  # that holds it, once it is compiled
    workspace: int = 0

    def ir(self) -> str:
        """The kernel's text; a routine has no other than the one that it is known by."""
        return self.text if isinstance(self.kernel, Routine) else print_kernel(self.kernel)


@dataclass(frozen=True)
class Work:
    """One launch: the group, its kernel, the node behind each buffer, and what its parameters are called in the
    graph. The first nodes are what it writes; for each of them, those in `overwritable` may lie in the same memory, and
    `starts` says after how many bytes of that it begins.
    """

    group: Group
    built: Built
    nodes: Sequence[Value]
    names: dict[str, str]
    overwritable: Sequence[Sequence[Value]] = ()
    starts: Sequence[int] = ()

    @property
    def written(self) -> Sequence[Value]:
        return self.nodes[: 1 + len(self.group.also)]


class BlockMemory(Temporary):
    """The memory of a body, while it runs."""

    def __repr__(self) -> str:
        return f"<memory of a body: {self.shape[0]} bytes>"


@dataclass(frozen=True, eq=False)
class Block:
    """The launches of a body, the nodes that it gives, and the leaves that stand for its parameters."""

    work: Sequence[AnyWork]
    stored: Sequence[Node]
    leaves: Sequence[Node]


Offsets = Mapping[Value, int]


@dataclass(frozen=True, eq=False)
class ControlWork:
    """A loop or branch: `nodes` are its values, what it reads, and its memory."""

    node: Node
    blocks: Sequence[Block]  # in the order in which they run
    values: Sequence[Node]
    memory: BlockMemory
    offsets: Sequence[Offsets]  # where in the memory the values of each block lie
    overwritable: Sequence[Sequence[Value]] = field(default=())

    @property
    def written(self) -> Sequence[Value]:
        return self.values

    @property
    def nodes(self) -> list[Value]:
        return [*self.values, *(base(source) for source in self.node.sources), self.memory]


@dataclass(frozen=True, eq=False)
class BranchWork(ControlWork):
    """Two blocks, the first for true."""

    @classmethod
    def of(cls, node: Node, true: Block, false: Block) -> BranchWork:
        """With its memory planned: the two blocks never run both."""
        memory, offsets, _ = _planned([(true, true.stored), (false, false.stored)], ())
        return cls(node, (true, false), items(node), memory, offsets)


@dataclass(frozen=True, eq=False)
class LoopWork(ControlWork):
    """The test, if there is one, then the body.

    A state has two places that take turns, its result's and a spare one; those `in_place` have only the first. At
    `counters` in the memory lies the number of the iteration, then the registers: for each state that moves, where it
    lies now and where it will lie next, then one for each x and y.
    """

    sizes: LoopSizes = field(default=LoopSizes(0, (), (), ()))
    in_place: frozenset[int] = frozenset()
    registers: int = 0
    counters: int = 0
    spare: Sequence[int] = ()  # of the states that move

    @classmethod
    def of(
        cls, node: Node, body: Block, test: Block | None, sizes: LoopSizes, in_place: frozenset[int] = frozenset()
    ) -> LoopWork:
        """With its memory planned."""
        moving = [x for j, x in enumerate(body.stored[: node.attribute.states]) if j not in in_place]
        registers = 2 * len(moving) + len(sizes.xs) + len(sizes.ys)
        kept = [Temporary(int64, (1 + registers,)), *(Temporary(x.dtype, x.shape) for x in moving)]
        given: list[tuple[Block, Sequence[Node]]] = [] if test is None else [(test, ())]
        memory, offsets, (counters, *spare) = _planned([*given, (body, body.stored)], kept)
        blocks = (body,) if test is None else (test, body)
        sources = [base(source) for source in node.sources]
        # Where a state stays in its place, that may be its source's.
        below = [
            [x] if j in in_place and sources.count(x) == 1 else [] for j, x in enumerate(sources[: len(sizes.states)])
        ]
        return cls(node, blocks, items(node), memory, offsets, below, sizes, in_place, registers, counters, spare)


@dataclass(frozen=True, eq=False)
class HostWork(ControlWork):
    """A call of Python's: no blocks, no memory."""

    @classmethod
    def of(cls, node: Node) -> HostWork:
        return cls(node, (), items(node), BlockMemory(uint8, (0,)), ())

    @property
    def nodes(self) -> list[Value]:
        return [*self.values, *(base(source) for source in self.node.sources)]


AnyWork = Work | ControlWork


def all_launches(work: Sequence[AnyWork]) -> Iterator[Work]:
    """The launches, with those of bodies."""
    for item in work:
        if isinstance(item, Work):
            yield item
        else:
            for block in item.blocks:
                yield from all_launches(block.work)


def in_order(work: Sequence[AnyWork], stored: Sequence[Node]) -> list[AnyWork]:
    """The launches in an order that frees memory early. What is `stored` has memory of its own.

    A launch that could write a result over a leaf waits for the others that read this leaf: its owner may give it up.
    """
    steps: list[Step] = []
    results = set(stored)
    for item in work:
        own = [value for value in item.nodes if not _is_leaf(value)]
        # Routines work on memory step by step: what they touch, they may write.
        touches = isinstance(item, ControlWork) or isinstance(item.built.kernel, Routine)
        inside: list[Value] = [value for value in own if isinstance(value, Temporary)] if touches else []
        writes = [*inside, *(own if isinstance(item, Work) and touches else item.written)]
        writes += _leaves_below(item, results)
        steps.append(Step(frozenset(item.nodes).difference(writes), frozenset(writes)))
    # Numbers count for nothing: an update that frees much must not wait because its step size takes four bytes.
    sizes = {
        value: nbytes(value)
        for item in work
        for value in item.nodes
        if value.shape and value not in results and not _is_leaf(value)
    }
    return [work[k] for k in reordered(steps, sizes)]


def _leaves_below(item: AnyWork, results: Set[Value]) -> Iterator[Value]:
    """The leaves that results of a launch may be written over."""
    for written, candidates in zip(item.nodes, item.overwritable, strict=False):
        if written in results:
            yield from (x for x in candidates if _is_leaf(x) and (x.shape, x.dtype) == (written.shape, written.dtype))


def _is_leaf(value: Value) -> bool:
    return isinstance(value, Node) and value.op is Op.LEAF


def _planned(
    blocks: Sequence[tuple[Block, Sequence[Node]]], kept: Sequence[Temporary]
) -> tuple[BlockMemory, list[Offsets], list[int]]:
    """The memory of bodies that run one after the other, each with what it gives to places outside of it.

    Where the values of each lie, and where that lies which is `kept` from the first launch to the last.
    """
    homes: list[dict[Value, Value]] = []
    lives: list[dict[Value, Lifetime]] = []
    time = 0
    for block, given in blocks:
        home, own = homes_of(block.work, temporaries(block.work, set(given)))
        homes.append(home)
        lives.append({value: Lifetime(life.nbytes, life.first + time, life.last + time) for value, life in own.items()})
        time += len(block.work)
    flat = [life for own in lives for life in own.values()]
    places, total = assign([*flat, *(Lifetime(nbytes(value), 0, time) for value in kept)])
    each = iter(places)
    at = [{value: next(each) for value in own} for own in lives]
    offsets: list[Offsets] = [
        {value: found[old] for value, old in home.items()} for home, found in zip(homes, at, strict=True)
    ]
    return BlockMemory(uint8, (total,)), offsets, list(each)


def temporaries(work: Sequence[AnyWork], placed: set[Node] | Mapping[Value, object]) -> dict[Value, Lifetime]:
    """Values that live only inside the graph, with the launches between which they live."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            if node not in placed and (isinstance(node, Temporary) or node.op is not Op.LEAF):
                first.setdefault(node, k)
                last[node] = k
    return {node: Lifetime(nbytes(node), first[node], last[node]) for node in first}


def homes_of(
    work: Sequence[AnyWork], temporaries: Mapping[Value, Lifetime]
) -> tuple[dict[Value, Value], dict[Value, Lifetime]]:
    """For each temporary, the one whose place it takes, often its own; and the lifetimes of these places.

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
    return home, lives


def nbytes(node: Value) -> int:
    """The memory that a value takes at the upper bound of its dims."""
    return upper(sized_nbytes(node))


def sized_nbytes(node: Value) -> IndexLike:
    """The memory that a value takes, by the dims."""
    return product_of(node.shape) * node.dtype.itemsize
