"""What is made of inputs alone that stay the same: products of weights, their norms, tables of positions.

It need not be computed in every call. Only inputs that a function holds count, by a module or by its closure: what it
is given may be the same in every call of a benchmark, and is still what the function is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt.compiler.planning import form_seconds, moving_seconds
from smelt.compiler.trace import Argument
from smelt.cost import Profile
from smelt.graph import ELEMENTWISE, SOURCES, VIEWS, Node, Op, shown, topological

WORTH: Final = 0.01  # of a program's time, that all of these save at least
LEAST: Final = 5e-7  # seconds that one of them saves: passing it costs some as well
# What changes from call to call, what is no input, and what is made of such inputs.
_MOVES, _NUMBER, _SETTLED = range(3)
_MADE: Final = frozenset({*ELEMENTWISE, *VIEWS, Op.PAD, Op.CONCAT, Op.REDUCE, Op.SCAN, Op.CONTRACT, Op.SORT})
_FUSED: Final = frozenset({*ELEMENTWISE, *VIEWS, *SOURCES, Op.PAD})  # what costs no kernel of its own


def settled(roots: Sequence[Node], profile: Profile) -> list[Node]:
    """The values below a graph to be prepared, each made of held inputs alone; of steady ones, where some are."""
    order = topological(roots)
    known = any(_input(node).steady for node in order)
    states: dict[Node, int] = {}
    found: dict[Node, None] = {}
    for node in order:
        state = states[node] = _state(node, [states[source] for source in node.sources], known)
        if state == _MOVES:
            # What a view shows is kept: the view costs nothing.
            found |= {shown(source): None for source in node.sources if states[source] == _SETTLED}
    candidates = [node for node in found if node.op is not Op.LEAF]
    saved = {node: _saved(node, profile) for node in candidates}
    worth = [node for node in candidates if saved[node] > LEAST]
    least = WORTH * sum(form_seconds(node, profile) for node in order) if worth else 0.0
    return worth if sum(saved[node] for node in worth) > least else []


_NO_INPUT: Final = Argument("", 0)


def _input(node: Node) -> Argument:
    return node.attribute if node.op is Op.LEAF and isinstance(node.attribute, Argument) else _NO_INPUT


def _state(node: Node, below: Sequence[int], known: bool) -> int:
    if not all(isinstance(size, int) for size in node.shape):
        return _MOVES
    if node.op is Op.LEAF:
        one = _input(node)
        stays = one.kind == "input" and one.held and (one.steady or not known) and 0 not in one.strides
        return _SETTLED if stays else _NUMBER if one.kind == "scalar" else _MOVES
    if node.op in SOURCES:
        return _NUMBER
    if node.op not in _MADE or (
        node.op is Op.SLICE and not all(isinstance(span.start, int) for span in node.attribute)
    ):
        return _MOVES
    return _MOVES if _MOVES in below else max(below, default=_MOVES)


def _saved(node: Node, profile: Profile) -> float:
    """How many seconds a call takes less, if a value lies in memory: what others compute by the way, they then read.

    What only becomes larger, as numbers of few bits do, somebody has made small on purpose.
    """
    nodes = topological([node])
    computed = sum(form_seconds(one, profile) for one in nodes)
    if not all(one.op in _FUSED for one in nodes):
        return computed
    before, after = sum(one.nbytes for one in nodes if one.op is Op.LEAF), node.nbytes
    return computed + moving_seconds(before, profile) - moving_seconds(after, profile) if after <= before else 0.0
