"""How axes are cut: `split` for all loops over an axis, `sub` for those of one reduction."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.kernel.actions.action import Action, Parts
from smelt.kernel.lowering.plan import Illegal, Planner
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

    def apply(self, planner: Planner) -> None:
        axis, cuts = planner.axis(self.axis), planner.plan.cuts
        if cuts[axis] != Cut():
            raise Illegal(f"split: {self.axis} is split already")
        if not self.parts:
            raise Illegal(f"split: {self.axis} needs at least one part")
        del cuts[axis]  # those that are split come last, in the order of the actions
        cuts[axis] = _cut(self.axis, self.parts, self.tail)

    @classmethod
    def settle(cls, planner: Planner) -> None:
        """Give every thread part its place in the group; the last one's threads are neighbors."""
        plan = planner.plan
        for axis, cut in reversed(list(plan.cuts.items())):
            if cut.has("thread"):
                plan.cuts[axis] = cut.with_stride(plan.threads)
                plan.threads *= cut.extent("thread")
        plan.lane = max([cut.extent("lane") for cut in (*plan.cuts.values(), *plan.subs.values())], default=1)


@dataclass(frozen=True, slots=True)
class Sub(Action):
    """One reduction cuts an axis its own way. Inside an `online` loop it walks each block once more."""

    form = "sub {reduction:name} {axis:axis} {parts:parts}"
    cuts = True
    reduction: str
    axis: str
    parts: Parts = ()

    def apply(self, planner: Planner) -> None:
        axis, node = planner.axis(self.axis), planner.node(self.reduction)
        if node.op != "reduce" or axis not in node.attribute.axes:
            raise Illegal(f"sub: {self.reduction} is not a reduction over {self.axis}")
        if (node, axis) in planner.plan.subs:
            raise Illegal(f"sub: {self.reduction} cuts {self.axis} already")
        planner.plan.subs[node, axis] = _cut(self.axis, self.parts, "shrink")

    @classmethod
    def settle(cls, planner: Planner) -> None:
        if any(cut.has("thread") for cut in planner.plan.subs.values()):
            raise Illegal("sub: a reduction of its own cut has no threads")


def _cut(name: str, parts: Parts, tail: str) -> Cut:
    kinds = [kind for _, kind in parts]
    if tail not in TAILS:
        raise Illegal(f"split: {tail} is not a tail")
    for extent, kind in parts:
        if kind not in KINDS:
            raise Illegal(f"split: {kind} is not a kind of part")
        if extent < 1:
            raise Illegal(f"split: {extent} is not an extent")
        if kind == "lane" and (extent < 2 or extent & (extent - 1)):
            raise Illegal(f"split: {extent} lanes is not a power of two")
        if kind == "thread" and extent & (extent - 1):
            raise Illegal(f"split: {extent} threads is not a power of two")
    if kinds != sorted(kinds, key=KINDS.index):
        raise Illegal(f"split: the parts of {name} must be loops, then reg, then thread, then lane")
    if any(kinds.count(kind) > 1 for kind in KINDS if kind != "loop"):
        raise Illegal(f"split: {name} has two parts of one kind in the tile")
    tiles = {kind for kind in kinds if kind != "loop"}
    if tail != "shrink" and not tiles:
        raise Illegal(f"split: tail {tail} needs a tile")
    if tail == "unit" and {"lane", "thread"} & tiles:
        raise Illegal("split: tail unit needs a tile without lanes and threads")
    return Cut(tuple(Piece(kind, extent) for extent, kind in parts), tail)
