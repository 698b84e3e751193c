"""Calls of modules: which ones run, in which one errors are, and what each gave, for those who ask, as `summary`."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Watcher = Callable[[Any, Any], None]

_watchers: list[Watcher] = []


class _Running(threading.local):
    def __init__(self) -> None:
        self.modules: list[Any] = []


_running = _Running()


def is_running(module: Any) -> bool:
    """Whether a module is being called."""
    return any(one is module for one in _running.modules)


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Call `watcher(module, result)` after each call of a module."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def recorded(call: Callable[..., Any]) -> Callable[..., Any]:
    """A module's `__call__` that tells the watchers, and errors where they are."""

    @functools.wraps(call)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        _running.modules.append(self)
        try:
            result = call(self, *args, **kwargs)
        except Exception as error:
            tell_part(error, self)
            raise
        finally:
            _running.modules.pop()
        for watcher in _watchers:
            watcher(self, result)
        return result

    return wrapped


class _Failed(NamedTuple):
    """How far an error has come: the outermost part so far, the path from there to where it was, and its note."""

    part: Any
    path: str
    kind: str
    note: str


def tell_part(error: Exception, part: Any) -> None:
    """Note on an error which part of a module was called, a module or a function, each time that it leaves one."""
    inner: _Failed | None = vars(error).get("_failed")
    if inner is not None and inner.part is part:
        return
    failed = _Failed(part, "", getattr(part, "__name__", type(part).__name__), "")
    step = None if inner is None else _name_in(part, inner.part)
    if inner is not None and step is not None:
        path = f"{step}.{inner.path}" if inner.path else step
        failed = _Failed(part, path, inner.kind, f"  in part {path} ({inner.kind}) of {type(part).__name__}")
        notes = [note for note in getattr(error, "__notes__", ()) if note != inner.note]
        error.__notes__ = [*notes, failed.note]
    error._failed = failed  # type: ignore[attr-defined]


def _name_in(module: Any, part: Any) -> str | None:
    """What a module calls a part of it."""
    names = (name for name, value in vars(module).items() if value is part)
    return next(names, None) or next((path for path, inner in module.named_modules() if inner is part), None)
