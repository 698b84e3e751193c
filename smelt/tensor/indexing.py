"""Basic indexing: integers, slices with any step, an ellipsis and new axes, in any mixture.

On an axis of symbolic size, a slice must lie inside the axis for every value of the size.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, IndexRangeError, SmeltError
from smelt.graph import build
from smelt.graph.index import Index, as_index
from smelt.graph.node import Node
from smelt.graph.ops import Span
from smelt.graph.shapes import marked, shape_text
from smelt.tensor.handle import node_of, wrap
from smelt.tensor.types import Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


_WHOLE = slice(None)


def index(x: Tensor, key: Any, /) -> Tensor:
    """x[key]."""
    node = node_of(x, "indexing")
    items = _filled(key if isinstance(key, tuple) else (key,), node)
    spans: list[Span] = []
    shape: list[Size] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        axis = len(spans)
        if isinstance(item, slice):
            span = _sliced(item, node, axis)
            shape.append(span.size)
        else:
            span = Span(_position(item, node, axis), 1, 1)
        spans.append(span)
    return wrap(build.reshape(build.slice_(node, spans, name="indexing"), tuple(shape)))


def _filled(key: tuple[Any, ...], node: Node) -> list[Any]:
    """The key with the ellipsis (or its absence) written out as full slices."""
    for item in key:
        if not _is_basic(item):
            raise ArgumentError(
                f"indexing: {_described(item)} cannot be used as an index",
                rule="an index is made of integers, slices, ... and None.",
            )
    ellipses = [at for at, item in enumerate(key) if item is Ellipsis]
    if len(ellipses) > 1:
        raise ArgumentError("indexing: more than one ellipsis (...) in an index")
    used = sum(1 for item in key if item is not None and item is not Ellipsis)
    if used > node.rank:
        raise IndexRangeError(
            f"indexing: {used} indices for shape {shape_text(node.shape)}, which has rank {node.rank}"
        )
    at = ellipses[0] if ellipses else len(key)
    return [*key[:at], *[_WHOLE] * (node.rank - used), *key[at + 1 :]]


def _is_basic(item: Any) -> bool:
    if item is None or item is Ellipsis or isinstance(item, slice) or type(item) is int:
        return True
    rank = getattr(item, "ndim", 0)
    return rank == 0 and not isinstance(item, bool) and hasattr(item, "__index__") and str(_dtype(item)) != "bool"


def _dtype(item: Any) -> Any:
    return getattr(item, "dtype", "int")


def _described(item: Any) -> str:
    return f"{type(item).__name__} {item!r}" if isinstance(item, int | float | str) else f"a {type(item).__name__}"


def _position(item: Any, node: Node, axis: int) -> Size:
    try:
        number = operator.index(item)
    except SmeltError:  # a traced tensor says itself why it cannot be used
        raise
    except TypeError:
        raise ArgumentError(f"indexing: {_described(item)} is not an integer") from None
    size = as_index(node.shape[axis])
    # A symbolic axis surely has the elements below its smallest size, counted from either end.
    if not -size.low <= number < size.low:
        raise IndexRangeError(
            f"indexing: index {number} is out of range for axis {axis}\n" + marked((node.shape, {axis})),
            rule=f"allowed here: {-size.low} to {size.low - 1}." if size.low else "the axis has no elements.",
        )
    return number if number >= 0 else node.shape[axis] + number


def _sliced(item: slice, node: Node, axis: int) -> Span:
    size = node.shape[axis]
    if item is _WHOLE:
        return Span(0, size, 1)
    start, stop, step = (_bound(bound) for bound in (item.start, item.stop, item.step))
    step = 1 if step is None else step
    if step == 0:
        raise ArgumentError("indexing: the step of a slice must not be 0")
    if not isinstance(size, Index):
        first, last, step = slice(start, stop, step).indices(size)
        return Span(first, len(range(first, last, step)), step)
    if step < 0:
        first_default, last_default = size - 1, as_index(-1)
    else:
        first_default, last_default = as_index(0), size
    low = first_default if start is None else _from_front(start, size)
    high = last_default if stop is None else _from_front(stop, size)
    distance = high - low if step > 0 else low - high
    return Span(low, (distance + abs(step) - 1) // abs(step), step)


def _from_front(bound: int, size: Index) -> Index:
    return size + bound if bound < 0 else as_index(bound)


def _bound(bound: Any) -> int | None:
    if bound is None:
        return None
    if isinstance(bound, bool) or not hasattr(bound, "__index__"):
        raise ArgumentError(f"indexing: {_described(bound)} cannot be part of a slice", rule="use integers or None.")
    return operator.index(bound)
