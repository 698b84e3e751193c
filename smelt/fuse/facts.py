"""What may be computed where: which nodes a kernel can have inside, whatever that costs.

A reason is a text that says why not; an empty one means that nothing stands against it.
"""

from __future__ import annotations

from smelt.fuse.group import Group
from smelt.fuse.movement import Place
from smelt.graph import ELEMENTWISE, SOURCES, VIEWS, Index, Node, Op, Variable, product_of
from smelt.kernel import DOTS, extent


def is_stored(node: Node) -> bool:
    """Whether a node is there without a kernel that makes it: loops and branches store their values themselves."""
    return node.op in SOURCES or node.op is Op.ITEM or node.leaf is not None


def impossible(group: Group, node: Node) -> str:
    """Why a node cannot be computed inside a kernel that asks for it."""
    if node.op in VIEWS:
        return ""
    places = group.places[node]
    if group.picks and any(v in group.picks for place in places for i in place.indices for v in i.variables()):
        return "it is read by index, and several elements may ask for one"
    if node in group.operands:
        return "" if node.op in ELEMENTWISE or node.op in (Op.PAD, Op.CONCAT, Op.GATHER) else "a contraction needs it"
    if node.op is Op.CONTRACT:
        return _impossible_contraction(group, places)
    if node.op is Op.REDUCE:
        return _impossible_reduction(group, node, places)
    if node.op is Op.SCAN:
        return _impossible_scan(group, node, places)
    return ""


def _impossible_contraction(group: Group, places: list[Place]) -> str:
    """A contraction is computed inside its epilogue if that has the very same elements."""
    if group.contraction is not None or group.scanned is not None or group.reductions:
        return "its kernel has another contraction, a scan or a reduction"
    return "" if is_same(group, places) else "its kernel has other elements"


def _impossible_scan(group: Group, node: Node, places: list[Place]) -> str:
    """A scan is computed inside users with the very same elements, beside scans of the same axis."""
    if group.contraction is not None or group.reductions:
        return "its kernel has a contraction or a reduction"
    # One of its columns, or its diagonal, is no scan.
    if not is_same(group, places) or len(group.axes) != sum(size != 1 for size in node.shape):
        return "its kernel has other elements"
    same = group.scanned is None or group.scanned == places[0].indices[node.attribute.axis]
    return "" if same else "its kernel scans another axis"


def _impossible_reduction(group: Group, node: Node, places: list[Place]) -> str:
    """A reduction stays with its users if each of its elements is computed once, in a loop outside of theirs."""
    if group.contraction is not None:
        return "its kernel has a contraction"
    if len(places) > 1 or places[0].mask:
        return "its kernel asks for it at several places, or not at all of its elements"
    free = group.free_axes(places[0])
    walked = group.walked if sums_words(node) else group.axes
    if not free <= frozenset(walked) or product_of(extent(v) for v in free) != product_of(node.shape):
        return "its elements would be computed more than once"
    nested = all(free <= other or other <= free for other in group.reductions)
    return "" if nested else "its rows are not those of the other reductions in its kernel"


def sums_words(node: Node) -> bool:
    """Whether a node is a short sum of dots of bytes. Such a sum is made in registers, so it may be inside another
    sum: blocks of a matrix, each of which has a scale of its own, are multiplied so.
    """
    is_sum = node.op is Op.REDUCE and node.attribute.op == "add" and node.leaf is None
    return is_sum and node.sources[0].op is Op.BINARY and node.sources[0].attribute in DOTS


def is_beside(group: Group, node: Node) -> bool:
    """Whether a kernel that computes a node on its way can store it next to its sink: the very same elements."""
    plain = group.piece is None and group.result is group.sink and group.scanned is None and not group.members
    return plain and node.op in ELEMENTWISE and node.shape == group.sink.shape and is_same(group, group.places[node])


def is_same(group: Group, places: list[Place]) -> bool:
    """Whether a node is asked for at the very elements that the kernel stores."""
    if len(places) > 1 or places[0].mask:
        return False
    return all(map(is_plain, places[0].indices)) and group.free_axes(places[0]) == frozenset(group.axes)


def is_plain(i: Index) -> bool:
    """Whether an index is an axis itself, or 0."""
    plain = i.constant == 0 and len(i.terms) <= 1 and all(c == 1 for c in i.terms.values())
    return plain and all(isinstance(atom, Variable) for atom in i.atoms())
