"""Sums of words inside of other sums: products with matrices whose blocks have scales of their own.

The inner sum, over the few words of a block, is made in registers by dots of bytes; the outer one adds what blocks give
times their scales. Vectors lie along the columns, so that no vector is folded, and each element is added up in the same
order whatever the number of rows is. Few rows share one pass over the matrix; many find its words unpacked in the
second-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from smelt.cost import Profile
from smelt.graph import Variable, upper
from smelt.kernel import Action, Bind, Expression, Order, Region, Split, Stage, Unroll, extent
from smelt.schedule.access import fitting, reductions, stride
from smelt.schedule.choice import Actions, Candidate, Knobs
from smelt.schedule.facts import loops, sizes
from smelt.schedule.words import replaced

MOST_WORDS = 32  # of an inner sum, whose loops are all written out
MIXED = frozenset({"avx512_vnni", "avx_vnni", "avx2"})  # instructions that multiply unsigned by signed bytes
DOTS = MIXED | {"asimddp"}  # instructions for dots of bytes
FEW_ROWS = 8  # that one pass over the matrix serves as it lies
AHEAD = 2048  # bytes early that its planes are asked for


@dataclass(frozen=True)
class ScaledWords:
    """An inner sum of words `y` with the word of the matrix, and the axes: rows, columns, blocks and words."""

    region: Region
    word: str  # the name of the word that columns have
    m: Variable | None
    n: Variable
    others: tuple[Variable, ...]
    blocks: tuple[Variable, ...]
    words: tuple[Variable, ...]


def scaled_words(region: Region) -> ScaledWords | None:
    """What a region is that sums words inside of other sums; None for any other."""
    folds = reductions(region)
    inner = [e for e in folds if e.arguments[0].op in ("dot4_ss", "dot4", "dot4_low")]
    if len(inner) != 1 or len(folds) < 2 or len(region.outputs) > 1:
        return None
    if any(e.op == "const" for e in inner[0].arguments[0].arguments):
        return None  # sums of bytes
    words, (output,) = inner[0].attribute.axes, region.outputs
    blocks = tuple(dict.fromkeys(axis for e in folds if e is not inner[0] for axis in e.attribute.axes))
    axes = region.parallel_axes(output)
    n = next((axis for axis in axes if stride(output, axis) == 1), None)
    holds = [e for e in inner[0].arguments[0].arguments if n in e.axes]
    short = all(isinstance(extent(axis), int) for axis in words) and sizes(words) <= MOST_WORDS
    if n is None or len(holds) != 1 or not short or set(words) & {*blocks, *axes}:
        return None
    rows = [axis for axis in axes if axis not in holds[0].axes]
    m = max(rows, key=lambda axis: upper(extent(axis)), default=None)
    others = tuple(axis for axis in axes if axis not in (m, n))
    names = {e: name for name, e in region.named().items()}
    return ScaledWords(region, names[holds[0]], m, n, others, blocks, words)


def _unsigned(region: Region) -> Region:
    """The region with dots of small unsigned by signed bytes where codes are small: what some processors have."""
    for e in region.order():
        if e.op == "dot4_ss" and _are_small(e.arguments[0]):
            return replace(region, outputs=replaced(region, e, Expression("dot4_low", e.dtype, e.arguments)))
    return region


def _are_small(word: Expression) -> bool:
    """Whether all bytes of a word are known to be below 128."""
    match word.op:
        case "and":
            masks = [e.attribute for e in word.arguments if e.op == "const"]
            return any(mask & 0x80808080 == 0 for mask in masks) or any(map(_are_small, word.arguments))
        case "or":
            return all(map(_are_small, word.arguments))
        case "where":
            return all(map(_are_small, word.arguments[1:]))
        case "shr_bytes":
            return word.arguments[1].op == "const" and word.arguments[1].attribute & 7 > 0
        case "shl":  # of two bits by four, the highest stay clear
            inner, by = word.arguments
            masks = [e.attribute for e in inner.arguments if e.op == "const"] if inner.op == "and" else []
            return by.op == "const" and any(mask << by.attribute & ~0x7F7F7F7F == 0 for mask in masks)
    return False


@dataclass(frozen=True)
class Scaled(Knobs):
    """The knobs of a product with scaled words."""

    height: Annotated[int, 1, 2, 3, 4, 5, 6, 8]  # rows of the register tile
    width: Annotated[int, 1, 2, 3, 4, 8]  # vectors of columns in it
    lanes: Annotated[int, 1, 2, 4, 8, 16]
    panels: Annotated[int, 0, 2, 4, 8, 16] = 0  # tiles of columns that a task has; 0 for one
    staged: Annotated[int, 0, 1] = 0  # words are unpacked once for all rows
    unroll: Annotated[int, 1, 2, 4] = 1  # blocks in one turn of their loop

    def actions(self, facts: ScaledWords) -> Actions:
        n, m = facts.n.name, [] if facts.m is None else [facts.m]
        made: list[Action] = [Split(axis.name, ((self.height, "reg"),), "balance") for axis in m if self.height > 1]
        cuts = ((self.panels, "loop"), (self.width, "reg"), (self.lanes, "lane"))
        made += [Split(n, tuple(cut for cut in cuts if cut[0] > 1))]
        made += [Split(axis.name, ((upper(extent(axis)), "reg"),)) for axis in facts.words]
        outer = (*loops(facts.others), f"{n}.0")
        made += [Order((*outer, *([f"{n}.1"] if self.panels > 1 else []), *loops(m))), Bind(outer)]
        if self.staged:
            order = (*(axis.name for axis in (*facts.blocks, *facts.words)), n)
            made.append(Stage(facts.word, f"{n}.{int(self.panels > 1)}", order))
        made += [Unroll(f"{facts.blocks[-1].name}.0", self.unroll)] if self.unroll > 1 else []
        return tuple(made)


def _knobs(rows: int, lanes: int, profile: Profile) -> Iterator[Scaled]:
    """What is best for so many rows. A tile has two sums for each of its vectors, of which those of floats can wait in
    the first cache. Matrices are read once however small they are, and what else a model has was read in between.
    """
    height, width = (3, 2) if profile.vector_registers < 32 else (4, 4) if profile.multiplies_by_lane else (3, 4)
    if rows > FEW_ROWS:
        yield Scaled(height, width, lanes, staged=1)
    if profile.multiplies_by_lane:
        yield Scaled(min(rows, 4), width, lanes)
    elif rows > 4 and profile.vector_registers == 32:  # one pass over the matrix instead of two
        yield Scaled(min(rows, FEW_ROWS), 1, lanes, ahead=AHEAD, large=1)
    else:
        yield Scaled(min(rows, 4), 2, lanes, ahead=AHEAD, large=1)
    yield Scaled(1, 1, lanes)


def scaled_schedules(region: Region, profile: Profile) -> Iterator[Candidate]:
    """Schedules for a region that sums words inside of other sums, the best first."""
    facts = scaled_words(_unsigned(region) if profile.features & MIXED else region)
    if facts is None or profile.group_threads:
        return
    lanes = fitting(profile.vector_bytes // 4, facts.n)
    rows = 1 if facts.m is None else upper(extent(facts.m))
    if not profile.features & DOTS:  # what is spelled out gains nothing by tiles
        yield Candidate.of("scaled", facts, Scaled(1, 1, lanes))
        return
    for knobs in _knobs(rows, lanes, profile):
        yield Candidate.of("scaled", facts, knobs)
