"""The template of plain loop nests: elementwise kernels, reductions of rows and of columns, scans, products with few
rows; by one thread with vectors, or by the threads of a group.

Every schedule of these kinds is the template at some values of its knobs. The loops are, from the outside: axes that
all reductions have (their first loops are the tasks), other axes of the result, and the folded axis: one that is
scanned, or reduced a few elements at a time while blocks of a page wait their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from smelt.graph import Variable
from smelt.kernel import Action, Bind, Keep, Matrix, Online, Order, Region, Split, Stream, Unroll
from smelt.schedule.access import reductions, shared_values
from smelt.schedule.choice import Actions, Domain, Knobs
from smelt.schedule.facts import loops


@dataclass(frozen=True)
class Axes:
    """The axes of a region by what a nest does with them."""

    region: Region
    rows: tuple[Variable, ...]  # of the result; every reduction has them, so that their loops may be tasks
    others: tuple[Variable, ...] = ()  # of the result
    folded: Variable | None = None  # that is reduced a few elements at a time, or scanned
    scanned: tuple[Variable, ...] = ()
    first: Actions = ()  # actions that every schedule begins with


@dataclass(frozen=True)
class Nest(Knobs):
    """The knobs of a loop nest."""

    vector: str = ""  # the axis that lanes or threads lie along
    lanes: Annotated[int, 1, 2, 4, 8, 16] = 1
    threads: Annotated[int, 1, 16, 32, 64, 128, 256] = 1  # of a group
    registers: Annotated[int, 1, 2, 4, 8, 16] = 1  # vectors side by side
    across: str = ""  # the axis that those lie along, if another one
    side: str = ""  # an axis with registers of its own
    height: Annotated[int, 1, 2, 3, 4] = 1  # and how many
    tail: Annotated[str, "shrink", "balance", "overlap", "mask"] = "shrink"  # of the vectors
    blocks: Annotated[int, 0, 2, 4, 8, 16, 32, 64] = 0  # of such vectors that a task walks in turn; 0 for none
    turns: Annotated[int, 0, 4, 8, 16] = 0  # elements of the folded axis that are taken at a time; 0 for all
    unroll: Annotated[int, 1, 2, 4, 8] = 1  # of those in one turn of their loop
    inner: str = ""  # the axis whose loop is the innermost, in place of the vector's
    tasks: int = 0  # loops that are tasks, of the outermost
    online: str = ""  # axes whose reductions are made in one loop, rescaled as a maximum grows
    keep: str = ""  # a value that a later phase needs, and where it waits
    stream: Annotated[int, 0, 1] = 0  # results go past the caches
    instruction: str = ""  # a row of `instructions`

    def domains(self, facts: Axes) -> dict[str, Domain]:
        """Axes and values have the names that they have in the region."""
        names = [axis.name for axis in facts.region.axes]
        free = [axis.name for axis in (*facts.rows, *facts.others)]
        kept = [f"{name} {place}" for name in shared_values(facts.region) for place in ("out", "local")]
        folded = dict.fromkeys(axis.name for e in reductions(facts.region) for axis in e.attribute.axes)
        own = {"online": folded, "vector": names, "across": free, "side": free, "inner": free, "keep": kept}
        found = {name: ("", *words) for name, words in own.items()}
        return super().domains(facts) | found | {"tasks": tuple(range(len(free) + 1))}

    def actions(self, facts: Axes) -> Actions:
        """The schedule of a region with these axes. A knob about an axis that is not there says nothing."""
        folded = "" if facts.folded is None else facts.folded.name
        turns, blocks = (self.turns if folded else 0), (self.blocks if self.vector else 0)
        order = self._order(facts, turns, blocks)
        made: list[Action] = [*facts.first, *self._cuts(blocks)]
        made += [Split(folded, ((turns, "loop"),))] if turns else []
        made += [Order(order)] if order else []
        made += [Bind(order[: self.tasks])] if self.tasks else []
        made += [Unroll(f"{folded}.{int(turns > 0)}", self.unroll)] if folded and self.unroll > 1 else []
        made += [Online(axis) for axis in self.online.split()]
        made += [Keep(*self.keep.split())] if self.keep else []
        made += [Stream()] if self.stream else []
        made += [Matrix("y", self.instruction)] if self.instruction else []
        return tuple(made)

    def _cuts(self, blocks: int) -> Iterator[Split]:
        registers, loops = [(self.registers, "reg")], [(blocks, "loop")] if blocks else []
        wide = [(self.threads, "thread"), (self.lanes, "lane")]
        cuts = [(self.side, [(self.height, "reg")]), (self.across, registers)]
        cuts.append((self.vector, [*([] if self.across else registers), *wide]))
        for axis, parts in cuts:
            own = (*(loops if axis == self.vector else ()), *(part for part in parts if part[0] > 1))
            if axis and own:
                yield Split(axis, own, self.tail if axis == self.vector else "shrink")

    def _order(self, facts: Axes, turns: int, blocks: int) -> tuple[str, ...]:
        # Neighboring vectors are walked one after the other; what threads take side by side needs no order.
        last = ("",) if self.threads > 1 else ("", self.vector, self.inner)
        rows = sorted(facts.rows, key=lambda axis: last.index(axis.name) if axis.name in last else 0)
        folded = facts.scanned or (() if facts.folded is None or not turns else (facts.folded,))
        inside = [f"{self.vector}.1"] if blocks else []
        inside += [f"{folded[0].name}.1"] if turns else []
        return (*loops([*rows, *facts.others]), *loops(folded), *inside)
