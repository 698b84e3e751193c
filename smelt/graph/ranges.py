"""Between which integers a node's elements lie, as far as its graph shows: for indices, so mostly small arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from smelt.dtypes import DType, bool_
from smelt.graph.index import IndexLike, as_index, least
from smelt.graph.node import Node, constant_value, topological
from smelt.graph.ops import ELEMENTWISE, VIEWS, Op

Range = tuple[int, int]  # the smallest and the largest value, inclusive


class Ranges:
    """Ranges of integer nodes, some of which may be known; what has been found is remembered."""

    def __init__(self, known: Mapping[Node, Range] | None = None) -> None:
        self._known: dict[Node, Range] = dict(known or {})

    def __call__(self, node: Node) -> Range:
        """The range of an integer or bool node; that of its dtype where nothing better is known."""
        for each in topological([node], known=self._known, reads=_consulted):
            self._known[each] = self._find(each)
        return self._known[node]

    def inside(self, index: Node, size: IndexLike) -> bool:
        """Whether all elements of an index are known to lie inside an axis."""
        low, high = self(index)
        return low >= 0 and high < least(size)

    def _find(self, node: Node) -> Range:
        whole = full(node.dtype)
        rule = _RULES.get(node.op)
        if rule is None or node.leaf is not None:
            return whole
        found = rule(node, [self._known[source] for source in _consulted(node)])
        if found is None or found[0] < whole[0] or found[1] > whole[1]:
            return whole  # arithmetic may have wrapped
        return found


def full(dtype: DType) -> Range:
    """All values of a dtype."""
    return (0, 1) if dtype is bool_ else (int(dtype.minimum), int(dtype.maximum))


def _consulted(node: Node) -> tuple[Node, ...]:
    """The sources on which a range depends."""
    if node.leaf is not None or node.op not in _RULES:
        return ()
    sources = node.sources[:1] if node.op in (Op.GATHER, Op.ALIAS) else node.sources
    return sources if all(not source.dtype.is_float for source in sources) else ()


def _union(node: Node, ranges: list[Range]) -> Range | None:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _elementwise(node: Node, ranges: list[Range]) -> Range | None:
    if node.dtype is bool_:
        return 0, 1
    if not ranges or node.op is Op.BITCAST:
        return None
    if node.op is Op.CAST:
        return ranges[0]
    if node.op is Op.WHERE:
        return _union(node, ranges[1:])
    rule = _FUNCTIONS.get(node.attribute)
    return None if rule is None else rule(*ranges)


def _reduced(node: Node, ranges: list[Range]) -> Range | None:
    some = all(as_index(size).low > 0 for size in node.sources[0].shape)
    return _union(node, ranges) if some and node.attribute.op in ("max", "min") else None


def _sorted(node: Node, ranges: list[Range]) -> Range | None:
    return (0, _last(node.sources[0], node.attribute.axis)) if node.attribute.indices else _union(node, ranges)


def _last(node: Node, axis: int) -> int:
    return max(0, as_index(node.shape[axis]).high - 1)


def _constant(node: Node, ranges: list[Range]) -> Range | None:
    value = constant_value(node)
    return None if isinstance(value, float) else (int(value), int(value))


def _modulo(a: Range, b: Range) -> Range | None:
    if b[0] < 1:
        return None
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _quotient(a: Range, b: Range) -> Range | None:
    ends = [x // y for x in a for y in b] if b[0] > 0 else []
    return (min(ends), max(ends)) if ends else None


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


_FUNCTIONS: Final[dict[str, Callable[..., Range | None]]] = {
    "neg": lambda a: (-a[1], -a[0]),
    "abs": lambda a: (max(0, a[0], -a[1]), max(abs(a[0]), abs(a[1]))),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "floordiv": _quotient,
    "mod": _modulo,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "and": lambda a, b: (0, min(a[1], b[1])) if min(a[0], b[0]) >= 0 else None,
    "shr": lambda a, b: (a[0] >> b[1], a[1] >> b[0]) if a[0] >= 0 and b[0] >= 0 and b[1] < 64 else None,
}

_RULES: Final[dict[Op, Callable[[Node, list[Range]], Range | None]]] = {
    Op.CONST: _constant,
    Op.IOTA: lambda node, _: (0, _last(node, 0)),
    Op.PAD: _union,
    Op.CONCAT: _union,
    Op.GATHER: _union,
    Op.ALIAS: _union,
    **dict.fromkeys((Op.REDUCE, Op.SCAN), _reduced),
    Op.SORT: _sorted,
    Op.NONZERO: lambda node, _: (0, as_index(node.sources[0].shape[0]).high),
    **dict.fromkeys(VIEWS, _union),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
}
