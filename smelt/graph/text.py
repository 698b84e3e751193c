"""Graphs as text: one line per node, sources first; printing and parsing are inverse to each other.

    graph leaves(1) dims(n 1 4096)
    %0 = leaf 0 : float32[4, n]
    %1 = const 0x1.8000000000000p+0 : float32[]
    %2 = reshape %1 : float32[1, 1]
    %3 = expand %2 : float32[4, n]
    %4 = binary add %0 %3 : float32[4, n]
    return %4

The header counts the leaves and gives the bounds of the dims. A value that has been computed is printed as the leaf
where it lies. Floats are hexadecimal and so exact; a NaN is written with its bits. The bodies of a loop or branch
follow its line, indented, with numbers of their own:

    %2 = loop %0 %1 (states 1, constants 1, xs 0, length 10) : float32[4]
      body
        %0 = parameter 0 : float32[4]
        %1 = parameter 1 : float32[4]
        %2 = binary add %0 %1 : float32[4]
        return %2
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from smelt.errors import InternalError
from smelt.graph.closed import bodies_of
from smelt.graph.index import Variable
from smelt.graph.node import Node, constant_value, topological
from smelt.graph.ops import CONTROL, Op
from smelt.graph.shapes import dims_of
from smelt.graph.text_parse import BODY_NAMES, FORMS, NO_FORM, Field, Placeholder, parse_graph

__all__ = ["Placeholder", "parse_graph", "print_graph"]


def print_graph(roots: Iterable[Node]) -> str:
    """The text of the graph below the roots."""
    wanted = list(roots)
    nodes = list(_all_nodes(wanted))
    leaves = {node: at for at, node in enumerate(node for node in nodes if node.op is Op.LEAF)}
    dims = dims_of(nodes)
    header = f"graph leaves({len(leaves)}) dims({', '.join(map(_dim_text, dims.values()))})"
    return "\n".join([header, *_lines(wanted, leaves)]) + "\n"


def _all_nodes(roots: Iterable[Node]) -> Iterator[Node]:
    """The nodes that are printed, once each, with those of bodies."""
    found: dict[Node, None] = {}
    stack = [list(roots)]
    while stack:
        for node in _order(stack.pop()):
            if node not in found:
                found[node] = None
                stack += [list(body) for body in (bodies_of(node) if node.op in CONTROL else ())]
    yield from found


def _order(roots: Iterable[Node]) -> list[Node]:
    wanted = [_standing(root) for root in roots]
    return list(dict.fromkeys(_standing(node) for node in topological(wanted)))


def _lines(roots: Iterable[Node], leaves: dict[Node, int], indent: str = "") -> Iterator[str]:
    wanted = [_standing(root) for root in roots]
    order = _order(wanted)
    number = {node: at for at, node in enumerate(order)}
    for node in order:
        form = FORMS.get(node.op, NO_FORM)
        words = [str(leaves[node])] if node.op is Op.LEAF else _part_texts(node, form.before)
        words = [_const_text(node)] if node.op is Op.CONST else words
        sources = [f"%{number[_standing(source)]}" for source in node.sources]
        parts = [node.op.value, *words, *sources, *_part_texts(node, form.after), ":", _type_text(node)]
        yield f"{indent}%{number[node]} = {' '.join(parts)}"
        if node.op in CONTROL:
            for name, body in zip(BODY_NAMES[node.op], bodies_of(node), strict=False):
                yield f"{indent}  {name}"
                yield from _lines(body, leaves, indent + "    ")
    yield indent + " ".join(["return", *(f"%{number[root]}" for root in wanted)])


def _standing(node: Node) -> Node:
    """The node that is printed for a node: its leaf, once it is computed."""
    return node if node.leaf is None else node.leaf


def _type_text(node: Node) -> str:
    return f"{node.dtype}[{', '.join(map(str, node.shape))}]"


def _dim_text(dim: Variable) -> str:
    if dim.first.value is None or dim.last.value is None:
        raise InternalError(f"the bounds of the dim {dim.name} are not numbers")
    return f"{dim.text} {dim.low} {dim.high}"


def _const_text(node: Node) -> str:
    value = constant_value(node)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return f"nan {int.from_bytes(node.attribute, 'little')}"
    return float(value).hex()


def _part_texts(node: Node, fields: Mapping[str, Field]) -> list[str]:
    return [field.write(getattr(node.attribute, name) if name else node.attribute) for name, field in fields.items()]
