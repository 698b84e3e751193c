"""The arguments of compiled functions: their names, and what is made of other libraries' arrays."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from smelt.errors import ArgumentError
from smelt.tensor import asarray, is_weak
from smelt.transform.marks import check_lasts, is_array


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's arguments, as a caller counts them."""
    while not hasattr(function, "__code__"):
        if not hasattr(function, "__wrapped__"):
            return ()
        function = function.__wrapped__
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names[1:] if isinstance(function, types.MethodType) else names


def static_positions(function: Callable[..., Any], names: tuple[str, ...], static: Any) -> frozenset[int | str]:
    """Static arguments by position and by name, whichever way they were given."""
    found: set[int | str] = set(_named(function, names, static, "static"))
    for item in list(found):
        if isinstance(item, str) and item in names:
            found.add(names.index(item))
        elif isinstance(item, int) and item < len(names):
            found.add(names[item])
    return frozenset(found)


def donated_positions(function: Callable[..., Any], names: tuple[str, ...], donate: Any) -> tuple[int, ...]:
    """Donated arguments by position."""
    found = _named(function, names, donate, "donate")
    for item in found:
        if isinstance(item, str) and item not in names:
            raise _unknown(item, names)
    return tuple([names.index(item) if isinstance(item, str) else item for item in found])


def _named(function: Callable[..., Any], names: tuple[str, ...], given: Any, word: str) -> list[int | str]:
    """Arguments that the function has: positions from the front, and names."""
    items = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise ArgumentError(f"jit: {word}={given!r:.80}", rule="it names arguments: by position, or by name.")
    try:
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):  # not known
        return items
    count = len(kinds) - (inspect.Parameter.VAR_KEYWORD in kinds)
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for item in items:
            if isinstance(item, int) and not -count <= item < count:
                raise ArgumentError(
                    f"jit: {word} names argument {item}",
                    rule=f"the function has {count}, counted from 0.",
                    hint=f"They are: {', '.join(names)}." if names else "",
                )
        items = [item % count if isinstance(item, int) else item for item in items]
    for item in items:
        if isinstance(item, int) and item < 0:
            raise ArgumentError(f"jit: {word} names argument {item}", rule="with *args, arguments have no last one.")
        if isinstance(item, str) and names and item not in names and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise _unknown(item, names)
    return items


def _unknown(name: str, names: tuple[str, ...]) -> ArgumentError:
    return ArgumentError(f"jit: the function has no argument {name!r}", hint=f"It has: {', '.join(names)}.")


def as_input(leaf: Any) -> Any:
    """A leaf of an argument as `asarray` would take it."""
    if isinstance(leaf, np.generic) and is_weak(leaf):
        return leaf.item()
    check_lasts(leaf)
    return asarray(leaf) if isinstance(leaf, np.generic) or is_array(leaf) else leaf
