"""Updates outside of `jit`: compiled all the same, since an optimizer does the same at every step.

What Python would do for each parameter, again and again, is done once. That is safe where all that an update depends on
can be seen: steps and schedules of this package, told apart by their numbers. Where a step or schedule is somebody
else's, updates are computed as they are written. The rate is an argument, and may change as it likes.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

import numpy as np

from smelt import runtime
from smelt.optim.core import Parameters, Updater, at_once
from smelt.tensor import Tensor, asarray
from smelt.transform.marks import value_mark

_MOST_PROGRAMS = 4  # of one optimizer; a new one is a new trace, but its kernels are known
_PLAIN = frozenset({int, float, bool, str, type(None)})

_programs: weakref.WeakKeyDictionary[Updater, dict[Any, Any]] = weakref.WeakKeyDictionary()


class _Unknown(Exception):
    """Something that may change without being seen."""


def advance(
    optimizer: Updater, parameters: Parameters, updates: list[Tensor], state: Any, lr: Any
) -> tuple[list[Tensor], Any]:
    """The next parameters and state of an optimizer, computed unless they are being traced."""
    if runtime.is_tracing() or runtime.is_transforming():
        return optimizer.advance(parameters, updates, state, lr)
    program = _program(optimizer, tuple(parameters.names))
    if program is None:
        return at_once(optimizer.advance(parameters, updates, state, lr))
    at_once(updates)
    rate = _rate(optimizer) if lr is None else lr
    if isinstance(rate, np.generic | np.ndarray):
        rate = asarray(rate) if rate.ndim else rate.item()
    found: tuple[list[Tensor], Any] = program(list(parameters), updates, state, rate)
    return found


def _rate(optimizer: Any) -> Any:
    """The rate of the innermost optimizer, unless it is a schedule."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return None if callable(optimizer.lr) else optimizer.lr


def _program(optimizer: Updater, names: tuple[str, ...]) -> Any:
    """The compiled update of an optimizer as it is now, if there may be one."""
    try:
        mark = (_mark(optimizer, _rate(optimizer) is not None), names)
    except _Unknown:
        return None
    known = _programs.setdefault(optimizer, {})
    if mark not in known:
        from smelt.transform.jit import jit

        reference = weakref.ref(optimizer)

        def program(tensors: list[Tensor], updates: list[Tensor], state: Any, lr: Any) -> tuple[list[Tensor], Any]:
            alive = reference()
            assert alive is not None
            return alive.advance(Parameters(tensors, names), updates, state, lr)

        while len(known) >= _MOST_PROGRAMS:
            del known[next(iter(known))]
        known[mark] = jit(program)
    return known[mark]


def _mark(value: Any, has_rate: bool = False) -> Any:
    """All that an update depends on, without the rate where that is an argument."""
    kind = type(value)
    if kind in _PLAIN:
        return value_mark(value)
    if isinstance(value, tuple | list):
        return (kind, tuple([_mark(item) for item in value]))
    if kind is types.FunctionType:
        if not _is_ours(value.__globals__.get("__name__", "")):
            raise _Unknown
        cells = tuple([cell.cell_contents for cell in value.__closure__ or ()])
        return (
            value.__code__,
            _mark(cells),
            _mark(value.__defaults__),
            _mark(tuple((value.__kwdefaults__ or {}).items())),
        )
    if not _is_ours(kind.__module__) or not hasattr(value, "__dict__"):
        raise _Unknown
    items = [(name, item) for name, item in vars(value).items() if not (has_rate and name == "lr")]
    return (kind, tuple([(name, _mark(item, has_rate)) for name, item in items]))


def _is_ours(module: str) -> bool:
    return module == "smelt.optim" or module.startswith("smelt.optim.")
