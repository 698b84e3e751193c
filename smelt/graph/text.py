"""Graphs as text: one line per node, sources first; printing and parsing are inverse to each other.

    graph leaves(1) dims(n 1 4096)
    %0 = leaf 0 : float32[4, n]
    %1 = const 0x1.8000000000000p+0 : float32[]
    %2 = reshape %1 : float32[1, 1]
    %3 = expand %2 : float32[4, n]
    %4 = binary add %0 %3 : float32[4, n]
    return %4

The header counts the leaves and gives the bounds of the dims. A value that has been computed is printed as the leaf
where it lies. Floats are hexadecimal and so exact; a NaN is written with its bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Final

from smelt.errors import InternalError
from smelt.graph.index import Variable
from smelt.graph.node import Node, constant_value, topological
from smelt.graph.ops import Op
from smelt.graph.shapes import dims_of
from smelt.graph.text_parse import Placeholder, parse_graph

__all__ = ["Placeholder", "parse_graph", "print_graph"]


def print_graph(roots: Iterable[Node]) -> str:
    """The text of the graph below the roots."""
    wanted = [_standing(root) for root in roots]
    order = list(dict.fromkeys(_standing(node) for node in topological(wanted)))
    dims = dims_of(order)
    leaves = {node: at for at, node in enumerate(node for node in order if node.op is Op.LEAF)}
    number = {node: at for at, node in enumerate(order)}
    lines = [f"graph leaves({len(leaves)}) dims({', '.join(map(_dim_text, dims.values()))})"]
    for node in order:
        word, rest = (f"{leaves[node]}", "") if node.op is Op.LEAF else _WRITERS[node.op](node)
        sources = [f"%{number[_standing(source)]}" for source in node.sources]
        parts = [f"%{number[node]} =", node.op.value, word, *sources, rest, ":", _type_text(node)]
        lines.append(" ".join(part for part in parts if part))
    lines.append(" ".join(["return", *(f"%{number[root]}" for root in wanted)]))
    return "\n".join(lines) + "\n"


def _standing(node: Node) -> Node:
    """The node that is printed for a node: its leaf, once it is computed."""
    return node if node.leaf is None else node.leaf


def _type_text(node: Node) -> str:
    return f"{node.dtype}[{', '.join(map(str, node.shape))}]"


def _dim_text(dim: Variable) -> str:
    if dim.first.value is None or dim.last.value is None:
        raise InternalError(f"the bounds of the dim {dim.name} are not numbers")
    return f"{dim.text} {dim.low} {dim.high}"


def _tuple_text(values: Iterable[object]) -> str:
    return f"({', '.join(map(str, values))})"


def _const_text(node: Node) -> str:
    value = constant_value(node)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return f"nan {int.from_bytes(node.attribute, 'little')}"
    return float(value).hex()


def _parameter_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    raise InternalError(f"a parameter has no text form: {value!r}")


def _composite_text(node: Node) -> tuple[str, str]:
    name, parameters = node.attribute
    return name, "{" + ", ".join(f"{key}={_parameter_text(value)}" for key, value in parameters) + "}"


def _checked_text(node: Node) -> str:
    return "checked" if node.attribute.checked else "clamped"


def _sort_text(node: Node) -> str:
    order = "descending" if node.attribute.descending else "ascending"
    return f"{order} {'indices' if node.attribute.indices else 'values'}"


# The word before the sources and the text after them.
_WRITERS: Final[dict[Op, Callable[[Node], tuple[str, str]]]] = {
    Op.CONST: lambda node: (_const_text(node), ""),
    Op.IOTA: lambda node: ("", ""),
    Op.RESHAPE: lambda node: ("", ""),
    Op.PERMUTE: lambda node: ("", _tuple_text(node.attribute)),
    Op.EXPAND: lambda node: ("", ""),
    Op.PAD: lambda node: ("", _tuple_text(f"{before}:{after}" for before, after in node.attribute)),
    Op.SLICE: lambda node: ("", _tuple_text(f"{start}:{size}:{step}" for start, size, step in node.attribute)),
    Op.CONCAT: lambda node: ("", _tuple_text([node.attribute])),
    Op.WINDOW: lambda node: ("", _tuple_text(node.attribute)),
    Op.UNARY: lambda node: (node.attribute, ""),
    Op.BINARY: lambda node: (node.attribute, ""),
    Op.WHERE: lambda node: ("", ""),
    Op.CAST: lambda node: ("", ""),
    Op.BITCAST: lambda node: ("", ""),
    Op.REDUCE: lambda node: (node.attribute.op, _tuple_text(node.attribute.axes)),
    Op.SCAN: lambda node: (node.attribute.op, _tuple_text([node.attribute.axis])),
    Op.CONTRACT: lambda node: ("", " ".join(map(_tuple_text, node.attribute))),
    Op.GATHER: lambda node: (_checked_text(node), _tuple_text(node.attribute.axes)),
    Op.SCATTER: lambda node: (f"{node.attribute.op} {_checked_text(node)}", _tuple_text(node.attribute.axes)),
    Op.SORT: lambda node: (_sort_text(node), _tuple_text([node.attribute.axis])),
    Op.NONZERO: lambda node: ("", ""),
    Op.COMPOSITE: _composite_text,
    Op.ALIAS: lambda node: ("", ""),  # only to look at: what it means cannot be written down
}
