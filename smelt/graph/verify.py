"""Checks that nodes are well formed: what every pass may rely on, op by op.

An operation is made again by its builder, which knows its rules, and has to come out as it is. What builders leave to
their callers is checked here. A failed check is a bug in smelt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple

from smelt.dtypes import DType, bool_, int64
from smelt.errors import InternalError, SmeltError
from smelt.graph import build, ops
from smelt.graph.index import Index
from smelt.graph.node import Node, Shape, topological
from smelt.graph.ops import CONTROL, Branch, Hosted, Loop, Op
from smelt.graph.shapes import certain, dims_of


def verify_node(node: Node) -> None:
    """Check one node against its sources; raises InternalError."""
    _need(node, isinstance(node.op, Op) and isinstance(node.dtype, DType), "fields have the right types")
    _need(node, type(node.shape) is tuple and type(node.sources) is tuple, "fields have the right types")
    for size in node.shape:
        symbolic = isinstance(size, Index) and bool(size.terms)
        _need(node, type(size) is int or symbolic, "sizes are integers or expressions of dims")
        _need(node, certain(size), "sizes are not negative")
    form = FORMS[node.op]
    _need(node, form.sources in (None, len(node.sources)), f"there are {form.sources} sources")
    _need(node, form.attribute in (object, type(node.attribute)), f"the attribute is a {form.attribute.__name__}")
    if form.check is not None:
        form.check(node)
    if form.rebuilt is not None:
        _compare(node, form.rebuilt)
    if node.leaf is not None:
        leaf = node.leaf
        _need(node, leaf.op is Op.LEAF and leaf.dtype is node.dtype and leaf.shape == node.shape, "the leaf fits")


def _compare(node: Node, rebuilt: Callable[..., Node]) -> None:
    """Check that a node is what its builder makes of its parts."""
    try:
        new = rebuilt(node, *node.sources)
    except (SmeltError, TypeError, ValueError) as error:
        raise InternalError(f"{_named(node)} is malformed: {error}") from error
    _need(node, (new.dtype, new.shape) == (node.dtype, node.shape), f"its builder gives {new.dtype}{list(new.shape)}")
    same = new.op is node.op and new.sources == node.sources and new.attribute == node.attribute
    _need(node, same or node.op in _MAY_DO_NOTHING, f"its builder gives {_named(new)}")


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
        raise InternalError(f"{_named(node)} is malformed; the rule: {rule}")


def _named(node: Node) -> str:
    return f"{node!r} of {', '.join(repr(source) for source in node.sources[:4]) or 'nothing'}"


def _const(node: Node) -> None:
    _need(node, node.shape == (), "a constant is a scalar")
    _need(node, len(node.attribute) == node.dtype.itemsize, "it has one element")
    _need(node, not node.dtype.is_bool or node.attribute in (b"\0", b"\1"), "a bool is 0 or 1")


def _coordinates(node: Node, axes: tuple[int, ...], x: Node, shape: Shape, indices: tuple[Node, ...]) -> None:
    """What gather and scatter share: each axis of x is an axis of `shape` as long, or an index tensor of that shape."""
    _need(node, all(i.dtype.is_integer and i.shape == shape for i in indices), "indices are integers of that shape")
    _need(node, len(axes) == x.rank, "each axis has a coordinate")
    _need(node, sorted(k for k in axes if k < 0) == list(range(-len(indices), 0)), "each index tensor has an axis")
    kept = [k for k in axes if k >= 0]
    _need(node, len(set(kept)) == len(kept) and all(k < len(shape) for k in kept), "axes are used once")
    fits = all(k < 0 or shape[k] == size for k, size in zip(axes, x.shape, strict=True))
    _need(node, fits, "axes that are not indexed are as long on both sides")


def _slice(node: Node) -> None:
    _need(node, all(type(span) is ops.Span for span in node.attribute), "there is a Span for each axis")


def _gather(node: Node) -> None:
    x, *indices = node.sources
    _need(node, len(indices) > 0, "there is an index")
    _coordinates(node, node.attribute.axes, x, node.shape, tuple(indices))


def _scatter(node: Node) -> None:
    target, updates, *indices = node.sources
    _coordinates(node, node.attribute.axes, target, updates.shape, tuple(indices))


def _sort(node: Node) -> None:
    (x,), axis = node.sources, node.attribute.axis
    _need(node, 0 <= axis < x.rank == node.rank, "there is an axis to sort along")
    _need(node, certain(x.shape[axis] - node.shape[axis]), "no more are wanted than there are")


def _contracted(node: Node, a: Node, b: Node) -> Node:
    return build.contract(a, b, dtype=node.dtype, **node.attribute._asdict())


def _gathered(node: Node, x: Node, *indices: Node) -> Node:
    return build.gather(x, indices, shape=node.shape, **node.attribute._asdict())


def _scattered(node: Node, target: Node, updates: Node, *indices: Node) -> Node:
    return build.scatter(target=target, updates=updates, indices=indices, **node.attribute._asdict())


def _sorted(node: Node, x: Node) -> Node:
    return build.sort(x, count=node.shape[node.attribute.axis], **node.attribute._asdict())


def _composite(node: Node, *sources: Node) -> Node:
    return build.composite(node.attribute.name, *sources, **dict(node.attribute.parameters))


def _vectors(node: Node) -> None:
    _need(node, all(x.rank == 1 for x in (node, *node.sources)), "it is a vector")


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


def parameter_types(node: Node) -> list[tuple[DType, Shape]]:
    """The types of the parameters of a LOOP's body, or of a BRANCH's bodies."""
    types = [(source.dtype, source.shape) for source in node.sources]
    if node.op is Op.BRANCH:
        return types[1:]
    first: int = node.attribute.states + node.attribute.constants
    return [*types[:first], *((dtype, shape[1:]) for dtype, shape in types[first:]), (int64, ())]


def _loop(node: Node) -> None:
    body, test, states, constants, xs, length, reverse = node.attribute
    first = states + constants
    _need(node, 0 <= states <= len(body) and min(constants, xs) >= 0, "its numbers are not negative")
    _need(node, first + xs == len(node.sources), "it has as many sources as it says")
    _need(node, (length is None) != (test is None), "there is a length or a test")
    _need(node, type(reverse) is bool and (length is None or certain(length)), "the length is not negative")
    for x in node.sources[first:]:
        _need(node, x.rank > 0 and x.shape[0] == length, "xs have as many slices as there are iterations")
    types = parameter_types(node)
    _need(node, types[:states] == [(x.dtype, x.shape) for x in body[:states]], "states keep their types")
    _closed(node, body, types)
    if test is not None:
        _need(node, xs == 0 and len(body) == states, "only a loop of known length has xs and ys")
        _need(node, len(test) == 1 and (test[0].dtype, test[0].shape) == (bool_, ()), "the test is a bool scalar")
        _closed(node, test, types[:first])
    _need(node, [(node.dtype, node.shape)] == value_types(node.attribute)[:1], "its type is that of the first value")


def _branch(node: Node) -> None:
    _need(node, len(node.sources) > 0, "there is a predicate")
    predicate = node.sources[0]
    _need(node, (predicate.dtype, predicate.shape) == (bool_, ()), "the predicate is a bool scalar")
    kinds = [[(root.dtype, root.shape) for root in body] for body in node.attribute]
    _need(node, kinds[0] == kinds[1] and kinds[0][:1] == [(node.dtype, node.shape)], "both bodies give the same types")
    for body in node.attribute:
        _closed(node, body, parameter_types(node))


def _host(node: Node) -> None:
    _need(node, callable(node.attribute.function), "there is a function to call")
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
    _need(node, x.op in CONTROL, "it is a value of a loop or branch")
    types = value_types(x.attribute)
    _need(node, 0 <= node.attribute < len(types), "there is such a value")
    _need(node, types[node.attribute] == (node.dtype, node.shape), "it has the type of that value")


class Form(NamedTuple):
    """What holds for all nodes of an op."""

    sources: int | None  # how many there are, where that is always the same
    attribute: type  # `object` for any
    rebuilt: Callable[..., Node] | None = None  # a node and its sources, made again by its builder
    check: Callable[[Node], None] | None = None


FORMS: Final[dict[Op, Form]] = {
    Op.CONST: Form(0, bytes, None, _const),
    Op.LEAF: Form(0, object, None, lambda node: _need(node, node.attribute is not None, "a leaf has a storage")),
    Op.IOTA: Form(0, NoneType, lambda node: build.iota(node.shape[0], node.dtype), _vectors),
    Op.RESHAPE: Form(1, NoneType, lambda node, x: build.reshape(x, node.shape)),
    Op.PERMUTE: Form(1, tuple, lambda node, x: build.permute(x, node.attribute)),
    Op.EXPAND: Form(1, NoneType, lambda node, x: build.expand(x, node.shape)),
    Op.PAD: Form(2, tuple, lambda node, x, fill: build.pad(x, node.attribute, fill)),
    Op.SLICE: Form(1, tuple, lambda node, x: build.slice_(x, node.attribute), _slice),
    Op.CONCAT: Form(None, int, lambda node, *xs: build.concat(xs, node.attribute)),
    Op.WINDOW: Form(1, ops.Window, lambda node, x: build.window(x, *node.attribute)),
    Op.UNARY: Form(1, str, lambda node, x: build.unary(node.attribute, x)),
    Op.BINARY: Form(2, str, lambda node, a, b: build.binary(node.attribute, a, b)),
    Op.WHERE: Form(3, NoneType, lambda node, condition, a, b: build.where(condition, a, b)),
    Op.CAST: Form(1, NoneType, lambda node, x: build.cast(x, node.dtype)),
    Op.BITCAST: Form(1, NoneType, lambda node, x: build.bitcast(x, node.dtype)),
    Op.REDUCE: Form(1, ops.Reduction, lambda node, x: build.reduce(node.attribute.op, x, node.attribute.axes)),
    Op.SCAN: Form(1, ops.Scanning, lambda node, x: build.scan(node.attribute.op, x, node.attribute.axis)),
    Op.CONTRACT: Form(2, ops.Contraction, _contracted),
    Op.GATHER: Form(None, ops.Gathering, _gathered, _gather),
    Op.SCATTER: Form(None, ops.Scattering, _scattered, _scatter),
    Op.SORT: Form(1, ops.Sorting, _sorted, _sort),
    Op.NONZERO: Form(1, NoneType, lambda node, x: build.nonzero(x, node.shape[0]), _vectors),
    Op.COMPOSITE: Form(None, ops.Composition, _composite),
    Op.COMPLEX: Form(2, NoneType, None, lambda node: _need(node, False, "parts are read, not a complex number")),
    Op.ALIAS: Form(None, object, None, _alias),
    Op.PARAMETER: Form(0, int, None, lambda node: _need(node, node.attribute >= 0, "a parameter has a number")),
    Op.LOOP: Form(None, Loop, None, _loop),
    Op.BRANCH: Form(None, Branch, None, _branch),
    Op.HOST: Form(None, Hosted, None, _host),
    Op.ITEM: Form(1, int, None, _item),
}

# Where a symbolic size has become a number, their builders may give the source back, or simplify the attribute.
_MAY_DO_NOTHING: Final = frozenset({Op.EXPAND, Op.PAD, Op.SLICE, Op.SCAN})
