"""A schedule checked against a region and gathered by meaning: what lowering looks up while it works.

Everything that can be decided without lowering is decided here; the remaining checks are made where lowering meets the
fact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from smelt.graph.index import Variable, of
from smelt.kernel.actions import (
    KINDS,
    PLACES,
    TAILS,
    Action,
    Apart,
    Bind,
    Group,
    Illegal,
    Keep,
    Matrix,
    Online,
    Order,
    Parts,
    Schedule,
    Skip,
    Split,
    Stage,
    Stream,
    Sub,
    Together,
    Unroll,
)
from smelt.kernel.instructions import BY_NAME, Instruction
from smelt.kernel.region import Expression, Region, walk
from smelt.kernel.segments import Cut, Piece


class Loop(NamedTuple):
    """One loop of an axis; level 0 is the outermost."""

    axis: Variable
    level: int

    def __str__(self) -> str:
        return f"{self.axis.name}.{self.level}"


class Dimension(NamedTuple):
    """One dimension of staged memory: an axis, or with `block` its blocks (`/`) or the places in a block (`%`)."""

    axis: Variable
    op: str = ""
    block: int = 1

    def size(self, room: int) -> int:
        """How long the dimension is where the axis needs some room."""
        return {"": room, "/": -(-room // self.block), "%": self.block}[self.op]


class StagePlan(NamedTuple):
    node: Expression
    at: Loop
    order: tuple[Dimension, ...]
    pad: int
    folds_lanes: bool  # the node folds lanes, so that a copy has none
    along: Variable | None = None  # the axis that the node's memory lies along, if not the last of the order
    tail: str = "shrink"  # of what a copy takes at a time

    @property
    def axes(self) -> tuple[Variable, ...]:
        """The axes in the order in which a copy walks them: where each of them is last named."""
        return tuple(reversed(dict.fromkeys(dimension.axis for dimension in reversed(self.order))))


class SkipPlan(NamedTuple):
    bound: Variable
    condition: Expression


@dataclass
class Plan:
    """What a schedule says, by what lowering asks."""

    cuts: dict[Variable, Cut]
    subs: dict[tuple[Expression, Variable], Cut] = field(default_factory=dict)
    order: tuple[Loop, ...] = ()
    grid: tuple[Loop, ...] = ()
    stages: list[StagePlan] = field(default_factory=list)
    keeps: dict[Expression, str] = field(default_factory=dict)
    unroll: dict[Loop, int] = field(default_factory=dict)
    stream: bool = False
    online: list[Variable] = field(default_factory=list)
    skips: dict[Variable, SkipPlan] = field(default_factory=dict)
    groups: dict[Expression, tuple[Expression, ...]] = field(default_factory=dict)  # of each reduction in one
    together: bool = False  # all outputs are stored in the nest of the first
    matrix: dict[Expression, Instruction] = field(default_factory=dict)  # what makes a reduction
    apart: Variable | None = None  # the axis whose registers are finished one by one
    threads: int = 1  # of a group: the product of all thread parts
    lane: int = 1  # the widest vector that the schedule uses; copies use it too

    @property
    def uses_memory(self) -> bool:
        """True if nodes may be read back from memory."""
        return bool(self.stages or self.keeps or self.subs or self.apart)

    def cut(self, reduction: Expression | None, axis: Variable) -> Cut:
        """How an axis is cut, for one reduction or in general."""
        if reduction is not None and (reduction, axis) in self.subs:
            return self.subs[reduction, axis]
        return self.cuts[axis]

    def all_cuts(self, axis: Variable) -> list[Cut]:
        """Every way in which the axis may be walked: by the loops, by copies, and by single reductions."""
        return [self.cuts[axis], *self.copy_cuts(axis), *(cut for (_, a), cut in self.subs.items() if a == axis)]

    def copy_cuts(self, axis: Variable) -> list[Cut]:
        """How copies walk the axis."""
        return [Cut(), *(self.copy_cut(stage, axis) for stage in self.stages if axis in (stage.axes[-1], stage.along))]

    def copy_cut(self, stage: StagePlan, axis: Variable) -> Cut:
        """How one copy walks an axis: with lanes along the last axis of its order, a whole block of it at a time.

        Where memory lies along another axis, as many of that are taken as there are lanes: a transpose in registers.
        """
        last = stage.order[-1]
        if self.lane > 1 and axis == stage.along:
            return Cut((Piece("reg", self.lane),))
        if self.lane == 1 or last.axis != axis or stage.folds_lanes:
            return Cut()
        registers = last.block // self.lane
        outer = (Piece("reg", registers),) if registers > 1 else ()
        return Cut((*outer, Piece("lane", self.lane)), stage.tail)


def make_plan(region: Region, schedule: Schedule) -> Plan:
    """Check the actions and gather them. Raises `Illegal`."""
    return _Planner(region).run(schedule)


class _Planner:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.axes = {axis.name: axis for axis in region.axes}
        self.names: dict[str, Expression] | None = None
        self.split_axes: list[Variable] = []
        self.plan = Plan({axis: Cut() for axis in region.axes})

    def run(self, schedule: Schedule) -> Plan:
        # Cuts come first: the other actions name the loops that they make.
        for action in schedule:
            if isinstance(action, Split):
                self.split(action)
            elif isinstance(action, Sub):
                self.sub(action)
        for action in schedule:
            if not isinstance(action, Split | Sub):
                self.apply(action)
        if self.plan.together and "out" in self.plan.keeps.values():
            raise Illegal("keep: where outputs are stored together, none of them can hold a node meanwhile")
        if any(axis in self.plan.online for node in self.plan.groups for axis in node.attribute.axes):
            raise Illegal("group: the axis is online")
        self.threads()
        self.check_apart()
        cuts = (*self.plan.cuts.values(), *self.plan.subs.values())
        self.plan.lane = max([cut.extent("lane") for cut in cuts], default=1)
        for row in self.plan.matrix.values():
            if self.plan.lane not in row.lanes:
                raise Illegal(f"matrix: {row.name} takes no vectors of {self.plan.lane}")
        for stage in self.plan.stages:
            last = stage.order[-1]
            if last.op and last.block % self.plan.lane:
                raise Illegal(f"stage: blocks of {last.block} are not whole vectors")
        return self.plan

    def threads(self) -> None:
        """Give every thread part its place in the group; the last one's threads are neighbors."""
        cuts = self.plan.cuts
        for axis in reversed([axis for axis in self.split_axes if cuts[axis].has("thread")]):
            cuts[axis] = cuts[axis].with_stride(self.plan.threads)
            self.plan.threads *= cuts[axis].extent("thread")
        if any(cut.has("thread") for cut in self.plan.subs.values()):
            raise Illegal("sub: a reduction of its own cut has no threads")

    def apply(self, action: Action) -> None:
        plan = self.plan
        match action:
            case Order():
                self.order(action)
            case Bind():
                self.bind(action)
            case Stage():
                self.stage(action)
            case Keep():
                self.keep(action)
            case Unroll(loop, factor):
                if factor < 1:
                    raise Illegal(f"unroll: {factor} is not a factor")
                plan.unroll[self.loop(loop)] = factor
            case Stream():
                plan.stream = True
            case Online(axis):
                if self.axis(axis) in plan.online:
                    raise Illegal(f"online: {axis} is online already")
                if plan.cuts[self.axis(axis)].levels > 1:
                    raise Illegal(f"online: {axis} is cut into more than one loop")
                plan.online.append(self.axis(axis))
            case Skip(axis, limit, condition):
                if self.axis(axis) in plan.skips:
                    raise Illegal(f"skip: {axis} has a condition already")
                plan.skips[self.axis(axis)] = SkipPlan(self.axis(limit), self.node(condition))
            case Group():
                self.group(action)
            case Together():
                self.together()
            case Apart(axis):
                self.apart(axis)
            case Matrix():
                self.matrix(action)

    def split(self, action: Split) -> None:
        axis = self.axis(action.axis)
        if self.plan.cuts[axis] != Cut():
            raise Illegal(f"split: {action.axis} is split already")
        if not action.parts:
            raise Illegal(f"split: {action.axis} needs at least one part")
        self.plan.cuts[axis] = _cut(action.axis, action.parts, action.tail)
        self.split_axes.append(axis)

    def sub(self, action: Sub) -> None:
        axis, node = self.axis(action.axis), self.node(action.reduction)
        if node.op != "reduce" or axis not in node.attribute.axes:
            raise Illegal(f"sub: {action.reduction} is not a reduction over {action.axis}")
        if (node, axis) in self.plan.subs:
            raise Illegal(f"sub: {action.reduction} cuts {action.axis} already")
        self.plan.subs[node, axis] = _cut(action.axis, action.parts, "shrink")

    def order(self, action: Order) -> None:
        if self.plan.order:
            raise Illegal("order: given twice")
        loops = tuple(self.loop(name) for name in action.loops)
        if len(set(loops)) < len(loops):
            raise Illegal("order: a loop is named twice")
        for at, (axis, level) in enumerate(loops):
            if level and (axis, level - 1) not in loops[:at]:
                raise Illegal(f"order: {axis.name}.{level} must come after {axis.name}.{level - 1}")
        parallel = {axis for output in self.region.outputs for axis in self.region.parallel_axes(output)}
        for axis in self.region.axes:
            levels = self.plan.cuts[axis].levels
            named = [loop for loop in loops if loop.axis == axis]
            if len(named) < levels and (axis in parallel or named):
                raise Illegal(f"order: every loop of {axis.name} must be named, there are {levels}")
        self.plan.order = loops

    def bind(self, action: Bind) -> None:
        if action.kind != "grid":
            raise Illegal(f"bind: {action.kind} is not a kind of loop that can be bound")
        if self.plan.grid or not action.loops:
            raise Illegal("bind: one action names all the loops of the grid")
        loops = tuple(self.loop(name) for name in action.loops)
        if len(set(loops)) < len(loops):
            raise Illegal("bind: a loop is named twice")
        parallel = {axis for output in self.region.outputs for axis in self.region.parallel_axes(output)}
        for loop in loops:
            if loop.axis not in parallel:
                raise Illegal(f"bind: {loop} is a loop of a reduction")
        self.plan.grid = loops

    def stage(self, action: Stage) -> None:
        node, at = self.node(action.node), self.loop(action.at)
        order = tuple(self.dimension(name) for name in action.order)
        self.check_layout(action, order)
        if action.pad < 0:
            raise Illegal("stage: the padding is negative")
        if any(dimension.axis not in node.axes for dimension in order):
            raise Illegal(f"stage: {action.node} does not vary over all axes of its order")
        if any(e.op == "scan" for e in walk([node])):
            raise Illegal(f"stage: {action.node} needs a scan, which only the loops of its output make")
        if any(stage.node is node for stage in self.plan.stages):
            raise Illegal(f"stage: {action.node} is staged already")
        folds = [(e, axis) for e in walk([node]) if e.op == "reduce" for axis in e.attribute.axes]
        folds_lanes = any(self.plan.cut(e, axis).has("lane") for e, axis in folds)
        # Sums are large bodies: one for all vectors. What is only copied is masked where it must be.
        tail = "mask" if folds else "shrink"
        self.plan.stages.append(StagePlan(node, at, order, action.pad, folds_lanes, _lies_along(node, order), tail))

    def keep(self, action: Keep) -> None:
        node = self.node(action.node)
        if action.place not in PLACES:
            raise Illegal(f"keep: {action.place} is not a place")
        if node in self.plan.keeps:
            raise Illegal(f"keep: {action.node} is kept already")
        if node.op == "reduce":
            raise Illegal(f"keep: {action.node} is a reduction, which is made once anyway")
        self.plan.keeps[node] = action.place

    def group(self, action: Group) -> None:
        members = tuple(self.node(name) for name in action.reductions)
        if len(set(members)) < max(2, len(members)) or any(node.op != "reduce" for node in members):
            raise Illegal("group: it takes two different reductions or more")
        axes = members[0].attribute.axes
        if any(node.attribute.axes != axes for node in members):
            raise Illegal("group: the reductions are over different axes")
        if any(node in self.plan.groups for node in members):
            raise Illegal("group: a reduction is in a group already")
        if any((node, axis) in self.plan.subs for node in members for axis in axes):
            raise Illegal("group: a reduction cuts its axis its own way")
        if any(e in members for node in members for e in walk(node.arguments)):
            raise Illegal("group: one reduction needs another")
        self.plan.groups.update(dict.fromkeys(members, members))

    def matrix(self, action: Matrix) -> None:
        node, row = self.node(action.reduction), BY_NAME.get(action.instruction)
        if row is None:
            raise Illegal(f"matrix: {action.instruction} is not an instruction")
        if node.op != "reduce" or node.attribute.op != "add" or node.arguments[0].op != row.op:
            raise Illegal(f"matrix: {action.reduction} is no sum of what {row.name} multiplies")
        if self.plan.matrix:
            raise Illegal("matrix: one reduction has the registers already")
        self.plan.matrix[node] = row

    def together(self) -> None:
        first, *others = (set(self.region.parallel_axes(output)) for output in self.region.outputs)
        if not others or not all(axes <= first for axes in others):
            raise Illegal("together: there must be several outputs, and the first must have the axes of all")
        if any(e.op == "scan" for e in self.region.order()):
            raise Illegal("together: scans are made in the nest of one output")
        self.plan.together = True

    def apart(self, name: str) -> None:
        axis, outputs = self.axis(name), self.region.outputs
        if self.plan.apart is not None:
            raise Illegal("apart: one axis at most is finished register by register")
        if [piece.kind for piece in self.plan.cuts[axis].inner] != ["reg"]:
            raise Illegal(f"apart: {name} must have registers, and neither threads nor lanes")
        if any(axis not in self.region.parallel_axes(output) for output in outputs):
            raise Illegal(f"apart: {name} must be an axis of every output")
        if any(e.op == "scan" for e in self.region.order()):
            raise Illegal("apart: the values of a scan do not wait")
        self.plan.apart = axis

    def check_apart(self) -> None:
        plan = self.plan
        if plan.apart is not None and plan.threads > 1:
            raise Illegal("apart: the sums of a group's threads do not wait")
        overlapping = [axis for axis, cut in plan.cuts.items() if cut.tail == "overlap"]
        if any(axis != plan.apart for axis in overlapping):
            raise Illegal("split: tail overlap is for the axis that is apart, or elements would be finished twice")
        reduced = {axis for e in self.region.order() if e.op == "reduce" for axis in e.attribute.axes}
        if any(axis in reduced for axis in overlapping):
            raise Illegal("split: tail overlap is not for an axis that is reduced, or elements would be added twice")
        if overlapping and "out" in plan.keeps.values():
            raise Illegal("split: tail overlap would keep a node where elements are finished already")
        if overlapping and sum(loop.axis == plan.apart for loop in plan.grid) > 1:
            raise Illegal("split: tail overlap needs its tiles inside of tasks, if those are blocks of tiles")

    def check_layout(self, action: Stage, order: tuple[Dimension, ...]) -> None:
        """Each axis is there once, or as its blocks and the places in them."""
        named: dict[Variable, list[Dimension]] = {}
        for dimension in order:
            named.setdefault(dimension.axis, []).append(dimension)
        for found in named.values():
            blocks = {dimension.block for dimension in found}
            if [dimension.op for dimension in found] not in ([""], ["/", "%"]) or len(blocks) > 1:
                raise Illegal(f"stage: the order of {action.node} must name axes, each once or as blocks and places")
        if not order:
            raise Illegal(f"stage: the order of {action.node} must name axes")

    # --- names

    def dimension(self, name: str) -> Dimension:
        match = re.fullmatch(r"([^/%]+)([/%])(\d{1,9})", name)
        if match is None:
            return Dimension(self.axis(name))
        axis, op, block = match.groups()
        if int(block) < 2:
            raise Illegal(f"stage: {name} is not a block of {axis}")
        return Dimension(self.axis(axis), op, int(block))

    def axis(self, name: str) -> Variable:
        if name not in self.axes:
            raise Illegal(f"the region has no axis {name}")
        return self.axes[name]

    def loop(self, name: str) -> Loop:
        axis, _, level = name.rpartition(".")
        if not level.isdecimal() or int(level) >= self.plan.cuts[self.axis(axis)].levels:
            raise Illegal(f"there is no loop {name}")
        return Loop(self.axes[axis], int(level))

    def node(self, name: str) -> Expression:
        if self.names is None:
            self.names = self.region.named()
        if name not in self.names:
            raise Illegal(f"the region has no node {name}")
        return self.names[name]


def _lies_along(node: Expression, order: tuple[Dimension, ...]) -> Variable | None:
    """The axis of an order, other than the last, along which a load of 32-bit elements finds neighbors."""
    if node.op != "load" or node.arguments or node.attribute.buffer.dtype.bits != 32:
        return None
    address = node.attribute.buffer.address(node.attribute.index)
    for axis in dict.fromkeys(dimension.axis for dimension in order if dimension.axis != order[-1].axis):
        if address.coefficient(axis) == 1 and axis not in (address - of(axis)).variables():
            return axis
    return None


def _cut(name: str, parts: Parts, tail: str) -> Cut:
    kinds = [kind for _, kind in parts]
    if tail not in TAILS:
        raise Illegal(f"split: {tail} is not a tail")
    for extent, kind in parts:
        if kind not in KINDS:
            raise Illegal(f"split: {kind} is not a kind of part")
        if extent < 1:
            raise Illegal(f"split: {extent} is not an extent")
        if kind == "lane" and (extent < 2 or extent & (extent - 1)):
            raise Illegal(f"split: {extent} lanes is not a power of two")
        if kind == "thread" and extent & (extent - 1):
            raise Illegal(f"split: {extent} threads is not a power of two")
    if kinds != sorted(kinds, key=KINDS.index):
        raise Illegal(f"split: the parts of {name} must be loops, then reg, then thread, then lane")
    if any(kinds.count(kind) > 1 for kind in KINDS if kind != "loop"):
        raise Illegal(f"split: {name} has two parts of one kind in the tile")
    tiles = {kind for kind in kinds if kind != "loop"}
    if tail != "shrink" and not tiles:
        raise Illegal(f"split: tail {tail} needs a tile")
    if tail == "unit" and {"lane", "thread"} & tiles:
        raise Illegal("split: tail unit needs a tile without lanes and threads")
    return Cut(tuple(Piece(kind, extent) for extent, kind in parts), tail)
