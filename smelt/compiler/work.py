"""What a graph is compiled to: launches, and loops and branches of launches; their order and their memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeGuard

from smelt.compiler.trace import Argument
from smelt.device import Library
from smelt.dtypes import int64, uint8
from smelt.fuse import Group, LoopSizes, base
from smelt.graph import Index, IndexLike, Node, Op, product_of, row_major, upper
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
    written: Sequence[Value]  # its values
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
    def nodes(self) -> list[Value]:
        return [*self.written, *(base(source) for source in self.node.sources), *self.memory]


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
            writes = [*item.written, *item.memory]
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
            yield from (x for x in candidates if _is_leaf(x) and _is_alike(x, written))


def _is_leaf(value: Value) -> TypeGuard[Node]:
    return isinstance(value, Node) and value.op is Op.LEAF


def _is_alike(value: Value, written: Value) -> bool:
    return value.shape == written.shape and value.dtype is written.dtype


def _is_whole(leaf: Node, shown: Set[int]) -> bool:
    """Whether a leaf is an input without gaps that is not shown as a result."""
    argument: Argument = leaf.attribute
    return argument.kind == "input" and argument.number not in shown and argument.strides == row_major(leaf.shape)


@dataclass(frozen=True)
class Arena:
    """Where temporaries live: in homes at fixed places, or in those that a call places by its dims."""

    lives: Mapping[Value, Lifetime]  # between which launches
    home: Mapping[Value, Value]  # of all values, the one whose place each takes, often its own
    fixed: Mapping[Value, int]  # the places of homes
    nbytes: int  # of these
    sized: Mapping[Value, Home]

    @classmethod
    def of(cls, work: Sequence[AnyWork], stored: Collection[Value], shown: Set[int] | None = None) -> Arena:
        """For the values of a body that are not `stored` elsewhere; or of a graph, given the inputs that are `shown` as
        results. If something depends on dims there, all but the memory of bodies moves.
        """
        lives, results = _lifetimes(work), set(stored)
        temporaries = {node: life for node, life in lives.items() if node not in results and not _is_leaf(node)}

        def gives_way(value: Value, written: Value) -> bool:
            if written in temporaries:
                return value in temporaries and lives[value].nbytes == lives[written].nbytes
            return shown is not None and _is_leaf(value) and _is_alike(value, written) and _is_whole(value, shown)

        home, last = _homes(work, lives, gives_way)
        sizes: dict[Value, dict[IndexLike, None]] = {}
        for node in temporaries:
            sizes.setdefault(home[node], {})[_sized_nbytes(node)] = None
        moves = shown is not None and any(isinstance(size, Index) for each in sizes.values() for size in each)
        sized = {
            node: Home(tuple(found), lives[node].first, last[node])
            for node, found in sizes.items()
            if moves and not isinstance(node, Fixed)
        }
        fixed = {node: lives[node]._replace(last=last[node]) for node in sizes if node not in sized}
        offsets, total = assign(list(fixed.values()))
        return cls(temporaries, home, dict(zip(fixed, offsets, strict=True)), total, sized)

    def places(self, start: int, first: int = 0) -> dict[Value, Place]:
        """Of all temporaries, if the fixed ones start there; `first` is the base of the first home that moves."""
        places = {node: (ARENA, start + offset) for node, offset in self.fixed.items()}
        places |= {node: (first + k, 0) for k, node in enumerate(self.sized)}
        return {node: places[self.home[node]] for node in self.lives}

    def over(self, result: Value) -> int | None:
        """The number of the input that a result may be written over, should its owner give it up."""
        place = self.home.get(result, result)
        return place.attribute.number if _is_leaf(place) else None

    def offsets(self, limits: Mapping[str, int]) -> dict[Value, int]:
        """The same for people to look at, while no dim is larger than its limit."""
        found, _ = assign_sized(list(self.sized.values()), limits)
        at = {**self.fixed, **{node: self.nbytes + offset for node, offset in zip(self.sized, found, strict=True)}}
        return {node: at[self.home[node]] for node in self.lives}


def _lifetimes(work: Sequence[AnyWork]) -> dict[Value, Lifetime]:
    """Between which launches each value is touched."""
    lives: dict[Value, Lifetime] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            lives[node] = lives[node]._replace(last=k) if node in lives else Lifetime(nbytes(node), k, k)
    return lives


def _homes(
    work: Sequence[AnyWork], lives: Mapping[Value, Lifetime], gives_way: Callable[[Value, Value], bool]
) -> tuple[dict[Value, Value], dict[Value, int]]:
    """For each value, the one whose place it takes, often its own; and until when these places are in use.

    What a launch writes takes the place of a value that gives way to it, if this launch is the last to read that. All
    leaves of an input lie in one place.
    """
    home: dict[Value, Value] = {}
    last: dict[Value, int] = {}
    leaves: dict[tuple[str, int], Value] = {}
    for node, life in lives.items():
        argument = node.attribute if _is_leaf(node) else None
        place = node if argument is None else leaves.setdefault((argument.kind, argument.number), node)
        home[node], last[place] = place, max(last.get(place, 0), life.last)
    for k, item in enumerate(work):
        taken: set[Value] = set()
        for written, candidates in zip(item.nodes, item.overwritable, strict=False):
            free = [home[x] for x in candidates if last[home[x]] == k and gives_way(x, written)]
            free = [place for place in free if place not in taken]
            if free and lives[written].first == k:
                home[written] = place = free[0]
                last[place] = last.pop(written)
                taken.add(place)
    return home, last


def nbytes(node: Value) -> int:
    """The memory that a value takes at the upper bound of its dims."""
    return upper(_sized_nbytes(node))


def _sized_nbytes(node: Value) -> IndexLike:
    """The memory that a value takes, by the dims."""
    return product_of(node.shape) * node.dtype.itemsize
