"""Attention: one loop over the keys that rescales as the maximum grows, so that scores never reach memory.

A tile of queries meets a block of keys: scores by outer products over the features, with the keys transposed once per
task; then their exponentials go through a small piece of memory and weigh the rows of the values. Blocks that a causal
mask rules out are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.cost.profile import Profile
from smelt.graph.index import Variable, upper
from smelt.kernel import Apart, Bind, Online, Order, Region, Skip, Split, Stage, Sub, Together
from smelt.kernel.actions import Action
from smelt.kernel.region import Expression, extent, walk
from smelt.schedule.vectors import fitting, vector_lanes

QUERIES = 6  # rows of the tile, at most
FEW_ROWS = 4  # rows below which a tile reads more than it computes
KEY_VECTORS = 4  # vectors of keys in a block
FEWER_KEYS = 1.15  # how much less must be computed with one vector less, since fewer share what is read
ROWS = 192  # queries that are worth transposing the keys for once more
TASKS = 12  # tasks that keep the cores busy
ROWS_TO_ONE = 12  # for each row that is computed twice


class _Roles(NamedTuple):
    q: Variable
    k: Variable
    d: Variable
    batch: tuple[Variable, ...]
    keys: Expression  # as the scores read them
    scores: Expression  # what the maximum is of


def attention_schedules(region: Region, profile: Profile) -> Iterator[tuple[Action, ...]]:
    """The best first; none if the region is something else."""
    roles = _roles(region)
    if roles is None:
        return
    names = {e: name for name, e in region.named().items()}
    k, d = roles.k.name, roles.d.name
    lanes = vector_lanes(region, profile)
    width = fitting(lanes, roles.d)
    vectors = -(-upper(extent(roles.d)) // width)
    rows = cut_rows(roles.q, roles.batch, tile_rows(vectors, profile))
    block = fitting(lanes, roles.k)
    keys = key_vectors(roles.k, block)
    inner = [axis.name for axis in region.axes if axis in roles.keys.axes and axis not in (roles.k, *roles.batch)]
    cut: list[Action] = [
        *rows.cut,
        Split(d, ((vectors, "reg"), (width, "lane"))),
        Split(k, ((keys, "reg"), (block, "lane"))),
    ]
    parts = [*cut, Sub(names[dict(region.roles)["y"]], k), Order((*rows.loops, f"{d}.0")), Online(k)]
    bind: list[Action] = [Bind(rows.grid)] if rows.grid else []
    bind += [Together()] if len(region.outputs) > 1 else []
    stage = [Stage(names[roles.keys], rows.grid[-1], panel_layout(k, inner, keys * block))] if rows.grid else []
    for skip in (*_skips(roles, names), None):
        skipped = [] if skip is None else [skip]
        yield (*parts, *bind, *stage, *skipped)
    yield (*parts, *bind)


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
    outer = tuple(f"{axis.name}.0" for axis in batch)
    tasks = math.prod(upper(extent(axis)) for axis in batch)
    whole = extent(q)
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


def panel_layout(k: str, inner: Sequence[str], panel: int) -> tuple[str, ...]:
    """How a transposed operand lies: each block of the axis in one piece, since rows a page apart would all fall into
    the same lines of the cache.
    """
    return (f"{k}/{panel}", *inner, f"{k}%{panel}") if panel > 1 else (*inner, k)


def _roles(region: Region) -> _Roles | None:
    y = dict(region.roles).get("y")
    if y is None or y.op != "reduce" or len(y.attribute.axes) != 1 or y.arguments[0].op != "mul":
        return None
    (k,), output = y.attribute.axes, region.outputs[0]
    weights = next((e for e in y.arguments[0].arguments if e.op == "exp" and e.arguments[0].op == "sub"), None)
    if weights is None:
        return None
    scores, maximum = weights.arguments[0].arguments
    if maximum.op != "reduce" or maximum.attribute != ("max", (k,)) or maximum.arguments[0] is not scores:
        return None
    (values,) = (e for e in y.arguments[0].arguments if e is not weights)
    axes = region.parallel_axes(output)
    only = [axis for axis in axes if axis in weights.axes and axis not in values.axes]
    wide = [axis for axis in axes if axis in values.axes and axis not in weights.axes]
    sums = [e for e in walk([scores]) if e.op == "reduce" and e.arguments[0].op == "mul"]
    if not only or len(wide) != 1 or len(sums) != 1:
        return None
    keys = next((e for e in sums[0].arguments[0].arguments if k in e.axes), None)
    q = max(only, key=lambda axis: upper(extent(axis)))
    if keys is None or q in keys.axes:
        return None
    batch = tuple(axis for axis in axes if axis not in (q, wide[0]))
    return _Roles(q, k, wide[0], batch, keys, scores)


def _skips(roles: _Roles, names: dict[Expression, str]) -> Iterator[Skip]:
    """The condition of a causal mask, if the scores have one."""
    if roles.scores.op == "where" and roles.scores.arguments[0].op in ("le", "lt", "mask"):
        yield Skip(roles.k.name, roles.q.name, names[roles.scores.arguments[0]])
