"""From launches over nodes to a record: where every value lies, and which integers each kernel is given."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from smelt.compiler.prepare import Wishes
from smelt.compiler.trace import Argument, GraphKey
from smelt.compiler.work import (
    AnyWork,
    Arena,
    ControlWork,
    Place,
    Value,
    Work,
    all_launches,
    check_places,
    gives_way,
    nbytes,
)
from smelt.config import settings
from smelt.cost import Profile
from smelt.cost.rates import known
from smelt.device import REGISTER, Control, Device, HostStep, Launch, Library, Step
from smelt.fuse import amount_node, base
from smelt.graph import Hosted, Index, IndexLike, Loop, Node, Op
from smelt.kernel import Routine, Temporary
from smelt.plan import ARENA, INPUTS, SCALARS, Alias, GraphRecord, KernelRecord, Placed, Stored

WORD = 8  # bytes of a scalar, counter or register


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
    n_inputs = key.inputs + len(wishes.given)
    names = [f"d{k}" for k in range(len(key.bounds))] + [f"s{k}" for k in range(key.starts)]
    integers = {name: k for k, name in enumerate(names)}
    place: dict[Value, Place] = {node: (INPUTS + n_inputs + k, 0) for k, node in enumerate(stored)}
    shown = {output.input for output in outputs if isinstance(output, Alias)}
    arena = Arena.of(work, stored, gives_way(shown), moves=True)
    if settings().verify:
        check_places(work, arena)
    place = arena.places(place, 0, INPUTS + n_inputs + len(stored))
    linker = _Linker(device, place, arena.home, integers, explain)
    spans = [linker.add(item) for item in work]
    offsets = arena.offsets({f"d{k}": high for k, (_, high) in enumerate(key.bounds)})
    placed = [
        Placed(life.nbytes, offsets[node], spans[life.first][0], spans[life.last][1], repr(node))
        for node, life in arena.lives.items()
        if node in offsets
    ]
    record = GraphRecord(
        tuple(library.key for library in linker.libraries),
        tuple(linker.steps),
        tuple(linker.slots),
        max((item.built.workspace for item in all_launches(work)), default=0),
        arena.nbytes,
        tuple(outputs),
        tuple(results),
        key.bounds,
        tuple(linker.kernels),
        tuple(placed),
        tuple((k, arena.under[node].attribute.number) for k, node in enumerate(stored) if node in arena.under),
        tuple(choices.items()),
        tuple(arena.sized.values()),
        wishes.given,
        wishes.others,
    )
    return record, list(linker.libraries)


class _Linker:
    """Writes steps down, one after the other, given where values lie."""

    def __init__(
        self,
        device: Device,
        place: dict[Value, Place],
        home: Mapping[Value, Value],
        integers: dict[str, int],
        explain: bool,
    ) -> None:
        self.device, self.place, self.home, self.integers, self.explain = device, place, home, integers, explain
        self.slots: dict[Place, int] = {}
        self.libraries: dict[Library, int] = {}
        self.steps: list[Step] = []
        self.kernels: list[KernelRecord] = []  # one for each launch
        self.depth = 0

    def add(self, item: AnyWork) -> tuple[int, int]:
        """Write an item down; the numbers of its first and last launch."""
        first = len(self.kernels)
        if isinstance(item, Work):
            self.launch(item)
        else:
            read = [self.at(base(source)) for source in item.node.sources]
            written = [self.place[value] for value in item.written]
            {Op.LOOP: self.loop, Op.BRANCH: self.branch, Op.HOST: self.host}[item.node.op](item, read, written)
        return first, max(first, len(self.kernels) - 1)

    def at(self, value: Value) -> Place:
        """Where a value lies: in a place of its own, or where the arguments of the call do."""
        if value in self.place or isinstance(value, Temporary):
            return self.place[value]
        argument: Argument = value.attribute
        return (SCALARS, WORD * argument.number) if argument.kind == "scalar" else (INPUTS + argument.number, 0)

    def slot(self, place: Place, start: int = 0) -> int:
        """The number of what lies so many bytes behind a place."""
        return self.slots.setdefault((place[0], place[1] + start), len(self.slots))

    def launch(self, item: Work) -> None:
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
                tuple(self.slot(self.at(node), next(starts)) for node in item.nodes),
                tuple(self.integers[item.names[v.name]] for v in built.kernel.parameters),
            )
        )
        self.kernels.append(_described(item, self.home, self.device.profile, self.depth, self.explain))

    def control(self, kind: str, *places: Place, amount: IndexLike = 0, target: int = 0) -> int:
        """A control step; its number, so that it can be told its target later. An amount may depend on dims."""
        if isinstance(amount, Index):
            places, amount = (*places, self.at(base(amount_node(amount)))), 0
        self.steps.append(Control(kind, tuple(self.slot(place) for place in places), amount, target))
        return len(self.steps) - 1

    def land(self, *steps: int) -> None:
        """Let control steps jump to what comes next."""
        for number in steps:
            step = self.steps[number]
            assert isinstance(step, Control)
            self.steps[number] = replace(step, target=len(self.steps))

    def block(self, item: ControlWork, number: int, seen: Sequence[Place], given: Sequence[Place]) -> None:
        """The launches of a body that sees its parameters there, and gives its values here."""
        block, around = item.blocks[number], (self.place, self.home)
        if settings().verify:
            check_places(block.work, block.arena)
        stored: dict[Value, Place] = dict(zip(block.stored, given, strict=True))
        inner = block.arena.places(stored, self.place[item.memory[0]][1])
        self.place, self.home = inner | dict(zip(block.leaves, seen, strict=True)), block.arena.home
        self.depth += 1
        for work in block.work:
            self.add(work)
        self.depth -= 1
        self.place, self.home = around

    def branch(self, item: ControlWork, read: Sequence[Place], written: Sequence[Place]) -> None:
        """unless p: else; …; jump: end; else: …; end:"""
        otherwise = self.control("unless", read[0])
        self.block(item, 0, read[1:], written)
        end = self.control("jump")
        self.land(otherwise)
        self.block(item, 1, read[1:], written)
        self.land(end)

    def host(self, item: ControlWork, read: Sequence[Place], written: Sequence[Place]) -> None:
        hosted: Hosted = item.node.attribute
        types = [*((source.dtype, source.shape) for source in item.node.sources), *hosted.types]
        arrays = tuple((dtype.numpy, shape) for dtype, shape in types)
        slots = tuple(self.slot(at) for at in (*read, *written))
        self.steps.append(HostStep(slots, arrays, len(read), self.integers, hosted.function))

    def loop(self, item: ControlWork, read: Sequence[Place], written: Sequence[Place]) -> None:
        """point …; set i; top: until i: end; (test; unless: end;) body; rotate …; advance …; again i: top; end: copy …

        Each iteration reads a state in one of its places and writes the other; the first reads the source. A state that
        stays in its place is copied there before.
        """
        loop: Loop = item.node.attribute
        sizes = item.sizes
        assert sizes is not None
        (_, at), *spare = [self.place[memory] for memory in item.memory[1:]]
        counter, flag = (ARENA, at), (ARENA, at + WORD)
        registers = ((REGISTER, at + WORD * k) for k in itertools.count(2))
        before, after = list(written[: loop.states]), list(written[: loop.states])  # where an iteration finds states
        turning: list[tuple[Place, ...]] = []
        for j in range(loop.states):
            if j in item.in_place:
                self.control("copy", written[j], read[j], amount=sizes.states[j])
                continue
            before[j], after[j] = next(registers), next(registers)
            pair = written[j], spare[len(turning)]
            # The first place is written first. If the length is known, the last iteration writes the result.
            pair = pair[::-1] if isinstance(loop.length, int) and loop.length % 2 == 0 else pair
            turning.append((before[j], after[j], *pair))
            self.control("point", before[j], read[j])
            self.control("point", after[j], pair[0])
        first = loop.states + loop.constants
        wholes = [*read[first : first + loop.xs], *written[loop.states :]]
        walks = list(zip(wholes, [*sizes.xs, *sizes.ys], registers, strict=False))
        for whole, walk, register in walks:
            self.control("point", register, whole)
            if walk.start != 0:
                self.control("advance", register, amount=walk.start)
        self.control("set", counter)
        slices = [register for _, _, register in walks]
        seen = [*before, *read[loop.states : first], *slices[: loop.xs], counter]
        top, ends = len(self.steps), []
        if loop.length is not None:
            ends.append(self.control("until", counter, amount=loop.length))
        if loop.test is not None:
            self.block(item, 0, seen, [flag])
            ends.append(self.control("unless", flag))
        self.block(item, -1, seen, [*after, *slices[loop.xs :]])
        for turns in turning:
            self.control("rotate", *turns)
        for _, walk, register in walks:
            self.control("advance", register, amount=walk.step)
        self.control("again", counter, target=top)
        self.land(*ends)
        for j in range(loop.states):
            if j not in item.in_place:
                self.control("copy", written[j], before[j], amount=sizes.states[j])


def _described(item: Work, home: Mapping[Value, Value], profile: Profile, depth: int, explain: bool) -> KernelRecord:
    """What is remembered of a launch; the long texts only when somebody wants to read them."""
    built = item.built
    return KernelRecord(
        built.kernel.name,
        built.text if explain else "",
        built.choice.title,
        built.choice.text(),
        built.choice.refused if explain else (),
        built.ir() if explain else "",
        repr(item.group.sink),
        tuple(_describe(node) for node in reversed(item.group.inside)),
        str(built.kernel.tasks),
        *_work(item, home),
        built.choice.work.seconds(profile, known(profile)) if explain and built.choice.work.bytes else 0.0,
        depth,
    )


def _work(item: Work, home: Mapping[Value, Value]) -> tuple[int, int]:
    """Bytes that a launch moves at least, and its operations."""
    kernel, work = item.built.kernel, item.built.choice.work
    if not isinstance(kernel, Routine):
        return work.bytes, work.flops
    nodes = list(dict.fromkeys(item.nodes))
    if any(home[item.nodes[0]] is home[x] for below in item.overwritable for x in below):
        nodes = [nodes[2], *nodes[2:]]  # of the result and its target, it touches as much as there are updates
    return sum(map(nbytes, nodes)), kernel.operations


def _describe(node: Node) -> str:
    if node.op in (Op.UNARY, Op.BINARY):
        return str(node.attribute)
    return f"{node.op.value}.{node.attribute.op}" if node.op is Op.REDUCE else node.op.value
