"""The rules, one module for each family.

Takes nothing; gives `RULES`, in the order in which they are tried on a node, and `FAMILIES`, the names by which they
are switched off. Always holds: every rule has examples on which it fires, and all rules together come to an end.
"""

from __future__ import annotations

from typing import Final

from smelt.rewrite.rule import Rule
from smelt.rewrite.rules import constant, contraction, identity, movement_joins, reduction

_FAMILIES = (constant.family, identity.family, movement_joins.family, reduction.family, contraction.family)

RULES: Final[tuple[Rule, ...]] = tuple(rule for family in _FAMILIES for rule in family.rules)
FAMILIES: Final[tuple[str, ...]] = tuple(family.name for family in _FAMILIES)


def rule_table() -> str:
    """All rules as tables in Markdown, one for each family, as the design page shows them."""
    parts = []
    for family in _FAMILIES:
        rows = [f"| `{rule.name}` | {_escaped(rule.summary)} | {rule.contract.value} |" for rule in family.rules]
        parts.append(
            "\n".join([f"### {family.name}", "", "| rule | what it does | contract |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
