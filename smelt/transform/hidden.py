"""Hidden inputs of a function: tensors that it reaches through its closure and its globals."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from smelt import tree
from smelt.tensor import Tensor

Reader = Callable[[list[Any]], Any]


def hidden_readers(function: Any) -> list[Reader]:
    """One reader per name outside the function: it appends the tensors found there and returns what else there is, as
    a mark.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    readers = [_reader(_cell(cell)) for cell in function.__closure__ or ()]
    names = dict.fromkeys(name for inner in _codes(code) for name in inner.co_names)
    scope = function.__globals__
    for name in names:
        value = scope.get(name)
        if name in scope and not isinstance(value, types.ModuleType | types.FunctionType | type):
            readers.append(_reader(_global(scope, name)))
    return readers


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


def _reader(read: Callable[[], Any]) -> Reader:
    def append(raw: list[Any]) -> Any:
        value = read()
        if type(value) is Tensor:
            raw.append(value)
            return None
        if not isinstance(value, tuple | list | dict):
            return _mark(value)
        leaves, structure = tree.flatten(value)
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
    return (type(value), value) if isinstance(value, bool | int | float | str) else id(value)
