"""Extraction: one form for each class, so that what the roots need costs least.

What several forms read is computed once, so the cost of a term is that of its distinct nodes: there is no best form of
a class by itself. Starts are the term as it was, and the cheapest trees with shared parts counted fully and in part.
From each, single classes change to another form for as long as that makes the whole cheaper; reference counts tell the
price of a change without walking the whole. All that was met on the way is a candidate; the cheapest few are given.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from smelt.egraph.classes import EGraph
from smelt.graph import Node, Op, with_sources

ROUNDS: Final = 8  # over all classes, in search of changes
LEAST: Final = 1e-9  # a change that is worth it, in proportion
NEAR: Final = 0.25  # what a term may cost more than the best and still be asked for its price as kernels

Price = Callable[[Node], float]  # of a form, in seconds, beside those of its sources


class Priced(NamedTuple):
    """A form with its price, and what it reads, each class once."""

    form: Node
    price: float
    reads: tuple[Node, ...]


Table = dict[Node, list[Priced]]
Chosen = dict[Node, Priced]  # for each class, by what stands for it


class Term(NamedTuple):
    """A choice of forms, and what it costs."""

    cost: float
    chosen: Chosen


def priced(graph: EGraph, roots: Iterable[Node], price: Price) -> Table:
    """The forms of all classes that the roots could need. One that reads its own class is no form to compute it by."""
    table: Table = {}
    waiting = [graph.find(root) for root in roots]
    while waiting:
        place = waiting.pop()
        if place in table:
            continue
        rows = table[place] = []
        for form in graph.classes[place].forms:
            reads = tuple(dict.fromkeys(map(graph.find, form.sources)))
            if place not in reads:
                rows.append(Priced(form, price(form), reads))
                waiting += reads
    return table


def extract(
    table: Table, roots: Sequence[Node], first: Mapping[Node, Node], most: int, worth: float = math.inf
) -> list[Term]:
    """The cheapest terms that were found, at most so many, and none if that costs more than what is worth it. `first`
    has the form that each class had at first.
    """
    trees = _cheapest_trees(table, shared=False)
    starts = [trees | _original(table, first), trees, _cheapest_trees(table, shared=True)]
    starts = [start for start in starts if all(root in start for root in roots)]
    found = [term for start in starts for term in _climb(table, roots, start)]
    if min(term.cost for term in found) > worth:
        return []
    found = _different(found, roots)
    found += _beside(table, roots, min(found, key=lambda term: term.cost))
    return sorted(_different(found, roots), key=lambda term: term.cost)[:most]


def _different(terms: Iterable[Term], roots: Sequence[Node]) -> list[Term]:
    """Of terms that choose the same forms for all that they need, the first."""
    found: dict[tuple[tuple[Node, Node], ...], Term] = {}
    for term in terms:
        found.setdefault(tuple([(node, term.chosen[node].form) for node in used(term.chosen, roots)]), term)
    return list(found.values())


def built(chosen: Chosen, roots: Sequence[Node]) -> list[Node]:
    """The roots as the graph that a choice says."""
    new: dict[Node, Node] = {}
    for node in used(chosen, roots):
        form = chosen[node].form
        new[node] = with_sources(form, tuple([new[x] for x in form.sources]))
    return [new[root] for root in roots]


def used(chosen: Chosen, roots: Sequence[Node]) -> list[Node]:
    """The classes that a choice needs, sources before users."""
    order: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in seen:
            order[stack.pop()] = None
        else:
            seen.add(node)
            stack += [read for read in reversed(chosen[node].reads) if read not in seen]
    return list(order)


def keeps_extremes(graph: EGraph, chosen: Chosen, roots: Sequence[Node]) -> bool:
    """Whether the largest value of what is computed is taken of it. Computed otherwise, that may be none of its values
    by rounding, and somebody may look for it there: argmax would find no place, and a gradient nobody to give to.
    """
    order = used(chosen, roots)
    computed = set(order)
    for node in order:
        of = {form.sources[0] for form in graph.classes[node].forms if _is_extreme(form)} & computed
        form = chosen[node].form
        if of and not (_is_extreme(form) and form.sources[0] in of):
            return False
    return True


def _is_extreme(form: Node) -> bool:
    return form.op is Op.REDUCE and form.attribute.op in ("max", "min")


def _original(table: Table, first: Mapping[Node, Node]) -> Chosen:
    """The forms that classes had at first, as far as they had any."""
    chosen: Chosen = {}
    for place, rows in table.items():
        row = next((row for row in rows if row.form is first.get(place)), None)
        if row is not None:
            chosen[place] = row
    return chosen


def _cheapest_trees(table: Table, *, shared: bool) -> Chosen:
    """For each class the form with the cheapest tree, what several read counted by each, or shared out among them."""
    readers: dict[Node, list[tuple[Node, Priced]]] = {}
    waiting: deque[tuple[Node, Priced]] = deque()  # the first one first: the last one first would take 2^n steps
    for place, rows in table.items():
        for row in rows:
            for read in row.reads:
                readers.setdefault(read, []).append((place, row))
            if not row.reads:
                waiting.append((place, row))
    share = {node: 1 / len({place for place, _ in rows}) for node, rows in readers.items()} if shared else {}
    costs: dict[Node, float] = {}
    chosen: Chosen = {}
    while waiting:
        place, row = waiting.popleft()
        if any(read not in costs for read in row.reads):
            continue
        cost = row.price + sum(costs[read] * share.get(read, 1.0) for read in row.reads)
        # A form can only be cheaper than one that it is part of by rounding: equal ones would lead around in a circle.
        if place not in costs or cost < costs[place] * (1 - LEAST):
            costs[place], chosen[place] = cost, row
            waiting += readers.get(place, ())
    return chosen if _is_acyclic(chosen) else {}


def _is_acyclic(chosen: Chosen) -> bool:
    done: set[Node] = set()
    for root in chosen:
        open_: dict[Node, None] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done or node in open_:
                done.add(node)
                open_.pop(node, None)
                stack.pop()
                continue
            open_[node] = None
            for read in chosen[node].reads:
                if read in open_:
                    return False
                if read not in done:
                    stack.append(read)
    return True


def _climb(table: Table, roots: Sequence[Node], start: Chosen) -> list[Term]:
    """The start, and what each change that makes it cheaper leads to."""
    climb = _Climb(start)
    total = sum(climb.take(root) for root in roots)
    found = [Term(total, dict(start))]
    for _ in range(ROUNDS):
        improved = False
        for place, rows in table.items():
            for row in rows if climb.counts.get(place) and len(rows) > 1 else ():
                gain = climb.change(place, row, LEAST * total)
                if gain is not None:
                    total -= gain
                    improved = True
                    found.append(Term(total, dict(climb.chosen)))
        if not improved:
            break
    return found


def _beside(table: Table, roots: Sequence[Node], best: Term) -> Iterator[Term]:
    """Terms in which one class has another form and that cost little more: as kernels, one of them may cost less."""
    climb = _Climb(best.chosen)
    for root in roots:
        climb.take(root)
    for place in used(best.chosen, roots):
        for row in table[place] if len(table[place]) > 1 else ():
            old = climb.chosen[place]
            gain = climb.change(place, row, -NEAR * best.cost)
            if gain is not None:
                yield Term(best.cost - gain, dict(climb.chosen))
                climb.change(place, old, -math.inf)


class _Climb:
    """A choice, with how often each class that it needs is read."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = dict(chosen)
        self.counts: dict[Node, int] = {}

    def take(self, node: Node) -> float:
        """One more reader of a class; what that adds to the price."""
        added, stack = 0.0, [node]
        while stack:
            one = stack.pop()
            count = self.counts.get(one, 0)
            self.counts[one] = count + 1
            if not count:
                added += self.chosen[one].price
                stack += self.chosen[one].reads
        return added

    def drop(self, node: Node) -> float:
        """One reader less; what that saves."""
        saved, stack = 0.0, [node]
        while stack:
            one = stack.pop()
            self.counts[one] -= 1
            if not self.counts[one]:
                saved += self.chosen[one].price
                stack += self.chosen[one].reads
        return saved

    def change(self, place: Node, row: Priced, least: float) -> float | None:
        """Choose another form if that saves more than this; how much."""
        old = self.chosen[place]
        if row is old or any(read not in self.chosen for read in row.reads):
            return None
        gain = old.price - row.price - sum(map(self.take, row.reads)) + sum(map(self.drop, old.reads))
        if gain > least and not self.leads_to(row.reads, place):  # which is seldom asked for in this order
            self.chosen[place] = row
            return gain
        for read in old.reads:
            self.take(read)
        for read in row.reads:
            self.drop(read)
        return None

    def leads_to(self, nodes: Iterable[Node], place: Node) -> bool:
        """Whether what computes some classes reads another."""
        seen: set[Node] = set()
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node is place:
                return True
            if node not in seen:
                seen.add(node)
                stack += self.chosen[node].reads
        return False
