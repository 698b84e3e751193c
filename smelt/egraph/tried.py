"""What some rules do to a graph alone: to see whether they are found there, and come to an end."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.egraph.classes import EGraph
from smelt.egraph.islands import Starts, islands
from smelt.egraph.saturate import Fuel, Report, saturate
from smelt.graph import Node
from smelt.rewrite import Rule


def tried(root: Node, rules: Sequence[Rule], fuel: Fuel) -> tuple[list[Node], Report]:
    """The nodes of a graph that rules are shown, and what they have done."""
    shown = [node for island in islands([root], Starts(rules)) for node in island.nodes]
    graph = EGraph()
    graph.add(root)
    return shown, saturate(graph, rules, fuel)
