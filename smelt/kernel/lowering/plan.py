"""A schedule gathered by meaning: what lowering looks up while it works, and what actions fill in as they are checked.

Everything that can be decided without lowering is decided when an action is applied; the remaining checks are made
where lowering meets the fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from smelt.graph import Index, Variable
from smelt.kernel.region import Expression, Region
from smelt.kernel.segments import Cut


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

    def place(self, index: Index) -> Index:
        """Where an element of the axis lies along the dimension."""
        return {"": index, "/": index // self.block, "%": index % self.block}[self.op]


class StagePlan(NamedTuple):
    """A node that is copied into local memory."""

    node: Expression
    at: Loop
    order: tuple[Dimension, ...]

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
    """What a schedule says about a region, by what lowering asks; actions fill it in."""

    region: Region
    cuts: dict[Variable, Cut] = field(init=False)
    order: tuple[Loop, ...] = ()
    grid: tuple[Loop, ...] = ()
    stages: list[StagePlan] = field(default_factory=list)
    copies: dict[tuple[Expression, Variable], Cut] = field(default_factory=dict)  # how those of nodes walk axes
    keeps: dict[Expression, str] = field(default_factory=dict)
    unroll: dict[Loop, int] = field(default_factory=dict)
    stream: bool = False
    online: list[Variable] = field(default_factory=list)
    skips: dict[Variable, SkipPlan] = field(default_factory=dict)
    matrix: dict[Expression, str] = field(default_factory=dict)  # the instruction that makes a reduction
    together: bool = False  # all outputs are stored in the nest of the first
    apart: Variable | None = None  # the axis whose registers are finished one by one
    expected: dict[object, str] = field(default_factory=dict)  # what has to come to something, or why it is refused
    threads: int = 1  # of a group: the product of all thread parts
    lane: int = 1  # the widest vector that the schedule uses; copies use it too

    def __post_init__(self) -> None:
        self.cuts = {axis: Cut() for axis in self.region.axes}

    @cached_property
    def uses_memory(self) -> bool:
        """True if nodes may be read back from memory; asked once all actions are in."""
        return bool(self.stages or self.keeps or self.online or self.apart)

    def copies_along(self, axis: Variable) -> list[Cut]:
        """How copies walk an axis."""
        return [cut for (_, a), cut in self.copies.items() if a == axis]

    # --- what the names of actions stand for

    @cached_property
    def _axes(self) -> dict[str, Variable]:
        return {axis.name: axis for axis in self.region.axes}

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
        known = level.isdecimal() and int(level) < self.cuts[self.axis(axis)].levels
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
