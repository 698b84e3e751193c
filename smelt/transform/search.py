"""Which names a function reads, directly and through the functions that it calls: this makes a `Plan` grow.

Code is followed where it is the user's: that of smelt, of Python's library and of installed packages is not. What it
reads from an object whose class is known is noted for that class.
"""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from smelt import tree
from smelt.transform.attributes import computed_attribute, own_attributes
from smelt.transform.drawn import generators_of
from smelt.transform.hidden import COUNTS, MISSING, Plan, is_plain, may_change
from smelt.transform.marks import check_lasts
from smelt.transform.reads import CHANGED, reads_of

# Methods that write to lists, dictionaries and sets: who calls them does not read.
_WRITERS: Final = frozenset({"append", "extend", "insert", "add", "update", "clear", "discard", "remove"})

# Special methods that compute nothing for whoever uses an object.
_ASIDE: Final = frozenset(
    {"__init__", "__post_init__", "__new__", "__repr__", "__str__", "__del__", "__init_subclass__"}
)

_PLACES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES: Final = (str(Path(__file__).parents[1]), *{sysconfig.get_path(place) for place in _PLACES})


def grown(plan: Plan, function: Any, arguments: Mapping[str, Any]) -> Plan:
    """A plan with what a function reads if it is called with these arguments; the given one stays as it is."""
    found = _Search(plan.copy())
    found.call(function, MISSING, arguments)
    for value in arguments.values():
        found.value(value, ())
    found.loose_ends()
    return found.plan


class _Search:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seen: set[tuple[Any, ...]] = set()
        self.met: dict[int, Any] = {}  # objects and classes of which code may call methods by names that are loose

    def call(self, function: Any, first: Any = MISSING, arguments: Mapping[str, Any] | None = None) -> None:
        """Follow the code that runs when a value is called. `first` is its first argument, where that is known;
        `arguments` are those of the function itself that everything begins with.
        """
        if isinstance(function, types.FunctionType):
            if arguments is not None or _is_users(function.__code__.co_filename):
                self.function(function, first, arguments or {})
            if hasattr(function, "__wrapped__"):
                self.call(function.__wrapped__, first, arguments)
        elif isinstance(function, types.MethodType):
            self.root(("constant", id(function.__self__)), lambda: function.__self__, ())
            self.call(function.__func__, function.__self__, arguments)
        elif isinstance(function, functools.partial):
            self.plan.roots.setdefault(("constant", id(function)), lambda: function)
            self.call(function.func, MISSING, None if arguments is None else {})
            for value in (*function.args, *function.keywords.values()):
                self.value(value, ())
        elif hasattr(function, "__wrapped__"):
            self.call(function.__wrapped__, first, arguments)
            for also in getattr(function, "also_calls", ()):
                self.call(also)
        elif may_change(function) and (is_plain(function) or tree.is_inner(function)):
            self.root(("constant", id(function)), lambda: function, ())

    def function(self, function: types.FunctionType, first: Any, arguments: Mapping[str, Any]) -> None:
        code = function.__code__
        where = (id(function), id(first))
        if where in self.seen:
            return
        self.seen.add(where)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = dict(arguments)
        if first is not MISSING and names:
            given[names[0]] = first
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        defaults = _defaults(function)
        found = reads_of(code)
        self.plan.loose |= found.loose
        self.plan.stored |= found.stored
        self.plan.assigned |= found.assigned
        for place, name, attributes in sorted(found.reads):
            if place == "module":  # if it is not there yet, it will be at the next call, for which all is traced again
                self.root(("module", name), _global(sys.modules, name), attributes)
            elif place == "global":
                if name in function.__globals__:
                    self.root((id(function.__globals__), name), _global(function.__globals__, name), attributes)
                elif name == "super" and first is not MISSING:
                    self.inherited(first, found.loose)
            elif name in cells:
                self.root((id(cells[name]),), _cell(cells[name]), attributes)
            elif name in given:
                self.value(given[name], attributes)
            elif name in defaults:
                self.root((id(function), name), _default(function, name), attributes)
            else:
                self.plan.loose.update(attributes)

    def root(self, key: Any, get: Callable[[], Any], attributes: Sequence[str]) -> None:
        """A name outside of the function, and the attributes that are read."""
        value = get()
        self.plan.generators.update((id(one), one) for one in generators_of(value, attributes))
        while isinstance(value, types.ModuleType):  # its names are as global as others
            if not attributes or not _is_users(getattr(value, "__file__", None)):
                return
            key, get, attributes = (id(value), attributes[0]), _global(vars(value), attributes[0]), attributes[1:]
            value = get()
        if isinstance(value, type) and not attributes:
            self.met.setdefault(id(value), value)
        if inspect.isbuiltin(value) or (isinstance(value, type) and not attributes):
            return
        check_lasts(value)
        if _is_written(value, attributes):
            return
        self.plan.roots.setdefault(key, get)
        self.value(value, attributes)

    def value(self, value: Any, attributes: Sequence[str]) -> None:
        """Follow what the attributes of a value lead to, and note their names for its class."""
        self.plan.generators.update((id(one), one) for one in generators_of(value, attributes))
        if isinstance(value, types.FunctionType | types.MethodType | functools.partial) or _is_wrapper(value):
            self.call(value)
            if attributes and attributes[0] in getattr(value, "__dict__", ()):
                self.root((id(value), attributes[0]), _global(value.__dict__, attributes[0]), attributes[1:])
        elif isinstance(value, type):
            if attributes:
                self.member(value, attributes)
        elif tree.is_inner(value):
            if ("inside", id(value)) not in self.seen:
                self.seen.add(("inside", id(value)))
                self.inside(value)
            if attributes:
                self.member(value, attributes)
        elif is_plain(value):
            self.met.setdefault(id(value), value)
            if attributes and attributes[0].endswith(CHANGED):
                name = attributes[0].removesuffix(CHANGED)
                if type(getattr(value, "__dict__", {}).get(name)) in COUNTS:
                    self.plan.counts.setdefault(type(value), set()).add(name)
                else:
                    self.value(value, (name,))
            elif attributes and not _is_written(getattr(value, "__dict__", {}).get(attributes[0]), attributes[1:]):
                self.plan.attributes.setdefault(type(value), set()).add(attributes[0])
                self.member(value, attributes)
            elif not attributes:
                self.call(_of_class(type(value), "__call__"), value)

    def member(self, value: Any, attributes: Sequence[str]) -> None:
        """An attribute of an object or a class: a value, or code that runs."""
        name, *rest = attributes
        found = inspect.getattr_static(value, name, MISSING)
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        if isinstance(found, types.MemberDescriptorType):  # a slot
            return self.value(getattr(value, name, MISSING), rest)
        first = MISSING if isinstance(value, type) else value
        if isinstance(found, property | functools.cached_property):
            self.call(found.fget if isinstance(found, property) else found.func, first)
            self.plan.loose.update(rest)  # of what it gives
        elif name not in getattr(value, "__dict__", ()) and (
            isinstance(found, types.FunctionType) or _is_wrapper(found)
        ):
            self.call(found, first)
        elif found is not MISSING and (name not in getattr(value, "__dict__", ()) or isinstance(value, type)):
            kind = value if isinstance(value, type) else type(value)
            self.root((id(kind), name), lambda: getattr(kind, name, MISSING), rest)
        elif found is not MISSING:
            self.value(found, rest)
        elif not isinstance(value, type):
            self.value(computed_attribute(value, name), rest)

    def inside(self, value: Any) -> None:
        """The functions and plain objects in a tree, the code of its modules, and what these keep besides tensors."""
        if isinstance(value, Mapping | list | tuple | deque):
            for item in value.values() if isinstance(value, Mapping) else value:
                self.value(item, ())
        for module in tree.holders(value):
            for name in ("__call__", "forward"):
                self.call(_of_class(type(module), name), module)
            for item in own_attributes(module).values():
                if isinstance(item, types.FunctionType) or (is_plain(item) and not tree.is_inner(item)):
                    self.root(("constant", id(item)), functools.partial(_itself, item), ())

    def loose_ends(self) -> None:
        """Methods that run without being named, and attributes and methods of objects whose place is not known."""
        done = -1
        while done < len(self.seen) + len(self.met) + len(self.plan.loose):
            done = len(self.seen) + len(self.met) + len(self.plan.loose)
            for value in list(self.met.values()):
                kind, first = (value, MISSING) if isinstance(value, type) else (type(value), value)
                if not _is_users(getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__):
                    continue
                names = _implied(kind, isinstance(value, type)) | self.plan.loose
                for name in names & {name for base in kind.__mro__ for name in vars(base)}:
                    found = _of_class(kind, name)
                    self.call(found.fget if isinstance(found, property) else found, first)
                for name in self.plan.loose & set(getattr(first, "__dict__", ())):
                    self.value(vars(first)[name], ())

    def inherited(self, value: Any, names: Iterable[str]) -> None:
        """Methods of base classes, which `super()` reaches."""
        for base in type(value).__mro__[1:]:
            for name in names:
                if isinstance(vars(base).get(name), types.FunctionType):
                    self.call(vars(base)[name], value)


@functools.lru_cache(maxsize=256)
def _implied(kind: type, is_made: bool) -> frozenset[str]:
    """Special methods of a class that code runs without naming them; where objects are made, how."""
    names = {name for base in kind.__mro__[:-1] for name, found in vars(base).items() if callable(found)}
    special = {name for name in names if name.startswith("__") and name.endswith("__") and name not in _ASIDE}
    return frozenset(special | ({"__init__", "__post_init__"} if is_made else set()))


def _is_written(value: Any, attributes: Sequence[str]) -> bool:
    """Whether something is put into a list, say, of which nothing is read: a log."""
    return isinstance(value, list | dict | set) and bool(attributes) and attributes[0] in _WRITERS


def _is_wrapper(value: Any) -> bool:
    return (
        callable(value) and hasattr(value, "__wrapped__") and not isinstance(value, type) and not tree.is_inner(value)
    )


@functools.lru_cache(maxsize=4096)
def _is_users(file: str | None) -> bool:
    return file is not None and not file.startswith(_LIBRARIES)


def _of_class(kind: type, name: str) -> Any:
    """What a class or one of its bases defines under a name."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _itself(value: Any) -> Any:
    return value


def _global(scope: Mapping[str, Any], name: str) -> Callable[[], Any]:
    return lambda: scope.get(name, MISSING)


def _cell(cell: Any) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not bound yet
            return MISSING

    return read


def _defaults(function: Any) -> dict[str, Any]:
    """The values that arguments have if nobody passes them."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def _default(function: Any, name: str) -> Callable[[], Any]:
    return lambda: _defaults(function).get(name)
