"""Planning: each island of a graph becomes the cheapest of all the programs that rules show to be equal to it.

Bounds: one look at each node, and saturation once for each distinct island. What was found for an island is remembered
by its structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from smelt.egraph.classes import EGraph
from smelt.egraph.extract import Term, built, extract, keeps_extremes, priced, used
from smelt.egraph.found import Alternative, Plan, load, name_of, store
from smelt.egraph.islands import Frozen, Island, Starts, islands
from smelt.egraph.saturate import FUEL, Fuel, saturate
from smelt.graph import Node, derived, topological, with_sources
from smelt.graph.text import print_graph
from smelt.kernel import Illegal
from smelt.locks import Remembered
from smelt.rewrite import Rule

WORTH: Final = 0.97  # of the price of the nodes as they are written: above it, no price as kernels is asked for
CANDIDATES: Final = 6  # terms that are asked for their price as kernels
REMEMBERED: Final = 4096  # islands


class Pricing(NamedTuple):
    """What programs cost, in seconds: a form beside its sources, guessed; and a graph, once it is cut into kernels."""

    name: str  # of the machine that it is about: plans are remembered by it
    form: Callable[[Node], float]
    graph: Callable[[Sequence[Node]], float]


class Weighed(NamedTuple):
    """An island and what it was weighed against, for people: graphs are texts."""

    contract: str
    accepted: bool  # otherwise nobody has accepted that contract, and it would have paid
    written: str
    seconds: float  # as it is written, by the model
    chosen: str  # empty: as it is written
    rules: tuple[str, ...]
    chosen_seconds: float
    others: tuple[tuple[tuple[str, ...], float], ...]  # what was not taken: rules, and seconds
    report: str

    @classmethod
    def of(cls, contract: str, accepted: bool, island: Island, plan: Plan) -> Weighed:
        """What was found for an island."""
        frozen, best = island.frozen(), plan.chosen
        inputs = frozen.leaves()
        written = print_graph(frozen.over(inputs))
        chosen = "" if best is None else print_graph(best.outputs.over(inputs))
        others = tuple((one.rules, one.seconds) for one in plan.alternatives if one is not best and one.rules)
        seconds = plan.before if best is None else best.seconds
        rules = () if best is None else best.rules
        return cls(contract, accepted, written, plan.before, chosen, rules, seconds, others, str(plan.report))

    def __str__(self) -> str:
        times = f"{self.seconds / self.chosen_seconds:.3g} times" if self.chosen_seconds else "much"
        lines = [self.written.rstrip(), f"as it is written: {_microseconds(self.seconds)}"]
        if self.chosen and not self.accepted:
            lines.append(f'contracts="{self.contract}" would make this {times} faster: {", ".join(self.rules)}')
            return "\n".join(lines)
        if self.chosen:
            lines += [f"{times} faster, {_microseconds(self.chosen_seconds)}: {', '.join(self.rules)}"]
            lines += [self.chosen.rstrip()]
        lines += [f"not taken, {_microseconds(seconds)}: {', '.join(rules)}" for rules, seconds in self.others]
        return "\n".join([*lines, self.report])


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs"


def _priced_once(price: Callable[[Sequence[Node]], float]) -> Callable[[Sequence[Node]], float]:
    known: dict[tuple[Node, ...], float] = {}

    def priced(roots: Sequence[Node]) -> float:
        key = tuple(roots)
        if key not in known:
            known[key] = price(roots)
        return known[key]

    return priced


class Planner:
    """Plans graphs with some rules; if not all of them are smelt's own, with the name of what they are."""

    def __init__(self, rules: Sequence[Rule], stated: str = "", fuel: Fuel = FUEL) -> None:
        self.rules, self.stated, self.fuel = tuple(rules), stated, fuel
        self.starts = Starts(rules)
        self.plans: Remembered[object, Plan] = Remembered(REMEMBERED)

    def planned(
        self,
        roots: Sequence[Node],
        pricing: Pricing,
        seen: Callable[[Island, Plan], None] | None = None,
        answers: Mapping[int, int] = MappingProxyType({}),
    ) -> list[Node]:
        """The roots with each island as the best plan has it, or by its number as somebody has answered: 1 is as it is
        written, 2 the first of the alternatives, and so on. `seen` is told of each.
        """
        found = islands(roots, self.starts) if self.rules else []
        new: dict[Node, tuple[Island, Alternative, int]] = {}
        for number, island in enumerate(found):
            plan = self.plan(island, pricing)
            if seen is not None:
                seen(island, plan)
            taken = plan.chosen if number not in answers else plan.numbered(answers[number])
            if taken is not None:
                new |= {node: (island, taken, k) for k, node in enumerate(island.outputs)}
        if not all(0 <= number < len(found) for number in answers):
            raise Illegal(f"equal: there are {len(found)} islands")
        if not new:
            return list(roots)

        def reads(node: Node) -> Sequence[Node]:
            if node.leaf is not None:
                return ()
            return new[node][0].inputs if node in new else node.sources  # any output may need any of the inputs

        done: dict[Node, Node] = {}
        for node in topological(roots, reads=reads):
            if node in new:
                island, chosen, number = new[node]
                done[node] = chosen.outputs.over([done[source] for source in island.inputs])[number]
            else:
                sources = tuple([done[source] for source in reads(node)])
                done[node] = node if node.leaf is not None else with_sources(node, sources)
            derived(done[node], node)
        return [done[root] for root in roots]

    def plan(self, island: Island, pricing: Pricing) -> Plan:
        """The plan for an island, remembered from others like it, in this process or an earlier one."""
        frozen = island.frozen()
        known = self.plans.get((pricing.name, frozen))
        if known is None:
            name = name_of(pricing.name, [rule.name for rule in self.rules], self.stated, self.fuel, frozen)
            known = load(name, frozen)
            if known is None:
                known = self._plan(frozen, pricing)
                store(name, frozen, known)
            self.plans.put((pricing.name, frozen), known)
        return known

    def _plan(self, island: Frozen, pricing: Pricing) -> Plan:
        graph = EGraph()
        inputs = island.leaves()
        outputs = island.over(inputs)
        places = graph.add_all(topological(outputs))
        report = saturate(graph, self.rules, self.fuel)
        roots = [graph.find(places[node]) for node in outputs]
        first: dict[Node, Node] = {}
        for node, place in places.items():
            sources = tuple([graph.find(places[source]) for source in node.sources])
            first.setdefault(graph.find(place), with_sources(node, sources))
        table = priced(graph, roots, pricing.form)
        written = sum(map(pricing.form, places))
        terms = extract(table, roots, first, CANDIDATES, WORTH * written)
        if not terms:
            return Plan(written, (), report)
        sound = [term for term in terms if keeps_extremes(graph, term.chosen, roots)]
        pricing = pricing._replace(graph=_priced_once(pricing.graph))  # what was written is mostly one of the terms
        found = [self._alternative(graph, term, roots, first, inputs, pricing) for term in sound]
        return Plan(pricing.graph(outputs), tuple(sorted(found, key=lambda one: one.seconds)), report)

    @staticmethod
    def _alternative(
        graph: EGraph, term: Term, roots: list[Node], first: dict[Node, Node], inputs: list[Node], pricing: Pricing
    ) -> Alternative:
        outputs = built(term.chosen, roots)
        forms = [(place, term.chosen[place].form) for place in used(term.chosen, roots)]
        rules = {graph.reasons.get(form, "") for place, form in forms if form is not first.get(place)}
        nodes = topological(outputs, known=set(inputs))
        return Alternative(Frozen.of(nodes, inputs, outputs), tuple(sorted(rules - {""})), pricing.graph(outputs))
