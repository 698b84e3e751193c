"""How a kernel is run, which changes nothing that it computes: `grain`, `prefetch`, `shares` and `transpose`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smelt.kernel.actions.action import Action
from smelt.kernel.ir import Kernel
from smelt.kernel.lowering.plan import Plan


@dataclass(frozen=True, slots=True)
class Grain(Action):
    """Hand so many tasks at a time to a thread."""

    form = "grain {tasks:number}"
    tasks: int

    def apply(self, plan: Plan) -> None:
        self.refuse(self.tasks < 1, "a thread takes one task at least")


@dataclass(frozen=True, slots=True)
class Prefetch(Action):
    """Ask for memory before it is read: of buffers that are walked through so many bytes ahead, of rows that are
    gathered from them so many turns of the loop.
    """

    form = "prefetch {ahead:number} {turns:number} {buffers:names}"
    ahead: int
    turns: int
    buffers: tuple[str, ...]

    def apply(self, plan: Plan) -> None:
        known = {buffer.name for buffer in plan.region.buffers()}
        self.refuse(not known.issuperset(self.buffers), "the region has no such buffer")

    def on(self, kernel: Kernel) -> Kernel:
        return replace(kernel, ahead=self.ahead, turns=self.turns, fetched=self.buffers)


@dataclass(frozen=True, slots=True)
class Transpose(Action):
    """Where lanes lie across the rows of memory, load whole rows of a square and transpose them in registers."""

    form = "transpose"

    def apply(self, plan: Plan) -> None:
        """It is legal for every kernel, and says nothing about one without such squares."""

    def on(self, kernel: Kernel) -> Kernel:
        return replace(kernel, transposes=1)


@dataclass(frozen=True, slots=True)
class Shares(Action):
    """Run loops of products whose sums need more than so many registers several times, each time for those that fit."""

    form = "shares {registers:number}"
    registers: int

    def apply(self, plan: Plan) -> None:
        self.refuse(self.registers < 1, "a sum needs one register at least")

    def on(self, kernel: Kernel) -> Kernel:
        return replace(kernel, registers=self.registers)
