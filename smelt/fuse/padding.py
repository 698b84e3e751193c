"""Padded operands of contractions are stored, where loads cannot leave out single lanes.

A kernel could read around the edges itself, and asks at every load whether it is inside. Where a vector is loaded as a
whole or not at all, that takes vectors at the edges apart, once for every tile that packs them. Storing the padded
operand writes and reads it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.cost import Profile
from smelt.graph import VIEWS, Node, Op, product_of, topological, upper

PRODUCTS = 64  # for each element of a padded operand, beside which storing it costs little
LEAST = 1 << 18  # products altogether that are worth a kernel more


def stored_padding(roots: Sequence[Node], profile: Profile) -> set[Node]:
    """The padded operands that are worth storing."""
    if profile.masks:
        return set()
    contractions = [node for node in topological(roots) if node.op is Op.CONTRACT]
    return {padded for node in contractions for source in node.sources if (padded := _padded(node, source)) is not None}


def _padded(contraction: Node, operand: Node) -> Node | None:
    """The padded node that an operand shows, if there are many products of each of its elements."""
    while operand.op in VIEWS and operand.leaf is None:
        operand = operand.sources[0]
    if operand.op is not Op.PAD or operand.leaf is not None:
        return None
    left, right, _ = contraction.attribute
    sizes = dict(zip(left + right, contraction.sources[0].shape + contraction.sources[1].shape, strict=True))
    many = upper(product_of(sizes.values())) >= max(LEAST, PRODUCTS * upper(product_of(operand.shape)))
    return operand if many else None
