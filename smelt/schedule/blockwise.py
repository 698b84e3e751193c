"""A reduction that is consumed block by block by another one over the same axis: attention (flash attention), products
of scores that are computed in the same kernel (back-to-back contractions), logarithms of sums of exponentials.

A tile of rows meets the common axis block by block. The scores of one block are made by outer products over the
features of each inner contraction, whose other operand lies transposed in local memory. Then the sums take them in:
`online`, rescaled as the maximum grows, where they are weighed by exponentials; else from a small piece of memory.
Blocks that a causal mask rules out are skipped: the last ones where rows are queries, the first where they are keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.cost import Profile
from smelt.graph import Variable, upper
from smelt.kernel import (
    Action,
    Apart,
    Bind,
    Expression,
    Follower,
    Group,
    Online,
    Order,
    Region,
    Skip,
    Split,
    Stage,
    Sub,
    Together,
    extent,
    follows,
    walk,
)
from smelt.schedule.choice import Candidate, formed
from smelt.schedule.facts import loops, sizes
from smelt.schedule.vectors import fitting, vector_lanes

QUERIES = 6  # rows of the tile, at most
FEW_ROWS = 4  # rows below which a tile reads more than it computes
KEY_VECTORS = 4  # vectors of keys in a block
FEWER_KEYS = 1.15  # how much less must be computed with one vector less, since fewer share what is read
ROWS = 192  # queries that are worth transposing the keys for once more
TASKS = 12  # tasks that keep the cores busy
ROWS_TO_ONE = 12  # for each row that is computed twice


class _Roles(NamedTuple):
    q: Variable  # the rows of the tile
    k: Variable  # the axis that is walked block by block
    outer: tuple[Variable, ...]  # other axes that are summed, around that one
    d: Variable | None  # along the rows of the result; none for the logarithm of a sum
    batch: tuple[Variable, ...]
    sums: tuple[Expression, ...]  # over the blocks, one for each output
    scores: tuple[Expression, ...]  # what is computed for a block, those that others are made of first
    along: tuple[Expression, ...]  # the operands of the inner contractions: those that vary along the block
    beside: tuple[Expression, ...]  # the other operands of those, which vary along the rows
    others: tuple[Expression, ...]  # what the scores are multiplied with
    online: bool  # the sums are rescaled as a maximum of the scores grows


def blockwise_schedules(region: Region, profile: Profile) -> Iterator[Candidate]:
    """The best first; none if the region is something else."""
    roles = _found(region)
    if roles is not None:
        form = "attention" if roles.online and roles.sums else "chain"
        yield from formed(form, region, _schedules(region, roles, profile))


def _schedules(region: Region, roles: _Roles, profile: Profile) -> Iterator[tuple[Action, ...]]:
    names = {e: name for name, e in region.named().items()}
    q, k, d = roles.q, roles.k, roles.d
    lanes = vector_lanes(region, profile, roles.k)
    block = fitting(lanes, k)
    keys = key_vectors(k, block)
    width = 1 if d is None else fitting(lanes, d)
    vectors = 1 if d is None else -(-upper(extent(d)) // width)
    rows = cut_rows(q, roles.batch, tile_rows(vectors, profile))
    panel = keys * block
    cut: list[Action] = [*rows.cut]
    cut += [] if d is None else [Split(d.name, ((vectors, "reg"), (width, "lane")))]
    wide = () if d is None else loops([d])
    if roles.online:
        cut.append(Split(k.name, ((keys, "reg"), (block, "lane"))))
        cut += [Sub(names[total], k.name) for total in roles.sums]
        cut += [Order((*rows.loops, *wide)), Online(k.name)]
    else:
        cut.append(Split(k.name, ((panel, "loop"),)))
        cut.append(Order((*rows.loops, *wide, *loops(roles.outer), f"{k.name}.0", f"{k.name}.1")))
        cut += [Stage(names[e], f"{k.name}.0", panel_layout(k.name, [q.name], panel, True)) for e in roles.scores]
    bind: list[Action] = [Bind(rows.grid)] if rows.grid else []
    if len(roles.sums) > 1:
        bind.append(Group(tuple(names[e] for e in roles.sums)))
    bind += [Together()] if len(region.outputs) > 1 else []
    stages = list(_staged(region, roles, rows, names, panel)) if rows.grid else []
    for skip in (*_skips(roles, names), None):
        yield (*cut, *bind, *stages, *([] if skip is None else [skip]))
    yield (*cut, *bind)


def _staged(region: Region, roles: _Roles, rows: Rows, names: dict[Expression, str], panel: int) -> Iterator[Stage]:
    """The operands of the scores, transposed; and once what would be computed or widened in every block."""

    def axes(operand: Expression, *without: Variable) -> list[str]:
        return [axis.name for axis in region.axes if axis in operand.axes and axis not in (*without, *roles.batch)]

    for operand in roles.along:
        yield Stage(names[operand], rows.grid[-1], panel_layout(roles.k.name, axes(operand, roles.k), panel))
    for operand in roles.beside:
        if not _is_at_hand(operand) and roles.q in operand.axes:
            yield Stage(names[operand], rows.loops[-1], (roles.q.name, *axes(operand, roles.q)))
    for operand in roles.others:
        if not _is_at_hand(operand) and roles.d is not None and operand not in roles.along:
            yield Stage(names[operand], rows.grid[-1], (*axes(operand, roles.d), roles.d.name))


def _is_at_hand(e: Expression) -> bool:
    """Whether a value lies in memory as it is needed."""
    return e.op == "load" and not e.arguments and e.attribute.buffer.dtype is e.dtype


# --- how much at a time


def tile_rows(vectors: int, profile: Profile) -> int:
    """Rows of a tile whose results have so many vectors.

    Where results leave registers for few rows only, scores get as many as they can use: that their products read each
    vector more often is worth more than that results stay in registers.
    """
    registers = profile.vector_registers * 3 // 4
    most = max(1, min(QUERIES, registers // KEY_VECTORS))
    return min(most, registers // vectors) if registers // vectors >= min(FEW_ROWS, most) else most


def key_vectors(k: Variable, lanes: int) -> int:
    """Vectors of keys in a block: fewer than there is room for, where the last block would be mostly empty."""
    vectors = -(-upper(extent(k)) // lanes)
    if vectors <= KEY_VECTORS:
        return vectors
    fewer = KEY_VECTORS - 1
    computed, otherwise = (-(-vectors // count) * count for count in (KEY_VECTORS, fewer))
    return fewer if computed > FEWER_KEYS * otherwise else KEY_VECTORS


class Rows(NamedTuple):
    """How the rows of a tile are cut, the loops of the result's batch and rows, and those of them that are tasks."""

    cut: tuple[Action, ...]
    loops: tuple[str, ...]
    grid: tuple[str, ...]


def cut_rows(q: Variable, batch: tuple[Variable, ...], rows: int) -> Rows:
    """Tiles of rows, in blocks that are worth transposing an operand for and are enough to share out."""
    outer, tasks, whole = loops(batch), sizes(batch), extent(q)
    if not isinstance(whole, int):
        return Rows((Split(q.name, ((rows, "reg"),), "unit"),), (*outer, f"{q.name}.0"), outer)
    # Bodies are large: one for all tiles, by a height that leaves no rest, or by computing a few rows twice.
    rows = min(
        (height for height in (rows, rows - 1) if height),
        key=lambda height: -whole % height / max(whole, 1) - height / 50,
    )
    tiles = -(-whole // rows)
    if tasks < TASKS:
        blocks = max(1, tiles // max(1, min(ROWS, -(-whole // TASKS * tasks)) // rows))
        tiles = -(-tiles // blocks)  # blocks of about the same size
    split = Split(q.name, ((tiles, "loop"), (rows, "reg")), "balance")
    cut: tuple[Action, ...] = (split,)
    if 0 < -whole % rows <= whole // ROWS_TO_ONE:
        cut = (replace(split, tail="overlap"), Apart(q.name))
    return Rows(cut, (*outer, f"{q.name}.0", f"{q.name}.1"), (*outer, f"{q.name}.0"))


def panel_layout(k: str, others: Sequence[str], panel: int, outside: bool = False) -> tuple[str, ...]:
    """How a block of the axis lies: in one piece, since rows a page apart would all fall into the same lines of the
    cache; the other axes inside of its blocks, or outside.
    """
    if panel == 1:
        return (*others, k)
    return (*others, f"{k}/{panel}", f"{k}%{panel}") if outside else (f"{k}/{panel}", *others, f"{k}%{panel}")


# --- what a region is


def _found(region: Region) -> _Roles | None:
    """What is consumed block by block: by what follows a maximum of it, or by plain sums of products with it."""
    y = dict(region.roles)["y"]
    led = {e: follower for e in region.order() if (follower := follows(e)) is not None}
    axes = region.parallel_axes(region.outputs[0])
    if y not in led and led:
        return _rows_alone(region, axes, next(iter(led.values())))
    if y.op != "reduce":
        return None
    k = max(y.attribute.axes, key=lambda axis: upper(extent(axis)))
    by = led.get(y)
    if by is not None and by.rest is not None and len(_sums_below([by.x], k)) == 1:
        found = _roles(axes, k, (y,), (by.x,), by.weights, by.rest)
        # Queries and values are read as they are: each once.
        return None if found is None else found._replace(beside=(), others=(), online=True)
    sums = tuple(e for output in region.outputs for e in walk([output.value]) if _is_sum(e, y))
    pairs = [factors for factors in (_factors(e, k) for e in sums) if factors is not None]
    if not len(sums) == len(pairs) == len(region.outputs):
        return None
    every = tuple(e for e in walk([e for e, _ in pairs]) if any(e is scores for scores, _ in pairs))
    found = _roles(axes, k, sums, every, *pairs[0])
    outer = tuple(axis for axis in y.attribute.axes if axis is not k)
    others = tuple(dict.fromkeys(other for _, other in pairs))
    return None if found is None else found._replace(outer=outer, others=others)


def _rows_alone(region: Region, axes: tuple[Variable, ...], follower: Follower) -> _Roles | None:
    """A number or a few for each row of scores: nothing that they are multiplied with."""
    (k,), scores = follower.m.attribute.axes, follower.x
    if len(region.outputs) > 1 or not axes or any(axis not in scores.axes for axis in axes):
        return None
    for q in sorted(axes, key=lambda axis: -upper(extent(axis))):
        operands = _operands((scores,), k, q)
        if operands is not None:
            batch = tuple(axis for axis in axes if axis is not q)
            return _Roles(q, k, (), None, batch, (), (scores,), *operands, (), True)
    return None


def _roles(
    axes: tuple[Variable, ...],
    k: Variable,
    sums: tuple[Expression, ...],
    scores: tuple[Expression, ...],
    weights: Expression,
    values: Expression,
) -> _Roles | None:
    """The axes of a result: rows of what weighs, one axis of what is weighed, and what both share."""
    only = [axis for axis in axes if axis in weights.axes and axis not in values.axes]
    wide = [axis for axis in axes if axis in values.axes and axis not in weights.axes]
    if not only or len(wide) != 1:
        return None
    q = max(only, key=lambda axis: upper(extent(axis)))
    operands = _operands(scores, k, q)
    if operands is None:
        return None
    batch = tuple(axis for axis in axes if axis not in (q, wide[0]))
    return _Roles(q, k, (), wide[0], batch, sums, scores, *operands, (values,), False)


def _is_sum(e: Expression, y: Expression) -> bool:
    """Whether a value is summed as the region's contraction is."""
    return e.op == "reduce" and e.attribute == y.attribute and e.arguments[0].op == "mul"


def _factors(y: Expression, k: Variable) -> tuple[Expression, Expression] | None:
    """The factor of a sum that is made of contractions, and the other one."""
    a, b = y.arguments[0].arguments
    return next(((e, other) for e, other in ((a, b), (b, a)) if _sums_below([e], k)), None)


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
    if not sums or len(along) != len(sums) or any(q in e.axes for e in along):
        return None
    return tuple(dict.fromkeys(along)), tuple(dict.fromkeys(e for e in every if k not in e.axes))


def _skips(roles: _Roles, names: dict[Expression, str]) -> Iterator[Skip]:
    """The conditions of causal masks in the scores."""
    for e in walk(roles.scores):
        if e.op == "where" and e.arguments[0].op in ("le", "lt", "mask") and {roles.q, roles.k} <= e.arguments[0].axes:
            yield Skip(roles.k.name, roles.q.name, names[e.arguments[0]])
