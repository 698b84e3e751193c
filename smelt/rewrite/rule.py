"""What a rewrite rule is, and how a family of rules is written down."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from smelt.graph.node import Node
from smelt.graph.ops import Op

Examples = Callable[[], Sequence[Node]]
Function = Callable[[Node], Node | None]


class Contract(enum.Enum):
    """What a rule may do to floating-point results."""

    EXACT = "exact"  # the same values, signed zeros, infinities and NaNs included
    REASSOCIATES = "reassociates"  # a sum may be taken in another order, or without rounding in between
    FAST = "fast"  # right for real numbers only; off unless asked for


@dataclass(frozen=True, slots=True, eq=False)  # a rule is itself: tuples of rules are looked up all the time
class Rule:
    """One named rewrite: `function` gives an equal node of the same shape and dtype, or None where it does not apply.

    A rule only looks through sources that are not computed yet (`node.leaf is None`). `functions` narrows UNARY and
    BINARY to these names. A rule that is `sole` would repeat work if the node that it looks through had another reader,
    so the engine only applies it where its root is the one reader of its first source.
    """

    name: str
    family: str
    ops: tuple[Op, ...]
    contract: Contract
    function: Function
    examples: Examples
    summary: str
    functions: tuple[str, ...] = ()
    sole: bool = False


class Family:
    """A list of rules under one name, filled by decorating their functions or from a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: list[Rule] = []

    def rule(
        self,
        *ops: Op,
        examples: Examples,
        contract: Contract = Contract.EXACT,
        functions: tuple[str, ...] = (),
        sole: bool = False,
    ) -> Callable[[Function], Function]:
        """Enter the decorated function; its docstring's first line is the rule's summary."""

        def enter(function: Function) -> Function:
            summary = (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            self.add(function.__name__, ops, contract, function, examples, summary, functions, sole)
            return function

        return enter

    def add(
        self,
        name: str,
        ops: tuple[Op, ...],
        contract: Contract,
        function: Function,
        examples: Examples,
        summary: str,
        functions: tuple[str, ...] = (),
        sole: bool = False,
    ) -> None:
        """Enter one rule."""
        self.rules.append(Rule(name, self.name, ops, contract, function, examples, summary, functions, sole))
