"""Hidden inputs of a function: tensors that it reaches through its closure and its globals."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from smelt import tree
from smelt.errors import ArgumentError
from smelt.tensor import Tensor
from smelt.transform.marks import Identity, value_mark

Reader = Callable[[list[Any]], Any]


def hidden_readers(function: Any) -> list[Reader]:
    """One reader per name outside the function.

    A reader appends the tensors that it finds, and returns a mark of what else there is. Names are looked up at every
    call, so that whatever they are bound to by then is seen.
    """
    while not hasattr(function, "__code__"):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            return []
    readers = [_reader(_cell(cell)) for cell in function.__closure__ or ()]
    names = dict.fromkeys(name for inner in _codes(function.__code__) for name in inner.co_names)
    scope = function.__globals__
    return readers + [_reader(_global(scope, name)) for name in names if name in scope]


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


def _global(scope: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: scope.get(name)


_BY_THEMSELVES = frozenset(
    {types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type}
)  # equal if identical


def _reader(read: Callable[[], Any]) -> Reader:
    def append(raw: list[Any]) -> Any:
        value = read()
        if type(value) is Tensor:
            raw.append(value)
            return None
        if type(value) in _BY_THEMSELVES:
            return value
        if not isinstance(value, tuple | list | dict):
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


def _mark(value: Any) -> Any:
    """Numbers and strings count by value; other objects by identity."""
    return value_mark(value) if isinstance(value, bool | int | float | str) else Identity(value)
