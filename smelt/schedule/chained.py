"""Contractions of scores that are computed in the same kernel, and the logarithm of their sums of exponentials.

A tile of rows meets the summed axis block by block, as in attention. The scores of one block are made by outer products
over the features of each inner contraction, whose other operand lies transposed in local memory; then they are staged,
and the sum walks the block with vectors along the result. Blocks that a causal mask rules out are skipped: the last
ones where the rows are queries, the first ones where they are keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from smelt.cost.profile import Profile
from smelt.graph.index import Variable, upper
from smelt.kernel import Bind, Group, Online, Order, Region, Skip, Split, Stage, Together
from smelt.kernel.actions import Action
from smelt.kernel.region import Expression, extent, walk
from smelt.schedule.attention import Rows, cut_rows, key_vectors, panel_layout, tile_rows
from smelt.schedule.vectors import fitting, vector_lanes


class _Roles(NamedTuple):
    q: Variable  # the rows of the tile
    k: Variable  # the axis that is summed block by block
    outer: tuple[Variable, ...]  # other axes that are summed, around that one
    d: Variable | None  # along the rows of the result
    batch: tuple[Variable, ...]
    sums: tuple[Expression, ...]  # over the blocks, one for each output; none for the logarithm of a sum
    scores: tuple[Expression, ...]  # what is computed for a block, those that others are made of first
    operands: tuple[Expression, ...]  # of the inner contractions: those that vary along the block
    beside: tuple[Expression, ...]  # the other operands of those, which vary along the rows
    others: tuple[Expression, ...]  # what the scores are multiplied with


def chain_schedules(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """The best first; none if the region is something else."""
    roles = _contraction_roles(region) or (_log_sum_roles(region) if len(region.outputs) == 1 else None)
    if roles is None:
        return
    names = {e: name for name, e in region.named().items()}
    q, k, d = roles.q, roles.k, roles.d
    lanes = vector_lanes(region, profile)
    block = fitting(lanes, k)
    keys = key_vectors(k, block)
    width = 1 if d is None else fitting(lanes, d)
    vectors = 1 if d is None else -(-upper(extent(d)) // width)
    rows = cut_rows(q, roles.batch, tile_rows(vectors, profile))
    panel = keys * block
    cut: list[Action] = [*rows.cut]
    if d is None:
        cut += [Split(k.name, ((keys, "reg"), (block, "lane"))), Order(rows.loops), Online(k.name)]
    else:
        cut += [Split(d.name, ((vectors, "reg"), (width, "lane"))), Split(k.name, ((panel, "loop"),))]
        outer = [f"{axis.name}.0" for axis in roles.outer]
        cut.append(Order((*rows.loops, f"{d.name}.0", *outer, f"{k.name}.0", f"{k.name}.1")))
        cut += [_staged_scores(roles, names[scores], panel) for scores in roles.scores]
    bind: list[Action] = [Bind(rows.grid)] if rows.grid else []
    if len(roles.sums) > 1:
        bind += [Group(tuple(names[e] for e in roles.sums)), Together()]
    stages = list(_staged_operands(region, roles, rows, names, panel)) if rows.grid else []
    for skip in (*_skips(roles, names), None):
        skipped = [] if skip is None else [skip]
        yield (*cut, *bind, *stages, *skipped)
    yield (*cut, *bind)


def _staged_scores(roles: _Roles, scores: str, panel: int) -> Stage:
    """The scores of a block, with a row of them side by side: all its vectors are made together."""
    k, q = roles.k.name, roles.q.name
    layout = (q, f"{k}/{panel}", f"{k}%{panel}") if panel > 1 else (q, k)
    return Stage(scores, f"{k}.0", layout)


def _staged_operands(
    region: Region, roles: _Roles, rows: Rows, names: dict[Expression, str], panel: int
) -> Iterator[Stage]:
    def axes(operand: Expression, *without: Variable) -> list[str]:
        return [axis.name for axis in region.axes if axis in operand.axes and axis not in (*without, *roles.batch)]

    for operand in roles.operands:
        yield Stage(names[operand], rows.grid[-1], panel_layout(roles.k.name, axes(operand, roles.k), panel))
    # What has to be computed or widened is, once and not in every block.
    for operand in roles.beside:
        if not _is_at_hand(operand) and roles.q in operand.axes:
            yield Stage(names[operand], rows.loops[-1], (roles.q.name, *axes(operand, roles.q)))
    for operand in roles.others:
        if not _is_at_hand(operand) and roles.d is not None and operand not in roles.operands:
            yield Stage(names[operand], rows.grid[-1], (*axes(operand, roles.d), roles.d.name))


def _is_at_hand(e: Expression) -> bool:
    """Whether a value lies in memory as it is needed."""
    return e.op == "load" and not e.arguments and e.attribute.buffer.dtype is e.dtype


def _contraction_roles(region: Region) -> _Roles | None:
    y = dict(region.roles)["y"]
    if y.op != "reduce":
        return None
    k = max(y.attribute.axes, key=lambda axis: upper(extent(axis)))
    sums = tuple(e for output in region.outputs for e in walk([output.value]) if _is_sum(e, y))
    pairs = [factors for factors in (_factors(e, k) for e in sums) if factors is not None]
    if not len(sums) == len(pairs) == len(region.outputs):
        return None
    axes = region.parallel_axes(region.outputs[0])
    scores, others = pairs[0]
    only = [axis for axis in axes if axis in scores.axes and axis not in others.axes]
    wide = [axis for axis in axes if axis in others.axes and axis not in scores.axes]
    if not only or len(wide) != 1:
        return None
    q = max(only, key=lambda axis: upper(extent(axis)))
    every = tuple(e for e in walk([e for e, _ in pairs]) if any(e is scores for scores, _ in pairs))
    operands = _operands(every, k, q)
    if operands is None:
        return None
    batch = tuple(axis for axis in axes if axis not in (q, wide[0]))
    outer = tuple(axis for axis in y.attribute.axes if axis is not k)
    weighed = tuple(dict.fromkeys(other for _, other in pairs))
    return _Roles(q, k, outer, wide[0], batch, sums, every, *operands, weighed)


def _is_sum(e: Expression, y: Expression) -> bool:
    """Whether a value is summed as the region's contraction is."""
    return e.op == "reduce" and e.attribute == y.attribute and e.arguments[0].op == "mul"


def _factors(y: Expression, k: Variable) -> tuple[Expression, Expression] | None:
    """The factor of a sum that is made of contractions, and the other one."""
    a, b = y.arguments[0].arguments
    for scores, other in ((a, b), (b, a)):
        if _sums_below([scores], k):
            return scores, other
    return None


def _log_sum_roles(region: Region) -> _Roles | None:
    maxima = [e for e in region.order() if e.op == "reduce" and e.attribute.op == "max"]
    if len(maxima) != 1 or len(maxima[0].attribute.axes) != 1:
        return None
    (k,), (scores,), output = maxima[0].attribute.axes, maxima[0].arguments, region.outputs[0]
    axes = region.parallel_axes(output)
    if not _sums_below([scores], k) or not axes or any(axis not in scores.axes for axis in axes):
        return None
    for q in sorted(axes, key=lambda axis: -upper(extent(axis))):
        operands = _operands((scores,), k, q)
        if operands is not None:
            batch = tuple(axis for axis in axes if axis is not q)
            return _Roles(q, k, (), None, batch, (), (scores,), *operands, ())
    return None


def _sums_below(roots: Sequence[Expression], k: Variable) -> list[Expression]:
    """The contractions that values are made of and that vary along an axis."""
    return [r for r in walk(roots) if r.op == "reduce" and r.arguments[0].op == "mul" and k in r.axes]


def _operands(
    scores: Sequence[Expression], k: Variable, q: Variable
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]] | None:
    """The operands of the inner contractions: those that vary along the block, and the others; None if one has the
    rows as well.
    """
    sums = _sums_below(scores, k)
    every = [e for r in sums for e in r.arguments[0].arguments]
    along = [e for e in every if k in e.axes]
    if len(along) != len(sums) or any(q in e.axes for e in along):
        return None
    return tuple(dict.fromkeys(along)), tuple(dict.fromkeys(e for e in every if k not in e.axes))


def _skips(roles: _Roles, names: dict[Expression, str]) -> Iterator[Skip]:
    """The conditions of causal masks in the scores."""
    for e in walk(roles.scores):
        if e.op == "where" and e.arguments[0].op in ("le", "lt", "mask") and {roles.q, roles.k} <= e.arguments[0].axes:
            yield Skip(roles.k.name, roles.q.name, names[e.arguments[0]])
