"""Indexing: `x[key]` reads, `x.at[key]` makes changed copies. Keys are resolved in `selection`.

On an axis of symbolic size, a slice must lie inside the axis for every value of the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

from smelt import dtypes, runtime
from smelt.dtypes import bool_, int64
from smelt.errors import ArgumentError, DTypeError
from smelt.graph import Node, Shape, Span, build, kind_letter
from smelt.graph.checks import written
from smelt.names import missing_attribute
from smelt.tensor.handle import Handle, fitted, is_weak, node_of, scalar_node, wrap
from smelt.tensor.index.keys import DROPPED, FOUND, KEPT, Selection, select

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


def index(x: Tensor, key: Any, /) -> Tensor:
    """x[key]."""
    return wrap(read(select(node_of(x, "indexing"), key, sized=True), "indexing"))


def read(selection: Selection, name: str) -> Node:
    """The selected elements. Those of a mask are computed now: one compiled graph serves any number of them."""
    node = _read(selection, name)
    return runtime.realize_sized([node], {FOUND: selection.found})[0] if selection.found else node


def _read(selection: Selection, name: str) -> Node:
    node = build.slice_(selection.target, selection.spans, name=name)
    dropped = [kind == DROPPED for kind in selection.kinds]
    node = build.reshape(node, [size for size, gone in zip(node.shape, dropped, strict=True) if not gone])
    if selection.indices:
        indices = [selection.spread(i) for i in selection.indices]
        axes = [axis for axis, gone in zip(selection.axes(), dropped, strict=True) if not gone]
        node = build.gather(node, indices, axes, selection.core, checked=selection.checked, name=name)
        node = written(node, name)
    elif selection.block:  # a single True or False
        core, at = selection.core, selection.before
        node = build.reshape(node, (*core[:at], *(1 for _ in selection.block), *core[at + len(selection.block) :]))
        node = build.slice_(node, [Span(0, size, 1) for size in core], name=name)
    return build.reshape(node, selection.shape)


class At:
    """`x.at`: index it for the elements to change."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __repr__(self) -> str:
        return f"x.at of {self._tensor!r}"

    def __getitem__(self, key: Any) -> Updates:
        return Updates(self._tensor, key)

    def __setitem__(self, key: Any, values: Any) -> Never:
        raise ArgumentError("item assignment: tensors never change", hint="Write x = x.at[...].set(...).")


class Updates:
    """The elements `x[key]`: each method gives a copy of x in which they are changed.

    Values are broadcast to the shape of `x[key]`. Where a key names an element several times, `set` keeps the last
    value and the others combine all of them.
    """

    __slots__ = ("_key", "_tensor")

    def __init__(self, tensor: Tensor, key: Any) -> None:
        self._tensor, self._key = tensor, key

    if not TYPE_CHECKING:  # a type checker must not take every name for one that is there

        def __getattr__(self, name: str) -> Never:
            raise missing_attribute(self, name, "Updates")

    def __repr__(self) -> str:
        return f"x.at[{self._key!r}] of {self._tensor!r}"

    def get(self) -> Tensor:
        """The elements themselves, as `x[key]`."""
        return index(self._tensor, self._key)

    def set(self, values: Any, /) -> Tensor:
        """The elements replaced by values."""
        return self._changed("set", values)

    def add(self, values: Any, /) -> Tensor:
        """Values added to the elements."""
        return self._changed("add", values)

    def multiply(self, values: Any, /) -> Tensor:
        """The elements multiplied by values."""
        return self._changed("mul", values)

    mul = multiply

    def min(self, values: Any, /) -> Tensor:
        """The smaller of each element and its values."""
        return self._changed("min", values)

    def max(self, values: Any, /) -> Tensor:
        """The larger of each element and its values."""
        return self._changed("max", values)

    def _changed(self, op: str, values: Any) -> Tensor:
        return changed(self._tensor, self._key, op, values, f"at[...].{'multiply' if op == 'mul' else op}")


def changed(x: Tensor, key: Any, op: str, values: Any, name: str) -> Tensor:
    """A copy of x, with values combined into x[key]."""
    node = x._node
    updates = updates_of(values, node, name)
    mask = _leading_mask(key, node)
    if mask is not None and not updates.rank:  # no matter how many elements that are
        updates = build.broadcast_to(updates, node.shape)
        return wrap(build.where(mask, updates if op == "set" else build.binary(op, node, updates), node))
    selection = select(node, key, name)
    updates = build.broadcast_to(updates, selection.shape, name=name)
    return wrap(write(selection, op, updates, name, node.shape))


def _leading_mask(key: Any, node: Node) -> Node | None:
    """A key that is a tensor of booleans for the first axes of a node, repeated along the others."""
    mask = key._node if isinstance(key, Handle) else None
    if mask is None or mask.dtype is not bool_ or not mask.rank or mask.shape != node.shape[: mask.rank]:
        return None
    lead = build.reshape(mask, (*mask.shape, *(1 for _ in node.shape[mask.rank :])))
    return build.broadcast_to(lead, node.shape)


def updates_of(values: Any, node: Node, name: str) -> Node:
    """Values in the dtype of the tensor that they go into, which must be able to hold their kind."""
    if is_weak(values):
        wanted = dtypes.promote_scalar(node.dtype, values)
        found = scalar_node(values, node.dtype, name) if wanted is node.dtype else None
        kind: Any = type(values).__name__
    else:
        found = node_of(values, name)
        kind = found.dtype
        kinds = ["bifc".index(kind_letter(d)) for d in (found.dtype, node.dtype)]
        found = fitted(found, node.dtype, name) if kinds[0] <= kinds[1] else None
    if found is None:
        raise DTypeError(f"{name}: values of {kind} do not go into {node.dtype}", hint="Cast the tensor first.")
    return found


def write(selection: Selection, op: str, updates: Node, name: str, shape: Shape) -> Node:
    """The target with updates, which have the shape of the selection, combined into the selected elements."""
    target, core = selection.target, selection.core
    updates = build.reshape(updates, core)
    if 0 in core and not selection.checked:
        return build.reshape(target, shape)
    if not selection.indices:
        return build.reshape(_write_slices(selection, op, updates), shape)
    indices = [selection.spread(i) for i in selection.indices]
    axes = selection.axes()
    for axis, (kind, span, size) in enumerate(zip(selection.kinds, selection.spans, target.shape, strict=True)):
        if kind >= 0 or (kind == KEPT and span.size == size and span.step == 1):
            continue
        # A slice of the places, not the numbers themselves: one compiled graph serves every start.
        places = build.slice_(build.iota(size, int64), [span])
        lead = [span.size if kind == KEPT and k == axes[axis] else 1 for k in range(len(core))]
        axes[axis] = -1 - len(indices)
        indices.append(build.broadcast_to(build.reshape(places, lead), core))
    node = build.scatter(op, target, updates, indices, axes, checked=selection.checked, name=name)
    return build.reshape(written(node, name), shape)


def _write_slices(selection: Selection, op: str, updates: Node) -> Node:
    """Without index tensors: the updates are spread over the target by padding, which costs no kernel."""
    target, spans = selection.target, selection.spans
    updates = build.reshape(updates, [span.size for span in spans])
    inside = build.const(True, bool_, updates.shape)
    spread = _spread_out(updates, spans, target.shape, build.const(0, target.dtype))
    mask = _spread_out(inside, spans, target.shape, build.const(False, bool_))
    combined = spread if op == "set" else build.binary(op, target, spread)
    return build.where(mask, combined, target)


def _spread_out(x: Node, spans: tuple[Span, ...], shape: Shape, fill: Node) -> Node:
    """The elements of x at the places that slices select in a larger shape, with a fill around and between them."""
    for axis, ((start, count, step), size) in enumerate(zip(spans, shape, strict=True)):
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        if step < 0:
            flips = [Span(0, n, 1) for n in x.shape]
            flips[axis] = Span(count - 1, count, -1)
            x = build.slice_(x, flips)
            start, step = start + step * (count - 1), -step
        reach = (count - 1) * step + 1
        if step > 1:
            nothing = [(0, 0)] * len(before)
            x = build.reshape(x, (*before, count, 1, *after))
            x = build.pad(x, [*nothing, (0, 0), (0, step - 1), *[(0, 0)] * len(after)], fill)
            x = build.reshape(x, (*before, count * step, *after))
            x = build.slice_(x, [Span(0, reach if k == axis else n, 1) for k, n in enumerate(x.shape)])
        room = size - reach
        if not isinstance(start, int) or not isinstance(room, int):
            x = build.pad(x, [(start, room - start) if k == axis else (0, 0) for k in range(x.rank)], fill)
            continue
        # Padded by all the room there is, then cut: one compiled graph serves every start.
        x = build.pad(x, [(room, room) if k == axis else (0, 0) for k in range(x.rank)], fill)
        x = build.slice_(
            x, [Span(room - start, size, 1) if k == axis else Span(0, n, 1) for k, n in enumerate(x.shape)]
        )
    return x
