"""The rules of the e-graph, one module for each family.

Either side of each may be the better one, so they say what is equal, not what to do. Takes nothing; gives `RULES`.
"""

from __future__ import annotations

from typing import Final

from smelt.egraph.rules import functions, gathers, joins, products, quotients, sums
from smelt.rewrite import Contract, Rule
from smelt.stated import rules_of

_FAMILIES = [module.family for module in (products, sums, joins, functions, gathers, quotients)]

RULES: Final[tuple[Rule, ...]] = tuple(rule for family in _FAMILIES for rule in family.rules)


def rules_for(most: Contract, stated: str = "") -> tuple[Rule, ...]:
    """The rules that somebody accepts who accepts this contract; with those that users have stated, by their name."""
    return tuple(rule for rule in rules_of(stated, RULES) if most.allows(rule.contract))
