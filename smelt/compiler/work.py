"""What a graph is compiled to: launches, and loops and branches of launches; their order and their memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeGuard

from smelt.compiler.trace import Argument
from smelt.device import Library
from smelt.dtypes import int64, uint8
from smelt.errors import InternalError
from smelt.fuse import Group, LoopSizes, base
from smelt.graph import Index, IndexLike, Node, Op, product_of, row_major, upper
from smelt.graph.closed import items
from smelt.kernel import Kernel, Routine, Series, Temporary, print_kernel
from smelt.plan import ARENA, Home, Lifetime, Step, assign, assign_sized, reordered
from smelt.schedule import Choice

Value = Node | Temporary  # what lies behind a buffer
Place = tuple[int, int]  # a base and an offset


@dataclass(eq=False)
class Built:
    """A kernel in memory, shared by every launch and graph with the same region or routine."""

    kernel: Kernel | Routine | Series
    text: str  # of the region or routine
    choice: Choice
    source: str = ""
    library: Library | None = None  # that holds it, once it is compiled
    workspace: int = 0

    def ir(self) -> str:
        """The kernel's text; routines and series have no other than the one that they are known by."""
        return print_kernel(self.kernel) if isinstance(self.kernel, Kernel) else self.text

    @property
    def updates(self) -> bool:
        """Whether it works on memory step by step: what it touches, it may write."""
        parts = self.kernel.parts if isinstance(self.kernel, Series) else (self.kernel,)
        return any(isinstance(part, Routine) for part in parts)


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
    The first of both are the states of a loop.

    Its temporaries are planned by themselves: they lie in the memory of its loop or branch, so that bodies nest.
    """

    work: Sequence[AnyWork]
    stored: Sequence[Node]
    leaves: Sequence[Node]
    states: int = 0

    @functools.cached_property
    def arena(self) -> Arena:
        own = dict(zip(self.leaves[: self.states], self.stored, strict=False))
        return Arena.of(self.work, self.stored, lambda leaf, result: own.get(leaf) is result)

    @property
    def in_place(self) -> frozenset[int]:
        """The states that stay where they are: each iteration writes over what it has read, so that they have one place
        instead of two, and a scatter touches what it updates instead of copying everything.
        """
        return frozenset(j for j, root in enumerate(self.stored[: self.states]) if root in self.arena.under)


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
    def of(cls, node: Node, blocks: Sequence[Block] = (), sizes: LoopSizes | None = None) -> ControlWork:
        """With the memory that it needs. Only one block runs at a time."""
        values, sources = items(node), [base(source) for source in node.sources]
        in_place = blocks[-1].in_place if blocks else frozenset[int]()
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


def in_order(work: Sequence[AnyWork], stored: Sequence[Node], states: Sequence[Node] = ()) -> list[AnyWork]:
    """The launches in an order that frees memory early. What is `stored` has memory of its own; the first of it may
    take the places of `states`.

    A launch that updates a value, or could write a result over a leaf, waits for the others that read this: its owner
    may give the leaf up.
    """
    steps: list[Step] = []
    writes: list[Value]
    results = set(stored)
    work = _waiting(work, dict(zip(states, stored, strict=False)))
    for item in work:
        if isinstance(item, ControlWork):
            writes = [*item.written, *item.memory]
        elif item.built.updates:
            writes = [value for value in item.nodes if not is_leaf(value)]
        else:
            writes = [*item.written]
        writes += written_over(item, results)
        steps.append(Step(frozenset(item.nodes).difference(writes), frozenset(writes)))
    # Numbers count for nothing: an update that frees much must not wait because its step size takes four bytes.
    sizes = {
        value: nbytes(value)
        for item in work
        for value in item.nodes
        if value.shape and value not in results and not is_leaf(value)
    }
    return [work[k] for k in reordered(steps, sizes)]


def _waiting(work: Sequence[AnyWork], states: Mapping[Value, Value]) -> list[AnyWork]:
    """The launches in an order in which updates come after all others that read what they update, where they can wait
    for these. So do those that write the next value of a state.
    """
    order = list(work)
    last = {value: item for item in order for value in item.nodes}
    kept: dict[Value, AnyWork] = {}  # by value, what is the last to read it
    for item in work:
        for below in _updated(item, states):
            if last[below] is item:
                kept[below] = item
                continue
            at, end = order.index(item), order.index(last[below])
            between = order[at + 1 : end + 1]
            written = {*item.written, *(value for value in item.nodes if isinstance(value, Temporary))}
            if any(not written.isdisjoint(other.nodes) for other in between):
                continue
            later = [*order[:at], *between, item, *order[end + 1 :]]
            touched = last | {value: item for value in item.nodes if last[value] in between}
            if all(touched[value] is other for value, other in kept.items()):
                order, last, kept[below] = later, touched, item
    return order


def _updated(item: AnyWork, states: Mapping[Value, Value]) -> Iterator[Value]:
    """What a scatter updates, and the states whose next values a launch may write over them."""
    updates = isinstance(item, Work) and item.built.updates
    for written, candidates in zip(item.nodes, item.overwritable, strict=False):
        yield from (x for x in candidates if updates or states.get(x) is written)


def written_over(item: AnyWork, results: Set[Value]) -> Iterator[Value]:
    """What a scatter updates, and the leaves that results of a launch may be written over."""
    yield from _updated(item, {})
    for written, candidates in zip(item.nodes, item.overwritable, strict=False):
        if written in results:
            yield from (x for x in candidates if is_leaf(x) and _is_alike(x, written))


def is_leaf(value: Value) -> TypeGuard[Node]:
    return isinstance(value, Node) and value.op is Op.LEAF


def _is_alike(value: Value, written: Value) -> bool:
    return value.dtype is written.dtype and product_of(value.shape) == product_of(written.shape)


def gives_way(shown: Set[int]) -> Callable[[Node, Value], bool]:
    """Whether an input may give way to a result, should its owner give it up: one without gaps that is not `shown` as
    a result.
    """

    def found(leaf: Node, result: Value) -> bool:
        argument: Argument = leaf.attribute
        whole = argument.kind == "input" and argument.strides == row_major(leaf.shape)
        return whole and argument.number not in shown and _is_alike(leaf, result)

    return found


@dataclass(frozen=True)
class Arena:
    """Where temporaries live: in homes at fixed places, in those that a call places by its dims, or in results."""

    lives: Mapping[Value, Lifetime]  # between which launches
    home: Mapping[Value, Value]  # of all values, the one whose place each takes, often its own
    fixed: Mapping[Value, int]  # the places of homes
    nbytes: int  # of these
    sized: Mapping[Value, Home]
    under: Mapping[Value, Node]  # for results, the leaves that they may be written over, should their owners agree

    @classmethod
    def of(
        cls,
        work: Sequence[AnyWork],
        stored: Collection[Value],
        gives_way: Callable[[Node, Value], bool],
        moves: bool = False,
    ) -> Arena:
        """For the values of a graph or body that are not `stored` elsewhere, given which leaves give way to which of
        these. If something depends on dims and it `moves`, all but the memory of bodies does.
        """
        lives, results = _lifetimes(work), set(stored)
        temporaries = {node: life for node, life in lives.items() if node not in results and not is_leaf(node)}

        def free(value: Value, place: Value) -> bool:
            if is_leaf(value):
                return place in results and gives_way(value, place)
            if place in results:
                return value in temporaries and _sized_nbytes(value) == _sized_nbytes(place)
            return value in temporaries and lives[value].nbytes == lives[place].nbytes

        home, first = _homes(work, lives, free)
        sizes: dict[Value, dict[IndexLike, None]] = {}
        for node in temporaries:
            if home[node] not in results:
                sizes.setdefault(home[node], {})[_sized_nbytes(node)] = None
        moves = moves and any(isinstance(size, Index) for each in sizes.values() for size in each)
        sized = {
            node: Home(tuple(found), first[node], lives[node].last)
            for node, found in sizes.items()
            if moves and not isinstance(node, Fixed)
        }
        fixed = {node: lives[node]._replace(first=first[node]) for node in sizes if node not in sized}
        offsets, total = assign(list(fixed.values()))
        under = {place: node for node, place in home.items() if is_leaf(node) and place is not node}
        return cls(temporaries, home, dict(zip(fixed, offsets, strict=True)), total, sized, under)

    def places(self, given: Mapping[Value, Place], start: int, first: int = 0) -> dict[Value, Place]:
        """Of all temporaries and results, given those of results, if the fixed ones start there; `first` is the base of
        the first home that moves.
        """
        places = {**given, **{node: (ARENA, start + offset) for node, offset in self.fixed.items()}}
        places |= {node: (first + k, 0) for k, node in enumerate(self.sized)}
        return {**given, **{node: places[self.home[node]] for node in self.lives}}

    def offsets(self, limits: Mapping[str, int]) -> dict[Value, int]:
        """The same for people to look at, while no dim is larger than its limit, of what lies in the arena."""
        found, _ = assign_sized(list(self.sized.values()), limits)
        at = {**self.fixed, **{node: self.nbytes + offset for node, offset in zip(self.sized, found, strict=True)}}
        return {node: at[self.home[node]] for node in self.lives if self.home[node] in at}


def _lifetimes(work: Sequence[AnyWork]) -> dict[Value, Lifetime]:
    """Between which launches each value is touched."""
    lives: dict[Value, Lifetime] = {}
    for k, item in enumerate(work):
        for node in item.nodes:
            lives[node] = lives[node]._replace(last=k) if node in lives else Lifetime(nbytes(node), k, k)
    return lives


def _homes(
    work: Sequence[AnyWork], lives: Mapping[Value, Lifetime], free: Callable[[Value, Value], bool]
) -> tuple[dict[Value, Value], dict[Value, int]]:
    """For each value, the one whose place it lies in, often its own; and from when on these places are in use.

    What a launch writes takes the place of a value that is free for it, if this launch is the last to read that. So
    values lie in one place with what is written over them last. All leaves of an input lie in one place.
    """
    home: dict[Value, Value] = {node: node for node in lives}
    first = {node: life.first for node, life in lives.items()}
    alike: dict[Value | tuple[str, int], list[Value]] = {}  # by memory: all leaves of an input are one
    for node in lives:
        alike.setdefault(memory_of(node), []).append(node)
    read = {memory: max(lives[node].last for node in nodes) for memory, nodes in alike.items()}
    for k, item in reversed(list(enumerate(work))):
        for written, candidates in zip(item.nodes, item.overwritable, strict=False):
            place = home[written]
            found = [x for x in candidates if read[memory_of(x)] == k and home[x] is x and free(x, place)]
            # A leaf rather than another value: what takes its place is not copied from call to call.
            under = min(found, key=lambda x: not is_leaf(x), default=None) if lives[written].first == k else None
            if under is not None:
                home |= dict.fromkeys(alike[memory_of(under)], place)
                first[place] = lives[under].first
    return home, first


def memory_of(value: Value) -> Value | tuple[str, int]:
    """What tells the memory of a value from that of others."""
    return (value.attribute.kind, value.attribute.number) if is_leaf(value) else value


def check_places(work: Sequence[AnyWork], arena: Arena) -> None:
    """Raise InternalError unless everything that is read is still there: no value is read after what was written over
    it. A launch may read what it writes over itself.
    """
    holds: dict[Value, Value] = {}
    for item in work:
        for value in item.nodes:
            place = arena.home[value]
            if value not in item.written and memory_of(holds.setdefault(place, value)) != memory_of(value):
                raise InternalError(f"{value!r} is read after {holds[place]!r} was written over it")
        holds |= {arena.home[value]: value for value in item.written}


def nbytes(node: Value) -> int:
    """The memory that a value takes at the upper bound of its dims."""
    return upper(_sized_nbytes(node))


def _sized_nbytes(node: Value) -> IndexLike:
    """The memory that a value takes, by the dims."""
    return product_of(node.shape) * node.dtype.itemsize
