"""What programs cost in these tests: their multiplications and additions, so that plans do not depend on a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smelt.egraph import Pricing
from smelt.graph import VIEWS, Node, Op, topological
from tests.rewrite.sampling import sizes


def flops(node: Node) -> float:
    """What a node costs beside its sources."""
    if node.op is Op.CONTRACT:
        left, right, _ = node.attribute
        a, b = node.sources
        return float(np.prod(list(dict(zip(left + right, sizes(a) + sizes(b), strict=True)).values())))
    if node.op is Op.COMPOSITE or node.op is Op.REDUCE:
        return 4.0 * float(np.prod(sizes(node.sources[0])))
    return float(np.prod(sizes(node))) if node.sources and node.op not in VIEWS else 0.0


def total(roots: Sequence[Node]) -> float:
    """What a graph costs."""
    return sum(map(flops, topological(roots)))


FLOPS = Pricing("flops", flops, total)
