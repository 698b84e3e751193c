"""The rules, one module for each family.

Takes nothing; gives `RULES`, in the order in which they are tried on a node, and `FAMILIES`, the names by which they
are switched off. Always holds: all rules together come to an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt.rewrite.rule import Rule
from smelt.rewrite.rules import constant, contraction, identity, movement, reduction

_FAMILIES = [module.family for module in (constant, identity, movement, reduction, contraction)]

RULES: Final[tuple[Rule, ...]] = tuple(rule for family in _FAMILIES for rule in family.rules)
FAMILIES: Final[tuple[str, ...]] = tuple(family.name for family in _FAMILIES)


def rule_table(rules: Sequence[Rule] = RULES) -> str:
    """Rules as tables in Markdown, one for each family, as the design pages show them."""
    parts = []
    for family in dict.fromkeys(rule.family for rule in rules):
        lines = [f"### {family}", "", "| rule | what it does | contract |", "|---|---|---|"]
        lines += [_row(rule) for rule in rules if rule.family == family]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _row(rule: Rule) -> str:
    summary = rule.summary.replace("|", "\\|")
    note = " (sole reader)" if rule.sole else ""
    return f"| `{rule.name}` | {summary} | {rule.contract.value}{note} |"
