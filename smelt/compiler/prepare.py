"""Inputs that a graph would rather read in another layout: weights in the panels that their contractions read.

What is computed from one input alone is the same for as long as the input is, and may be kept with it. A plan says how
it would like to have such inputs (`Prepared`). Where the key marks them as steady, it reads them so, as further inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt.compiler.trace import Argument
from smelt.cost import Profile
from smelt.graph import Node, Op, build, make, product_of, row_major, topological, with_sources
from smelt.graph.text import print_graph
from smelt.plan import Prepared
from smelt.schedule import Panels, panels_of


class Wish(NamedTuple):
    """A contraction would like the leaf below its source with that number in panels."""

    side: int
    leaf: Node
    panels: Panels
    turned: bool  # the leaf has its columns first


class Wishes(NamedTuple):
    """What a graph would like to have prepared: what it is given, as inputs behind the others, and what it is not."""

    given: tuple[Prepared, ...]
    others: tuple[Prepared, ...]


def prepare(roots: Sequence[Node], first: int, profile: Profile) -> tuple[list[Node], Wishes]:
    """The graph that reads steady inputs as it likes them, by numbers from `first` on."""
    new: dict[Node, Node] = {}
    given: dict[Prepared, Node] = {}
    others: dict[Prepared, None] = {}
    for node in topological(roots):
        sources = [new[source] for source in node.sources]
        wish = _wish(node, profile) if node.op is Op.CONTRACT else None
        if wish is not None:
            packed = _packed(wish.leaf, wish)
            argument: Argument = wish.leaf.attribute
            prepared = Prepared(argument.number, print_graph([packed]))
            if argument.steady:
                fresh = Argument("prepared", first + len(given), row_major(packed.shape))
                leaf = given.setdefault(prepared, make(Op.LEAF, packed.dtype, packed.shape, (), fresh))
                sources[wish.side] = build.cast(_seen(leaf, wish), sources[wish.side].dtype)
            else:
                others[prepared] = None
        new[node] = with_sources(node, tuple(sources))
    return [new[root] for root in roots], Wishes(tuple(given), tuple(others))


def _wish(node: Node, profile: Profile) -> Wish | None:
    """What a product of rows with a matrix would like: the matrix is what the columns of the result come from."""
    left, right, out = node.attribute
    side = int(out[-1:] != () and out[-1] in right)
    own, other = (left, right)[side], (left, right)[1 - side]
    source = node.sources[side]
    leaf = source.sources[0] if source.op is Op.CAST else source
    summed = set(own) & set(other)
    is_product = len(own) == 2 and len(summed) == 1 and set(out) == {*own, *other} - summed
    if not is_product or leaf.op is not Op.LEAF or leaf.attribute.kind != "input":
        return None
    turned = own[1] in summed
    size, columns = reversed(leaf.shape) if turned else leaf.shape
    panels = panels_of(leaf.dtype, source.dtype, (product_of(node.shape[:-1]), size, columns), profile)
    return None if panels is None else Wish(side, leaf, panels, turned)


def _packed(matrix: Node, wish: Wish) -> Node:
    """A matrix in panels."""
    matrix = build.permute(matrix, (1, 0)) if wish.turned else matrix
    size, columns = matrix.shape
    panel, depth = wish.panels
    filled = build.pad(matrix, ((0, 0), (0, -columns % panel)), build.const(0, matrix.dtype))
    parts = build.reshape(filled, (size // depth, depth, -(-columns // panel), panel))
    return build.permute(parts, (2, 0, 3, 1))


def _seen(packed: Node, wish: Wish) -> Node:
    """The matrix that lies in panels."""
    panels, groups, panel, depth = packed.shape
    matrix = build.reshape(build.permute(packed, (1, 3, 0, 2)), (groups * depth, panels * panel))
    columns = wish.leaf.shape[0 if wish.turned else 1]
    matrix = build.slice_(matrix, ((0, groups * depth, 1), (0, columns, 1)))
    return build.permute(matrix, (1, 0)) if wish.turned else matrix
