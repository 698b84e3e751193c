"""Every error that smelt raises.

A mistake of the user's is a `SmeltError` of a fitting kind: it says which call broke which rule, at which line of the
user's own code, and what to do. An inconsistency inside smelt is an `InternalError`: a bug, reported as one.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

import numpy as np

# Whose frames are not the user's: ours, and those that Python puts in between for `with` blocks and threads of ours.
_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    contextlib.__file__,
    os.path.join(os.path.dirname(contextlib.__file__), "threading.py"),
    os.path.join(os.path.dirname(contextlib.__file__), "concurrent", ""),
)
_WRITTEN: Final = "<string>"  # the file of methods that Python writes, and of `python -c`
_COMMANDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli", "__init__.py")


class Location(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        place = f"{os.path.basename(self.file)}:{self.line}"
        return f"{place}:  {text}" if text else place


def is_own(file: str) -> bool:
    """Whether a source file is part of smelt."""
    return file.startswith(_OURS)


def runs_own(frame: FrameType) -> bool:
    """Whether a frame runs code of smelt: of its files, or what `dataclass` wrote for one of its classes."""
    file = frame.f_code.co_filename
    return is_own(frame.f_globals.get("__file__") or "") if file == _WRITTEN else is_own(file)


_BETWEEN: Final = frozenset({"jax", "jaxlib"})  # libraries that call functions of the user's, and those smelt


def user_location() -> Location | None:
    """The innermost frame of the call stack that is not part of smelt, nor of a library between it and the user; none
    if a command was started: that is no code of the user's.
    """
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not runs_own(frame) and frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            return Location(file, frame.f_lineno)
        if file == _COMMANDS:
            return None
        frame = frame.f_back  # type: ignore[assignment]
    return None


class SmeltError(Exception):
    """Base of all errors about what the user asked for.

    `rule` says which rule was broken, `hint` what to do about it; `location` defaults to the user's line on the call
    stack.
    """

    message = rule = hint = ""

    def __init__(self, message: str, *, rule: str = "", hint: str = "", location: Location | None = None) -> None:
        self.message, self.rule, self.hint = message, rule, hint
        self.location = location or user_location()
        super().__init__(_text(message, self.location, rule, hint))

    @property
    def told(self) -> str:
        """What it says to somebody who did not write the call: without its place."""
        place = f"  at {self.location}"
        return "\n".join(line for line in str(self).splitlines() if line != place)


def _text(message: str, location: Location | None, *more: str) -> str:
    lines = [message]
    if location is not None:
        lines.append(f"  at {location}")
    lines += [f"  {line}" for text in more for line in text.splitlines()]
    return "\n".join(lines)


class ShapeError(SmeltError, ValueError):
    """Shapes that do not fit together."""


class AxisError(SmeltError, ValueError, IndexError):
    """An axis that the tensor does not have, or has twice."""


class DTypeError(SmeltError, TypeError):
    """A dtype that the operation does not take, or two that do not promote."""


class ArgumentError(SmeltError, ValueError, TypeError):
    """An argument of the wrong kind or value."""


class IndexRangeError(SmeltError, IndexError):
    """An index outside its axis."""


class DeviceError(SmeltError, RuntimeError):
    """A device that is missing, or two that were mixed."""


class CompilerError(SmeltError, RuntimeError):
    """No usable compiler, or a compiler that failed."""


class MemoryLimitError(SmeltError, MemoryError):
    """A plan that needs more memory than there is."""


class DonatedError(SmeltError, RuntimeError):
    """A tensor used after its buffer was given away."""


class ExchangeError(SmeltError, BufferError, ValueError):
    """Memory that cannot be handed to or taken from another library as asked."""


class ProtocolError(SmeltError, AttributeError, TypeError):
    """An object without the methods through which libraries exchange memory."""


class UnknownNameError(SmeltError, AttributeError):
    """A name that smelt does not have, or has under another name. What was meant is found when somebody reads it: many
    programs only ask whether a name is there.
    """

    def __init__(self, message: str, hint: Callable[[], str]) -> None:
        self.location = user_location()
        self._hint = hint
        Exception.__init__(self, message)

    def __str__(self) -> str:
        return _text(self.args[0], self.location, self._hint())


class TraceError(SmeltError, TypeError, ValueError):
    """A question about values asked while a function is being traced."""


class TraceWarning(UserWarning):
    """A program is traced or compiled again and again where once would do, or grows without being computed."""


class GradientError(SmeltError, RuntimeError):
    """A derivative by something that the value does not depend on any more."""


class ParseError(SmeltError, ValueError):
    """Text that is not in the expected form."""


class UnsupportedOp(SmeltError, NotImplementedError):
    """An operation of a program in another form that smelt cannot compute. `name` is the operation, `line` and
    `column` say where it stands in the text.
    """

    def __init__(self, message: str, name: str, line: int, column: int, *, rule: str = "", hint: str = "") -> None:
        self.name, self.line, self.column = name, line, column
        super().__init__(message, rule=rule, hint=hint)


class MissingFileError(SmeltError, FileNotFoundError):
    """Files that are in none of the places where they are looked for."""


class ContextLengthError(ArgumentError):
    """A text that is longer than a language model can take."""


class BusyError(SmeltError, RuntimeError):
    """More requests than can wait."""


class LinearAlgebraError(SmeltError, np.linalg.LinAlgError):
    """A matrix that has no inverse, no Cholesky factor, or singular values that were not found."""


class NaNError(SmeltError, FloatingPointError):
    """A NaN, where the user asked to be told."""


class InternalError(AssertionError):
    """A failed check inside smelt: a bug in smelt, not in the program that met it."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\n  This is a bug in smelt: please report it with the program that led here.")
