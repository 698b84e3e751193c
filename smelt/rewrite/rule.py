"""What a rewrite rule is, and how a family of rules is written down."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from smelt.graph import Node, Op

Function = Callable[[Node], Node | None]
Matcher = Callable[..., Node | None]  # of the node and what a rule looks through
Key = Op | str  # an op, or the name of an elementwise function or a composite


class Contract(enum.Enum):
    """What a rule may do to floating-point results; each allows what those before it do."""

    EXACT = "exact"  # the same values, signed zeros, infinities and NaNs included
    REASSOCIATES = "reassociates"  # float sums may be taken in another order, or without rounding in between
    REGROUPS = "regroups"  # products and sums are multiplied out or factored: infinities, NaNs, overflow may differ
    FAST = "fast"  # the last bits may be lost, where large numbers cancel more than that

    def allows(self, other: Contract) -> bool:
        """Whether somebody who accepts this accepts the other."""
        return _CONTRACTS.index(other) <= _CONTRACTS.index(self)


_CONTRACTS = tuple(Contract)


class Pattern(NamedTuple):
    """What a node has to be, one of several keys, and what its sources have to be as far as a rule looks at them; None:
    anything.
    """

    keys: frozenset[Key]
    sources: tuple[Pattern | None, ...] = ()

    @property
    def depth(self) -> int:
        """How many nodes lie one below the other."""
        return 1 + max((source.depth for source in self.sources if source is not None), default=0)


Sources = tuple[Pattern | None, ...]


def any_of(*keys: Key) -> frozenset[Key]:
    """In a pattern, for the key: a node with one of these."""
    return frozenset(keys)


def pattern(written: Any) -> Pattern:
    """`Op.CONTRACT`, `any_of("add", "sub")` or `("add", Op.CONTRACT, None)`: the key, then the sources."""
    if isinstance(written, Pattern):
        return written
    key, *sources = written if isinstance(written, tuple) else (written,)
    keys = key if isinstance(key, frozenset) else frozenset({key})
    return Pattern(keys, tuple([None if source is None else pattern(source) for source in sources]))


def key_of(node: Node) -> Key:
    """What patterns call a node."""
    op = node.op
    if op is Op.UNARY or op is Op.BINARY:
        name: str = node.attribute
        return name
    return node.attribute.name if op is Op.COMPOSITE else op


@dataclass(frozen=True, slots=True, eq=False)  # a rule is itself: tuples of rules are looked up all the time
class Rule:
    """One named rewrite: `function` gives an equal node of the same shape and dtype, or None where it does not apply.

    A rule only looks through sources that are not computed yet (`node.leaf is None`). `functions` narrows UNARY and
    BINARY to these names. A rule that is `sole` would repeat work if the node that it looks through had another reader,
    so the engine only applies it where its root is the one reader of its first source.
    """

    name: str
    family: str
    ops: tuple[Key, ...]
    contract: Contract
    function: Function
    summary: str
    functions: tuple[str, ...] = ()
    sole: bool = False
    patterns: tuple[Pattern, ...] = ()  # what a node has to be, one of these; none: the rule looks at no source

    def below(self, key: Key) -> list[Sources]:
        """What the sources of a node with this key have to be: as one of these says."""
        return list(dict.fromkeys(one.sources for one in self.patterns if key in one.keys)) or [()]


class Family:
    """A list of rules under one name, filled by decorating their functions or from a table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: list[Rule] = []

    def rule(
        self,
        *nodes: Any,
        of: Op | None = None,
        contract: Contract = Contract.EXACT,
        functions: tuple[str, ...] = (),
        sole: bool = False,
        name: str = "",
        summary: str = "",
    ) -> Callable[[Matcher], Matcher]:
        """Enter the decorated function under its own name and the first line of its docstring, unless others are given.

        A rule for nodes `of` an op is only asked where the first source is one that may be looked through, and takes
        the node, that source and the sources of that. One for patterns, `(Op.CONTRACT, ("mul", None, Op.EXPAND), None)`
        or several like this, is asked where one of them fits, and takes the node and its sources.
        """
        patterns = tuple(map(pattern, nodes))
        ops = tuple(dict.fromkeys(key for one in patterns for key in one.keys))
        if of is not None:
            patterns = tuple([Pattern(one.keys, (pattern(of),)) for one in patterns])

        def enter(function: Matcher) -> Matcher:
            said = summary or (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
            asked, kept = function, patterns if any(one.sources for one in patterns) else ()
            if of is not None:
                asked = _looking_through(of, function)
            elif kept:
                asked = _matching(kept, function)
            called = name or function.__name__
            self.rules.append(Rule(called, self.name, ops, contract, asked, said, functions, sole, kept))
            return function

        return enter


def match(sources: Sequence[Node], over: Sequence[Pattern | None]) -> bool:
    """Whether sources are what patterns say, as far as there are patterns."""
    return all(below is None or _matches(source, below) for source, below in zip(sources, over, strict=False))


def _matches(node: Node, pattern: Pattern) -> bool:
    """Whether a node is what a pattern says, as are its sources: computed values are read, not looked into."""
    return key_of(node) in pattern.keys and node.leaf is None and match(node.sources, pattern.sources)


def _matching(patterns: tuple[Pattern, ...], function: Matcher) -> Function:
    return lambda node: function(node, *node.sources) if any(_matches(node, one) for one in patterns) else None


def _looking_through(op: Op, function: Matcher) -> Function:
    def asked(node: Node) -> Node | None:
        inner = node.sources[0]
        return function(node, inner, *inner.sources) if inner.op is op and inner.leaf is None else None

    return asked
