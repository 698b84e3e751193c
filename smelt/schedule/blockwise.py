"""The template of reductions that another one over the same axis consumes block by block: attention (flash attention),
products of scores that are computed in the same kernel (back-to-back contractions), logarithms of sums of exponentials.

A tile of rows meets the common axis block by block. The scores of one block are made by outer products over the
features of each inner contraction, whose other operand lies transposed in local memory. Then the sums take them in:
`online`, rescaled as the maximum grows, where they are weighed by exponentials; else from a small piece of memory.
Blocks that a causal mask rules out are skipped: the last ones where rows are queries, the first where they are keys.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from smelt.cost import Profile
from smelt.graph import Variable, upper
from smelt.kernel import (
    TAILS,
    Action,
    Apart,
    Bind,
    Expression,
    Online,
    Order,
    Region,
    Shares,
    Skip,
    Split,
    Stage,
    Together,
    extent,
    follows,
    walk,
)
from smelt.schedule.access import fitting, vector_lanes
from smelt.schedule.choice import Actions, Candidate, Domain, Knobs
from smelt.schedule.facts import loops, sizes

QUERIES = 6  # rows of the tile, at most
FEW_ROWS = 4  # rows below which a tile reads more than it computes
KEY_VECTORS = 4  # vectors of keys in a block
FEWER_KEYS = 3.3  # vectors of a block that would take as long as what a block costs besides: what it reads is shared
# Where results of a tile leave registers, scores may as well: then it is what results take, coming and going.
LONG_BLOCKS = (16, 12, 8, 6, 5, 4, 3)
FEWER_IN_LONG = 0.7
PACKED_ROWS = 8  # for which operands are worth transposing before it is known how far they are read
ROWS = 192  # queries that are worth transposing the keys for once more
MOST_KEY_VECTORS = 8  # of a block with few rows
TASKS = 12  # tasks that keep the cores busy
ROWS_TO_ONE = 12  # for each row that is computed twice


@dataclass(frozen=True)
class Scores:
    """What is consumed block by block in a region, and which axis is what."""

    region: Region
    q: Variable  # the rows of the tile
    k: Variable  # the axis that is walked block by block
    d: Variable | None  # along the rows of the result; none for the logarithm of a sum
    batch: tuple[Variable, ...]
    scores: tuple[Expression, ...]  # what is computed for a block, those that others are made of first
    along: tuple[Expression, ...]  # the operands of the inner contractions: those that vary along the block
    beside: tuple[Expression, ...]  # the other operands of those, which vary along the rows
    online: bool  # the sums are rescaled as a maximum of the scores grows
    sums: tuple[Expression, ...] = ()  # over the blocks, one for each output
    others: tuple[Expression, ...] = ()  # what the scores are multiplied with
    outer: tuple[Variable, ...] = ()  # other axes that are summed, around the blocks

    @functools.cached_property
    def names(self) -> dict[Expression, str]:
        return {e: name for name, e in self.region.named().items()}

    def masks(self) -> Iterator[str]:
        """The conditions of masks in the scores that may rule out whole blocks: causal ones, or by integers of data."""
        for condition in (e.arguments[0] for e in walk(self.scores) if e.op == "where"):
            varies = self.q in condition.axes or any(e.op == "load" for e in walk([condition]))
            if condition.op in ("le", "lt", "mask") and self.k in condition.axes and varies:
                yield self.names[condition]


@dataclass(frozen=True)
class Blocks(Knobs):
    """The knobs of a tile of rows that meets an axis block by block."""

    height: Annotated[int, 1, 2, 3, 4, 5, 6, 8]  # rows of the tile
    width: Annotated[int, 1, 2, 3, 4, 6, 8, 16]  # vectors of a row of the result
    lanes: Annotated[int, 2, 4, 8, 16]
    keys: Annotated[int, 1, 2, 3, 4, 5, 6, 8, 12, 16]  # vectors of scores in a block
    key_lanes: Annotated[int, 2, 4, 8, 16]
    tail: Annotated[str, *TAILS] = "balance"  # of the rows
    row_tiles: Annotated[int, 0, 1, 2, 4, 8, 16, 32, 64] = 0  # tiles of rows that a task has; 0 for all
    apart: Annotated[int, 0, 1] = 0  # tiles are finished row by row
    packed: Annotated[int, 0, 1] = 0  # operands of scores are transposed once per task
    skip: str = ""  # a mask that rules out whole blocks
    shares: Annotated[int, 0, 12, 24, 28] = 0  # registers for sums, where they need more

    def domains(self, facts: Scores) -> dict[str, Domain]:
        """Masks have the names that they have in the region."""
        return super().domains(facts) | {"skip": ("", *facts.masks())}

    def actions(self, facts: Scores) -> Actions:
        """The schedule of what is consumed block by block."""
        names, q, k, d = facts.names, facts.q.name, facts.k.name, () if facts.d is None else (facts.d,)
        grid = (*loops(facts.batch), *([f"{q}.0"] if self.row_tiles else []))
        outside = (*grid, f"{q}.{int(self.row_tiles > 0)}", *loops(d))
        rows = ((self.row_tiles, "loop"), (self.height, "reg"))
        made: list[Action] = [Split(q, rows if self.row_tiles else rows[1:], self.tail)]
        made += [Apart(q)] if self.apart else []
        made += [Split(axis.name, ((self.width, "reg"), (self.lanes, "lane"))) for axis in d]
        if facts.online:
            made += [Split(k, ((self.keys, "reg"), (self.key_lanes, "lane"))), Order(outside), Online(k)]
        else:
            made.append(Split(k, ((self.keys * self.key_lanes, "loop"),)))
            made.append(Order((*outside, *loops(facts.outer), f"{k}.0", f"{k}.1")))
            made += [Stage(names[e], f"{k}.0", (q, *self._block(k))) for e in facts.scores]
        made += [Bind(grid)] if grid else []
        made += [Together()] if len(facts.region.outputs) > 1 else []
        made += self._staged(facts, grid[-1], outside[len(grid)]) if self.packed and grid else []
        made += [Skip(k, q, self.skip)] if self.skip else []
        made += [Shares(self.shares)] if self.shares else []
        return tuple(made)

    def _block(self, k: str, *inside: str) -> tuple[str, ...]:
        """How blocks of the axis lie: in one piece, since rows a page apart would all fall into the same lines of the
        cache, with other axes inside of them.
        """
        size = self.keys * self.key_lanes
        return (f"{k}/{size}", *inside, f"{k}%{size}") if size > 1 else (*inside, k)

    def _staged(self, facts: Scores, task: str, tile: str) -> Iterator[Stage]:
        """The operands of the scores, transposed; and once what would be computed or widened in every block."""
        names, q, k, d = facts.names, facts.q, facts.k, facts.d

        def axes(operand: Expression, without: Variable) -> list[str]:
            there = [axis for axis in facts.region.axes if axis in operand.axes and axis not in facts.batch]
            return [axis.name for axis in there if axis != without]

        for operand in facts.along:
            yield Stage(names[operand], task, self._block(k.name, *axes(operand, k)))
        for operand in facts.beside:
            if not _is_at_hand(operand) and q in operand.axes:
                yield Stage(names[operand], tile, (q.name, *axes(operand, q)))
        for operand in facts.others:
            if not _is_at_hand(operand) and d is not None and operand not in facts.along:
                yield Stage(names[operand], task, (*axes(operand, d), d.name))


def _is_at_hand(e: Expression) -> bool:
    """Whether a value lies in memory as it is needed."""
    return e.op == "load" and not e.arguments and e.attribute.buffer.dtype is e.dtype


# --- how much at a time


def blockwise_schedules(region: Region, profile: Profile) -> Iterator[Candidate]:
    """The best first; none if the region is something else."""
    facts = _found(region)
    if facts is None:
        return
    form = "attention" if facts.online and facts.sums else "chain"
    lanes = vector_lanes(region, profile, facts.k)
    key_lanes = fitting(lanes, facts.k)
    lanes = 1 if facts.d is None else fitting(lanes, facts.d)
    width = 1 if facts.d is None else -(-sizes([facts.d]) // lanes)
    height, registers = _tile_rows(width, profile), profile.vector_registers * 3 // 4
    shares = registers if height * width > registers and facts.sums else 0
    keys = _key_vectors(facts.k, key_lanes, shares > 0, any(facts.masks()))
    tile = Blocks(height, width, lanes, keys, key_lanes, shares=shares)
    blocks = _cut_rows(facts, tile)
    if isinstance(extent(facts.q), int) and sizes([facts.q]) < PACKED_ROWS:
        yield from (Candidate.of(form, facts, replace(blocks, skip=skip)) for skip in facts.masks())
    yield from (Candidate.of(form, facts, replace(blocks, packed=1, skip=skip)) for skip in (*facts.masks(), ""))
    yield Candidate.of(form, facts, blocks)


def further_blocks(facts: Scores, blocks: Blocks, profile: Profile) -> Iterator[Candidate]:
    """Where a search starts as well: so few rows that their results stay in registers, and as many vectors of scores as
    there is room for. From the default that is several steps away.
    """
    registers = profile.vector_registers
    height = max(1, registers // blocks.width)
    if height < blocks.height:
        tiles = blocks.row_tiles and -(-blocks.row_tiles * blocks.height // height)
        keys = min(MOST_KEY_VECTORS, registers // height, -(-sizes([facts.k]) // blocks.key_lanes))
        fewer = replace(blocks, height=height, keys=keys, row_tiles=tiles, tail="shrink", apart=0)
        yield Candidate.of("few rows", facts, fewer)


def _tile_rows(vectors: int, profile: Profile) -> int:
    """Rows of a tile whose results have so many vectors.

    Where results leave registers for few rows only, scores get as many as they can use: that their products read each
    vector more often is worth more than that results stay in registers.
    """
    registers = profile.vector_registers * 3 // 4
    most = max(1, min(QUERIES, registers // KEY_VECTORS))
    return min(most, registers // vectors) if registers // vectors >= min(FEW_ROWS, most) else most


def _key_vectors(k: Variable, lanes: int, leaving: bool, masked: bool) -> int:
    """Vectors of keys in a block: fewer than there is room for, where the last block would be mostly empty. Of masked
    ones half are computed, and half of a block that the mask cuts.
    """
    vectors = -(-sizes([k]) // lanes)
    if vectors <= KEY_VECTORS:
        return vectors
    counts, cost = (LONG_BLOCKS, FEWER_IN_LONG) if leaving else ((KEY_VECTORS, KEY_VECTORS - 1), FEWER_KEYS)
    return min(counts, key=lambda count: (-(-vectors // count) + masked) * (count + cost))


def _cut_rows(facts: Scores, tile: Blocks) -> Blocks:
    """Tiles of rows, in blocks that are worth transposing an operand for and are enough to share out."""
    whole, tasks = extent(facts.q), sizes(facts.batch)
    if not isinstance(whole, int):
        return replace(tile, tail="unit")
    # Bodies are large: one for all tiles, by a height that leaves no rest, or by computing a few rows twice.
    most = min(tile.height, max(1, whole))
    height = min(
        (height for height in (most, most - 1) if height),
        key=lambda height: -whole % height / max(whole, 1) - height / 50,
    )
    tiles = -(-whole // height)
    if tasks < TASKS:
        blocks = max(1, tiles // max(1, min(ROWS, -(-whole // TASKS * tasks)) // height))
        tiles = -(-tiles // blocks)  # blocks of about the same size
    tile = replace(tile, height=height, row_tiles=tiles)
    overlaps = 0 < -whole % height <= whole // ROWS_TO_ONE
    return replace(tile, tail="overlap", apart=1) if overlaps else tile


# --- what a region is


def _found(region: Region) -> Scores | None:
    """What is consumed block by block: by what follows a maximum of it, or by plain sums of products with it."""
    y = dict(region.roles)["y"]
    led = {e: follower for e in region.order() if (follower := follows(e)) is not None}
    if y not in led and led:  # a number or a few for each row of scores: nothing that they are multiplied with
        first = next(iter(led.values()))
        alone = len(region.outputs) == 1 and first.x.axes.issuperset(region.parallel_axes(region.outputs[0]))
        return _placed(region, first.m.attribute.axes[0], (first.x,), first.x, None, True) if alone else None
    if y.op != "reduce":
        return None
    k = max(y.attribute.axes, key=lambda axis: upper(extent(axis)))
    by = led.get(y)
    if by is not None and by.rest is not None and len(_sums_below([by.x], k)) == 1:
        found = _placed(region, k, (by.x,), by.weights, by.rest, True)
        # Queries and values are read as they are: each once.
        return None if found is None else replace(found, sums=(y,), beside=())
    folds = [e for o in region.outputs for e in walk([o.value]) if e.op == "reduce" and e.attribute == y.attribute]
    sums = tuple(e for e in folds if e.arguments[0].op == "mul")
    pairs = [factors for factors in (_factors(e, k) for e in sums) if factors is not None]
    if not len(sums) == len(pairs) == len(region.outputs):
        return None
    scores = tuple(e for e in walk([e for e, _ in pairs]) if any(e is factor for factor, _ in pairs))
    found = _placed(region, k, scores, *pairs[0], False)
    outer = tuple(axis for axis in y.attribute.axes if axis is not k)
    others = tuple(dict.fromkeys(other for _, other in pairs))
    return None if found is None else replace(found, sums=sums, outer=outer, others=others)


def _placed(
    region: Region,
    k: Variable,
    scores: tuple[Expression, ...],
    weights: Expression,
    values: Expression | None,
    online: bool,
) -> Scores | None:
    """The axes of a result: rows of what weighs, one axis of what is weighed, if anything is, and what both share.

    Of two operands of an inner contraction one varies along the block, and that does not have the rows as well.
    """
    axes, weighed = region.parallel_axes(region.outputs[0]), frozenset[Variable]() if values is None else values.axes
    sums = _sums_below(scores, k)
    operands = [e for r in sums for e in r.arguments[0].arguments]
    along = [e for e in operands if k in e.axes]
    beside = tuple(dict.fromkeys(e for e in operands if k not in e.axes))
    rows = [axis for axis in axes if axis in weights.axes - weighed and not any(axis in e.axes for e in along)]
    wide = [axis for axis in axes if axis in weighed - weights.axes]
    if not rows or not sums or len(along) != len(sums) or len(wide) != (values is not None):
        return None
    q, d = max(rows, key=lambda axis: upper(extent(axis))), next(iter(wide), None)
    batch = tuple(axis for axis in axes if axis not in (q, d))
    return Scores(region, q, k, d, batch, scores, tuple(dict.fromkeys(along)), beside, online)


def _factors(y: Expression, k: Variable) -> tuple[Expression, Expression] | None:
    """The factor of a sum that is made of contractions, and the other one."""
    a, b = y.arguments[0].arguments
    return next(((e, other) for e, other in ((a, b), (b, a)) if _sums_below([e], k)), None)


def _sums_below(roots: Sequence[Expression], k: Variable) -> list[Expression]:
    """The contractions that values are made of and that vary along an axis."""
    return [r for r in walk(roots) if r.op == "reduce" and r.arguments[0].op == "mul" and k in r.axes]
