"""`matrix`: a reduction by a matrix or dot product instruction."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action
from smelt.kernel.instructions import BY_NAME, check_instructions
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.plan import Illegal, Plan


@dataclass(frozen=True, slots=True)
class Matrix(Action):
    """Make a reduction by a row of `instructions`."""

    form = "matrix {reduction:name} {instruction:name}"
    reduction: str
    instruction: str

    def apply(self, plan: Plan) -> None:
        node, row = plan.node(self.reduction), BY_NAME.get(self.instruction)
        if row is None:
            raise Illegal(f"matrix: {self.instruction} is not an instruction")
        other = node.op != "reduce" or node.attribute.op != "add" or node.arguments[0].op != row.op
        self.refuse(other, f"{self.reduction} is no sum of what {row.name} multiplies")
        self.refuse(plan.matrix, "one reduction has the registers already")
        plan.matrix[node] = row.name

    @classmethod
    def settle(cls, plan: Plan) -> None:
        for name in plan.matrix.values():
            cls.refuse(plan.lane not in BY_NAME[name].lanes, f"{name} takes no vectors of {plan.lane}")


class Instructions(Handler):
    """Updates carry the name of their instruction; what came of them must be what it can do."""

    def finished(self) -> None:
        check_instructions(self.state.body)
