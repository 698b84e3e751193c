"""Tracebacks of uncaught errors without smelt's own frames: what is left are lines of the user's.

A bug in smelt shows all of them, and so does everything with SMELT_TRACEBACK=full.
"""

from __future__ import annotations

import linecache
import sys
from types import TracebackType
from typing import Any

from smelt.brought import CALLED
from smelt.config import settings
from smelt.errors import SmeltError, runs_own

_RUNNER = "<frozen runpy>"
_FULL = "  (SMELT_TRACEBACK=full shows smelt's own frames, too)"


def install() -> None:
    """Shorten what Python, or IPython if it runs this program, prints about errors that nobody catches."""
    before = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        before(kind, shortened(error), error.__traceback__)

    sys.excepthook = show
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.set_custom_exc((SmeltError, TypeError), _show_in_notebook)


def shortened(error: BaseException) -> BaseException:
    """The error, and those that led to it, with tracebacks that end and begin in the user's code."""
    if isinstance(error, TypeError) and str(error).endswith("object is not callable"):
        _tell_about_call(error)
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
    # Python's own way to run a script or module is neither.
    frames = [(entry, entry.tb_frame) for entry in entries]
    users = [entry for entry, frame in frames if not runs_own(frame) and frame.f_code.co_filename != _RUNNER]
    if not users or (users[-1] is not entries[-1] and not isinstance(error, SmeltError)):
        return error.__traceback__  # smelt alone, or something that went wrong inside
    if len(users) < len(entries) and _FULL not in getattr(error, "__notes__", ()):
        error.add_note(_FULL)
    result: TracebackType | None = None
    for entry in reversed(users):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _tell_about_call(error: BaseException) -> None:
    """Say what to write for a property that was called, `x.size(0)`: Python itself only sees a number."""
    import ast  # loaded when first used: `import smelt` stays instant

    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    if entry is None:
        return
    code = entry.tb_frame.f_code
    first, last, begin, end = list(code.co_positions())[entry.tb_lasti // 2]
    if first is None or last is None or begin is None or end is None:
        return
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:  # the file is no longer what it was
        return
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    if hint := CALLED.get(name):
        error.add_note(f"  {hint}")


def _show_in_notebook(shell: Any, kind: Any, error: BaseException, traceback: Any, tb_offset: Any = None) -> None:
    shell.showtraceback((kind, shortened(error), error.__traceback__), tb_offset=tb_offset)
