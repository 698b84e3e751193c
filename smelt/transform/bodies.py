"""What the functions that loops, branches and `vmap` are given must not do: set tensors of modules from outside.

Such a function runs once, on stand-ins. What it sets in a module that it is given may be part of its result; in another
one it would stay behind, without a value.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from smelt import runtime, tree
from smelt.errors import ArgumentError
from smelt.tensor import Tensor

_NOTHING: Final = object()


class _Body:
    """One function that runs: the modules that were made meanwhile, and what was in others before it set something."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}
        self.before: dict[tuple[int, str], tuple[Any, Any]] = {}


class _Stack(threading.local):
    def __init__(self) -> None:
        self.bodies: list[_Body] = []


_stack = _Stack()


def made(module: Any) -> None:
    """Note that a module comes to be."""
    if _stack.bodies:
        _stack.bodies[-1].made[id(module)] = module


def about_to_set(module: Any, name: str) -> None:
    """Note that an attribute of a module is about to be set."""
    if _stack.bodies:
        body, old = _stack.bodies[-1], vars(module)
        if not old:
            body.made[id(module)] = module
        elif id(module) not in body.made:
            body.before.setdefault((id(module), name), (module, old.get(name, _NOTHING)))


@contextmanager
def keeping_modules(name: str, shared: bool = False) -> Iterator[None]:
    """What runs inside is given to `name`: modules from outside must keep their tensors, and those in its arguments as
    well if `shared`.
    """
    now = _Body()
    _stack.bodies.append(now)
    refused: list[tuple[Any, str]] = []
    try:
        yield
    finally:
        _stack.bodies.pop()
        for (_, attribute), (module, old) in now.before.items():
            if _is_left(old, vars(module).get(attribute)):
                refused.append((module, attribute))
                _put_back(module, attribute, old)
        for module, _ in refused:  # what is gone is no note any more
            if (id(module), "noted_names") in now.before:
                _put_back(module, "noted_names", now.before[id(module), "noted_names"][1])
                del now.before[id(module), "noted_names"]
    for module, attribute in refused:
        raise lost(name, module, attribute, "which all elements share" if shared else "which it is not given")


def lost(name: str, module: Any, attribute: str, why: str) -> ArgumentError:
    """The error for a tensor that a function sets where nobody will find it."""
    way = "give it the whole batch" if name == "vmap" else f"give the module to {name}, and let the function return it"
    return ArgumentError(
        f"{name}: the function changes {attribute} of {type(module).__name__}, {why}",
        rule="it runs once, on stand-ins: what it leaves elsewhere has no value.",
        hint=f"Return the tensor instead, switch the module to evaluation with eval() if it has one, or {way}.",
    )


def _is_left(old: Any, new: Any) -> bool:
    """Whether a new value is a tensor in the place of one, or has no value of its own."""
    tensors = [leaf for leaf in tree.flatten(new)[0] if isinstance(leaf, Tensor)]
    return bool(tensors) and (isinstance(old, Tensor) or any(runtime.is_traced(tensor._node) for tensor in tensors))


def _put_back(module: Any, attribute: str, old: Any) -> None:
    if old is _NOTHING:
        delattr(module, attribute)
    else:
        setattr(module, attribute, old)
