"""Values of differentiated functions that nobody has asked for yet.

An optimizer that is handed gradients outside of `jit` computes these with them: a loss that is printed after the update
would otherwise be computed a second time.
"""

from __future__ import annotations

import threading
import weakref

from smelt import runtime
from smelt.tensor import Tensor


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.tensors: weakref.WeakSet[Tensor] = weakref.WeakSet()


_waiting = _Waiting()


def let_wait(tensor: object) -> None:
    """Remember a value, unless it is part of a trace."""
    if isinstance(tensor, Tensor) and not (runtime.is_tracing() or runtime.is_transforming()):
        _waiting.tensors.add(tensor)


def take_waiting() -> list[Tensor]:
    """The values that still exist; they are forgotten."""
    found = list(_waiting.tensors)
    _waiting.tensors = weakref.WeakSet()
    return found
