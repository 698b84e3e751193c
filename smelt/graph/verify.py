"""Checks that nodes are well formed: what every pass may rely on, op by op.

`made` is how builders make nodes: with the setting `verify` on it checks each one. A failed check is a bug in smelt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from smelt.config import settings
from smelt.dtypes import DType, bool_, int64
from smelt.errors import InternalError
from smelt.graph.index import Index, nonnegative, product_of
from smelt.graph.node import Node, Shape, make, topological
from smelt.graph.ops import (
    BINARY,
    CONTROL,
    REDUCTIONS,
    SCANS,
    SCATTERS,
    UNARY,
    Branch,
    Composition,
    Contraction,
    Function,
    Gathering,
    Hosted,
    Loop,
    Op,
    Reduction,
    Scanning,
    Scattering,
    Sorting,
    Span,
    Window,
    kind_letter,
)
from smelt.graph.shapes import dims_of


def made(op: Op, dtype: DType, shape: Shape, sources: tuple[Node, ...] = (), attribute: Any = None) -> Node:
    """`make`, and a check of the node where the setting `verify` asks for it."""
    node = make(op, dtype, shape, sources, attribute)
    if settings().verify:
        verify_node(node)
    return node


def verify_node(node: Node) -> None:
    """Check one node against its sources; raises InternalError."""
    _need(node, isinstance(node.op, Op) and isinstance(node.dtype, DType), "fields have the right types")
    _need(node, type(node.shape) is tuple and type(node.sources) is tuple, "fields have the right types")
    for size in node.shape:
        if type(size) is int:
            _need(node, size >= 0, "sizes are not negative")
        else:
            _need(node, isinstance(size, Index) and bool(size.terms), "sizes are integers or expressions of dims")
            _need(node, nonnegative(size), "sizes are not negative")  # type: ignore[arg-type]
    expected = _SOURCE_COUNTS[node.op]
    _need(node, expected is None or len(node.sources) == expected, f"there are {expected} sources")
    _need(node, node.op not in _NO_ATTRIBUTE or node.attribute is None, "there is no attribute")
    CHECKS[node.op](node)
    if node.leaf is not None:
        leaf = node.leaf
        _need(node, leaf.op is Op.LEAF and leaf.dtype is node.dtype and leaf.shape == node.shape, "the leaf fits")


def verify_graph(roots: Iterable[Node]) -> None:
    """Check every node that computing the roots would visit, and that each name stands for one dim."""
    order = topological(roots)
    for node in order:
        verify_node(node)
        # What stands for several values has a type only so that all nodes have one.
        _need(node, not CONTROL & {x.op for x in node.sources} or node.op is Op.ITEM, "several values are read by ITEM")
    dims_of(order)


def _need(node: Node, condition: bool, rule: str) -> None:
    if not condition:
        sources = ", ".join(repr(source) for source in node.sources[:4])
        raise InternalError(f"{node!r} of {sources or 'nothing'} is malformed; the rule: {rule}")


def _const(node: Node) -> None:
    _need(node, node.shape == (), "a constant is a scalar")
    _need(node, type(node.attribute) is bytes and len(node.attribute) == node.dtype.itemsize, "it has one element")
    _need(node, not node.dtype.is_bool or node.attribute in (b"\0", b"\1"), "a bool is 0 or 1")


def _leaf(node: Node) -> None:
    _need(node, node.attribute is not None, "a leaf has a storage")


def _iota(node: Node) -> None:
    _need(node, node.rank == 1 and not node.dtype.is_bool, "iota is a vector of numbers")


def _same_dtype(node: Node) -> Node:
    x = node.sources[0]
    _need(node, node.dtype is x.dtype, "the dtype stays")
    return x


def _count(shape: Shape) -> object:
    return math.prod(shape) if all(type(s) is int for s in shape) else product_of(shape)


def _reshape(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, node.shape != x.shape and _count(node.shape) == _count(x.shape), "another shape of as many elements")


def _permute(node: Node) -> None:
    x = _same_dtype(node)
    axes = node.attribute
    _need(node, type(axes) is tuple and sorted(axes) == list(range(x.rank)), "the axes are a permutation")
    _need(node, node.shape == tuple(x.shape[axis] for axis in axes), "the shape is permuted")


def _expand(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, node.rank == x.rank, "the rank stays")
    _need(node, all(old in (new, 1) for old, new in zip(x.shape, node.shape, strict=True)), "only axes of size 1 grow")


def _pad(node: Node) -> None:
    x, fill = node.sources
    _need(node, node.dtype is x.dtype is fill.dtype and fill.shape == (), "the fill is a scalar of the same dtype")
    _need(node, type(node.attribute) is tuple and len(node.attribute) == x.rank == node.rank, "widths for each axis")
    for size, old, (before, after) in zip(node.shape, x.shape, node.attribute, strict=True):
        _need(node, _not_negative(before) and _not_negative(after), "widths are not negative")
        _need(node, size == old + before + after, "sizes grow by the widths")


def _slice(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, type(node.attribute) is tuple and len(node.attribute) == x.rank == node.rank, "a span for each axis")
    for size, old, span in zip(node.shape, x.shape, node.attribute, strict=True):
        _need(node, type(span) is Span and span.step != 0 and span.size == size, "spans give the sizes")
        if size == 0:
            continue
        last = span.start + (size - 1) * span.step
        low, high = (span.start, last) if span.step > 0 else (last, span.start)
        _need(node, _not_negative(low) and _not_negative(old - high - 1), "spans lie inside their axes")


def _not_negative(value: Any) -> bool:
    return nonnegative(value) if isinstance(value, Index) else value >= 0


def _concat(node: Node) -> None:
    axis = node.attribute
    _need(node, type(axis) is int and 0 <= axis < node.rank and len(node.sources) > 0, "there is something to join")
    total: Any = 0
    for x in node.sources:
        _need(node, x.dtype is node.dtype and x.rank == node.rank, "dtypes and ranks agree")
        fits = all(a == b for k, (a, b) in enumerate(zip(x.shape, node.shape, strict=True)) if k != axis)
        _need(node, fits, "the other sizes agree")
        total = x.shape[axis] + total
    _need(node, node.shape[axis] == total, "the sizes add up")


def _window(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, type(node.attribute) is Window, "the attribute is a Window")
    axis, size, step, dilation = node.attribute
    _need(node, 0 <= axis < x.rank and min(size, step, dilation) >= 1, "there is an axis to cut, in positive steps")
    others = tuple(s for k, s in enumerate(x.shape) if k != axis)
    _need(node, node.rank == x.rank + 1 and node.shape[-1] == size, "the last axis walks the window")
    _need(node, tuple(s for k, s in enumerate(node.shape[:-1]) if k != axis) == others, "the other axes stay")
    count = node.shape[axis]
    last = (count - 1) * step + (size - 1) * dilation
    _need(node, count == 0 or _not_negative(x.shape[axis] - last - 1), "windows lie inside their axis")


def _elementwise(table: dict[str, Function]) -> Callable[[Node], None]:
    def check(node: Node) -> None:
        x = node.sources[0]
        function = table.get(node.attribute)
        _need(node, function is not None, "the function is known")
        assert function is not None
        _need(node, kind_letter(x.dtype) in function.kinds, "the function takes the dtype")
        _need(node, node.dtype is (bool_ if function.boolean else x.dtype), "the dtype is the function's")
        _need(node, all(s.dtype is x.dtype for s in node.sources), "the sources have one dtype")
        _need(node, all(s.shape == node.shape for s in node.sources), "the shapes are equal")

    return check


def _where(node: Node) -> None:
    condition, a, b = node.sources
    _need(node, condition.dtype is bool_ and a.dtype is b.dtype is node.dtype, "a bool chooses between one dtype")
    _need(node, all(s.shape == node.shape for s in node.sources), "the shapes are equal")


def _cast(node: Node) -> None:
    (x,) = node.sources
    _need(node, x.shape == node.shape and x.dtype is not node.dtype, "only the dtype changes")


def _bitcast(node: Node) -> None:
    _cast(node)
    _need(node, node.sources[0].dtype.bits == node.dtype.bits and not node.dtype.is_bool, "the width stays")


def _reduce(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, type(node.attribute) is Reduction and node.attribute.op in REDUCTIONS, "the reduction is known")
    op, axes = node.attribute
    _need(node, not x.dtype.is_bool or op in ("max", "min"), "bools are not added or multiplied")
    ordered = len(axes) > 0 and list(axes) == sorted(set(axes)) and axes[0] >= 0 and axes[-1] < x.rank
    _need(node, ordered, "axes are distinct and ascending")
    _need(node, node.shape == tuple(s for axis, s in enumerate(x.shape) if axis not in axes), "the axes disappear")


def _scan(node: Node) -> None:
    x = _same_dtype(node)
    _need(node, type(node.attribute) is Scanning and node.attribute.op in SCANS, "the scan is known")
    op, axis = node.attribute
    _need(node, 0 <= axis < x.rank and node.shape == x.shape, "it runs along an axis, and the shape stays")
    _need(node, not x.dtype.is_bool or op in ("max", "min"), "bools are not added or multiplied")
    _need(node, op != "logaddexp" or x.dtype.is_float, "logaddexp is for floats")


def _coordinates(node: Node, axes: tuple[int, ...], x: Node, shape: Shape, indices: tuple[Node, ...]) -> None:
    """What gather and scatter share: each axis of x is an axis of `shape` as long, or an index tensor of that shape."""
    _need(node, all(i.dtype.is_integer and i.shape == shape for i in indices), "indices are integers of that shape")
    _need(node, len(axes) == x.rank, "each axis has a coordinate")
    _need(node, sorted(k for k in axes if k < 0) == list(range(-len(indices), 0)), "each index tensor has an axis")
    kept = [k for k in axes if k >= 0]
    _need(node, len(set(kept)) == len(kept) and all(k < len(shape) for k in kept), "axes are used once")
    fits = all(k < 0 or shape[k] == size for k, size in zip(axes, x.shape, strict=True))
    _need(node, fits, "axes that are not indexed are as long on both sides")


def _gather(node: Node) -> None:
    x, *indices = node.sources
    _need(node, type(node.attribute) is Gathering and node.dtype is x.dtype, "the dtype stays")
    _need(node, len(indices) > 0, "there is an index")
    _coordinates(node, node.attribute.axes, x, node.shape, tuple(indices))
    empty = any(k < 0 and size == 0 for k, size in zip(node.attribute.axes, x.shape, strict=True))
    _need(node, not empty or 0 in node.shape, "there is something to read")


def _scatter(node: Node) -> None:
    target, updates, *indices = node.sources
    _need(node, type(node.attribute) is Scattering and node.attribute.op in SCATTERS, "the scatter is known")
    _need(node, node.dtype is target.dtype is updates.dtype and node.shape == target.shape, "the target's type stays")
    _need(node, not node.dtype.is_bool or node.attribute.op in ("set", "max", "min"), "bools are not added")
    _coordinates(node, node.attribute.axes, target, updates.shape, tuple(indices))


def _sort(node: Node) -> None:
    (x,) = node.sources
    _need(node, type(node.attribute) is Sorting, "the attribute is a Sorting")
    axis, _, indices = node.attribute
    _need(node, node.dtype is (int64 if indices else x.dtype), "values stay, indices are int64")
    _need(node, 0 <= axis < x.rank == node.rank, "there is an axis to sort along")
    fits = all(new == old for k, (new, old) in enumerate(zip(node.shape, x.shape, strict=True)) if k != axis)
    _need(node, fits and _not_negative(x.shape[axis] - node.shape[axis]), "no more are wanted than there are")


def _nonzero(node: Node) -> None:
    (x,) = node.sources
    _need(node, x.rank == 1 and x.dtype is bool_ and node.rank == 1 and node.dtype is int64, "a vector of bools")


def _contract(node: Node) -> None:
    a, b = node.sources
    _need(node, type(node.attribute) is Contraction, "the attribute is a Contraction")
    left, right, out = node.attribute
    _need(node, a.dtype is b.dtype and not a.dtype.is_bool and not node.dtype.is_bool, "numbers of one dtype")
    _need(node, node.dtype.is_float or not a.dtype.is_float, "floats are summed as floats")
    _need(node, len(left) == a.rank and len(right) == b.rank and len(out) == node.rank, "each axis has a label")
    _need(node, all(len(set(labels)) == len(labels) for labels in node.attribute), "labels are distinct")
    sizes = dict(zip(left, a.shape, strict=True))
    _need(node, all(sizes.setdefault(n, s) == s for n, s in zip(right, b.shape, strict=True)), "shared sizes agree")
    _need(node, all(label in sizes for label in out), "labels of the result come from an operand")
    _need(node, node.shape == tuple(sizes[label] for label in out), "the shape follows the labels")
    _need(node, list(sizes) == list(range(len(sizes))), "labels count up in the order in which they appear")


def _composite(node: Node) -> None:
    _need(node, type(node.attribute) is Composition, "the attribute is a Composition")


def _alias(node: Node) -> None:
    x = node.sources[0] if node.sources else None
    _need(node, x is not None and (x.dtype, x.shape) == (node.dtype, node.shape), "it has a source of the same type")


def value_types(attribute: Loop | Branch | Hosted) -> list[tuple[DType, Shape]]:
    """The types of the values of a LOOP, BRANCH or HOST."""
    if isinstance(attribute, Hosted):
        return list(attribute.types)
    if isinstance(attribute, Branch):
        return [(root.dtype, root.shape) for root in attribute.true]
    states, ys = attribute.body[: attribute.states], attribute.body[attribute.states :]
    length: Any = attribute.length
    return [*((x.dtype, x.shape) for x in states), *((y.dtype, (length, *y.shape)) for y in ys)]


def _parameter(node: Node) -> None:
    _need(node, type(node.attribute) is int and node.attribute >= 0, "a parameter has a number")


def _loop(node: Node) -> None:
    _need(node, type(node.attribute) is Loop, "the attribute is a Loop")
    body, test, states, constants, xs, length, reverse = node.attribute
    first = states + constants
    _need(node, 0 <= states <= len(body) and min(constants, xs) >= 0, "its numbers are not negative")
    _need(node, first + xs == len(node.sources), "it has as many sources as it says")
    _need(node, (length is None) != (test is None), "there is a length or a test")
    _need(node, type(reverse) is bool and (length is None or _not_negative(length)), "the length is not negative")
    types = [(x.dtype, x.shape) for x in node.sources[:first]]
    _need(node, types[:states] == [(x.dtype, x.shape) for x in body[:states]], "states keep their types")
    if test is not None:
        _need(node, xs == 0 and len(body) == states, "only a loop of known length has xs and ys")
        _need(node, len(test) == 1 and (test[0].dtype, test[0].shape) == (bool_, ()), "the test is a bool scalar")
        _closed(node, test, types)
    for x in node.sources[first:]:
        _need(node, x.rank > 0 and x.shape[0] == length, "xs have as many slices as there are iterations")
        types.append((x.dtype, x.shape[1:]))
    _closed(node, body, [*types, (int64, ())])
    _need(node, [(node.dtype, node.shape)] == value_types(node.attribute)[:1], "its type is that of the first value")


def _branch(node: Node) -> None:
    _need(node, type(node.attribute) is Branch and len(node.sources) > 0, "the attribute is a Branch")
    predicate, *operands = node.sources
    _need(node, (predicate.dtype, predicate.shape) == (bool_, ()), "the predicate is a bool scalar")
    kinds = [[(root.dtype, root.shape) for root in body] for body in node.attribute]
    _need(node, kinds[0] == kinds[1] and kinds[0][:1] == [(node.dtype, node.shape)], "both bodies give the same types")
    for body in node.attribute:
        _closed(node, body, [(x.dtype, x.shape) for x in operands])


def _host(node: Node) -> None:
    _need(node, type(node.attribute) is Hosted and callable(node.attribute.function), "the attribute is a Hosted")
    _need(node, [(node.dtype, node.shape)] == value_types(node.attribute)[:1], "its type is that of the first value")


def _closed(node: Node, body: Sequence[Node], types: list[tuple[DType, Shape]]) -> None:
    """Bodies are graphs over parameters of these types. (In the compiler, leaves in them are scalars of the call.)"""
    for inner in topological(body):
        verify_node(inner)
        if inner.op is Op.PARAMETER:
            known = inner.attribute < len(types) and types[inner.attribute] == (inner.dtype, inner.shape)
            _need(node, known, "parameters have the types of the sources")


def _item(node: Node) -> None:
    (x,) = node.sources
    _need(node, x.op in CONTROL and type(node.attribute) is int, "it is a value of a loop or branch")
    types = value_types(x.attribute)
    _need(node, 0 <= node.attribute < len(types), "there is such a value")
    _need(node, types[node.attribute] == (node.dtype, node.shape), "it has the type of that value")


# `composites` replaces the entry of COMPOSITE by a check against its registry.
CHECKS: Final[dict[Op, Callable[[Node], None]]] = {
    Op.CONST: _const,
    Op.LEAF: _leaf,
    Op.IOTA: _iota,
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.PAD: _pad,
    Op.SLICE: _slice,
    Op.CONCAT: _concat,
    Op.WINDOW: _window,
    Op.UNARY: _elementwise(UNARY),
    Op.BINARY: _elementwise(BINARY),
    Op.WHERE: _where,
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
    Op.REDUCE: _reduce,
    Op.SCAN: _scan,
    Op.CONTRACT: _contract,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,
    Op.NONZERO: _nonzero,
    Op.COMPOSITE: _composite,
    Op.ALIAS: _alias,
    Op.PARAMETER: _parameter,
    Op.LOOP: _loop,
    Op.BRANCH: _branch,
    Op.HOST: _host,
    Op.ITEM: _item,
}

_SOURCE_COUNTS: Final[dict[Op, int | None]] = {
    Op.CONST: 0,
    Op.LEAF: 0,
    Op.IOTA: 0,
    Op.PAD: 2,
    Op.CONCAT: None,
    Op.BINARY: 2,
    Op.WHERE: 3,
    Op.CONTRACT: 2,
    Op.GATHER: None,
    Op.SCATTER: None,
    Op.PARAMETER: 0,
    Op.ITEM: 1,
    **dict.fromkeys((Op.COMPOSITE, Op.ALIAS, Op.LOOP, Op.BRANCH, Op.HOST), None),
    **dict.fromkeys((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.WINDOW), 1),
    **dict.fromkeys((Op.UNARY, Op.CAST, Op.BITCAST, Op.REDUCE, Op.SCAN, Op.SORT, Op.NONZERO), 1),
}

_NO_ATTRIBUTE: Final = frozenset({Op.IOTA, Op.RESHAPE, Op.EXPAND, Op.WHERE, Op.CAST, Op.BITCAST, Op.NONZERO})
