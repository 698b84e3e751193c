"""Inputs that a graph would rather read otherwise: weights in the panels that their contractions read, and what is
made of weights alone as it is in the end.

What is computed from some inputs alone is the same for as long as these are, and may be kept with them. A plan says how
it would like to have such inputs (`Prepared`). Where the key marks them as steady, it reads them so, as further inputs.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from smelt.compiler.settled import settled
from smelt.compiler.trace import Argument
from smelt.cost import Profile
from smelt.dtypes import int8, uint8
from smelt.graph import Node, Op, build, make, product_of, row_major, shown, topological, with_sources
from smelt.graph.text import print_graph
from smelt.plan import Made, Prepared
from smelt.schedule import Panels, panels_of


class Wish(NamedTuple):
    """A contraction would like the leaf below its source with that number, or what is made of some, in panels."""

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
    given: dict[Prepared, Node] = {}
    others: dict[Prepared, None] = {}

    def read(made: Node) -> Node | None:
        """What is read in the place of a value that is made of steady inputs; else it is asked for."""
        leaves = [leaf for leaf in topological([made]) if leaf.op is Op.LEAF]
        parts = tuple([Made(leaf.attribute.kind, leaf.attribute.number, leaf.dtype) for leaf in leaves])
        wanted = Prepared(parts, print_graph([made]), made.nbytes)
        if not all(leaf.attribute.steady for leaf in leaves if leaf.attribute.kind == "input"):
            others[wanted] = None
            return None
        fresh = Argument("prepared", first + len(given), row_major(made.shape))
        return given.setdefault(wanted, make(Op.LEAF, made.dtype, made.shape, (), fresh))

    made = set(settled(roots, profile))
    given_whole = {node for node in made if read(node) is not None}
    given.clear()  # what is read in panels need not be there otherwise
    new: dict[Node, Node] = {}
    for node in topological(roots, known=given_whole):
        wish = _wish(node, made, profile) if node.op is Op.CONTRACT else None
        packed = None if wish is None else read(_packed(wish.leaf, wish))
        sources: list[Node] = []
        for side, source in enumerate(node.sources):
            if packed is not None and wish is not None and side == wish.side:
                sources.append(build.cast(_seen(packed, wish), source.dtype))
            else:
                sources.append(new.get(source) or read(source) or source)
        new[node] = with_sources(node, tuple(sources))
    return [new.get(root) or read(root) or root for root in roots], Wishes(tuple(given), tuple(others))


def _wish(node: Node, made: Container[Node], profile: Profile) -> Wish | None:
    """What a product of rows with a matrix would like: the matrix is what the columns of the result come from."""
    left, right, out = node.attribute
    side = int(out[-1:] != () and out[-1] in right)
    own, other = (left, right)[side], (left, right)[1 - side]
    source = node.sources[side]
    leaf = source.sources[0] if source.op is Op.CAST and source not in made else source
    summed = set(own) & set(other)
    is_product = len(own) == 2 and len(summed) == 1 and set(out) == {*own, *other} - summed
    is_input = leaf in made or (leaf.op is Op.LEAF and leaf.attribute.kind == "input")
    if not is_product or not is_input or (leaf is not source and not _is_word(node.sources[1 - side])):
        return None
    turned = own[1] in summed
    size, columns = reversed(leaf.shape) if turned else leaf.shape
    panels = panels_of(leaf.dtype, source.dtype, (product_of(node.shape[:-1]), size, columns), profile, turned)
    return None if panels is None else Wish(side, leaf, panels, turned)


def _is_word(factor: Node) -> bool:
    """Whether what meets a matrix of bytes is made of bytes, too, so that words are multiplied."""
    factor = shown(factor, {Op.RESHAPE, Op.PERMUTE})
    return factor.op is Op.CAST and factor.sources[0].dtype in (int8, uint8)


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
