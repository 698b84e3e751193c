"""Values that are computed on the way to others while somebody holds them.

Outside of `jit`, a loop may read one of several values that depend on each other: positions, and never speeds. What is
not read would be computed anew at every step, from further back each time, by ever longer programs. So where a line
asks for a second program, what is still held of it becomes a result, too.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

from smelt.errors import user_location
from smelt.graph import VIEWS, Node, Op, topological, upper
from smelt.runtime.state import current

SMALL: Final = 1 << 20  # bytes that may be kept in any case
_MOST: Final = 4096  # lines to remember
_OWN: Final = 3  # references to a node while they are counted: a list, a name and an argument


def held_values(roots: Sequence[Node], key: Hashable) -> list[Node]:
    """What is held of a graph besides its roots, if the line that asks for it has asked for another one before: values
    that are computed, and not larger than those that are there already.
    """
    place = user_location()
    if place is None:
        return []
    asked = current().asked
    if len(asked) >= _MOST:
        asked.clear()
    if asked.setdefault(place, hash(key)) == hash(key):
        return []
    order = topological(roots)
    reads = Counter([id(source) for node in order for source in node.sources])
    present = [node for node in order if node.op is Op.LEAF or node.leaf is not None]
    most = max(SMALL, *map(_bytes, (*present, *roots)))
    known = {*present, *roots}
    found = []
    for node in order:
        # Tensors, and values outside of this graph, refer to it besides those that read it here.
        if sys.getrefcount(node) > _OWN + reads[id(node)] and node not in known and _is_computed(node):
            found.append(node)
    return [node for node in found if _bytes(node) <= most]


def _is_computed(node: Node) -> bool:
    while node.op in VIEWS and node.leaf is None:
        node = node.sources[0]
    return node.leaf is None and node.op not in (Op.LEAF, Op.CONST, Op.IOTA)


def _bytes(node: Node) -> int:
    return math.prod([upper(size) for size in node.shape]) * node.dtype.itemsize
