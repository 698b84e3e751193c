"""What lines of the user's ask for outside of `jit`, where each value that is read is a program.

A loop may read one of several values that depend on each other: positions, and never speeds. What is not read would be
computed anew at every step, from further back each time, by ever longer programs. So where a line asks for a second
program, what is still held of it becomes a result, too. After several programs that differ in sizes only, a note says
how one can serve all.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.errors import Location, TraceWarning
from smelt.graph import CONTROL, Node, Op, shape_text, shown, topological
from smelt.runtime.state import current

if TYPE_CHECKING:
    from smelt.compiler import Traced

SMALL: Final = 1 << 20  # bytes that may be kept in any case
ENOUGH: Final = 10  # programs that differ in sizes only
_MOST: Final = 4096  # lines and programs to remember
_OWN: Final = 3  # references to a node while they are counted: a list, a name and an argument


def held_values(roots: Sequence[Node], key: Hashable, place: Location) -> list[Node]:
    """What is held of a graph besides its roots, if the line that asks for it has asked for another one before: values
    that are computed, and not larger than those that are there already.
    """
    asked = current().asked
    if len(asked) >= _MOST:
        asked.clear()
    if asked.setdefault(place, hash(key)) == hash(key):
        return []
    order = topological(roots)
    reads = Counter([id(source) for node in order for source in node.sources])
    present = [node for node in order if node.op is Op.LEAF or node.leaf is not None]
    most = max(SMALL, *(node.nbytes for node in (*present, *roots)))
    known = {*present, *roots}
    found = []
    for node in order:
        # Tensors, and values outside of this graph, refer to it besides those that read it here.
        if sys.getrefcount(node) > _OWN + reads[id(node)] and node not in known and _is_computed(node):
            found.append(node)
    return [node for node in found if node.nbytes <= most]


def _is_computed(node: Node) -> bool:
    """A loop or a call of Python's is none itself: its values are items of it."""
    node = shown(node)
    return node.leaf is None and node.op not in (Op.LEAF, Op.CONST, Op.IOTA) and node.op not in CONTROL


def note_compiled(traced: Traced, place: Location) -> None:
    """Note a program that is compiled because somebody asks for a value; warn when enough differ in sizes only."""
    entries = traced.key[0]
    common = hash(tuple([_without_sizes(*entry) for entry in entries]))
    known = current().sizes
    if len(known) >= _MOST:
        known.clear()
    seen = known.setdefault((place, common), {})
    shapes = tuple([entry[2] for entry in entries])
    *_, before = shapes, *seen  # at once: another thread may note something meanwhile
    seen[shapes] = None
    if len(seen) != ENOUGH:
        return
    last, now = next((pair for pair in zip(before, shapes, strict=True) if pair[0] != pair[1]), ((), ()))
    warnings.warn_explicit(
        f"{ENOUGH} programs were compiled at this line that differ in sizes only, such as {shape_text(last)} and "
        f"{shape_text(now)}. One can serve all of them: put the computation into a function f, and call "
        "sm.jit(f, dynamic=True).",
        TraceWarning,
        *place,
    )


def _without_sizes(op: Any, dtype: Any, shape: Any, attribute: Any, *sources: Any) -> tuple[Any, ...]:
    """An entry of a key without what may be sizes."""
    return op, dtype, len(shape), attribute if isinstance(attribute, str) else type(attribute), sources
