"""From a graph as it was written to one that is cut into kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from smelt.compiler.bodies import simple_bodies
from smelt.graph import CONTROL, Node, Op, composites, rewritten, topological
from smelt.rewrite import rewrite

Plans = Callable[[Sequence[Node]], list[Node]]  # from a graph to the cheapest of those that are equal


def simplify(roots: Sequence[Node], plan: Plans = list) -> list[Node]:
    """Rewrite, plan, write composites out, and rewrite what they became; in bodies as well."""
    roots = rewrite(roots)
    planned = plan(roots)
    roots = roots if planned == roots else rewrite(planned)
    order = topological(roots)
    if any(node.op is Op.COMPOSITE for node in order):
        roots = rewrite(rewritten(roots, _written_out))
    bodies = any(node.op in CONTROL for node in order)
    return simple_bodies(roots, functools.partial(simplify, plan=plan)) if bodies else roots


def _written_out(node: Node, same: Node) -> Node:
    """A composite written out, whose parts may be composites as well."""
    if node.op is not Op.COMPOSITE:
        return same
    [whole] = rewritten([composites.expand(same)], _written_out, {source: source for source in same.sources})
    return whole
