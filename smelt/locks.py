"""Locks that a forked child can use, whoever held them in the parent, and what several threads remember together."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


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


class Remembered(Generic[Key, Value]):
    """Values by key, the least recently used making room for others. Each has a lock of its own while it is made."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = new_lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._making: dict[Key, threading.RLock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Value]:
        """What is remembered, the latest last."""
        with self._lock:
            return list(self._values.values())

    def key_of(self, value: Value) -> Key | None:
        """The key under which a value is remembered."""
        with self._lock:
            return next((key for key, known in self._values.items() if known is value), None)

    def get(self, key: Key) -> Value | None:
        """The value of a key, if it is known."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: Key, value: Value) -> None:
        """Remember a value."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.limit:
                self._values.popitem(last=False)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key, made if need be: by one thread, while others that want it wait. Whoever wants another
        one does not.
        """
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, new_lock())
        try:
            with making:
                found = self.get(key)
                if found is None:
                    found = make()
                    self.put(key, found)
                return found
        finally:
            with self._lock:
                self._making.pop(key, None)

    def clear(self) -> None:
        """Forget everything. What is being made will be remembered."""
        with self._lock:
            self._values.clear()
