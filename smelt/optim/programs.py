"""Updates outside of `jit`: compiled all the same, since an optimizer does the same at every step.

What Python would do for each parameter, again and again, is done once. That is safe where all that an update depends on
can be seen: steps and schedules of this package, told apart by their numbers. With a step or schedule of somebody else,
or numbers that keep changing, updates are computed as they are written. The rate may change as it likes.
"""

from __future__ import annotations

import types
import weakref
from typing import Any, TypeVar

from smelt import runtime
from smelt.optim.core import at_once
from smelt.transform.marks import value_mark

T = TypeVar("T")

_MOST_PROGRAMS = 4  # of one optimizer, for different numbers
_PLAIN = frozenset({int, float, bool, str, type(None)})

_programs: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class _Unknown(Exception):
    """Something that may change without being seen."""


def update(optimizer: Any, parameters: T, gradients: Any, state: Any, lr: Any) -> tuple[T, Any]:
    """One update of an optimizer, computed unless it is being traced."""
    program = None if runtime.is_tracing() or runtime.is_transforming() else _program(optimizer)
    if program is None:
        return at_once(optimizer.updated(parameters, gradients, state, lr))  # type: ignore[no-any-return]
    at_once(gradients)
    return program(parameters, gradients, state, _rate(optimizer) if lr is None else lr)  # type: ignore[no-any-return]


def _rate(optimizer: Any) -> Any:
    """The rate of the innermost optimizer, if it is a number."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return None if callable(optimizer.lr) else optimizer.lr


def _program(optimizer: Any) -> Any:
    """The compiled update of an optimizer as it is now, if there may be one."""
    try:
        mark = _mark(optimizer, _rate(optimizer) is not None)
    except _Unknown:
        return None
    known = _programs.setdefault(optimizer, {})
    if mark not in known and len(known) < _MOST_PROGRAMS:
        from smelt.transform.jit import jit

        reference = weakref.ref(optimizer)
        known[mark] = jit(lambda *args: reference().updated(*args))  # type: ignore[union-attr]
    return known.get(mark)


def _mark(value: Any, has_rate: bool = False) -> Any:
    """All that an update depends on, without the rate where that is an argument."""
    kind = type(value)
    if kind in _PLAIN:
        return value_mark(value)
    if kind is tuple or kind is list:
        return (kind, tuple([_mark(item) for item in value]))
    if not getattr(value if kind is types.FunctionType else kind, "__module__", "").startswith("smelt.optim"):
        raise _Unknown
    if kind is types.FunctionType:
        return (value.__code__, tuple([_mark(cell.cell_contents) for cell in value.__closure__ or ()]))
    return (
        kind,
        tuple([_mark(item, has_rate) for name, item in vars(value).items() if not (has_rate and name == "lr")]),
    )
