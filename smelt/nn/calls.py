"""Watching calls of modules: whoever wants to know which module gave what, as `summary` does."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

Watcher = Callable[[Any, Any], None]

_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call `watcher(module, result)` after each call of a module."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def recorded(call: Callable[..., Any]) -> Callable[..., Any]:
    """A module's `__call__` that tells the watchers."""

    @functools.wraps(call)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        for watcher in _watchers:
            watcher(self, result)
        return result

    return wrapped
