"""The e-graph: classes of equal values, each with all the forms in which it is known.

A form is an ordinary node whose sources stand for classes. What stands for a class is a leaf of its own, but for
classes that are an input or a constant: these stand for themselves, so that rules see their values. Forms are
hash-consed like all nodes, so two that are equal are one object, and a class is found by any of its forms.

Classes that a union makes equal make forms equal that read them (congruence); `rebuild` finds these, once for many
unions. A class never loses a form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smelt.egraph.facts import NOTHING, Facts, facts_of
from smelt.errors import InternalError
from smelt.graph import Node, Op, build, make_leaf, topological, with_sources
from smelt.rewrite import Key, key_of

COMMUTATIVE: Final = frozenset({"add", "mul", "max", "min"})
_SAME_BITS: Final = ("add", "mul")  # either way round: the larger one of two zeros is not


class StandIn:
    """The storage of a leaf that stands for a class: there is none, but what is known of its values."""

    __slots__ = ("facts",)

    def __init__(self, facts: Facts = NOTHING) -> None:
        self.facts = facts


def stands_in(node: Node) -> bool:
    """Whether a leaf stands for a class of what is computed: no input and no constant."""
    return isinstance(node.attribute, StandIn)


def known(node: Node) -> Facts:
    """What is known of a node that rules are shown: of what stands for a class, of constants, and of forms of these."""
    if isinstance(node.attribute, StandIn):
        return node.attribute.facts
    return facts_of(node, tuple(map(known, node.sources)))


class EClass:
    """Values that are equal. `node` stands for them in forms of other classes, the `readers`."""

    __slots__ = ("_keyed", "changed", "forms", "keys", "node", "readers")

    def __init__(self, node: Node, form: Node, turn: int) -> None:
        self.node, self.changed = node, turn  # the turn in which it got its last form
        self.forms: dict[Node, Key] = {form: key_of(form)}
        self.keys = frozenset(self.forms.values())
        self.readers: dict[Node, None] = {}
        self._keyed: dict[Key, list[Node]] | None = None

    def change(self, turn: int) -> None:
        """It has got forms, or they are others."""
        self.changed, self._keyed = turn, None
        self.keys = frozenset(self.forms.values())

    @property
    def keyed(self) -> dict[Key, list[Node]]:
        """The forms, by what patterns call them."""
        if self._keyed is None:
            self._keyed = {}
            for form, key in self.forms.items():
                self._keyed.setdefault(key, []).append(form)
        return self._keyed


class EGraph:
    """Classes, found by what stands for them and by their forms."""

    def __init__(self) -> None:
        self.classes: dict[Node, EClass] = {}  # by what stands for them
        self.turn = 0
        self.unions = 0
        self.learned = 0  # how often more became known of a class
        self.reason = ""  # the rule whose findings are being entered
        self.reasons: dict[Node, str] = {}  # which rule has found a form
        self._stood: set[Node] = set()  # what stands or stood for a class
        self._homes: dict[Node, Node] = {}  # forms: what stood for their class when they were found
        self._merged: dict[Node, Node] = {}  # what stood for a class that is part of another now
        self._pending: list[EClass] = []

    def __len__(self) -> int:
        """How many forms there are."""
        return len(self._homes)

    def find(self, node: Node) -> Node:
        """What stands for a class now, of what once did."""
        merged = self._merged
        while (into := merged.get(node)) is not None:
            further = merged.get(into)
            if further is None:
                return into
            merged[node] = node = further
        return node

    def class_of(self, node: Node) -> EClass:
        """The class that a node stands or stood for."""
        return self.classes[self.find(node)]

    def add(self, term: Node) -> Node:
        """Enter a graph over what stands for classes; gives what stands for the class of its root."""
        return self._seen(term, self.add_all(topological([term], known=self._stood)))

    def add_all(self, order: Iterable[Node]) -> dict[Node, Node]:
        """Enter nodes, sources before users; gives what stands for the class of each."""
        found: dict[Node, Node] = {}
        for node in order:
            found[node] = self._enter(node, tuple([self._seen(source, found) for source in node.sources]))
        return found

    def _seen(self, node: Node, found: dict[Node, Node]) -> Node:
        known = found.get(node)
        return self.find(node if known is None else known)

    def _enter(self, node: Node, sources: tuple[Node, ...]) -> Node:
        if node.op in _RESHAPING and node.op in self.classes[sources[0]].keys:
            # Greedy rules would see that it is one reshape, but for what stands for the class in between: there would
            # be another reshape of a reshape in each turn.
            inner = self.classes[sources[0]].keyed[node.op][0]
            sources = (self.find(inner.sources[0]),)
            if sources[0].shape == node.shape:
                return sources[0]
        form = with_sources(node, sources)
        home = self._homes.get(form)
        if home is None:
            home = self._homes.get(self._swapped(form))
        if home is not None:
            return self.find(home)
        stands_for_itself = not sources or (form.op in _REPEATING and _is_constant(sources[0]))
        stand_in = form if stands_for_itself else make_leaf(form.dtype, form.shape, StandIn(known(form)))
        self.classes[stand_in] = EClass(stand_in, form, self.turn)
        self._stood.add(stand_in)
        self._homes[form] = stand_in
        if self.reason:
            self.reasons[form] = self.reason
        for source in sources:
            self.classes[source].readers[form] = None
        return stand_in

    def _swapped(self, form: Node) -> Node:
        """A form that has the same value with its sources the other way round; others as they are."""
        if form.op is Op.BINARY and form.attribute in _SAME_BITS:
            return with_sources(form, form.sources[::-1])
        if form.op is Op.CONTRACT and self.reason:  # as they were written, sums may be taken in another order
            (a, b), (left, right, out) = form.sources, form.attribute
            return build.contract(b, a, right, left, out, form.dtype)
        return form

    def union(self, a: Node, b: Node, why: str) -> bool:
        """Two classes are one, says `why`; whether they were not."""
        a, b = self.find(a), self.find(b)
        if a is b:
            return False
        if a.dtype is not b.dtype or a.shape != b.shape:
            raise InternalError(f"rule {why}: {a.dtype}{list(a.shape)} is not {b.dtype}{list(b.shape)}")
        first, second = self.classes[a], self.classes[b]
        if (_weight(b), len(second.readers)) > (_weight(a), len(first.readers)):
            first, second = second, first
        del self.classes[second.node]
        self._merged[second.node] = first.node
        first.forms |= second.forms
        first.readers |= second.readers
        first.change(self.turn)
        stand_in = first.node.attribute
        if isinstance(stand_in, StandIn):
            before, stand_in.facts = stand_in.facts, stand_in.facts.also(known(second.node))
            self.learned += stand_in.facts != before
        self._pending.append(second)
        self.unions += 1
        return True

    def rebuild(self) -> None:
        """Find the forms that have become equal by unions, and unite their classes, until there are none."""
        while self._pending:
            gone = self._pending.pop()
            for form in gone.readers:
                home = self._homes.pop(form, None)
                if home is None:
                    continue  # it reads several classes that are gone, and has been seen to
                home = self.find(home)
                new = with_sources(form, tuple(map(self.find, form.sources)))
                own = self.classes[home]
                own.forms.pop(form, None)
                if form in self.reasons:
                    self.reasons.setdefault(new, self.reasons[form])
                own.forms[new] = key_of(new)
                own.change(self.turn)
                other = self._homes.setdefault(new, home)
                for source in new.sources:
                    readers = self.classes[source].readers
                    readers.pop(form, None)
                    readers[new] = None
                self.union(home, other, "congruence")

    def changed(self, since: int, depth: int) -> dict[Node, int]:
        """What stands for classes that have changed since a turn, or that read such through at most so many forms, and
        through how many: only patterns that deep can have new matches there.
        """
        front = [node for node, own in self.classes.items() if own.changed >= since]
        found = dict.fromkeys(front, 0)
        for steps in range(1, depth + 1):
            above = {self.find(self._homes[form]) for node in front for form in self.classes[node].readers}
            front = [node for node in above if node not in found]
            found |= dict.fromkeys(front, steps)
        return found


_RESHAPING = (Op.RESHAPE, Op.EXPAND)  # of which the last one of several says it all
_REPEATING = (Op.EXPAND, Op.RESHAPE, Op.PERMUTE, Op.CAST)


def _is_constant(node: Node) -> bool:
    return node.op is Op.CONST or node.op is Op.IOTA or (node.op in _REPEATING and _is_constant(node.sources[0]))


def _weight(node: Node) -> int:
    """What of two classes that are one should stand for them: constants, then inputs, for rules know most of them."""
    if isinstance(node.attribute, StandIn):
        return 0
    return 2 if _is_constant(node) else 1
