"""What an index selects: keys of any kind, resolved against a tensor as NumPy does.

A key is made of integers, slices, an ellipsis, new axes, and arrays or tensors of integers or booleans. All arrays in
it are broadcast together; their common axes stand where they stood in the key if they stood together there, else in
front. An integer beside arrays counts as one of them. Indices that are known are checked at once; those of tensors when
the result is computed.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from smelt import runtime
from smelt.dtypes import bool_, int64
from smelt.errors import ArgumentError, IndexRangeError, ShapeError, SmeltError, TraceError
from smelt.graph import (
    Index,
    Node,
    Ranges,
    Shape,
    Span,
    as_index,
    broadcast_shapes,
    build,
    marked,
    product_of,
    shape_text,
    upper,
    variable,
)
from smelt.graph.checks import wrapped
from smelt.tensor.handle import Handle, node_of
from smelt.tensor.types import Size

_WHOLE = slice(None)
_RULE = "an index is made of integers, slices, ..., None, and arrays of integers or booleans."
FOUND = "found"  # the dim that stands for how many elements a mask selects
KEPT, DROPPED = -1, -2  # axes that a slice or an integer selects; k >= 0 is the k-th index tensor


class Selection(NamedTuple):
    """Which elements a key names. `target` is the tensor, with the axes that a boolean tensor covers as one."""

    target: Node
    spans: tuple[Span, ...]  # for each axis of the target; whole where an index tensor selects
    kinds: tuple[int, ...]  # for each axis of the target
    indices: tuple[Node, ...]
    checked: bool
    block: Shape  # what the index tensors are broadcast to
    before: int  # axes of the result before the block, new ones aside
    shape: Shape  # of the result
    found: int = 0  # the value of the dim `FOUND` in these shapes; 0 if it is not there

    @property
    def core(self) -> Shape:
        """The shape of the result without new axes."""
        kept = [span.size for span, kind in zip(self.spans, self.kinds, strict=True) if kind == KEPT]
        return (*kept[: self.before], *self.block, *kept[self.before :])

    def axes(self) -> list[int]:
        """Where each axis of the target is found: axis k >= 0 of the core, -1 - k in index tensor k; 0 if dropped."""
        found: list[int] = []
        at = 0
        for kind in self.kinds:
            if kind == KEPT:
                found.append(at if at < self.before else at + len(self.block))
                at += 1
            else:
                found.append(0 if kind == DROPPED else -1 - kind)
        return found

    def spread(self, index: Node) -> Node:
        """An index tensor in the shape of the core."""
        core = self.core
        after = len(core) - self.before - len(self.block)
        lead = len(self.block) - index.rank
        shape = (1,) * (self.before + lead) + index.shape + (1,) * after
        return build.broadcast_to(build.reshape(index, shape), core)


class _Item(NamedTuple):
    """One part of a key: `kind` is new, slice, int, array (a NumPy array), tensor, mask (a bool tensor) or flag."""

    kind: str
    value: Any
    axes: int = 1  # how many axes of the tensor it takes


def select(node: Node, key: Any, name: str = "indexing", *, sized: bool = False) -> Selection:
    """Resolve a key. With `sized`, how many elements a mask selects may be the dim `FOUND` instead of a number."""
    items = [_item(part, name) for part in (key if isinstance(key, tuple) else (key,))]
    advanced = any(item.kind in ("array", "tensor", "mask", "flag") for item in items)
    items = _filled(items, node, name)
    fancy = [at for at, item in enumerate(items) if item.kind in _FANCY] if advanced else []
    together = bool(fancy) and fancy[-1] - fancy[0] == len(fancy) - 1
    spans: list[Span] = []
    kinds: list[int] = []
    sizes: list[Size] = []  # of the target
    indices: list[Node] = []
    shapes: list[Shape] = []  # that are broadcast together
    shape: list[Size] = []
    place = kept_before = 0  # where the block goes
    checked = False
    axis = found = 0
    for at, item in enumerate(items):
        if fancy and at == fancy[0] and together:
            place, kept_before = len(shape), kinds.count(KEPT)
        size = node.shape[axis] if item.axes else 0
        if item.kind == "nothing":
            continue
        if item.kind == "new":
            shape.append(1)
        elif item.kind == "flag":
            shapes.append((int(item.value),))
        elif item.kind == "slice":
            span = _sliced(item.value, size)
            spans.append(span)
            kinds.append(KEPT)
            sizes.append(size)
            shape.append(span.size)
        elif item.kind == "int":
            spans.append(Span(_position(item.value, node, axis, name), 1, 1))
            kinds.append(DROPPED)
            sizes.append(size)
        else:
            for index, length in _indices(item, node, axis, name):
                # What depends on stand-ins is not computed now, so the number has to do.
                if sized and item.kind == "mask" and len(fancy) == 1 and not runtime.is_traced(node):
                    found = upper(index.shape[0])
                    index = build.nonzero(index.sources[0], variable(FOUND, 1, length)) if found else index
                spans.append(Span(0, length, 1))
                kinds.append(len(indices))
                sizes.append(length)
                indices.append(index)
                shapes.append(index.shape)
            checked = checked or item.kind == "tensor"
        axis += item.axes
    block: Shape = ()
    for other in shapes:
        block = broadcast_shapes(block, other, name)
    target = build.reshape(node, tuple(sizes))
    result = (*shape[:place], *block, *shape[place:])
    return Selection(target, tuple(spans), tuple(kinds), tuple(indices), checked, block, kept_before, result, found)


_FANCY = frozenset({"int", "array", "tensor", "mask", "flag"})


def _item(part: Any, name: str) -> _Item:
    if part is None:
        return _Item("new", None, 0)
    if part is Ellipsis:
        return _Item("ellipsis", None, 0)
    if isinstance(part, slice):
        return _Item("slice", part)
    if type(part) is int:
        return _Item("int", part)
    if isinstance(part, bool | np.bool_):
        return _Item("flag", bool(part), 0)
    if isinstance(part, Handle):
        return _tensor(part, name)
    if isinstance(part, list | tuple | np.ndarray) or hasattr(part, "__array__"):
        return _array(part, name)
    if hasattr(part, "__index__"):  # a symbolic size among them
        return _Item("int", part)
    raise ArgumentError(f"{name}: {_described(part)} cannot be used as an index", rule=_RULE)


def _tensor(x: Handle, name: str) -> _Item:
    node = x._node
    if node.dtype is bool_:
        return _Item("mask", node, node.rank) if node.rank else _Item("flag", bool(x), 0)
    if not node.dtype.is_integer:
        raise ArgumentError(f"{name}: a tensor of {node.dtype} cannot be used as an index", rule=_RULE)
    # The value of a single integer is taken where it can be: then it selects like a Python integer.
    is_tensor = node.rank or runtime.is_tracing() or runtime.is_traced(node)
    return _Item("tensor", node) if is_tensor else _Item("int", x)


def _array(part: Any, name: str) -> _Item:
    try:
        array = np.asarray(part) if isinstance(part, np.ndarray) else None
        if array is None and _holds_tensors(part):
            return _Item("tensor", node_of(part, name))
        array = np.asarray(part) if array is None else array
    except ValueError:
        raise ArgumentError(f"{name}: {_described(part)} cannot be used as an index", rule=_RULE) from None
    if array.size == 0 and array.dtype.kind != "b" and not isinstance(part, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        return _Item("array", array, array.ndim) if array.ndim else _Item("flag", bool(array), 0)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"{name}: an array of {array.dtype} cannot be used as an index", rule=_RULE)
    return _Item("array", array) if array.ndim else _Item("int", int(array))


def _holds_tensors(part: Any) -> bool:
    return isinstance(part, list | tuple) and any(isinstance(v, Handle) or _holds_tensors(v) for v in part)


def _filled(items: list[_Item], node: Node, name: str) -> list[_Item]:
    """The items with the ellipsis (or its absence) written out as full slices."""
    ellipses = [at for at, item in enumerate(items) if item.kind == "ellipsis"]
    if len(ellipses) > 1:
        raise ArgumentError(f"{name}: more than one ellipsis (...) in an index")
    used = sum(item.axes for item in items)
    if used > node.rank:
        raise IndexRangeError(f"{name}: {used} indices for shape {shape_text(node.shape)}, which has rank {node.rank}")
    rest = [_Item("slice", _WHOLE)] * (node.rank - used)
    if not ellipses:
        return items + rest
    # An ellipsis separates arrays even where it stands for no axis.
    middle = rest or [_Item("nothing", None, 0)]
    return items[: ellipses[0]] + middle + items[ellipses[0] + 1 :]


def _described(item: Any) -> str:
    return f"{type(item).__name__} {item!r}" if isinstance(item, int | float | str) else f"a {type(item).__name__}"


def _indices(item: _Item, node: Node, axis: int, name: str) -> list[tuple[Node, Size]]:
    """The index tensors of one array, and the sizes of the axes that they select from."""
    if item.kind == "tensor":
        size = node.shape[axis]
        return [(wrapped(item.value, size, Ranges()), size)]
    if item.kind == "mask":
        return [_masked(item.value, node, axis, name)]
    if item.value.dtype.kind == "b":
        _check_mask(item.value.shape, node, axis, name)
        places = np.nonzero(item.value)
        return [(_host(where), node.shape[axis + k]) for k, where in enumerate(places)]
    return [(_known(item.value, node, axis, name), node.shape[axis])]


def _host(array: Any) -> Node:
    return runtime.host_leaf(array, int64)


def _known(array: Any, node: Node, axis: int, name: str) -> Node:
    """Integers that are known: checked, and counted from the front."""
    size = node.shape[axis]
    low = as_index(size).low
    outside = (array < -low) | (array >= low)
    if outside.any():
        raise _out_of_range(int(array[outside].flat[0]), node, axis, name)
    array = array.astype(np.int64)
    return wrapped(_host(array), size, Ranges()) if isinstance(size, Index) else _host(array + size * (array < 0))


def _check_mask(shape: Shape, node: Node, axis: int, name: str) -> None:
    covered = node.shape[axis : axis + len(shape)]
    if tuple(shape) != covered:
        wrong = {k for k, (a, b) in enumerate(zip(shape, covered, strict=True)) if a != b}
        raise ShapeError(
            f"{name}: a mask must have the shape of the axes that it selects from\n"
            + marked((tuple(shape), wrong), " for ", (covered, wrong))
        )


def _masked(mask: Node, node: Node, axis: int, name: str) -> tuple[Node, Size]:
    """The positions of a mask's true elements, over its axes as one. How many there are is computed now."""
    _check_mask(mask.shape, node, axis, name)
    if runtime.is_tracing() or runtime.is_traced(mask):
        raise TraceError(
            f"{name}: how many elements a mask selects is not known while a function is traced",
            hint="Use sm.where, or nonzero with size= for a number of elements that is fixed.",
        )
    size = product_of(mask.shape)
    flat = build.reshape(mask, (size,))
    count = build.reduce("add", build.cast(flat, int64), (0,))
    found = int(runtime.realize([flat, count])[1].attribute.numpy())
    return build.nonzero(flat, found), size


def _out_of_range(number: int, node: Node, axis: int, name: str) -> IndexRangeError:
    size = node.shape[axis]
    low = as_index(size).low
    none = "the axis has no elements." if size == 0 else "the axis may have no elements."
    return IndexRangeError(
        f"{name}: index {number} is out of range for axis {axis}\n" + marked((node.shape, {axis})),
        rule=f"allowed here: {-low} to {low - 1}." if low else none,
        hint="" if isinstance(size, int) else "This must hold for every size: give the Dim a larger lower bound.",
    )


def _position(item: Any, node: Node, axis: int, name: str) -> Size:
    if isinstance(item, Index):
        return _from_front(item, node.shape[axis])  # that it lies inside is checked with the slice
    try:
        number = operator.index(item)
    except SmeltError:  # a traced tensor says itself why it cannot be used
        raise
    except TypeError:
        raise ArgumentError(f"{name}: {_described(item)} is not an integer") from None
    # A symbolic axis surely has the elements below its smallest size, counted from either end.
    low = as_index(node.shape[axis]).low
    if not -low <= number < low:
        raise _out_of_range(number, node, axis, name)
    return number if number >= 0 else node.shape[axis] + number


def _sliced(item: slice, size: Size) -> Span:
    if item is _WHOLE:
        return Span(0, size, 1)
    start, stop, step = (_bound(bound) for bound in (item.start, item.stop, item.step))
    step = 1 if step is None else step
    if step == 0:
        raise ArgumentError("indexing: the step of a slice must not be 0")
    if isinstance(step, Index):
        raise ArgumentError(f"indexing: the step {step} of a slice is symbolic", rule="use an integer.")
    if not any(isinstance(bound, Index) for bound in (size, start, stop)):
        first, last, step = slice(start, stop, step).indices(size)  # type: ignore[arg-type]
        return Span(first, len(range(first, last, step)), step)
    if step < 0:
        first_default, last_default = as_index(size) - 1, as_index(-1)
    else:
        first_default, last_default = as_index(0), as_index(size)
    low = first_default if start is None else _from_front(start, size)
    high = last_default if stop is None else _from_front(stop, size)
    distance = high - low if step > 0 else low - high
    return Span(low, (distance + abs(step) - 1) // abs(step), step)


def _from_front(bound: Size, size: Size) -> Index:
    return as_index(size) + bound if bound < 0 else as_index(bound)


def _bound(bound: Any) -> Size | None:
    if bound is None or isinstance(bound, Index):
        return bound
    if isinstance(bound, bool) or not hasattr(bound, "__index__"):
        raise ArgumentError(f"indexing: {_described(bound)} cannot be part of a slice", rule="use integers or None.")
    return operator.index(bound)
