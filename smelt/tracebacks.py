"""Tracebacks of uncaught errors without smelt's own frames: what is left are lines of the user's.

A bug in smelt shows all of them, and so does everything with SMELT_TRACEBACK=full.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from smelt.config import settings
from smelt.errors import SmeltError, is_own


def install() -> None:
    """Shorten what Python, or IPython if it runs this program, prints about errors that nobody catches."""
    before = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        before(kind, shortened(error), error.__traceback__)

    sys.excepthook = show
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.set_custom_exc((SmeltError,), _show_in_notebook)


def shortened(error: BaseException) -> BaseException:
    """The error, and those that led to it, with tracebacks that end and begin in the user's code."""
    if settings().traceback == "full":
        return error
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        one = stack.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        stack += [one.__cause__, one.__context__]
        one.__traceback__ = _without_own(one)
    return error


def _without_own(error: BaseException) -> TracebackType | None:
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    users = [entry for entry in entries if not is_own(entry.tb_frame.f_code.co_filename)]
    if not users or (users[-1] is not entries[-1] and not isinstance(error, SmeltError)):
        return error.__traceback__  # smelt alone, or something that went wrong inside
    if len(users) < len(entries) and not getattr(error, "__notes__", ()):
        error.add_note("  (SMELT_TRACEBACK=full shows smelt's own frames, too)")
    result: TracebackType | None = None
    for entry in reversed(users):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _show_in_notebook(shell: Any, kind: Any, error: BaseException, traceback: Any, tb_offset: Any = None) -> None:
    shell.showtraceback((kind, shortened(error), error.__traceback__), tb_offset=tb_offset)
