"""What is done with loops: `order`, `bind` and `unroll`."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.plan import Planner


@dataclass(frozen=True, slots=True)
class Order(Action):
    """The order of loops, outermost first. Every loop of a parallel axis is named; loops of reductions may be."""

    form = "order {loops:names}"
    loops: tuple[str, ...]

    def apply(self, planner: Planner) -> None:
        self.refuse(planner.plan.order, "given twice")
        loops = planner.loops("order", self.loops)
        for at, (axis, level) in enumerate(loops):
            early = level and (axis, level - 1) not in loops[:at]
            self.refuse(early, f"{axis.name}.{level} must come after {axis.name}.{level - 1}")
        for axis in planner.region.axes:
            levels = planner.plan.cuts[axis].levels
            named = [loop for loop in loops if loop.axis == axis]
            some = len(named) < levels and (axis in planner.parallel or named)
            self.refuse(some, f"every loop of {axis.name} must be named, there are {levels}")
        planner.plan.order = loops


@dataclass(frozen=True, slots=True)
class Bind(Action):
    """Run the outermost loops as independent tasks: together they become one `grid` loop."""

    form = "bind {loops:names} grid"
    loops: tuple[str, ...]

    def apply(self, planner: Planner) -> None:
        self.refuse(planner.plan.grid or not self.loops, "one action names all the loops of the grid")
        loops = planner.loops("bind", self.loops)
        for loop in loops:
            self.refuse(loop.axis not in planner.parallel, f"{loop} is a loop of a reduction")
        planner.plan.grid = loops


@dataclass(frozen=True, slots=True)
class Unroll(Action):
    """Ask the compiler to unroll a loop."""

    form = "unroll {loop:name} {factor:number}"
    loop: str
    factor: int

    def apply(self, planner: Planner) -> None:
        self.refuse(self.factor < 1, f"{self.factor} is not a factor")
        planner.plan.unroll[planner.loop(self.loop)] = self.factor
