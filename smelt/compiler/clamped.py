"""Masks that are read off what was clamped: 0 < x is 0 < max(x, 0), and so for every bound, and for min.

The gradient of a relu, as other libraries write it, compares what went into the relu. What came out is stored for the
next layer, and tells the same: so what went in need not be stored as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.graph import Node, Op, rewritten, topological, users, with_sources

_CLAMPS = ("max", "min")
_COMPARISONS = ("lt", "le")
Clamps = dict[tuple[str, Node, Node], Node]  # by what they are, what they clamp, and the bound


def compare_clamped(roots: Sequence[Node], is_free: Callable[[Node], bool]) -> list[Node]:
    """The graph with comparisons of x and a bound as comparisons of the clamped x, where then nobody else reads x. The
    results are the same for all x, NaN and zeros of either sign included.
    """
    clamps = _clamps(topological(roots), set(roots), is_free)
    if not clamps:
        return list(roots)
    new: dict[Node, Node] = {}

    def change(node: Node, same: Node) -> Node:
        if not _is_one_of(node, _COMPARISONS):
            return same
        a, b = node.sources
        # a < b is a < max(b, a) and min(a, b) < b; a <= b is a <= min(b, a) and max(a, b) <= b.
        upper, lower = _CLAMPS if node.attribute == "lt" else _CLAMPS[::-1]
        for k, clamp in enumerate((clamps.get((lower, a, b)), clamps.get((upper, b, a)))):
            if clamp is not None:
                clamped = with_sources(clamp, tuple([new[source] for source in clamp.sources]))
                return with_sources(same, (new[a], clamped) if k else (clamped, new[b]))
        return same

    return rewritten(roots, change, new)


def _clamps(order: Sequence[Node], roots: set[Node], is_free: Callable[[Node], bool]) -> Clamps:
    """The clamps by bounds that take no memory, of what is only clamped and compared with a bound like this."""
    read = users(order)
    found: Clamps = {}
    for node in order:
        if _is_one_of(node, _CLAMPS):
            for x, bound in (node.sources, node.sources[::-1]):
                stored = x in roots or x.leaf is not None or x.op is Op.LEAF or x.op is Op.PARAMETER
                if not stored and is_free(bound) and all(_only_weighed(x, bound, user) for user in read[x]):
                    found[node.attribute, x, bound] = node
    return found


def _only_weighed(x: Node, bound: Node, user: Node) -> bool:
    return _is_one_of(user, (*_CLAMPS, *_COMPARISONS)) and set(user.sources) == {x, bound}


def _is_one_of(node: Node, functions: Sequence[str]) -> bool:
    return node.op is Op.BINARY and node.attribute in functions and node.leaf is None
