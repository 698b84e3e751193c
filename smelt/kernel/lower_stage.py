"""Nodes in memory: staged ahead of the loops that read them, kept by the phase that first made them, or sums that wait
to be finished apart.

All end as a `Reload`: a node, the memory that holds it, and the bindings under which that is true. What lies in the
padding of local memory is never used: masks and identities are applied after loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from smelt.dtypes import DType, compute_dtype
from smelt.errors import InternalError
from smelt.graph.index import ZERO, Index, IndexLike, Variable, of, upper
from smelt.kernel.actions import Illegal
from smelt.kernel.ir import For, Statement
from smelt.kernel.lower_reduce import Reductions
from smelt.kernel.lower_scope import Binding, Partial, Reload
from smelt.kernel.plan import Loop, Plan, StagePlan
from smelt.kernel.region import Buffer, Expression, Output, Region, extent
from smelt.kernel.segments import Cut, Piece, reach


class Stages(Reductions):
    """`stage`, `apart` and `keep`."""

    def __init__(self, region: Region, plan: Plan) -> None:
        super().__init__(region, plan)
        self.output: Output | None = None  # being stored
        self.roots: dict[Variable, Partial] = {}  # the axes of its nest, before their first loop
        self.grid_depth = 0  # of the scope inside its grid loop
        self._memory: dict[tuple[object, ...], Buffer] = {}

    # --- the room that an axis takes in local memory

    def room(self, axis: Variable) -> tuple[int, Index, Binding | Partial | None]:
        """What is left of an axis here: how many elements tiles can touch, the first of them, and what opened them."""
        binding = self.top.bindings.get(axis)
        if binding is not None:
            return binding.origin.cut.tile, binding.start, binding
        partial = self.top.partials.get(axis)
        if partial is None or partial.origin is None:
            return self.whole_room(axis), ZERO, None
        if partial.level == 0:
            room = max(upper(partial.total) + self._slack(axis), self._thread_room(partial.total))
            return room, partial.start, partial
        # As large as for a whole block, so that all blocks share one piece of memory.
        width = partial.cut.width(partial.level - 1)
        totals = [partial.total, width] if upper(extent(axis)) >= width else [partial.total]
        ends = [max(reach(n, partial.cut, partial.level), upper(n) + self._slack(axis)) for n in totals]
        return max(*ends, *map(self._thread_room, totals)), partial.start, partial

    def whole_room(self, axis: Variable) -> int:
        total = extent(axis)
        ends = [reach(total, cut) for cut in self.plan.all_cuts(axis)]
        return max(*ends, upper(total) + self._slack(axis), self._thread_room(total), 1)

    def _thread_room(self, total: IndexLike) -> int:
        """Room for a copy by the threads of a group, which walk a power of two of elements at a time."""
        return _power(upper(total)) if self.plan.threads > 1 else 0

    def _slack(self, axis: Variable) -> int:
        """How far a walk from the middle of an axis may overshoot. Copies start at blocks, other cuts at tiles."""
        main, *others = self.plan.all_cuts(axis)
        blocks = [main.width(level) for level in range(main.levels)]
        copies = self.plan.copy_cuts(axis)
        found = [copy.tile for copy in copies if any(width % copy.tile for width in blocks[:-1])]
        found += [cut.tile for cut in others[len(copies) :] if any(width % cut.tile for width in blocks)]
        if self.plan.threads > 1 and self._is_copied_from_memory(axis):
            found += [_power(min(width, upper(extent(axis)))) for width in blocks[:-1]]
        return max(found, default=1) - 1

    def _is_copied_from_memory(self, axis: Variable) -> bool:
        """Whether a copy along an axis reads what another one, or a phase, has left in memory."""
        left = {*self.plan.keeps, *(stage.node for stage in self.plan.stages)}
        return any(
            axis in stage.axes and (self.facts.below(stage.node) - {stage.node}) & left for stage in self.plan.stages
        )

    def shared(self, letter: str, owner: object, dtype: DType, shape: tuple[int, ...], pad: int = 0) -> Buffer:
        """Local memory that one owner uses again and again, but never while what it holds may still be read."""
        if shape:  # rows start at whole vectors
            shape = (*shape[:-1], -(-shape[-1] // self.plan.lane) * self.plan.lane)
        # Scopes that wait count too: loops that run once share the body around them, so their reads may come later.
        scopes = [scope for waiting in (self.scopes, *self.waiting) for scope in waiting]
        live = {reload.buffer.name for scope in scopes for reload in scope.reloads.values()}
        for number in itertools.count():
            key = (letter, owner, shape, number)
            if key not in self._memory:
                self._memory[key] = self.local(letter, dtype, shape, pad)
            if self._memory[key].name not in live:
                return self._memory[key]
        raise InternalError("there is always new memory")

    def carried_memory(
        self, owner: Expression, dtype: DType, axis: Variable, axes: tuple[Variable, ...]
    ) -> tuple[Buffer, tuple[Index, ...]]:
        """Memory for what one iteration of an axis's outermost loop leaves to the next, over all that other `axes` have
        inside that loop, and the present tile's place in it.
        """
        opened = next(
            at
            for at, scope in enumerate(self.scopes)
            if axis in scope.bindings or (axis in scope.partials and scope.partials[axis].level > 0)
        )
        axes = self._in_vectors(axes)
        with self.moved_out(opened):
            rooms = [self.room(a) for a in axes]
        shape, place = [], []
        for a, (size, base, opener) in zip(axes, rooms, strict=True):
            binding = self.top.bindings[a]
            # Tiles that overlap have places of their own, or what they share would be taken up by both.
            apart = binding.seen != 0 and opener is not binding
            shape.append(-(-size // binding.origin.cut.tile) * binding.origin.cut.tile if apart else size)
            place.append(binding.index - base + (binding.seen if apart else 0))
        return self.shared("p", owner, dtype, tuple(shape)), tuple(place)

    def _in_vectors(self, axes: Sequence[Variable]) -> tuple[Variable, ...]:
        """The axes of local memory in an order in which vectors are stored whole: the one with lanes is the last."""
        return tuple(sorted(axes, key=lambda axis: self.plan.cuts[axis].has("lane")))

    # --- stage

    def opened(self, loop: Loop) -> None:
        if self.copying:
            return
        for stage in self.plan.stages:
            if stage.at == loop and any(stage.node in self.facts.below(e) for e in self.consumers):
                self._stage(stage)

    def _stage(self, stage: StagePlan) -> None:
        node = stage.node
        self.check_stage(stage)
        rooms = {axis: self.room(axis) for axis in stage.axes}
        shape = tuple(dimension.size(rooms[dimension.axis][0]) for dimension in stage.order)
        buffer = self.shared("s", stage, node.dtype, shape, stage.pad)
        tokens = {axis: token for axis, (_, _, token) in rooms.items()}
        bases = {axis: base for axis, (_, base, _) in rooms.items()}
        for axis in self.facts.axes(node):
            tokens.setdefault(axis, self.top.bindings.get(axis))
            bases.setdefault(axis, ZERO)
        index = tuple(of(dimension.axis) for dimension in stage.order)
        cuts = tuple((dimension.op, dimension.block) for dimension in stage.order)
        reload = Reload(buffer, index, bases, tuple(tokens.items()), cuts=cuts if any(op for op, _ in cuts) else ())
        self._copy(stage, reload)
        self.top.reloads[node] = reload
        self.used.add(stage)

    def check_stage(self, stage: StagePlan) -> None:
        """Axes that the node varies over are in the order, or open and single elements."""
        for axis in self.facts.axes(stage.node):
            if axis in stage.axes:
                continue
            binding = self.top.bindings.get(axis)
            if binding is None:
                raise Illegal(f"stage: {axis.name} is not open at {stage.at} and must be part of the order")
            if binding.parts:
                raise Illegal(f"stage: {axis.name} has a tile at {stage.at} and must be part of the order")

    def _copy(self, stage: StagePlan, reload: Reload) -> None:
        """The nest that fills the memory: its own loops, with lanes along the last axis where that is possible."""
        closed = [axis for axis in stage.axes if axis not in self.top.bindings]
        open_lanes = any(
            part.is_lane for axis in stage.axes if axis not in closed for part in self.top.bindings[axis].parts
        )
        starts: list[Partial] = []
        threads = self._copy_threads(stage, closed)
        for axis in closed:
            own = Cut() if open_lanes and axis != stage.along else self.plan.copy_cut(stage, axis)
            cut = threads.get(axis, own)
            outer = self.top.partials.get(axis)
            if outer is None or outer.level == 0:
                starts.append(self.whole(axis, cut))
            else:
                starts.append(Partial(axis, outer.start, outer.total, cut, 0, outer))

        def leaf() -> None:
            self.prepare(stage.node)
            self.store(reload.buffer, self.reload_index(reload), self.value(stage.node), ())

        # The copy walks the same axes as the loops that it serves; it must not stage anything itself.
        self.copying = True
        self.push(self.top.body)
        self.begin(starts)
        self.nest([Loop(partial.axis, 0) for partial in starts], leaf)
        self.scopes.pop()
        self.copying = False

    def _copy_threads(self, stage: StagePlan, closed: list[Variable]) -> dict[Variable, Cut]:
        """The threads of a group shared out over the axes that a copy walks itself, the last axis first.

        Threads that the tiles of open axes have are taken already.
        """
        if self.plan.threads == 1:
            return {}
        opened = [part for axis in stage.axes if axis not in closed for part in self.top.bindings[axis].parts]
        taken = [(part.stride, part.stride * part.extent) for part in opened if part.stride]
        found: dict[Variable, Cut] = {}
        stride = 1
        for axis in reversed(closed):
            partial, size = self.top.partials.get(axis), upper(extent(axis))
            if partial is not None and partial.level > 0:  # the same for all blocks, also for a shorter last one
                size = min(size, partial.cut.width(partial.level - 1))
            size = _power(size)
            while any(first <= stride < end for first, end in taken):
                stride *= 2
            limit = min((first for first, _ in taken if first > stride), default=self.plan.threads)
            count = min(size, limit // stride)
            if count > 1:
                found[axis] = Cut((Piece("thread", count, stride),))
                stride *= count
        return found

    # --- apart

    def waiting_sums(self, sums: Sequence[Expression], axis: Variable, inside: Callable[[], None]) -> None:
        """Put the present tiles of sums into local memory, and open a loop over the registers of an axis there."""
        tile = self.top.bindings[axis]
        reloads: dict[Expression, Reload] = {}
        for reduction in sums:
            axes = self._in_vectors(self.facts.axes(reduction))
            rooms = {a: self.room(a) for a in axes}
            buffer = self.shared("w", reduction, reduction.dtype, tuple(size for size, _, _ in rooms.values()))
            tokens = tuple((a, tile.origin if a == axis else self.top.bindings[a]) for a in axes)
            bases = {a: base for a, (_, base, _) in rooms.items()}
            reloads[reduction] = reload = Reload(buffer, tuple(of(a) for a in axes), bases, tokens)
            self.store(buffer, self.reload_index(reload), self.value(reduction), ())
        count = tile.parts[0].extent - tile.seen
        variable = Variable(self.fresh("i"), 0, count - 1)
        body: list[Statement] = []
        scope = self.push(body)
        limit = None if tile.condition is None else tile.condition.b
        at = tile.start + tile.seen + of(variable)
        scope.bind(axis, Binding(at, ZERO, (), limit, len(self.scopes) - 1, tile.origin))
        scope.reloads.update(reloads)
        inside()
        self.scopes.pop()
        self.emit(For(variable, count, body))

    # --- keep

    def reduce(self, reduction: Expression, depth: int) -> None:
        filling = {node: self._kept(node, reduction, depth) for node in self.to_keep(reduction)}

        def also() -> None:
            for node, reload in filling.items():
                self.prepare(node)  # where the step itself reads something staged, nothing else needed its sums
                mask = self.conditions(self.facts.axes(node)) if reload.masked else ()
                self.store(reload.buffer, self.reload_index(reload), self.value(node), mask)

        self.top.memo[reduction] = (self.accumulated(reduction, also), depth)
        self.top.reloads.update(filling)  # only now: during the phase it is not all there
        self.used.update(filling)

    def to_keep(self, reduction: Expression) -> list[Expression]:
        """The kept nodes that this phase makes first."""
        if self.copying or not self.plan.keeps:
            return []
        own, made = set(reduction.attribute.axes), self._made(reduction)
        return [node for node in self.plan.keeps if node in made and node.axes & own]

    def _made(self, reduction: Expression) -> set[Expression]:
        """What one step of a reduction computes: neither other reductions nor what lies in memory."""
        found: set[Expression] = set()
        stack = list(reduction.arguments)
        while stack:
            e = stack.pop()
            if e.op != "reduce" and e not in found and not self.is_stored(e):
                found.add(e)
                stack.extend(e.arguments)
        return found

    def _kept(self, node: Expression, reduction: Expression, depth: int) -> Reload:
        """Where a phase keeps a node: over the whole reduced axes, and the tiles of the others."""
        axes, own = self.facts.axes(node), reduction.attribute.axes
        tokens = tuple((a, None if a in own else self.top.bindings[a]) for a in axes)
        bases = {a: ZERO for a in axes}
        if self.plan.keeps[node] == "out":
            output = self._output_for(node, own, depth)
            return Reload(output.buffer, output.index, bases, tokens, masked=True)
        tiled = [(a, token) for a, token in tokens if token is not None and token.parts]
        bases |= {a: token.start for a, token in tiled}
        sizes = [token.origin.cut.tile for _, token in tiled] + [self.whole_room(a) for a in axes if a in own]
        index = [of(a) for a, _ in tiled] + [of(a) for a in axes if a in own]
        # A phase further inside, generated earlier, may run between this one and its reads: it has memory of its own.
        buffer = self.shared("k", (node, reduction, depth), node.dtype, tuple(sizes))
        return Reload(buffer, tuple(index), bases, tokens)

    def _output_for(self, node: Expression, own: tuple[Variable, ...], depth: int) -> Output:
        """The output, if a node can lie in it until its elements are stored."""
        output = self.output
        assert output is not None
        buffer, axes = output.buffer, self.facts.axes(node)
        if set(axes) != set(self.region.parallel_axes(output)):
            raise Illegal("keep: a node in the output must have the output's own axes")
        if buffer.dtype is not node.dtype or compute_dtype(buffer.dtype) is not buffer.dtype:
            raise Illegal(f"keep: the output holds {buffer.dtype}, the node is {node.dtype}")
        if depth < self.grid_depth:
            raise Illegal("keep: the phase runs outside the grid, in every task")
        if any(self._is_open(axis) for axis in own):
            raise Illegal("keep: the phase runs between stores to the output")
        if any(a not in own and not self.top.bindings[a].within(self.roots[a]) for a in axes):
            raise Illegal("keep: the phase walks the output in loops of its own")
        return output

    def check_reload(self, e: Expression, reload: Reload) -> None:
        """What lies in the output is there until the output's own loops come past."""
        if not reload.masked:
            return
        for axis, _ in reload.tokens:
            if self._is_open(axis) and not self.top.bindings[axis].within(self.roots[axis]):
                raise Illegal("keep: a phase between stores to the output reads what was kept there")

    def _is_open(self, axis: Variable) -> bool:
        """True if the output's nest has opened a loop of this axis."""
        root = self.roots.get(axis)
        for scope in self.scopes:
            binding, partial = scope.bindings.get(axis), scope.partials.get(axis)
            if root is not None and binding is not None and binding.within(root):
                return True
            if partial is not None and partial is not root and _descends(partial, root):
                return True
        return False


def _power(n: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << max(0, n - 1).bit_length()


def _descends(partial: Partial, root: Partial | None) -> bool:
    at = partial.origin
    while at is not None:
        if at is root:
            return True
        at = at.origin
    return False
