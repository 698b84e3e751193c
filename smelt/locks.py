"""Locks that a forked child can use, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
import weakref


def new_lock() -> threading.RLock:
    """A reentrant lock. After a fork the threads that may have held it are gone, so the child finds it free.

    Entering and leaving its block runs no Python code of ours: Ctrl-C cannot come in between and leave it locked.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def _renew() -> None:
    for lock in _locks:
        lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_renew)
