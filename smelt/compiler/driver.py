"""The driver: a graph key through every stage to a CompiledGraph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from smelt.compiler.compile import (
    MEASURED_AS,
    NEIGHBOUR,
    Compiler,
    KernelKey,
    Stages,
    graph_text,
    measured_as,
    question_of,
)
from smelt.compiler.fusion import Cut, Fusion, fused, layout_of
from smelt.compiler.link import link
from smelt.compiler.planning import plans
from smelt.compiler.prepare import Wishes, prepare
from smelt.compiler.progress import Progress
from smelt.compiler.record import assemble, store_graph
from smelt.compiler.series import FEWEST, in_series, is_small
from smelt.compiler.simplifying import simplify
from smelt.compiler.trace import Argument, GraphKey, rebuild
from smelt.compiler.units import Units, source_lines
from smelt.compiler.work import AnyWork, Block, Built, ControlWork, Value, Work, all_launches, in_order
from smelt.config import settings
from smelt.device import Device
from smelt.dtypes import DType, int64
from smelt.egraph import Weighed
from smelt.errors import ParseError
from smelt.fuse import (
    ROUTINES,
    Choices,
    Group,
    Pass,
    base,
    build_region,
    loop_sizes,
    merge_axes,
    name_slots,
    overwritable,
    partition,
    ready,
    signature,
    storable,
)
from smelt.graph import (
    CONTROL,
    IndexLike,
    Loop,
    Node,
    Op,
    Shape,
    make,
    open_body,
    private_nodes,
    row_major,
    verify_graph,
)
from smelt.graph.text import print_graph
from smelt.kernel import (
    Kernel,
    Region,
    Routine,
    Series,
    parse_schedule,
    print_region,
    print_routine,
    print_series,
    verify,
    verify_region,
)
from smelt.plan import CompiledGraph
from smelt.schedule import Candidate, Choice, choose, chosen, named, routine_steps

MOST_LINES = 20_000  # of a kernel that somebody else has chosen: some schedules would have any number
STORED, FUSION = "what is stored, and why", "fusion that was chosen"  # titles of texts


@private_nodes()
def compile_key(
    key: GraphKey, device: Device, compiler: Compiler, stages: Stages, digest: str, explain: bool
) -> CompiledGraph:
    """Run every stage. With a `digest` the result is kept on disk; with `explain` the texts of the stages are."""
    texts: dict[str, str] = {}

    def seen(one: Pass, roots: Sequence[Node]) -> None:
        texts[f"graph, {one.name} ({one.contract.value})"] = print_graph(roots)

    weighed: list[Weighed] = []
    with stages.stage("rebuild"):
        written = rebuild(key)
    if explain:
        texts["graph"] = print_graph(written)

    def cut_by(choices: Choices) -> tuple[Cut, Wishes]:
        weighed.clear()
        with stages.stage("rewrite"):
            noted = weighed.append if explain else None
            roots = simplify(written, plans(key.contracts, device.profile, noted, key.rules, choices.equal))
        if explain:
            texts["rewritten"] = print_graph(roots)
        if settings().verify:
            verify_graph(roots)
        with stages.stage("fuse"):
            roots, wishes = prepare(roots, key.inputs, device.profile)
            if explain and wishes.given:
                texts["graph, steady inputs prepared (exact)"] = print_graph(roots)
            return fused(roots, device.profile, choices, seen if explain else None), wishes

    asked = _asked(key, device, compiler)
    fusion = Fusion(next(iter(asked.values()), None))
    cut, wishes = fusion.done(cut_by)
    with device.building() as builder, Progress(len(cut.groups)) as progress:
        maker = _Maker(device, compiler, stages, Units(device, builder, stages, progress), asked)
        work = in_order(maker.launches(cut), cut.stored)
        if fusion.is_stale(work):
            fusion.refuse("it is not what was measured")
            cut, wishes = fusion.done(cut_by)
            work = in_order(maker.launches(cut), cut.stored)
        maker.compile(work)
        maker.units.finish()
    if explain:
        texts |= {FUSION: str(fusion)} if str(fusion) else {}
        texts[STORED] = "\n".join(str(x) for x in reversed(cut.decisions) if x.kind == "stored")
    for known, built in maker.new.items():
        if built.library is not None:
            compiler.kernels.put(known, built)
    with stages.stage("plan"):
        record, libraries = link(key, device, work, *cut[:3], maker.choices, wishes, explain)
        compiled = assemble(record, device, libraries)
    if digest:
        with stages.stage("store"):
            store_graph(digest, record)
    compiled.stages, compiled.weighed = texts, weighed
    compiled.source = "\n".join(dict.fromkeys(launch.built.source for launch in all_launches(work)))
    return compiled


def _asked(key: GraphKey, device: Device, compiler: Compiler) -> dict[str, str | None]:
    """How a graph is to be cut: the question with its answer. No other process asks about functions of this one."""
    questions = () if key.calls_python else (question_of(graph_text(key)),)
    return {question: compiler.ask(device, question) for question in questions}


class _Maker:
    """Makes launches of groups. Kernels that are not known yet are collected in `new`, and compiled meanwhile."""

    def __init__(
        self, device: Device, compiler: Compiler, stages: Stages, units: Units, asked: dict[str, str | None]
    ) -> None:
        self.device, self.compiler, self.stages, self.units = device, compiler, stages, units
        self.new: dict[KernelKey, Built] = {}
        self.choices = asked  # what was asked, and the answers
        # By mark: a launch, the parts of its nodes, and its slice starts.
        self.alike: dict[Hashable, tuple[Work, list[int], list[str]]] = {}
        self.parameters = itertools.count()
        self.depth = 0  # how many loops and branches are open
        self.many = False  # whether small launches become series, so that their kernels are not compiled alone
        self.small: set[Built] = set()  # kernels that wait until it is known which are

    def launches(self, cut: Cut) -> list[AnyWork]:
        """The launches of a whole graph; where there are many, small ones as series."""
        self.many = len(cut.groups) >= FEWEST and not self.device.profile.group_threads
        work = self.work(cut.groups)
        return in_series(work, cut.stored, self.series_kernel) if self.many else work

    def compile(self, work: Sequence[AnyWork]) -> None:
        """Have those kernels compiled that are launched alone after all."""
        for launch in all_launches(work):
            if launch.built in self.small:
                self.small.discard(launch.built)
                self.units.add(launch.built)

    def work(self, groups: Sequence[Group]) -> list[AnyWork]:
        """The launches of groups, in order."""
        work: list[AnyWork] = []
        for group in groups:
            if group.sink.op in CONTROL:
                work.append(self.control(group.sink))
            elif any(size == 0 for size in group.result.shape):
                continue
            elif group.sink.op in ROUTINES:
                work += self.routine_work(group)
            else:
                work.append(self.region_work(group))
            self.units.advance()
        return work

    def routine_work(self, group: Group) -> Iterator[Work]:
        """The launches of a node that is a routine."""
        for routine, buffers in routine_steps(group.sink, layout_of, self.device.profile):
            # A scatter reads its target only where it writes; its other operands it reads anywhere.
            updates = routine.words.get("target") == "whole" and buffers.count(buffers[1]) == 1
            places = [buffers[1:2]] if updates else []
            names = {v.name: v.name for v in routine.parameters}
            yield Work(group, self.routine_kernel(routine), list(buffers), names, places)

    def region_work(self, group: Group) -> Work:
        # In a loop, what is stored may lie where a register points to.
        moved = group.piece is not None and not self.depth
        with self.stages.stage("regions"):
            mark, numbered, starts = signature(group, layout_of, moved)
            known = self.alike.get(mark)
        if known is not None:
            first, parts, before = known
            nodes = [numbered[part] for part in parts]
            seen = dict(zip(first.nodes, nodes, strict=True))
            places = [[seen[value] for value in found] for found in first.overwritable]
            own = dict(zip(before, starts, strict=True))
            names = {parameter: own.get(name, name) for parameter, name in first.names.items()}
            return Work(group, first.built, nodes, names, places, group.starts() if moved else ())
        work = self.new_region_work(group, moved)
        number: dict[Value, int] = {node: k for k, node in enumerate(numbered)}
        self.alike[mark] = work, [number[node] for node in work.nodes], starts
        return work

    def new_region_work(self, group: Group, moved: bool) -> Work:
        with self.stages.stage("regions"):
            region, nodes = build_region(group, layout_of, moved)
            # Of a piece that is moved, a region does not tell at which elements of the whole it is.
            places = [] if moved else [[nodes[k] for k in found] for found in overwritable(region)]
            region, names = name_slots(merge_axes(region))
            text = print_region(region)
        built = self.kernel(region, text)
        # A phase that keeps values in the output needs its memory for itself.
        starts = group.starts() if moved else ()
        return Work(group, built, nodes, names, () if built.choice.keeps else places, starts)

    def control(self, node: Node) -> ControlWork:
        """A loop or branch, with its bodies compiled. Each has leaves of its own."""
        if node.op is Op.HOST:
            return ControlWork.of(node)
        if node.op is Op.BRANCH:
            return ControlWork.of(
                node, [self.block(x, [self.seen(y) for y in node.sources[1:]]) for x in node.attribute]
            )
        loop: Loop = node.attribute
        test = [] if loop.test is None else [self.block(loop.test, self.loop_leaves(node))]
        body = self.block(loop.body, self.loop_leaves(node), loop.states)
        return ControlWork.of(node, [*test, body], loop_sizes(node, layout_of))

    def kernel(self, region: Region, text: str) -> Built:
        """The kernel for a region: known, already on its way, or lowered now."""
        question = question_of(text)
        asked = self.choices[question] = self.compiler.ask(self.device, question, text)

        def lowered() -> Built:
            with self.stages.stage("schedule"):
                choice, kernel = self.scheduled(region, asked)
            if settings().verify:
                with self.stages.stage("verify"):
                    verify_region(region)
                    verify(kernel)
            return Built(kernel, text, choice)

        return self.known((self.device.name, text, asked), lowered)

    def scheduled(self, region: Region, asked: str | None) -> tuple[Choice, Kernel]:
        """The kernel of a region as it is asked for, if that fits and is what was measured; else the default's."""
        schedule, _, measured = (asked or "").partition(MEASURED_AS)
        first = [] if asked is None else self.asked_for(region, schedule)
        choice, kernel = choose(region, self.device.profile, first)
        if not first or choice.form != first[0].form:
            return choice, kernel
        if source_lines(kernel) <= MOST_LINES and (not measured or measured_as(self.device, kernel) == measured):
            return choice, kernel
        choice, kernel = choose(region, self.device.profile)
        return replace(choice, refused=("chosen: it is not what was measured", *choice.refused)), kernel

    def asked_for(self, region: Region, text: str) -> list[Candidate]:
        """The schedule that an answer means for a region, if there is one."""
        if text.startswith(NEIGHBOUR):
            found = named(region, self.device.profile, text.removeprefix(NEIGHBOUR))
            return [] if found is None else [found._replace(form=f"{found.form}, as for a neighbour")]
        with suppress(ParseError):
            return [chosen("chosen", region, parse_schedule(text), self.device.profile)]
        return []

    def routine_kernel(self, routine: Routine) -> Built:
        text = print_routine(routine)
        made = Built(routine, text, Choice("routine", (), routine.grain))
        return self.known((self.device.name, text, None), lambda: made)

    def series_kernel(self, series: Series, choice: Choice) -> Built:
        text = print_series(series)
        return self.known((self.device.name, text, None), lambda: Built(series, text, choice))

    def known(self, key: KernelKey, make: Callable[[], Built]) -> Built:
        """A kernel, made now unless it is known or on its way."""
        built = self.compiler.kernels.get(key) or self.new.get(key)
        if built is None:
            built = self.new[key] = make()
            if self.many and is_small(built):
                self.small.add(built)
            else:
                self.units.add(built)
        return built

    def loop_leaves(self, node: Node) -> list[Node]:
        """What stands for the parameters of a loop's bodies."""
        loop: Loop = node.attribute
        first = loop.states + loop.constants
        return [
            *(self.leaf(x.dtype, x.shape, row_major(x.shape)) for x in node.sources[: loop.states]),
            *(self.seen(x) for x in node.sources[loop.states : first]),
            *(self.seen(x, 1) for x in node.sources[first : first + loop.xs]),
            self.leaf(int64, (), ()),
        ]

    def seen(self, source: Node, skipped: int = 0) -> Node:
        """A leaf that stands for what a body sees of a source: all of it, or its slices along the first axis."""
        strides = layout_of(source).strides if base(source) is source else row_major(source.shape)
        return self.leaf(source.dtype, source.shape[skipped:], strides[skipped:])

    def leaf(self, dtype: DType, shape: Shape, strides: tuple[IndexLike, ...]) -> Node:
        return make(Op.LEAF, dtype, shape, (), Argument("parameter", next(self.parameters), strides))

    def block(self, body: Sequence[Node], leaves: Sequence[Node], states: int = 0) -> Block:
        """The launches of a body, all of whose roots are stored."""
        with self.stages.stage("fuse"):
            roots, pieces, chains = ready(open_body(body, leaves), layout_of, self.device.profile)
            stored: list[Node] = []
            for root in map(storable, roots):
                while root in stored:  # a value that is given twice is copied
                    root = make(Op.CAST, root.dtype, root.shape, (root,))
                stored.append(root)
            groups, _ = partition(stored, pieces, chains)
        self.depth += 1
        work = in_order(self.work(groups), stored, leaves[:states])
        self.depth -= 1
        return Block(work, stored, leaves, states)
