"""The arguments of compiled functions: their names, and what is made of other libraries' arrays."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.errors import ArgumentError
from smelt.tensor.handle import is_weak
from smelt.tensor.interop import asarray
from smelt.transform.marks import is_array


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments, as a caller counts them."""
    while not hasattr(function, "__code__"):
        if not hasattr(function, "__wrapped__"):
            return ()
        function = function.__wrapped__
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names[1:] if isinstance(function, types.MethodType) else names


def static_positions(names: tuple[str, ...], static: list[int | str]) -> frozenset[int | str]:
    """Static arguments by position and by name, whichever way they were given."""
    found: set[int | str] = set(static)
    for item in static:
        if isinstance(item, str) and names and item not in names:
            raise ArgumentError(f"jit: the function has no argument {item!r}", hint=f"It has: {', '.join(names)}.")
        if isinstance(item, str) and item in names:
            found.add(names.index(item))
        elif isinstance(item, int) and 0 <= item < len(names):
            found.add(names[item])
    return frozenset(found)


def donated_positions(names: tuple[str, ...], donate: list[int | str]) -> tuple[int, ...]:
    """Donated arguments by position."""
    for item in donate:
        if isinstance(item, str) and item not in names:
            raise ArgumentError(f"jit: the function has no argument {item!r}", hint=f"It has: {', '.join(names)}.")
    return tuple(names.index(item) if isinstance(item, str) else item for item in donate)


def as_input(leaf: Any) -> Any:
    """A leaf of an argument as `asarray` would take it."""
    if isinstance(leaf, np.generic) and is_weak(leaf):
        return leaf.item()
    return asarray(leaf) if isinstance(leaf, np.generic) or is_array(leaf) else leaf
