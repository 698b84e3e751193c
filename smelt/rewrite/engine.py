"""The engine: applies rules bottom-up over the graph until none fires, without recursion and in linear time."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from smelt.config import settings
from smelt.errors import InternalError
from smelt.graph import BINARY, UNARY, Node, Op, make, topological
from smelt.rewrite.rule import Function, Key, Rule
from smelt.rewrite.rules import RULES

# UNARY and BINARY nodes find their rules by the function's name, all others by op.
Table = dict[Key, list[tuple[Rule, Function]]]  # each rule with its function at hand

# Far above what terminating rules need; a runaway rule is stopped before it fills the memory.
STEPS_PER_NODE = 100
SPARE_STEPS = 1_000
# A round after the first is only needed for sole rules that match what an earlier round made.
ROUNDS = 8


def enabled_rules() -> tuple[Rule, ...]:
    """The rules that are on: all families but those switched off."""
    disabled = settings().disabled_rules
    return tuple([rule for rule in RULES if rule.family not in disabled]) if disabled else RULES


def rewrite(roots: Iterable[Node], rules: Sequence[Rule] | None = None) -> list[Node]:
    """Equal nodes at the fixpoint of the rules, which are `enabled_rules()` unless given.

    A node whose value is already computed (`node.leaf`) is a source: it is kept, and nothing below it is looked at.
    """
    table, sole_keys = _table(enabled_rules() if rules is None else tuple(rules))
    results = list(roots)
    order = topological(results)
    budget = SPARE_STEPS + STEPS_PER_NODE * len(order)
    ready = _sole_readers(order, results, sole_keys)
    for _ in range(ROUNDS):
        walk = _Walk(table, ready, budget)
        results = walk.run(results)
        if not walk.missed:
            break
        # Only now is it known who reads the nodes that were made on the way.
        ready = walk.missed & _sole_readers(topological(results), results, sole_keys)
        if not ready:
            break
        budget = walk.budget
    return results


@functools.lru_cache(maxsize=64)
def _table(rules: tuple[Rule, ...]) -> tuple[Table, frozenset[Key]]:
    """The rules by what they are looked up by, the sole ones last; and where there are sole ones."""
    table: dict[Key, list[tuple[Rule, Function]]] = {}
    for rule in sorted(rules, key=lambda rule: rule.sole):
        for key in keys_of(rule):
            table.setdefault(key, []).append((rule, rule.function))
    return table, frozenset(key for rule in rules if rule.sole for key in keys_of(rule))


def keys_of(rule: Rule) -> Iterable[Key]:
    """By what a rule is looked up."""
    for op in rule.ops:
        names = UNARY if op is Op.UNARY else BINARY if op is Op.BINARY else ()
        yield from (name for name in names if not rule.functions or name in rule.functions) if names else (op,)


def _sole_readers(order: list[Node], roots: list[Node], keys: frozenset[Key]) -> set[Node]:
    """The nodes with these keys that are the only readers of their first source."""
    if not keys:
        return set()
    candidates: list[Node] = []
    reads = dict.fromkeys(roots, 1)
    for node in order:
        if node.leaf is None and node.sources:
            for source in node.sources:
                reads[source] = reads.get(source, 0) + 1
            if (node.attribute if node.op is Op.UNARY or node.op is Op.BINARY else node.op) in keys:
                candidates.append(node)
    return {node for node in candidates if reads[node.sources[0]] == 1}


@dataclass(slots=True)
class _Walk:
    """One bottom-up walk. Rules only ever see nodes whose sources are finished."""

    table: Table
    ready: set[Node]
    budget: int
    verify: bool = field(default_factory=lambda: settings().verify)
    finished: dict[Node, Node] = field(default_factory=dict)  # the fixpoint of each node that was met
    forward: dict[Node, Node] = field(default_factory=dict)  # the next form of a node that is not at its fixpoint
    applied: dict[Node, Rule] = field(default_factory=dict)  # which rule led from a node to the next form
    missed: set[Node] = field(default_factory=set)  # matched by a sole rule, but not known to be sole readers

    def run(self, roots: list[Node]) -> list[Node]:
        finished, forward = self.finished, self.forward
        stack = roots[::-1]
        while stack:
            node = stack[-1]
            if node in finished:
                stack.pop()
                continue
            following = forward.get(node)
            if following is None:
                if node.leaf is None:
                    waiting = [source for source in node.sources if source not in finished]
                    if waiting:
                        stack += reversed(waiting)
                        continue
                    following = self._next(node)
                if following is None:
                    finished[node] = node
                    stack.pop()
                    continue
                forward[node] = following
                if following not in finished:
                    stack.append(following)
                    continue
            elif following not in finished:
                # The next form is always finished before its node is met again, unless it needs the node itself.
                self._stop(node, "rules undo each other")
                finished[node] = node
                continue
            finished[node] = finished[following]
            stack.pop()
        return [finished[root] for root in roots]

    def _next(self, node: Node) -> Node | None:
        """The node with finished sources, or what a rule makes of it, or None at the fixpoint."""
        if node.sources:
            sources = tuple(map(self.finished.__getitem__, node.sources))
            for old, new in zip(node.sources, sources, strict=True):
                if old is not new:
                    # Sources keep their shapes and dtypes, so the node's own fields stay right.
                    rebuilt = make(node.op, node.dtype, node.shape, sources, node.attribute)
                    # What replaced the first source may have readers of its own, unless it is only a new form of it.
                    if node in self.ready and sources[0].op is node.sources[0].op:
                        self.ready.add(rebuilt)
                    return rebuilt
        op = node.op
        key = node.attribute if op is Op.UNARY or op is Op.BINARY else op
        for rule, function in self.table.get(key, ()):
            after = function(node)
            if after is not None:
                if not rule.sole or node in self.ready:
                    return self._apply(rule, node, after)
                self.missed.add(node)
        return None

    def _apply(self, rule: Rule, before: Node, after: Node) -> Node | None:
        if self.verify and (after.dtype is not before.dtype or after.shape != before.shape):
            raise InternalError(f"rewrite rule {rule.name} turned {before!r} into {after!r}")
        self.applied[before] = rule
        if after is before:
            self._stop(before, "a rule gives its own input")
            return None
        self.budget -= 1
        if self.budget < 0:
            self._stop(before, "rules do not come to an end")
            return None
        return after

    def _stop(self, node: Node, problem: str) -> None:
        """Rewriting that does not end is a bug; without verification the graph as it stands is still right."""
        if not self.verify:
            return
        names: dict[str, None] = {}
        seen: set[Node] = set()
        at: Node | None = node
        while at is not None and at not in seen:
            seen.add(at)
            if at in self.applied:
                names[self.applied[at].name] = None
            at = self.forward.get(at)
        if self.budget < 0:
            names |= {rule.name: None for rule in list(self.applied.values())[-8:]}
        raise InternalError(f"rewriting {node!r}: {problem}: {', '.join(names)}")
