"""The cheapest of all equal programs: Node -> Node.

Takes a rewritten graph, rules that say what is equal, and what programs cost; gives a graph that computes the same, as
far as the contracts of the rules go. Always holds: shapes and dtypes of results stay, the same graph gives the same
plan on every machine of a kind, and what no rule can begin in costs one look at each node.
"""

from smelt.egraph.classes import COMMUTATIVE, stands_in
from smelt.egraph.found import PAYS, Alternative, Plan
from smelt.egraph.islands import DEPTH, Frozen, Island
from smelt.egraph.plan import Planner, Pricing, Weighed
from smelt.egraph.rules import RULES, rules_for
from smelt.egraph.saturate import Fuel, Report
from smelt.egraph.tried import tried

__all__ = [
    "COMMUTATIVE",
    "DEPTH",
    "PAYS",
    "RULES",
    "Alternative",
    "Frozen",
    "Fuel",
    "Island",
    "Plan",
    "Planner",
    "Pricing",
    "Report",
    "Weighed",
    "rules_for",
    "stands_in",
    "tried",
]
