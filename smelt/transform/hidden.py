"""Hidden inputs of a function: tensors that it reaches through its closure, its globals, or its module."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from smelt import tree
from smelt.errors import ArgumentError
from smelt.tensor import Tensor
from smelt.transform.marks import Identity, value_mark

Reader = Callable[[list[Any]], Any]


def hidden_names(function: Any) -> Iterator[Callable[[], Any]]:
    """What looks up each name outside a function, and each default; for a method of a module also the module."""
    owner = function if tree.is_inner(function) else getattr(function, "__self__", None)
    if tree.is_inner(owner):
        yield lambda: owner
    if function is owner:
        function = inspect.unwrap(type(function).__call__)
    while not hasattr(function, "__code__"):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return
    yield from (_cell(cell) for cell in function.__closure__ or ())
    yield from (_default(function, name) for name in _defaults(function))
    names = dict.fromkeys(name for inner in _codes(function.__code__) for name in inner.co_names)
    scope = function.__globals__
    yield from (_global(scope, name) for name in names if name in scope)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _cell(cell: Any) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not bound yet
            return None

    return read


def _defaults(function: Any) -> dict[str, Any]:
    """The values that arguments have if nobody passes them."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def _default(function: Any, name: str) -> Callable[[], Any]:
    return lambda: _defaults(function).get(name)


def _global(scope: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: scope.get(name)


_BY_THEMSELVES = frozenset(
    {types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type}
)  # equal if identical


def reader(read: Callable[[], Any]) -> Reader:
    """Appends the tensors that are found under a name, and returns a mark of what else there is. The name is looked up
    at every call, so that whatever it is bound to by then is seen.
    """

    def append(raw: list[Any]) -> Any:
        value = read()
        if type(value) is Tensor:
            raw.append(value)
            return None
        if type(value) in _BY_THEMSELVES:
            return value
        if not tree.is_inner(value):
            return _mark(value)
        try:
            leaves, structure = tree.flatten(value)
        except ArgumentError:  # keys that do not sort: no tree, just an object
            return Identity(value)
        if Tensor not in set(map(type, leaves)):  # a log, say, which grows while the function is traced
            return Identity(value)
        marks: list[Any] = []
        for leaf in leaves:
            if type(leaf) is Tensor:
                raw.append(leaf)
                marks.append(None)
            else:
                marks.append(_mark(leaf))
        return (structure, tuple(marks))

    return append


def may_be_set(read: Callable[[], Any]) -> bool:
    """Whether there are modules under a name whose attributes calls may set."""
    try:
        return bool(tree.places(read()))
    except ArgumentError:  # no tree
        return False


def _mark(value: Any) -> Any:
    """Numbers and strings count by value; other objects by identity, and by what they say may change about them."""
    if isinstance(value, bool | int | float | str):
        return value_mark(value)
    changes = getattr(type(value), "what_may_change", None)
    return Identity(value) if changes is None else (Identity(value), _mark(changes(value)))
