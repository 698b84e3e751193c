"""Always-good rewriting: Node -> Node.

Takes a traced graph and named families of rules, indexed by op; gives an equal graph at the rules' fixpoint, in which
written-out contractions have become `CONTRACT`. Always holds: shape and dtype of every result are kept, each rule
states its float contract (`exact` or `reassociates`), and any family may be switched off without changing a result
beyond that contract. Real choices, where either side may be the better one, are not made here.
"""

from smelt.rewrite.engine import enabled_rules, keys_of, rewrite
from smelt.rewrite.rule import Contract, Family, Key, Pattern, Rule, Sources, any_of, key_of, match
from smelt.rewrite.rules import FAMILIES, RULES, rule_table
from smelt.rewrite.rules.pattern import expanded_axes
