"""How axes are cut: `split`."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action, Parts
from smelt.kernel.lowering.plan import Plan
from smelt.kernel.segments import Cut, Piece

KINDS = ("loop", "reg", "thread", "lane")
TAILS = ("shrink", "balance", "overlap", "mask", "unit")


@dataclass(frozen=True, slots=True)
class Split(Action):
    """Cut an axis: an outer loop `axis.0`, then these parts (loops, then at most one `reg`, `thread` and `lane`).

    A `thread` part is shared out over the threads of a group. All such parts of a schedule multiply to the size of the
    group; those of later splits are the nearer threads.

    tail says what happens where the parts do not fit: `shrink` (one exact smaller tile), `balance` (tiles that differ
    by at most one register), `overlap` (the last tile begins early enough to be whole; with `apart` only, so that no
    element is finished twice), `mask` (one loop, every access masked), `unit` (one element at a time).
    """

    form = "split {axis:axis} {parts:parts}[ tail {tail:word}]"
    cuts = True
    axis: str
    parts: Parts
    tail: str = "shrink"

    def apply(self, plan: Plan) -> None:
        axis, cuts = plan.axis(self.axis), plan.cuts
        self.refuse(cuts[axis] != Cut(), f"{self.axis} is split already")
        self.refuse(not self.parts, f"{self.axis} needs at least one part")
        del cuts[axis]  # those that are split come last, in the order of the actions
        cuts[axis] = _cut(self.axis, self.parts, self.tail)

    @classmethod
    def settle(cls, plan: Plan) -> None:
        """Give every thread part its place in the group; the last one's threads are neighbors."""
        cls._settle_overlap(plan)
        for axis, cut in reversed(list(plan.cuts.items())):
            if cut.has("thread"):
                plan.cuts[axis] = cut.with_stride(plan.threads)
                plan.threads *= cut.extent("thread")
        plan.lane = max([cut.extent("lane") for cut in plan.cuts.values()], default=1)

    @classmethod
    def _settle_overlap(cls, plan: Plan) -> None:
        overlapping = [axis for axis, cut in plan.cuts.items() if cut.tail == "overlap"]
        if not overlapping:
            return
        others = any(axis != plan.apart for axis in overlapping)
        cls.refuse(others, "tail overlap is for the axis that is apart, or elements would be finished twice")
        reduced = {axis for e in plan.region.order() if e.op == "reduce" for axis in e.attribute.axes}
        added = any(axis in reduced for axis in overlapping)
        cls.refuse(added, "tail overlap is not for an axis that is reduced, or elements would be added twice")
        kept = "out" in plan.keeps.values()
        cls.refuse(kept, "tail overlap would keep a node where elements are finished already")
        blocks = sum(loop.axis == plan.apart for loop in plan.grid) > 1
        cls.refuse(blocks, "tail overlap needs its tiles inside of tasks, if those are blocks of tiles")


def _cut(name: str, parts: Parts, tail: str) -> Cut:
    refuse, kinds = Split.refuse, [kind for _, kind in parts]
    refuse(tail not in TAILS, f"{tail} is not a tail")
    for extent, kind in parts:
        refuse(kind not in KINDS, f"{kind} is not a kind of part")
        refuse(extent < 1, f"{extent} is not an extent")
        odd = extent & (extent - 1) or (kind == "lane" and extent < 2)
        refuse(kind in ("lane", "thread") and odd, f"{extent} {kind}s is not a power of two")
    ordered = kinds == sorted(kinds, key=KINDS.index)
    refuse(not ordered, f"the parts of {name} must be loops, then reg, then thread, then lane")
    tiles = [kind for kind in kinds if kind != "loop"]
    refuse(len(set(tiles)) < len(tiles), f"{name} has two parts of one kind in the tile")
    refuse(tail != "shrink" and not tiles, f"tail {tail} needs a tile")
    refuse(tail == "unit" and {"lane", "thread"} & {*tiles}, "tail unit needs a tile without lanes and threads")
    return Cut(tuple(Piece(kind, extent) for extent, kind in parts), tail)
