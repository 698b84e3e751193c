"""A schedule gathered by meaning: what lowering looks up while it works, and what actions fill in as they are checked.

Everything that can be decided without lowering is decided when an action is applied; the remaining checks are made
where lowering meets the fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from smelt.graph import Variable
from smelt.kernel.region import Expression, Region
from smelt.kernel.segments import Cut, Piece


class Illegal(Exception):
    """An action that does not fit the region, or another action; the message says why."""


def refuse(when: object, why: str) -> None:
    """Raise `Illegal` if something is true."""
    if when:
        raise Illegal(why)


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
    """A node that is copied into local memory."""

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
    """A condition that compares an axis with another one."""

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
    matrix: dict[Expression, str] = field(default_factory=dict)  # the instruction that makes a reduction
    together: bool = False  # all outputs are stored in the nest of the first
    apart: Variable | None = None  # the axis whose registers are finished one by one
    expected: dict[object, str] = field(default_factory=dict)  # what has to come to something, or why it is refused
    threads: int = 1  # of a group: the product of all thread parts
    lane: int = 1  # the widest vector that the schedule uses; copies use it too

    @cached_property
    def uses_memory(self) -> bool:
        """True if nodes may be read back from memory; asked once all actions are in."""
        return bool(self.stages or self.keeps or self.subs or self.apart)

    def cut(self, reduction: Expression, axis: Variable) -> Cut:
        """How a reduction walks an axis."""
        return self.subs.get((reduction, axis)) or self.cuts[axis]

    def sub_cuts(self, axis: Variable) -> list[Cut]:
        """How single reductions walk the axis."""
        return [cut for (_, a), cut in self.subs.items() if a == axis]

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


class Planner:
    """The plan that actions fill in, and what their names stand for."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.plan = Plan({axis: Cut() for axis in region.axes})
        self._axes = {axis.name: axis for axis in region.axes}

    @cached_property
    def _nodes(self) -> dict[str, Expression]:
        return self.region.named()

    @cached_property
    def parallel(self) -> set[Variable]:
        """The axes over which outputs are stored."""
        return {axis for output in self.region.outputs for axis in self.region.parallel_axes(output)}

    @property
    def has_scans(self) -> bool:
        return any(e.op == "scan" for e in self.region.order())

    def axis(self, name: str) -> Variable:
        refuse(name not in self._axes, f"the region has no axis {name}")
        return self._axes[name]

    def loop(self, name: str) -> Loop:
        axis, _, level = name.rpartition(".")
        known = level.isdecimal() and int(level) < self.plan.cuts[self.axis(axis)].levels
        refuse(not known, f"there is no loop {name}")
        return Loop(self._axes[axis], int(level))

    def loops(self, word: str, names: tuple[str, ...]) -> tuple[Loop, ...]:
        """The loops that an action names, each once."""
        found = tuple(self.loop(name) for name in names)
        refuse(len(set(found)) < len(found), f"{word}: a loop is named twice")
        return found

    def node(self, name: str) -> Expression:
        refuse(name not in self._nodes, f"the region has no node {name}")
        return self._nodes[name]
