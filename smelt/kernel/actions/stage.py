"""`stage`: nodes that are put into local memory ahead of the loops that read them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from smelt.graph import Variable, of, upper
from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.memory import held, power, room_of
from smelt.kernel.lowering.nest import nest
from smelt.kernel.lowering.plan import Dimension, Illegal, Loop, Plan, StagePlan
from smelt.kernel.lowering.reduce import finished_value
from smelt.kernel.lowering.state import Partial, Reload, Scope, tile_of
from smelt.kernel.lowering.values import reload_index, store
from smelt.kernel.region import Expression, extent, walk
from smelt.kernel.segments import Cut, Piece

LINE_BYTES = 64  # narrower panels are written two whole lines at a time, before others drive them out of the cache


@dataclass(frozen=True, slots=True)
class Stage(Action):
    """Where loop `at` is entered, compute a node over all that is left inside, into local memory.

    The memory is laid out by axes in `order`. An axis may be cut: `n/64` and `n%64` are its block and the place in it,
    so that `(n/64, k, n%64)` lays panels of 64 columns one after the other.
    """

    form = "stage {node:name} at {at:name} {order:order}"
    node: str
    at: str
    order: tuple[str, ...]

    def apply(self, plan: Plan) -> None:
        node, at = plan.node(self.node), plan.loop(self.at)
        order = tuple(_dimension(plan, name) for name in self.order)
        self._check_layout(order)
        lacking = any(dimension.axis not in node.axes for dimension in order)
        self.refuse(lacking, f"{self.node} does not vary over all axes of its order")
        scanned = any(e.op == "scan" for e in walk([node]))
        self.refuse(scanned, f"{self.node} needs a scan, which only the loops of its output make")
        self.refuse(any(stage.node is node for stage in plan.stages), f"{self.node} is staged already")
        plan.stages.append(StagePlan(node, at, order))
        plan.expected[plan.stages[-1]] = f"stage: the node is not used inside {at}"

    def _check_layout(self, order: tuple[Dimension, ...]) -> None:
        """Each axis is there once, or as its blocks and the places in them."""
        named: dict[Variable, list[Dimension]] = {}
        for dimension in order:
            named.setdefault(dimension.axis, []).append(dimension)
        for found in named.values():
            blocks = {dimension.block for dimension in found}
            odd = [dimension.op for dimension in found] not in ([""], ["/", "%"]) or len(blocks) > 1
            self.refuse(odd, f"the order of {self.node} must name axes, each once or as blocks and places")
        self.refuse(not order, f"the order of {self.node} must name axes")

    @classmethod
    def settle(cls, plan: Plan) -> None:
        for stage in plan.stages:
            last = stage.order[-1]
            cls.refuse(last.op and last.block % plan.lane, f"blocks of {last.block} are not whole vectors")
            if plan.lane > 1:
                _cut_copy(plan, stage.node, stage.order)


def _dimension(plan: Plan, name: str) -> Dimension:
    match = re.fullmatch(r"([^/%]+)([/%])(\d{1,9})", name)
    if match is None:
        return Dimension(plan.axis(name))
    axis, op, block = match.groups()
    Stage.refuse(int(block) < 2, f"{name} is not a block of {axis}")
    return Dimension(plan.axis(axis), op, int(block))


def _cut_copy(plan: Plan, node: Expression, order: tuple[Dimension, ...]) -> None:
    """How a copy walks axes: with lanes along the last one of its order, a whole block of it at a time.

    Where memory lies along another axis, as many of that are taken as there are lanes: a transpose in registers. Rows
    of narrow panels are taken together, as many as fill some lines.
    """
    last, along, lane = order[-1], _lies_along(node, order), plan.lane
    if along is not None:
        plan.copies[node, along] = Cut((Piece("reg", lane),))
    elif _is_narrow(node, order):
        plan.copies[node, order[-2].axis] = Cut((Piece("reg", 2 * LINE_BYTES // (last.block * node.dtype.itemsize)),))
    folds = [axis for e in walk([node]) if e.op == "reduce" for axis in e.attribute.axes]
    if not any(plan.cuts[axis].has("lane") for axis in folds):
        outer = (Piece("reg", last.block // lane),) if last.block > lane else ()
        # Sums are large bodies: one for all vectors. What is only copied is masked where it must be.
        plan.copies[node, last.axis] = Cut((*outer, Piece("lane", lane)), "mask" if folds else "shrink")


def _is_narrow(node: Expression, order: tuple[Dimension, ...]) -> bool:
    """Whether a row of a panel is less than a line."""
    return order[-1].op != "" and order[-1].block * node.dtype.itemsize < LINE_BYTES


def _lies_along(node: Expression, order: tuple[Dimension, ...]) -> Variable | None:
    """The axis of an order, other than the last, along which a load of 32-bit elements finds neighbors."""
    if node.op != "load" or node.arguments or node.attribute.buffer.dtype.bits != 32:
        return None
    address = node.attribute.buffer.address(node.attribute.index)
    for axis in dict.fromkeys(dimension.axis for dimension in order if dimension.axis != order[-1].axis):
        if address.coefficient(axis) == 1 and axis not in (address - of(axis)).variables():
            return axis
    return None


class Stages(Handler):
    """Copies where loops are entered. It ends as a `Reload`, which later reads of the node find."""

    def opened(self, loop: Loop) -> None:
        state = self.state
        if state.copying:
            return
        for stage in state.plan.stages:
            if stage.at == loop and any(stage.node in state.facts.below(e) for e in state.consumers):
                self._stage(stage)

    def _stage(self, stage: StagePlan) -> None:
        state, node = self.state, stage.node
        self._check(stage)
        for handler in state.handlers:
            handler.held(node)
        rooms = {axis: room_of(state, axis) for axis in stage.axes}
        reload = held(state, "s", stage, node, rooms, stage.order)
        self._copy(stage, reload)
        state.top.reloads[node] = reload
        state.used.add(stage)

    def _check(self, stage: StagePlan) -> None:
        """Axes that the node varies over are in the order, or open and single elements."""
        for axis in self.state.facts.axes(stage.node):
            if axis in stage.axes:
                continue
            binding = self.state.top.bindings.get(axis)
            if binding is None or binding.parts:
                found = "is not open" if binding is None else "has a tile"
                raise Illegal(f"stage: {axis.name} {found} at {stage.at} and must be part of the order")

    def _copy(self, stage: StagePlan, reload: Reload) -> None:
        """The nest that fills the memory: its own loops, with lanes along the last axis where that is possible."""
        state, bindings = self.state, self.state.top.bindings
        closed = [axis for axis in stage.axes if axis not in bindings]
        opened = [part for axis in stage.axes if axis in bindings for part in bindings[axis].parts]
        open_lanes = any(part.is_lane for part in opened)
        taken = [(part.stride, part.stride * part.extent) for part in opened if part.stride]
        starts: list[Partial] = []
        threads = self._copy_threads(closed, taken)
        for axis in closed:
            own = state.plan.copies.get((stage.node, axis), Cut())
            cut = threads.get(axis, Cut() if open_lanes and own.has("lane") else own)
            outer = state.top.partials.get(axis)
            if outer is None or outer.level == 0:
                starts.append(state.whole(axis, cut))
            else:
                starts.append(Partial(axis, outer.start, outer.total, cut, 0, outer))

        def leaf() -> None:
            value = finished_value(state, stage.node)
            store(state, reload.buffer, reload_index(state, reload), value)

        # The copy walks the same axes as the loops that it serves; it must not stage anything itself.
        state.copying = True
        with state.scope(state.top.body, starts) as scope:
            if not open_lanes:
                self._take_lanes(stage, scope)
            if _is_narrow(stage.node, stage.order):  # a line is taken in several steps: one after the other
                along = _lies_along(stage.node, stage.order)
                starts.sort(key=lambda partial: partial.axis == along)
            nest(state, [Loop(partial.axis, 0) for partial in starts], leaf)
        state.copying = False

    def _take_lanes(self, stage: StagePlan, scope: Scope) -> None:
        """Rows of an open tile that lie side by side in the copy are copied by vectors of them."""
        axis, lane, node = stage.order[-1].axis, self.state.plan.lane, stage.node
        binding = scope.bindings.get(axis)
        if lane == 1 or binding is None or binding.condition is not None or node.op != "load" or node.arguments:
            return
        size = math.prod(part.extent for part in binding.parts)
        if [part.kind for part in binding.parts] == ["reg"] and size % lane == 0:
            tile, parts = tile_of(axis, (Piece("reg", size // lane), Piece("lane", lane)), (size // lane, lane))
            depth = len(self.state.scopes) - 1
            scope.bind(axis, replace(binding, index=binding.start + tile, parts=parts, depth=depth))

    def _copy_threads(self, closed: list[Variable], taken: list[tuple[int, int]]) -> dict[Variable, Cut]:
        """The threads of a group shared out over the axes that a copy walks itself, the last axis first.

        Threads that the tiles of open axes have are taken already.
        """
        state, found = self.state, dict[Variable, Cut]()
        if state.plan.threads == 1:
            return found
        stride = 1
        for axis in reversed(closed):
            partial, size = state.top.partials.get(axis), upper(extent(axis))
            if partial is not None and partial.level > 0:  # the same for all blocks, also for a shorter last one
                size = min(size, partial.cut.width(partial.level - 1))
            while any(first <= stride < end for first, end in taken):
                stride *= 2
            limit = min((first for first, _ in taken if first > stride), default=state.plan.threads)
            count = min(power(size), limit // stride)
            if count > 1:
                found[axis] = Cut((Piece("thread", count, stride),))
                stride *= count
        return found
