"""The template of tiled contractions: a register tile of rows times vectors of columns, fed from packed panels.

Every schedule of this kind is the template at some values of its knobs. A task owns a block of rows and some panels of
columns; it walks the sum block by block, packs what the block needs of both operands, and every tile of rows meets
every panel. The loops are, from the outside: batch, tasks, blocks of the sum, tiles of rows, panels, the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from smelt.graph import Variable, upper
from smelt.kernel import TAILS, Action, Apart, Bind, Matrix, Order, Split, Stage, Unroll, extent
from smelt.schedule.choice import Actions, Knobs
from smelt.schedule.facts import Contraction, loops


@dataclass(frozen=True)
class Tiling(Knobs):
    """The knobs of a tiled contraction. A value that does not fit a region is refused when it is lowered."""

    height: Annotated[int, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 32]  # rows of the register tile
    width: Annotated[int, 1, 2, 3, 4]  # vectors of columns in it: a panel
    lanes: Annotated[int, 1, 2, 4, 8, 16]
    tail: Annotated[str, *TAILS] = "balance"  # of the rows
    row_tiles: Annotated[int, 0, 1, 2, 4, 8, 16, 32, 64] = 0  # tiles of rows that a task has; 0 for all
    panels: Annotated[int, 0, 1, 2, 4, 8, 16, 32, 64, 128] = 0  # that a task has; 0 for one
    depth: Annotated[int, 0, 16, 32, 64, 128, 256, 512, 1024] = 0  # summed elements of a block; 0 for all
    step: Annotated[int, 0, 16] = 0  # of those in registers, as matrix instructions take them
    left: Annotated[str, "", "rows", "columns", "block"] = ""  # how A is packed: for a tile, or all of a block
    right: Annotated[str, "", "rows", "panels", "vectors"] = ""  # how B is packed: vectors one after the other
    unroll: Annotated[int, 1, 2, 4, 8] = 1  # steps of the sum in one turn of its loop
    apart: Annotated[int, 0, 1] = 0  # tiles are finished row by row
    beside: Annotated[int, 0, 2, 4] = 0  # of a second axis of B in the register tile, as the rows of an image are
    columns_first: Annotated[int, 0, 1] = 0  # tasks of one panel follow each other
    shared: Annotated[int, 0, 1] = 0  # B is packed once for all rows: their other axes are loops inside
    instruction: str = ""  # a row of `instructions`
    threads: Annotated[int, 1, 8, 16] = 1  # of a group along each side of the tile: each has its own rows and columns

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.width * self.lanes

    def actions(self, facts: Contraction) -> Actions:
        """The schedule of a contraction."""
        c = facts
        assert c.m is not None
        if self.threads > 1:
            return self._grouped(c, c.m)
        m, n = c.m.name, c.n.name
        tasks = [*([f"{m}.0"] if self.row_tiles else []), f"{n}.0"]
        outer = loops(axis for axis in c.batch if not (self.shared and axis in c.rows))
        grid = (*outer, *(reversed(tasks) if self.columns_first else tasks))
        tiles = f"{m}.{int(self.row_tiles > 0)}"
        more = loops(c.rows) if self.shared else ()
        longest = max(c.summed, key=lambda axis: upper(extent(axis)))
        blocks = (f"{longest.name}.0",) if self.depth else ()
        inner = tuple(f"{axis.name}.{int(axis == longest and self.depth > 0)}" for axis in c.summed)
        order = Order((*grid, *blocks, *more, tiles, *([f"{n}.1"] if self.panels else []), *inner))
        made: list[Action] = [*c.first, *self._cuts(c, c.m, longest), order, Bind(grid)]
        packed_at = (*grid, *blocks)[-1]
        if self.right:
            made.append(Stage(c.b, packed_at, self._right(c)))
        if self.left:
            summed = [axis.name for axis in c.summed]
            layout = (*summed, m) if self.left == "columns" else (m, *summed)
            made.append(Stage(c.a, packed_at if self.left == "block" else tiles, layout))
        if self.unroll > 1:
            made.append(Unroll(inner[-1], self.unroll))
        made += [Apart(m)] if self.apart else []
        made += [Matrix("y", self.instruction)] if self.instruction else []
        return (*made, *c.last)

    def _grouped(self, c: Contraction, m: Variable) -> Actions:
        """A tile of the result for each group; blocks of both operands in memory that it shares."""
        sides, k, outer = ((m, self.height), (c.n, self.width)), c.k.name, loops([*c.batch, m, c.n])
        made: list[Action] = [*c.first]
        made += [Split(axis.name, ((size, "reg"), (self.threads, "thread")), self.tail) for axis, size in sides]
        made += [Split(k, ((self.depth, "loop"),)), Order((*outer, *loops(c.summed), f"{k}.1")), Bind(outer)]
        made += [Stage(c.a, f"{k}.0", (m.name, k))] if self.left else []
        made += [Stage(c.b, f"{k}.0", (k, c.n.name))] if self.right else []
        return tuple(made)

    def _cuts(self, c: Contraction, m: Variable, longest: Variable) -> list[Action]:
        made: list[Action] = []
        if c.beside is not None and self.beside:
            made.append(Split(c.beside.name, ((self.beside, "reg"),), "balance"))
        outer = [(self.row_tiles, "loop")] if self.row_tiles else []
        made.append(Split(m.name, (*outer, (self.height, "reg")), self.tail))
        parts = [(self.panels, "loop")] if self.panels else []
        parts += [(self.width, "reg")] if self.width > 1 or self.panels else []
        parts += [(self.lanes, "lane")] if self.lanes > 1 or self.panels else []
        made += [Split(c.n.name, tuple(parts))] if parts else []
        steps = [(self.depth // max(1, self.step), "loop")] if self.depth else []
        steps += [(self.step, "reg")] if self.step else []
        made += [Split(longest.name, tuple(steps))] if steps else []
        return made

    def _right(self, c: Contraction) -> tuple[str, ...]:
        """How packed columns lie."""
        n, summed = c.n.name, [axis.name for axis in c.summed if axis in c.right.axes]
        if self.right == "rows":
            return (*summed, *([c.beside.name] if c.beside is not None and self.beside else []), n)
        block = self.lanes if self.right == "vectors" else self.panel
        return (f"{n}/{block}", *summed, f"{n}%{block}")
