"""What a node was made for: the node that it was derived from, and the user's line that asked for it.

A gradient, a tangent, a batched node or one in the body of a loop comes from a node that a user's line has made. That
is noted while somebody looks for a mistake, and always for gathers and scatters whose indices are checked.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import NamedTuple

from smelt.errors import Location
from smelt.graph.node import Node
from smelt.graph.ops import Op

Origins = weakref.WeakKeyDictionary[Node, tuple[Node, str]]  # with what the new one is to it, in a message

_origins: Origins | None = None  # None: nobody asks


class Written(NamedTuple):
    """What a user called to make a checked node. `batched` axes in front are not in the user's tensor."""

    name: str
    location: Location | None
    batched: int = 0


written: weakref.WeakKeyDictionary[Node, Written] = weakref.WeakKeyDictionary()


def derived(new: Node | None, old: Node, how: str = "") -> None:
    """Note that a node was made for another one, as its gradient, say."""
    if new is None or new is old:
        return
    if _origins is not None:
        _origins.setdefault(new, (old, how))
    if new.op is old.op and new.op in (Op.GATHER, Op.SCATTER) and old in written:
        more = new.sources[0].rank - old.sources[0].rank
        written.setdefault(new, written[old]._replace(batched=written[old].batched + more))


@contextlib.contextmanager
def noting() -> Iterator[Origins]:
    """For each node that is derived inside, the one that it was derived from."""
    global _origins
    before, _origins = _origins, weakref.WeakKeyDictionary()
    try:
        yield _origins
    finally:
        _origins = before
