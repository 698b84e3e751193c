"""What a traced function does besides giving values: nodes to compute although no result depends on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from smelt.graph.checks import Check
from smelt.graph.node import Node

DONE = Check("an effect", 0, 0, None)  # stands where checks of indices do, and has nothing to say


class _Published(threading.local):
    def __init__(self) -> None:
        self.nodes: list[Node] = []


_published = _Published()


def publish(nodes: Sequence[Node]) -> None:
    """Hand the effects of a function that has been traced to whoever writes its graph down next."""
    _published.nodes = list(nodes)


def take() -> list[Node]:
    """The effects that were handed over last, once."""
    found, _published.nodes = _published.nodes, []
    return found
