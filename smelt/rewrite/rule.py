"""What a rewrite rule is, and how a family of rules is written down."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from smelt.graph import Node, Op

Function = Callable[[Node], Node | None]
Matcher = Callable[..., Node | None]  # of the node and what a rule looks through


class Contract(enum.Enum):
    """What a rule may do to floating-point results."""

    EXACT = "exact"  # the same values, signed zeros, infinities and NaNs included
    REASSOCIATES = "reassociates"  # float sums may be taken in another order, or without rounding in between


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
        of: Op | None = None,
        contract: Contract = Contract.EXACT,
        functions: tuple[str, ...] = (),
        sole: bool = False,
    ) -> Callable[[Matcher], Matcher]:
        """Enter the decorated function; its docstring's first line is the rule's summary.

        A rule for nodes `of` an op is only asked where the first source is one that may be looked through, and takes
        the node, that source and the sources of that.
        """

        def enter(function: Matcher) -> Matcher:
            summary = (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            asked = function if of is None else _looking_through(of, function)
            name = function.__name__
            self.rules.append(Rule(name, self.name, ops, contract, asked, summary, functions, sole))
            return function

        return enter


def _looking_through(op: Op, function: Matcher) -> Function:
    def asked(node: Node) -> Node | None:
        inner = node.sources[0]
        return function(node, inner, *inner.sources) if inner.op is op and inner.leaf is None else None

    return asked
