"""Hidden inputs: what a function reads that it is not given.

A `Plan` says which names outside of a function to look up at every call: those of its closure, globals and defaults,
and of the functions that it calls. Tensors that are found there are inputs, so that new ones are seen; numbers,
strings, modes of modules and small arrays count by value, so that another value is another trace. Of plain objects the
attributes count that the code mentions.

The plan grows when something is traced (`search.py` follows the code), since every function, class and object on the
way is part of the key: where another one is met, there is a new trace.
"""

from __future__ import annotations

import functools
import struct
import types
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from smelt import tree
from smelt.tensor import Tensor
from smelt.transform.attributes import NOTHING, computed_attribute, own_attributes
from smelt.transform.marks import (
    Identity,
    array_mark,
    check_lasts,
    counts_by_identity,
    is_array,
    value_mark,
    weights_mark,
)
from smelt.transform.reads import EVERY

MISSING: Final = Identity(object())  # what stands under a name that is not bound

COUNTS: Final = (int, float)  # numbers that a function may count up
_LONG: Final = 32  # numbers that are looked at together, as a history of losses grows
_SETTINGS: Final = frozenset({bool, int, float, str})
_VALUES: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_BY_THEMSELVES: Final = frozenset({types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type})


class Plan:
    """What to look up: roots by a key of theirs, and for each class the attributes that code mentions."""

    def __init__(self) -> None:
        self.roots: dict[Any, Callable[[], Any]] = {}
        self.attributes: dict[type, set[str]] = {}
        self.loose: set[str] = set()  # attributes of whatever is met
        self.stored: set[str] = set()  # attributes that code sets
        self.assigned: set[str] = set()  # those of them that are not only counted up
        self.generators: dict[int, Any] = {}  # of random numbers, by identity
        self.counts: dict[type, set[str]] = {}  # attributes that numbers are added to, and that are not read otherwise

    def copy(self) -> Plan:
        """A plan that may grow while others read this one."""
        new = Plan()
        new.roots, new.loose = dict(self.roots), set(self.loose)
        new.stored, new.assigned = set(self.stored), set(self.assigned)
        new.generators = dict(self.generators)
        new.attributes = {kind: set(names) for kind, names in self.attributes.items()}
        new.counts = {kind: set(names) for kind, names in self.counts.items()}
        return new

    def read(self, raw: list[Any], structure: list[Any]) -> None:
        """Append the tensors under all names to `raw`, and a mark of everything else to `structure`."""
        for get in self.roots.values():
            value = get()
            if type(value) is Tensor:
                raw.append(value)
                structure.append(None)
            else:
                structure.append(self.mark(value, raw))

    def mark(self, value: Any, raw: list[Any], around: tuple[Any, ...] = (), met: list[Any] | None = None) -> Any:
        """What stands for a value in the key of a structure; its tensors are appended to `raw`.

        `met` collects the objects on the way whose attributes the function may set.
        """
        kind = type(value)
        if kind is Tensor:
            raw.append(value)
            return None
        if kind in _VALUES:
            return value_mark(value)
        if kind in _BY_THEMSELVES:
            return value
        if around and any(value is one for one in around):  # a cycle
            return len(around)
        around = (*around, value)
        if kind is dict or isinstance(value, Mapping):
            return (kind, tuple([(_key(key), self.mark(item, raw, around, met)) for key, item in value.items()]))
        if kind is list and len(value) > _LONG and set(map(type, value)) <= {float}:
            return (kind, struct.pack(f"{len(value)}d", *value))
        if kind is list or kind is tuple or isinstance(value, deque | list):
            return (kind, tuple([self.mark(item, raw, around, met) for item in value]))
        if tree.is_inner(value):
            if met is not None:
                met += tree.holders(value)
            leaves, structure = tree.flatten(value)
            return (structure, tuple([self.mark(leaf, raw, around, met) for leaf in leaves]))
        if kind is set or kind is frozenset:
            return (kind, frozenset(map(_key, value)))
        if is_array(value):
            return array_mark(value)
        if kind is array:
            return (kind, value.typecode, value.tobytes())
        if kind is ContextVar:
            return (kind, self.mark(value.get(MISSING), raw, around, met))
        if isinstance(value, functools.partial):
            return (Identity(value), self.mark((value.func, value.args, value.keywords), raw, around, met))
        if kind is types.MethodType:
            return (value.__func__, self.mark(value.__self__, raw, around, met))
        if not may_change(value):
            return Identity(value)
        if hasattr(kind, "what_may_change"):
            return (Identity(value), self.mark(value.what_may_change(), raw, around, met))
        if not is_plain(value):
            check_lasts(value)
            return Identity(value)
        return self._mark_object(value, raw, around, met)

    def _mark_object(self, value: Any, raw: list[Any], around: tuple[Any, ...], met: list[Any] | None) -> Any:
        """The same for a plain object: which one it is, and the attributes that code mentions."""
        if met is not None:
            met.append(value)
        kind = type(value)
        mentioned = self.attributes.get(kind, self.loose)
        own = own_attributes(value)
        every = EVERY in self.loose
        found = [(name, item) for name, item in own.items() if every or name in mentioned or name in self.loose]
        if not every:
            # What an attribute is when it is set to the same again: if it is something else, it has to be set.
            found += [(name, own[name]) for name in self._settled(own) if name not in mentioned | self.loose]
        found += _computed(value, mentioned - own.keys())
        marks = [(name, self.mark(item, raw, around, met)) for name, item in found]
        if "_parameters" in own and "_buffers" in own:  # as in modules of PyTorch
            marks.append(("_parameters", weights_mark(value)))
        for name in self.counts.get(kind, ()):
            count = getattr(value, name, None)
            if name not in mentioned and name not in self.loose | self.assigned and not every:
                marks.append((name, type(count) if type(count) in COUNTS else self.mark(count, raw, around, met)))
        return (Identity(value), tuple(marks))

    def _settled(self, own: Mapping[str, Any]) -> list[str]:
        return [name for name in own if name in self.assigned and type(own[name]) in _SETTINGS]

    def changing(self, value: Any, raw: list[Any]) -> Any:
        """What may change in an object that is an argument. What equals it may stand for it, except for what the code
        reads of it: equality may leave attributes out, and an object equals itself whatever becomes of it.
        """
        mark = self.mark(value, raw)
        return mark if counts_by_identity(value) or not isinstance(mark, tuple) else mark[1:]

    def counted(self, holder: Any) -> list[str]:
        """Attributes of an object that are only counted up, and numbers now."""
        kind, read = type(holder), self.attributes.get(type(holder), self.loose) | self.loose
        return [
            name
            for name in self.counts.get(kind, ())
            if name not in read | self.assigned
            and EVERY not in self.loose
            and type(own_attributes(holder).get(name)) in COUNTS
        ]

    def reached(self, arguments: Any) -> list[Any]:
        """Objects whose attributes the function may set, in the order in which they are met; modules among the
        arguments are none of them.
        """
        met: list[Any] = []
        for leaf in tree.flatten(arguments)[0]:
            if is_plain(leaf):
                self.mark(leaf, [], (), met)
        for get in self.roots.values():
            self.mark(get(), [], (), met)
        return list({id(one): one for one in met}.values())


def may_change(value: Any) -> bool:
    """Whether there is something in an object to look at in every call: its class may say what, or that nothing is."""
    return getattr(type(value), "what_may_change", True) is not None


def is_plain(value: Any) -> bool:
    """Whether a value is an object that keeps its state in attributes."""
    has_state = hasattr(value, "__dict__") or hasattr(type(value), "__slots__")
    return has_state and not isinstance(value, type | Tensor | types.ModuleType | types.FunctionType | np.generic)


def _computed(value: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Attributes that `__getattr__` gives: those that it gives again, and those that count by content anyway."""
    for name in sorted(names) if hasattr(type(value), "__getattr__") else ():
        found = computed_attribute(value, name)
        if found is not NOTHING and (
            type(found) in _VALUES or is_array(found) or found is computed_attribute(value, name)
        ):
            yield name, found


def _key(value: Any) -> Any:
    """A key of a dictionary, or an element of a set."""
    return value_mark(value) if type(value) in _VALUES or type(value) is tuple else Identity(value)
