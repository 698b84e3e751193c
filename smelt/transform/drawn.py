"""Random numbers of other libraries: a trace that draws some would give the same ones in every call.

The code that `search.py` follows tells which generators a function may draw from; whether it did, their states tell.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from smelt.errors import TraceError


def generators_of(value: Any, attributes: Sequence[str]) -> list[Any]:
    """The generators that code may draw from which reads these attributes of a value."""
    if isinstance(value, types.ModuleType):
        name, *rest = attributes or ("",)
        if f"{value.__name__}.{name}" in _GLOBAL:  # asked for as the code will, since NumPy loads it late
            return generators_of(getattr(value, name), rest)
        own = _GLOBAL.get(value.__name__)
        return [] if own is None else [own(value)]
    owner = value.__self__ if isinstance(value, types.MethodType | types.BuiltinMethodType) else value
    return [] if _state(owner) is None else [owner]


# Modules with a generator for all.
_GLOBAL: Final[dict[str, Callable[[Any], Any]]] = {
    "random": lambda module: module.random.__self__,
    "numpy.random": lambda module: module.random_sample.__self__,
    "torch": lambda module: module.default_generator,
}


def _state(value: Any) -> Any:
    """What a draw changes in a generator; None of anything else."""
    kind, library = type(value).__name__, _library(value)
    if library == "random" and kind == "Random":
        return value.getstate()
    if library == "numpy" and kind == "Generator":
        return _plain(value.bit_generator.state)
    if library == "numpy" and kind == "RandomState":
        return _plain(value.get_state(legacy=False))
    if library == "torch" and kind == "Generator":
        return value.get_state().tolist()
    return None


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _plain(state: Any) -> Any:
    """A state that can be compared."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


@contextmanager
def nothing_drawn(generators: Iterable[Any]) -> Iterator[None]:
    """Refuse draws from generators, by what runs inside."""
    before = [(one, _state(one)) for one in generators]
    yield
    for one, state in before:
        if _state(one) != state:
            raise TraceError(
                f"jit: the function draws random numbers from {_library(one)}.{type(one).__name__}",
                rule="a function is traced once: all its calls would have the numbers of the first.",
                hint="Draw with sm.random, whose numbers are new in every call; or outside, and pass what was drawn.",
            )
