"""The arguments of compiled functions: their names, what is made of other libraries' arrays, and what cannot go in or
come out.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from smelt import runtime
from smelt.errors import ArgumentError, TraceError
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.graph.shapes import shape_text
from smelt.runtime import Storage
from smelt.tensor import Tensor
from smelt.tensor.handle import is_weak
from smelt.tensor.interop import asarray
from smelt.transform.marks import is_array
from smelt.transform.search import is_used_up


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


def check_results(results: Sequence[Any]) -> None:
    """Refuse results that later calls could not give."""
    for result in results:
        if isinstance(result, Tensor):
            continue
        kind = type(result).__name__
        if inspect.iscoroutine(result):
            result.close()  # nobody will wait for it
        if is_used_up(result) or inspect.isawaitable(result) or inspect.isasyncgen(result):
            raise TraceError(
                f"jit: the function gives a {kind}, which can be used only once",
                rule="a function is traced once: all its calls would give the same one.",
                hint="Return a list or a tuple." if is_used_up(result) else "Compile a function that is not async.",
            )
        items = list(getattr(result, "__dict__", {}).values())
        items += result if isinstance(result, list | tuple | set) else ()
        items += result.values() if isinstance(result, dict) else ()
        if any(isinstance(item, Tensor) and runtime.is_traced(item._node) for item in items):
            raise TraceError(
                f"jit: the function gives a {kind} that holds tensors",
                rule="results are tensors, or trees of them: tuples, lists, dictionaries, dataclasses, modules.",
                hint="Return one of these, or make the class one with @sm.tree.register.",
            )


def check_nodes(roots: Sequence[Node], outside: Container[Node]) -> None:
    """Refuse tensors without a value that are read in a way that jit cannot follow: new ones would not be seen."""
    for node in reversed(topological(roots)):
        if node.op is not Op.LEAF and node in outside:
            raise unknown_tensor(node)


def unknown_tensor(tensor: Storage | Node) -> TraceError:
    """The error for a tensor that is read in a way that jit cannot follow."""
    return TraceError(
        f"jit: the function reads a tensor {tensor.dtype}{shape_text(tensor.shape)} that it is not given, and in a "
        "way that jit cannot follow",
        rule="a tensor that a compiled function reads from outside must be found again at the next call, when another "
        "one may be in its place.",
        hint="Pass it, or the object that holds it, as an argument; or read it by a name: a variable, or an attribute.",
    )
