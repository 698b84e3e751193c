"""From launches over nodes to a record: where every value lies, and which integers each kernel is given."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from smelt.compiler.places import LoopPlaces, Place, Places, moved, place_of
from smelt.compiler.prepare import Wishes
from smelt.compiler.record import GraphRecord, output_fields, sizes_text
from smelt.compiler.trace import Argument, GraphKey, count_inputs, count_starts
from smelt.compiler.work import (
    AnyWork,
    BlockMemory,
    ControlWork,
    HostWork,
    LoopWork,
    Value,
    Work,
    all_launches,
    homes_of,
    nbytes,
    sized_nbytes,
    temporaries,
)
from smelt.cost import Profile
from smelt.cost.rates import known
from smelt.device.protocol import Control, Device, HostStep, Launch, Library, Step
from smelt.fuse import amount_node, base
from smelt.graph import Hosted, Index, IndexLike, Loop, Node, Op, row_major
from smelt.kernel import Routine
from smelt.plan import ARENA, INPUTS, Alias, Home, KernelRecord, Lifetime, Placed, Stored, assign, assign_sized


def link(
    key: GraphKey,
    device: Device,
    work: Sequence[AnyWork],
    outputs: Sequence[Stored | Alias],
    results: Sequence[int],
    stored: Sequence[Node],
    choices: Mapping[str, str | None],
    wishes: Wishes,
    explain: bool,
) -> tuple[GraphRecord, list[Library]]:
    """Place every value and write the launches down; and the libraries that they are in."""
    bounds = key[2]
    n_inputs = count_inputs(key) + len(wishes.given)
    names = [f"d{k}" for k in range(len(bounds))] + [f"s{k}" for k in range(count_starts(key))]
    integers = {name: k for k, name in enumerate(names)}
    place: dict[Value, Place] = {node: (INPUTS + n_inputs + k, 0) for k, node in enumerate(stored)}
    lives = temporaries(work, place)
    arena = _Arena.of(work, lives)
    place.update(arena.places(INPUTS + n_inputs + len(stored)))
    linker = _Linker(device, integers, explain)
    spans = [linker.add(item, place) for item in work]
    offsets = arena.offsets({f"d{k}": high for k, (_, high) in enumerate(bounds)})
    placed = [
        Placed(life.nbytes, offsets[node], spans[life.first][0], spans[life.last][1], repr(node))
        for node, life in lives.items()
    ]
    largest = [(p.nbytes, p.text) for p in placed]
    largest += [(o.nbytes, f"result {o.dtype}{list(o.shape)}") for o in outputs if isinstance(o, Stored)]
    record = GraphRecord(
        tuple(library.key for library in linker.libraries),
        tuple(linker.steps),
        tuple(linker.slots),
        max((item.built.workspace for item in all_launches(work)), default=0),
        arena.nbytes,
        tuple(output_fields(output) for output in outputs),
        tuple(results),
        n_inputs,
        bounds,
        tuple(linker.kernels),
        tuple(placed),
        tuple(sorted(largest, reverse=True)[:8]),
        _in_place(work, stored, {output.input for output in outputs if isinstance(output, Alias)}),
        tuple(choices.items()),
        tuple((sizes_text(home.nbytes), home.first, home.last) for home in arena.sized.values()),
        wishes.given,
        wishes.others,
    )
    return record, list(linker.libraries)


@dataclass(frozen=True)
class _Arena:
    """Where temporaries live: in homes at fixed places, or in those that a call places by its dims."""

    home: Mapping[Value, Value]
    fixed: Mapping[Value, int]  # the places of homes
    nbytes: int  # of these
    sized: Mapping[Value, Home]

    @classmethod
    def of(cls, work: Sequence[AnyWork], temporaries: Mapping[Value, Lifetime]) -> _Arena:
        """If nothing depends on dims, everything is fixed; if something does, all but the memory of bodies moves."""
        home, lives = homes_of(work, temporaries)
        nbytes: dict[Value, dict[IndexLike, None]] = {node: {} for node in lives}
        for node in temporaries:
            nbytes[home[node]][sized_nbytes(node)] = None
        moves = any(isinstance(size, Index) for sizes in nbytes.values() for size in sizes)
        sized = {
            node: Home(tuple(nbytes[node]), life.first, life.last)
            for node, life in lives.items()
            if moves and not isinstance(node, BlockMemory)
        }
        fixed = {node: life for node, life in lives.items() if node not in sized}
        offsets, total = assign(list(fixed.values()))
        return cls(home, dict(zip(fixed, offsets, strict=True)), total, sized)

    def places(self, first: int) -> dict[Value, Place]:
        """Of all temporaries; `first` is the base of the first home that moves."""
        places = {node: (ARENA, offset) for node, offset in self.fixed.items()}
        places |= {node: (first + k, 0) for k, node in enumerate(self.sized)}
        return {node: places[home] for node, home in self.home.items()}

    def offsets(self, limits: Mapping[str, int]) -> dict[Value, int]:
        """The same for people to look at, while no dim is larger than its limit."""
        found, _ = assign_sized(list(self.sized.values()), limits)
        at = {**self.fixed, **{node: self.nbytes + offset for node, offset in zip(self.sized, found, strict=True)}}
        return {node: at[home] for node, home in self.home.items()}


def _in_place(work: Sequence[AnyWork], stored: Sequence[Node], shown: Set[int]) -> tuple[tuple[int, int], ...]:
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


class _Linker:
    """Writes steps down, one after the other."""

    def __init__(self, device: Device, integers: dict[str, int], explain: bool) -> None:
        self.device, self.integers, self.explain = device, integers, explain
        self.slots: dict[Place, int] = {}
        self.libraries: dict[Library, int] = {}
        self.steps: list[Step] = []
        self.kernels: list[KernelRecord] = []  # one for each launch
        self.depth = 0

    def add(self, item: AnyWork, place: Places) -> tuple[int, int]:
        """Write an item down, given where values lie; the numbers of its first and last launch."""
        first = len(self.kernels)
        if isinstance(item, Work):
            self.launch(item, place)
        elif isinstance(item, LoopWork):
            self.loop(item, place)
        elif isinstance(item, HostWork):
            self.host(item, place)
        else:
            self.branch(item, place)
        return first, max(first, len(self.kernels) - 1)

    def slot(self, place: Place) -> int:
        return self.slots.setdefault(place, len(self.slots))

    def launch(self, item: Work, place: Places) -> None:
        built = item.built
        tasks = built.kernel.tasks.value
        starts = itertools.chain(item.starts, itertools.repeat(0))
        assert built.library is not None
        self.steps.append(
            Launch(
                self.libraries.setdefault(built.library, len(self.libraries)),
                built.kernel.name,
                self.device.count(built.kernel) if tasks is None else "",
                tasks or 0,
                built.choice.grain,
                built.kernel.threads,
                tuple(self.slot(moved(place_of(node, place), next(starts))) for node in item.nodes),
                tuple(self.integers[item.names[v.name]] for v in built.kernel.parameters),
            )
        )
        self.kernels.append(_described(item, self.device.profile, self.depth, self.explain))

    def control(self, kind: str, *places: Place, amount: int = 0) -> int:
        """A control step; its number, so that it can be told its target later."""
        self.steps.append(Control(kind, tuple(self.slot(place) for place in places), amount))
        return len(self.steps) - 1

    def measured(self, kind: str, *places: Place, amount: IndexLike, place: Places) -> int:
        """A control step with an amount that may depend on dims."""
        if isinstance(amount, Index):
            return self.control(kind, *places, place_of(base(amount_node(amount)), place))
        return self.control(kind, *places, amount=amount)

    def land(self, *steps: int) -> None:
        """Let steps jump to what comes next."""
        for step in steps:
            self.jump(step, len(self.steps))

    def jump(self, step: int, target: int) -> None:
        known = self.steps[step]
        assert isinstance(known, Control)
        self.steps[step] = replace(known, target=target)

    def branch(self, item: ControlWork, place: Places) -> None:
        """unless p: else; …; jump: end; else: …; end:"""
        predicate, *operands = [place_of(base(x), place) for x in item.node.sources]
        results = [place[value] for value in item.values]
        otherwise = self.control("unless", predicate)
        self.block(item, 0, operands, results, place)
        end = self.control("jump")
        self.land(otherwise)
        self.block(item, 1, operands, results, place)
        self.land(end)

    def host(self, item: HostWork, place: Places) -> None:
        hosted: Hosted = item.node.attribute
        read = [place_of(base(source), place) for source in item.node.sources]
        written = [place[value] for value in item.values]
        types = [*((source.dtype, source.shape) for source in item.node.sources), *hosted.types]
        arrays = tuple((dtype.numpy, shape) for dtype, shape in types)
        slots = tuple(self.slot(at) for at in (*read, *written))
        self.steps.append(HostStep(slots, arrays, len(read), self.integers, hosted.function))

    def loop(self, item: LoopWork, place: Places) -> None:
        """point …; set i; top: until i: end; (test; unless: end;) body; rotate …; advance …; again i: top; end: copy …

        Each iteration reads a state in one of its places and writes the other; the first reads the source. A state that
        stays in its place is copied there before.
        """
        loop: Loop = item.node.attribute
        at = LoopPlaces.of(item, place)
        turning = [(state, state.turns) for state in at.states if state.turns is not None]
        for state in at.states:
            if state.turns is None:
                self.measured("copy", state.result, state.source, amount=state.nbytes, place=place)
            else:
                self.control("point", state.turns.now, state.source)
                self.control("point", state.turns.following, state.turns.first)
        for x in (*at.xs, *at.ys):
            self.control("point", x.register, x.whole)
            if x.walk.start != 0:
                self.measured("advance", x.register, amount=x.walk.start, place=place)
        self.control("set", at.counter)
        top, ends = len(self.steps), []
        seen = [*(state.before for state in at.states), *at.constants, *(x.register for x in at.xs), at.counter]
        if loop.length is not None:
            ends.append(self.measured("until", at.counter, amount=loop.length, place=place))
        if loop.test is not None:
            [flag] = self.block(item, 0, seen, (), place)
            ends.append(self.control("unless", flag))
        self.block(item, -1, seen, [*(state.after for state in at.states), *(y.register for y in at.ys)], place)
        for _, turns in turning:
            self.control("rotate", *turns)
        for x in (*at.xs, *at.ys):
            self.measured("advance", x.register, amount=x.walk.step, place=place)
        self.jump(self.control("again", at.counter), top)
        self.land(*ends)
        for state, turns in turning:
            self.measured("copy", state.result, turns.now, amount=state.nbytes, place=place)

    def block(
        self, item: ControlWork, number: int, seen: Sequence[Place], given: Sequence[Place], place: Places
    ) -> list[Place]:
        """The launches of a body that sees its parameters there, and gives its values here; where those lie."""
        block, at = item.blocks[number], place[item.memory][1]
        inner: dict[Value, Place] = {value: (ARENA, at + offset) for value, offset in item.offsets[number].items()}
        inner |= dict(zip(block.leaves, seen, strict=True))
        inner |= dict(zip(block.stored, given, strict=False))
        self.depth += 1
        for work in block.work:
            self.add(work, inner)
        self.depth -= 1
        return [place_of(value, inner) for value in block.stored]


def _described(item: Work, profile: Profile, depth: int, explain: bool) -> KernelRecord:
    """What is remembered of a launch; the long texts only when somebody wants to read them."""
    built = item.built
    return KernelRecord(
        built.kernel.name,
        built.text if explain else "",
        built.choice.title,
        built.choice.text(),
        tuple(f"{form}: {reason}" for form, reason in built.choice.refused) if explain else (),
        built.ir() if explain else "",
        repr(item.group.sink),
        tuple(_describe(node) for node in reversed(item.group.inside)),
        str(built.kernel.tasks),
        *_work(item),
        built.choice.work.seconds(profile, known(profile)) if explain and built.choice.work.bytes else 0.0,
        depth,
    )


def _work(item: Work) -> tuple[int, int]:
    """Bytes that a launch moves at least, and its operations."""
    kernel, work = item.built.kernel, item.built.choice.work
    if isinstance(kernel, Routine):
        return sum(nbytes(node) for node in dict.fromkeys(item.nodes)), kernel.operations
    return work.bytes, work.flops


def _describe(node: Node) -> str:
    if node.op in (Op.UNARY, Op.BINARY):
        return str(node.attribute)
    return f"{node.op.value}.{node.attribute.op}" if node.op is Op.REDUCE else node.op.value
