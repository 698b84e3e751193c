"""What is done with loops: `order`, `bind` and `unroll`."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.plan import Plan


@dataclass(frozen=True, slots=True)
class Order(Action):
    """The order of loops, outermost first. Every loop of a parallel axis is named; loops of reductions may be."""

    form = "order {loops:names}"
    loops: tuple[str, ...]

    def apply(self, plan: Plan) -> None:
        self.refuse(plan.order, "given twice")
        loops = plan.loops("order", self.loops)
        for at, (axis, level) in enumerate(loops):
            early = level and (axis, level - 1) not in loops[:at]
            self.refuse(early, f"{axis.name}.{level} must come after {axis.name}.{level - 1}")
        for axis in plan.region.axes:
            levels = plan.cuts[axis].levels
            named = [loop for loop in loops if loop.axis == axis]
            some = len(named) < levels and (axis in plan.parallel or named)
            self.refuse(some, f"every loop of {axis.name} must be named, there are {levels}")
        plan.order = loops


@dataclass(frozen=True, slots=True)
class Bind(Action):
    """Run the outermost loops as independent tasks: together they become one `grid` loop."""

    form = "bind {loops:names} grid"
    loops: tuple[str, ...]

    def apply(self, plan: Plan) -> None:
        self.refuse(plan.grid or not self.loops, "one action names all the loops of the grid")
        loops = plan.loops("bind", self.loops)
        for loop in loops:
            self.refuse(loop.axis not in plan.parallel, f"{loop} is a loop of a reduction")
        plan.grid = loops


@dataclass(frozen=True, slots=True)
class Unroll(Action):
    """Ask the compiler to unroll a loop."""

    form = "unroll {loop:name} {factor:number}"
    loop: str
    factor: int

    def apply(self, plan: Plan) -> None:
        self.refuse(self.factor < 1, f"{self.factor} is not a factor")
        plan.unroll[plan.loop(self.loop)] = self.factor
