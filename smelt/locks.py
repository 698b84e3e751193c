"""A lock that a forked child can use, whoever held it in the parent."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """A reentrant lock. After a fork the threads that may have held it are gone, so the child gets a new one."""

    __slots__ = ("__weakref__", "_inner")

    def __init__(self) -> None:
        self._inner = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._inner.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._inner.release()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew() -> None:
    for lock in _locks:
        lock._inner = threading.RLock()


os.register_at_fork(after_in_child=_renew)
