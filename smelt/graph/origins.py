"""Which node another one was derived from, noted while somebody looks for a mistake.

A gradient, a tangent, a batched node or one in the body of a loop comes from a node that a user's line has made.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator

from smelt.graph.node import Node

Origins = weakref.WeakKeyDictionary[Node, tuple[Node, str]]  # with what the new one is to it, in a message

_origins: Origins | None = None  # None: nobody asks


def derived(new: Node | None, old: Node, how: str = "") -> None:
    """Note that a node was made for another one, as its gradient, say."""
    if _origins is not None and new is not None and new is not old:
        _origins.setdefault(new, (old, how))


@contextlib.contextmanager
def noting() -> Iterator[Origins]:
    """For each node that is derived inside, the one that it was derived from."""
    global _origins
    before, _origins = _origins, weakref.WeakKeyDictionary()
    try:
        yield _origins
    finally:
        _origins = before
