"""What a graph is compiled to: launches, and loops and branches of launches; their order and their memory."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from smelt.device.protocol import Library
from smelt.dtypes import int64, uint8
from smelt.fuse import Group, LoopSizes, base
from smelt.graph import Index, IndexLike, Node, Op, product_of, upper
from smelt.graph.closed import items
from smelt.kernel import Kernel, Routine, Temporary, print_kernel
from smelt.plan import ARENA, Home, Lifetime, Step, assign, assign_sized, reordered
from smelt.schedule import Choice

Value = Node | Temporary  # what lies behind a buffer
Place = tuple[int, int]  # a base and an offset


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


@dataclass(frozen=True, eq=False)
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


class Fixed(Temporary):
    """The memory of a loop or branch while it runs. It lies where it lies, whatever the dims are."""

    def __repr__(self) -> str:
        return f"<memory of a loop or branch: {nbytes(self)} bytes>"


@dataclass(frozen=True, eq=False)
class Block:
    """The launches of a body, the nodes that it gives to places outside, and the leaves that stand for its parameters.

    Its temporaries are planned by themselves: they lie in the memory of its loop or branch, so that bodies nest.
    """

    work: Sequence[AnyWork]
    stored: Sequence[Node]
    leaves: Sequence[Node]

    @functools.cached_property
    def arena(self) -> Arena:
        return Arena.of(self.work, self.stored)


@dataclass(frozen=True, eq=False)
class ControlWork:
    """A loop, branch or call of Python's: `nodes` are its values, what it reads, and its memory.

    The blocks of a branch are those for true and false; of a loop the test, if there is one, and the body. A loop keeps
    words beside the memory of its blocks (the number of the iteration, what the test says, and registers) and a spare
    place for each state that moves: it takes turns with that of the result.
    """

    node: Node
    values: Sequence[Node]
    blocks: Sequence[Block] = ()  # in the order in which they run
    memory: Sequence[Temporary] = ()  # of the blocks, then what a loop keeps: words, and spare places
    sizes: LoopSizes | None = None
    in_place: frozenset[int] = frozenset()  # the states that do not move
    overwritable: Sequence[Sequence[Value]] = ()

    @classmethod
    def of(
        cls,
        node: Node,
        blocks: Sequence[Block] = (),
        sizes: LoopSizes | None = None,
        in_place: frozenset[int] = frozenset(),
    ) -> ControlWork:
        """With the memory that it needs. Only one block runs at a time."""
        values, sources = items(node), [base(source) for source in node.sources]
        memory: list[Temporary] = []
        below: list[list[Value]] = []
        if blocks:
            memory.append(Fixed(uint8, (max(block.arena.nbytes for block in blocks),)))
        if sizes is not None:
            states = blocks[-1].stored[: len(sizes.states)]
            moving = [Temporary(x.dtype, x.shape) for j, x in enumerate(states) if j not in in_place]
            registers = 2 * len(moving) + len(sizes.xs) + len(sizes.ys)
            memory += [Fixed(int64, (2 + registers,)), *moving]
            # Where a state stays in its place, that may be its source's.
            below = [
                [x] if j in in_place and sources.count(x) == 1 else [] for j, x in enumerate(sources[: len(states)])
            ]
        return cls(node, values, blocks, memory, sizes, in_place, below)

    @property
    def written(self) -> Sequence[Value]:
        return self.values

    @property
    def nodes(self) -> list[Value]:
        return [*self.values, *(base(source) for source in self.node.sources), *self.memory]


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
    writes: list[Value]
    results = set(stored)
    for item in work:
        if isinstance(item, ControlWork):
            writes = [*item.values, *item.memory]
        elif isinstance(item.built.kernel, Routine):  # works on memory step by step: what it touches, it may write
            writes = [value for value in item.nodes if not _is_leaf(value)]
        else:
            writes = [*item.written]
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


@dataclass(frozen=True)
class Arena:
    """Where temporaries live: in homes at fixed places, or in those that a call places by its dims."""

    lives: Mapping[Value, Lifetime]  # between which launches
    home: Mapping[Value, Value]  # the one whose place each takes, often its own
    fixed: Mapping[Value, int]  # the places of homes
    nbytes: int  # of these
    sized: Mapping[Value, Home]

    @classmethod
    def of(cls, work: Sequence[AnyWork], placed: Collection[Value], movable: bool = False) -> Arena:
        """For values that are not `placed` elsewhere. Unless something is `movable` and depends on dims, everything is
        fixed; otherwise all but the memory of bodies moves.
        """
        lives = _temporaries(work, set(placed))
        home, homes = _homes(work, lives)
        sizes: dict[Value, dict[IndexLike, None]] = {}
        for node, old in home.items():
            sizes.setdefault(old, {})[_sized_nbytes(node)] = None
        moves = movable and any(isinstance(size, Index) for each in sizes.values() for size in each)
        sized = {
            node: Home(tuple(sizes[node]), life.first, life.last)
            for node, life in homes.items()
            if moves and not isinstance(node, Fixed)
        }
        fixed = {node: life for node, life in homes.items() if node not in sized}
        offsets, total = assign(list(fixed.values()))
        return cls(lives, home, dict(zip(fixed, offsets, strict=True)), total, sized)

    def places(self, start: int, first: int = 0) -> dict[Value, Place]:
        """Of all temporaries, if the fixed ones start there; `first` is the base of the first home that moves."""
        places = {node: (ARENA, start + offset) for node, offset in self.fixed.items()}
        places |= {node: (first + k, 0) for k, node in enumerate(self.sized)}
        return {node: places[home] for node, home in self.home.items()}

    def offsets(self, limits: Mapping[str, int]) -> dict[Value, int]:
        """The same for people to look at, while no dim is larger than its limit."""
        found, _ = assign_sized(list(self.sized.values()), limits)
        at = {**self.fixed, **{node: self.nbytes + offset for node, offset in zip(self.sized, found, strict=True)}}
        return {node: at[home] for node, home in self.home.items()}


def _temporaries(work: Sequence[AnyWork], placed: Set[Value]) -> dict[Value, Lifetime]:
    """Values that live only inside the graph, with the launches between which they live."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            if node not in placed and not _is_leaf(node):
                first.setdefault(node, k)
                last[node] = k
    return {node: Lifetime(nbytes(node), first[node], last[node]) for node in first}


def _homes(
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
    return upper(_sized_nbytes(node))


def _sized_nbytes(node: Value) -> IndexLike:
    """The memory that a value takes, by the dims."""
    return product_of(node.shape) * node.dtype.itemsize
