"""NumPy's functions of tensors: what `np.sum(x)`, `np.sin(x)` and `array + x` do.

A function that smelt has too gives tensors, by smelt's own. The others, and those that write to an array, compute with
NumPy, and give arrays: that asks for values, which a function that is being traced refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.errors import ArgumentError
from smelt.tensor import interop, namespace
from smelt.tensor.handle import Handle

# NumPy's name -> smelt's, where they differ.
_SPELLED = {
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "around": "round",
    "fabs": "abs",
    "conjugate": "positive",
    "copy": "positive",
}
# The same name for something else.
_DIFFERENT = {"resize", "save", "load", "can_cast", "cond"}
# What writes to its first argument: what to write for tensors.
_WRITING = {
    "fill_diagonal": "Write x.at[i, i].set(value), with i = sm.arange(n).",
    "put_along_axis": "Write sm.scatter(x, axis, indices, values).",
    **dict.fromkeys(("put", "place", "putmask", "copyto"), "Write x.at[indices].set(values), or sm.where."),
}
_MODULES = ("numpy", "numpy.linalg")
# What is asked about a tensor without computing it.
_QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
    "iscomplexobj": lambda x: False,
    "isrealobj": lambda x: True,
}
_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}
# Words about how NumPy computes, with values that ask for nothing else than what smelt does.
_MEANINGLESS: dict[str, tuple[Any, ...]] = {
    "order": ("C", "K", "A"),
    "optimize": (True, False, "greedy", "optimal"),
    "kind": ("quicksort", "mergesort", "heapsort", "stable"),
    "overwrite_input": (True, False),
    "subok": (True, False),
    "assume_unique": (True, False),
    "method": ("linear",),
}


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """What a ufunc of NumPy's gives for tensors."""
    name = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
    out = given.get("out", ())
    if any(isinstance(x, Handle) for x in out) or (method == "at" and isinstance(inputs[0], Handle)):
        raise ArgumentError(f"{name}: tensors never change", hint="Use the result, or x.at[...].add(values).")
    if method == "__call__" and not given:
        own = _own(ufunc.__name__)
        if own is not None:
            return own(*inputs)
    if method in ("reduce", "accumulate") and not any(x is not None for x in out):
        own = _own((_REDUCTIONS if method == "reduce" else _SCANS).get(ufunc.__name__, ""))
        if own is not None:
            words = {key: value for key, value in given.items() if key != "out" and value is not None}
            return own(*inputs, **{"axis": 0} | words) if given.get("axis", 0) is not None else own(*inputs)
    return _by_numpy(getattr(ufunc, method), inputs, given, name)


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's gives for tensors."""
    short = function.__name__
    name = f"{function.__module__.replace('numpy', 'np', 1)}.{short}"
    if short in _QUESTIONS and len(args) == 1 and not kwargs:
        return _QUESTIONS[short](args[0])
    if short in _WRITING and isinstance((*args, *kwargs.values())[0], Handle):
        raise ArgumentError(f"{name}: tensors never change", hint=_WRITING[short])
    own = _own(short) if function.__module__ in _MODULES and short not in _DIFFERENT else None
    if own is None or kwargs.get("out") is not None:
        return _by_numpy(function, args, kwargs, name)
    places, words = _arguments(function, args, kwargs)
    if short == "norm" and not _is_vector_norm(*places, **words):
        return _by_numpy(function, args, kwargs, name)
    if words.get("out") is not None:
        return _by_numpy(function, args, kwargs, name)
    return own(*places, **words)


def _own(name: str) -> Callable[..., Any] | None:
    module = namespace.module(None)
    name = _SPELLED.get(name, name)
    found: Callable[..., Any] | None = getattr(module, name) if name in module.__all__ else None
    return found


def _arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What a call says: what is needed by place, the rest by NumPy's words for it, which smelt's functions understand.
    What is as it is by default anyway is left out.
    """
    places: list[Any] = []
    words: dict[str, Any] = {}
    bound = inspect.signature(function).bind(*args, **kwargs)
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            places += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            words |= value
        elif parameter.default is parameter.empty:
            places.append(value)
        elif value is not parameter.default and not _is_meaningless(key, value):
            words[key] = value
    if function.__name__ in ("diagonal", "trace") and function.__module__ == "numpy":
        words = {"axis1": 0, "axis2": 1} | words
    if function.__name__ in ("cumsum", "cumprod") and "axis" not in words and isinstance(places[0], Handle):
        places[0] = _own("ravel")(places[0])  # type: ignore[misc]
    if function.__name__ == "transpose" and "axes" in words:
        places.append(words.pop("axes"))
    return places, words


def _is_meaningless(word: str, value: Any) -> bool:
    return isinstance(value, str | bool) and value in _MEANINGLESS.get(word, ())


def _is_vector_norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> bool:
    """Whether NumPy's norm is one of vectors: that of a matrix is another one, unless it is the root of squares."""
    return ord is None or isinstance(axis, int) or (axis is None and np.ndim(x) == 1)


def _by_numpy(function: Any, args: Any, kwargs: dict[str, Any], name: str) -> Any:
    """The call with arrays in the places of tensors."""

    def array(value: Any) -> Any:
        if isinstance(value, Handle):
            interop.refuse_differentiated(value, name)  # type: ignore[arg-type]
            return interop.numpy(value, name)  # type: ignore[arg-type]
        if type(value) in (list, tuple):
            return type(value)(map(array, value))
        return {key: array(part) for key, part in value.items()} if type(value) is dict else value

    return function(*array(tuple(args)), **array(kwargs))
