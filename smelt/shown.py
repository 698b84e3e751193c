"""Objects that show what they were made with."""

from __future__ import annotations

import inspect
import reprlib

_LIMITS = reprlib.Repr()
_LIMITS.maxstring = _LIMITS.maxother = 250  # paths are long


class Shown:
    """Its `repr` has the arguments of `__init__` that are attributes of it."""

    def __repr__(self) -> str:
        given = vars(self)
        names = [name for name in inspect.signature(type(self)).parameters if name in given]
        return f"{type(self).__name__}({', '.join([f'{name}={_LIMITS.repr(given[name])}' for name in names])})"
