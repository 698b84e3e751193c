"""`callback`: a function of Python's in the middle of a compiled program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from smelt import dtypes, tree
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Hosted, Node, shape_text, values_of
from smelt.tensor import Tensor, node_of, wrap

T = TypeVar("T")


class HostFunction:
    """A function of trees of NumPy arrays, as one of lists. Equal ones compute the same: graphs are found by them."""

    __slots__ = ("function", "given", "gives", "name")

    def __init__(self, function: Callable[..., Any], given: tree.Structure, gives: tree.Structure, name: str) -> None:
        self.function, self.given, self.gives, self.name = function, given, gives, name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, HostFunction)
            and self.function is other.function
            and (self.given, self.gives, self.name) == (other.given, other.gives, other.name)
        )

    def __hash__(self) -> int:
        return hash((id(self.function), self.given, self.gives))

    def __call__(self, arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        found, gives = tree.flatten(self.function(*tree.unflatten(self.given, arrays)))
        if gives != self.gives:
            raise ArgumentError(f"{self.name}: the function gave {gives}", rule=f"{self.gives} was declared.")
        return found


@dataclass(frozen=True, slots=True)
class _Typed:
    """The function with its results brought into the dtypes that were declared."""

    function: HostFunction
    types: tuple[dtypes.DType, ...]

    def __call__(self, arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        name, results = self.function.name, []
        for value, dtype, shape in zip(self.function(arrays, shapes), self.types, shapes, strict=True):
            array = np.asarray(value)
            if array.shape != shape:
                raise ShapeError(
                    f"{name}: the function gave shape {shape_text(array.shape)}",
                    rule=f"{shape_text(shape)} was declared.",
                )
            if array.dtype != dtype.numpy and not _widens(array.dtype, dtype):
                raise DTypeError(f"{name}: the function gave {array.dtype}", rule=f"{dtype} was declared.")
            results.append(np.ascontiguousarray(array, dtype.numpy).reshape(shape))
        return results


def _widens(given: np.dtype[Any], wanted: dtypes.DType) -> bool:
    """Whether values keep their kind, or take a wider one: bool, integer, float."""
    width = 0 if wanted.is_bool else 2 if wanted.is_float else 1
    return {"b": 0, "i": 1, "u": 1, "f": 2}.get(given.kind, 3) <= width


def callback(function: Callable[..., Any], like: T, *args: Any) -> T:
    """Call a function of Python's while a compiled program runs. It takes NumPy arrays, and gives such.

    `like` declares what it gives: a tensor, or a tree of them, with those shapes and dtypes (`sm.zeros(...)` costs
    nothing: it is not computed). The function may be called any number of times, or not at all where nobody needs what
    it gives, so it should have no effects; to look at values use `sm.debug.print`.

    >>> import numpy as np
    >>> @sm.jit
    ... def solved(a, b):
    ...     return sm.callback(np.linalg.solve, b, a, b) + 1
    >>> solved(sm.asarray([[2.0, 0], [0, 4]]), sm.asarray([2.0, 4])).tolist()
    [2.0, 2.0]
    """
    if not callable(function):
        raise ArgumentError(f"callback: {function!r:.80} is not a function")
    declared, gives = tree.flatten(like)
    for leaf in declared:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"callback: like has a leaf of type {type(leaf).__name__}",
                rule="it shows the shapes and dtypes of the results by tensors.",
                hint="Write sm.zeros(shape, dtype=...), which is never computed.",
            )
    if not declared:
        raise ArgumentError("callback: like has no tensors", hint="Use sm.debug.print to look at values.")
    types = [(leaf._node.dtype, leaf._node.shape) for leaf in declared]
    result: T = tree.unflatten(gives, [wrap(node) for node in called(function, gives, types, args, "callback")])
    return result


def called(
    function: Callable[..., Any],
    gives: tree.Structure,
    types: Sequence[tuple[dtypes.DType, Any]],
    args: tuple[Any, ...],
    name: str,
    after: Sequence[Node] = (),
) -> list[Node]:
    """The values of a call of Python's, which happens after what other nodes stand for."""
    leaves, given = tree.flatten(args)
    nodes = [node_of(leaf, name) for leaf in leaves]
    for dtype in (*(dtype for dtype, _ in types), *(node.dtype for node in nodes)):
        if dtype in dtypes.STORAGE:
            raise DTypeError(f"{name}: {dtype} only stores values", hint="Cast first, for example with x.astype.")
    hosted = _Typed(HostFunction(function, given, gives, name), tuple(dtype for dtype, _ in types))
    return values_of(Hosted(_Ordered(hosted, len(nodes)) if after else hosted, tuple(types)), [*nodes, *after])


@dataclass(frozen=True, slots=True)
class _Ordered:
    """A function that is not told about what it comes after."""

    function: _Typed
    count: int

    def __call__(self, arrays: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        return self.function(arrays[: self.count], shapes)
