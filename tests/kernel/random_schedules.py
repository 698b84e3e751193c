"""Random schedules for any region, and what is legal of them."""

from __future__ import annotations

import random

from smelt.graph.index import Variable
from smelt.kernel import Illegal, Kernel, lower
from smelt.kernel.actions import (
    Action,
    Apart,
    Bind,
    Keep,
    Matrix,
    Online,
    Order,
    Schedule,
    Shares,
    Skip,
    Split,
    Stage,
    Stream,
    Together,
    Unroll,
)
from smelt.kernel.instructions import INSTRUCTIONS
from smelt.kernel.region import Expression, Region, walk

LANES = (2, 4, 8)


def legal_part(region: Region, schedule: Schedule) -> tuple[Schedule, Kernel]:
    """A schedule without the actions that are refused, one after the other, and its kernel."""
    while True:
        try:
            return schedule, lower(region, schedule)
        except Illegal as refusal:
            named = [action for action in schedule if str(action).split()[0] == str(refusal).partition(":")[0]]
            without = (named or schedule)[-1]
            schedule = tuple(action for action in schedule if action is not without)


def random_schedule(rng: random.Random, region: Region) -> Schedule:
    """Actions drawn from what the region has: axes, loops, nodes."""
    actions: list[Action] = []
    loops: dict[Variable, list[str]] = {}
    wide = rng.choice(region.axes) if region.axes else None  # usually at most one axis has lanes
    for axis in region.axes:
        levels = 1
        if rng.random() < 0.7:
            split = random_split(rng, axis, axis == wide or rng.random() < 0.05)
            actions.append(split)
            levels += sum(kind == "loop" for _, kind in split.parts)
        loops[axis] = [f"{axis.name}.{level}" for level in range(levels)]
    parallel = [axis for axis in region.axes if any(axis in region.parallel_axes(o) for o in region.outputs)]
    order = [name for axis in parallel for name in loops[axis]]
    if order and rng.random() < 0.5:
        chosen = list(parallel) + [axis for axis in region.axes if axis not in parallel and rng.random() < 0.6]
        order = interleaved(rng, [list(loops[axis]) for axis in chosen])
        actions.append(Order(tuple(order)))
    if order and rng.random() < 0.4:
        actions.append(Bind(tuple(order[: rng.randint(1, min(3, len(order)))])))
    every = [name for axis in region.axes for name in loops[axis]]
    if every and rng.random() < 0.2:
        actions.append(Unroll(rng.choice(every), rng.choice((2, 4))))
    if rng.random() < 0.1:
        actions.append(Stream())
    actions += random_memory(rng, region, every)
    actions += random_reductions(rng, region, [action for action in actions if isinstance(action, Split)])
    rng.shuffle(actions)
    # From a source of its own: seeds that have found something draw what they drew then.
    registers = random.Random(repr(actions)).randint(-6, 6)
    return (*actions, *([Shares(registers)] if registers > 0 else []))


def random_split(rng: random.Random, axis: Variable, lanes: bool) -> Split:
    parts = [(rng.choice((2, 3, 5, 8)), "loop") for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
    tail = "shrink"
    if rng.random() < 0.6 or (not parts and not lanes):
        parts.append((rng.choice((1, 2, 3, 4, 6)), "reg"))
        tail = rng.choice(("shrink", "balance", "overlap", "mask", "unit"))
    if lanes:
        parts.append((rng.choice(LANES), "lane"))
        tail = rng.choice(("shrink", "balance", "mask"))
    return Split(axis.name, tuple(parts), tail)


def with_threads(rng: random.Random, schedule: Schedule) -> Schedule:
    """The schedule with some axes shared out over the threads of a group, and none over lanes."""
    actions: list[Action] = []
    for action in schedule:
        if isinstance(action, Split):
            parts = [part for part in action.parts if part[1] != "lane"]
            if not parts or rng.random() < 0.6:
                parts.append((rng.choice((2, 4, 8)), "thread"))
            whole = any(kind != "loop" for _, kind in parts) and action.tail != "unit"
            action = Split(action.axis, tuple(parts), action.tail if whole else "shrink")
        actions.append(action)
    return tuple(actions)


def interleaved(rng: random.Random, groups: list[list[str]]) -> list[str]:
    """All names, each group in its own order."""
    result: list[str] = []
    while any(groups):
        result.append(rng.choice([group for group in groups if group]).pop(0))
    return result


def random_memory(rng: random.Random, region: Region, loops: list[str]) -> list[Action]:
    """Stages and kept nodes."""
    actions: list[Action] = []
    nodes = [(f"%{at}", e) for at, e in enumerate(region.order())]
    axes = set(region.axes)
    varying = [(name, e) for name, e in nodes if e.axes & axes and not any(inner.op == "scan" for inner in walk([e]))]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        if varying and loops:
            name, e = rng.choice(varying)
            actions.append(Stage(name, rng.choice(loops), stage_order(rng, region, e)))
    inside = [name for name, e in varying if e.op != "reduce"]
    if inside and rng.random() < 0.4:
        actions.append(Keep(rng.choice(inside), rng.choice(("local", "out"))))
    return actions


def stage_order(rng: random.Random, region: Region, e: Expression) -> tuple[str, ...]:
    names = [axis.name for axis in region.axes if axis in e.axes]
    rng.shuffle(names)
    chosen = names if rng.random() < 0.5 else names[: rng.randint(1, len(names))]
    if rng.random() < 0.3:  # one axis in blocks
        name, block = rng.choice(chosen), rng.choice((2, 3, 4, 8, 16))
        rest = [other for other in chosen if other != name]
        return (
            (f"{name}/{block}", *rest, f"{name}%{block}")
            if rng.random() < 0.7
            else (*rest, f"{name}/{block}", f"{name}%{block}")
        )
    return tuple(chosen)


def random_reductions(rng: random.Random, region: Region, splits: list[Split]) -> list[Action]:
    """What attention needs, and tiles that are finished apart."""
    actions: list[Action] = []
    if len(region.outputs) > 1 and rng.random() < 0.6:
        actions.append(Together())
    tiled = [action.axis for action in splits if any(kind == "reg" for _, kind in action.parts)]
    overlapping = [action.axis for action in splits if action.tail == "overlap"]
    if tiled and rng.random() < (0.9 if overlapping else 0.3):
        actions.append(Apart(rng.choice(overlapping or tiled)))
    reductions = [(f"%{at}", e) for at, e in enumerate(region.order()) if e.op == "reduce"]
    rows = [(name, row.name) for name, e in reductions for row in INSTRUCTIONS if row.op == e.arguments[0].op]
    if rows and rng.random() < 0.5:
        actions.append(Matrix(*rng.choice(rows)))
    maxima = [e for _, e in reductions if e.attribute.op == "max"]
    sums = [e for _, e in reductions if e.attribute.op == "add"]
    conditions = [(f"%{at}", e) for at, e in enumerate(region.order()) if e.op in ("le", "lt", "mask")]
    if maxima and rng.random() < 0.5:
        axis = maxima[0].attribute.axes[0]
        actions.append(Online(axis.name))
        if conditions and rng.random() < 0.7:
            actions.append(random_skip(rng, region, axis, conditions))
    elif sums and conditions and rng.random() < 0.7:
        folded = [axis for e in sums for axis in e.attribute.axes]
        likely = [axis for axis in folded if any(axis in e.axes for _, e in conditions)]
        actions.append(random_skip(rng, region, rng.choice(likely or folded), conditions))
    return actions


def random_skip(rng: random.Random, region: Region, axis: Variable, conditions: list[tuple[str, Expression]]) -> Skip:
    name, e = rng.choice(conditions)
    return Skip(axis.name, rng.choice([a.name for a in region.axes if a in e.axes and a != axis] or [axis.name]), name)
