"""Lowering: a region and a schedule become a kernel.

Demand-driven. The loops of each output are opened in order; in the innermost body the stored expression is asked for,
and everything that it needs is made on the way: reductions first, each in the outermost scope that has its axes, then
values; scans as their axis is walked. A reduction whose outer loop is ordered outside a parallel loop keeps partial
results in local memory between its iterations.
"""

from __future__ import annotations

import math

from smelt.errors import InternalError
from smelt.graph.index import Index, Variable, as_index, less
from smelt.graph.ops import identity
from smelt.kernel.actions import Illegal, Schedule
from smelt.kernel.barriers import with_barriers
from smelt.kernel.instructions import check_instructions
from smelt.kernel.ir import Accumulator, For, If, Kernel, Load, Statement, Store, Update, Value, statements
from smelt.kernel.lower_scan import Scans
from smelt.kernel.plan import Loop, make_plan
from smelt.kernel.region import Expression, Less, Output, Region, extent


def lower(region: Region, schedule: Schedule = (), name: str = "k") -> Kernel:
    """The kernel that computes a region as a schedule says. Raises `Illegal` for a schedule that does not fit."""
    return _Lowering(region, make_plan(region, schedule)).run(name)


class _Lowering(Scans):
    def run(self, name: str) -> Kernel:
        self._check_region()
        for outputs in [self.region.outputs] if self.plan.together else self._nests():
            self._store(outputs)
        self._check_use()
        counts = [s.count for s in self.body if isinstance(s, For) and s.kind == "grid"]
        tasks = sum(counts, as_index(0)) if counts else as_index(1)
        body = (*self.declared(), *(self._grouped() if self.plan.threads > 1 else self.body))
        kernel = Kernel(name, tuple(self.region.buffers()), self.region.parameters, body, tasks, self.plan.threads)
        if self.plan.matrix:
            check_instructions(kernel)
        return kernel

    def _grouped(self) -> list[Statement]:
        """The statements as a group of threads runs them together."""
        extents: dict[str, int] = {}
        for statement in statements(self.body):
            if isinstance(statement, Load | Accumulator):
                for part in statement.value.parts:
                    if part.stride and extents.setdefault(part.name, part.extent) != part.extent:
                        raise Illegal(f"{part.name} is shared out over more threads in one place than in another")
        return with_barriers(self.body)

    def _check_region(self) -> None:
        """Extents are known to the caller. Outputs are read after the last store to them, never by other tasks."""
        self.check_scans()
        parameters = set(self.region.parameters)
        for axis in self.region.axes:
            if axis.first != 0 or not axis.last.variables() <= parameters:
                raise InternalError(f"the axis {axis.name} does not run from 0 to an extent known to the caller")
        outputs = self.region.outputs
        for at, output in enumerate(outputs):
            later = {other.buffer.name for other in outputs[at:]}
            earlier = {other.buffer.name for other in outputs[:at]}
            for e in self.facts.below(output.value):
                if e.op != "load":
                    continue
                if e.attribute.buffer.name in later:
                    raise Illegal(f"{e.attribute.buffer.name} is read before its last store")
                if self.plan.grid and e.attribute.buffer.name in earlier:
                    raise Illegal(
                        f"{e.attribute.buffer.name} is read by tasks that do not wait for those that store it"
                    )

    def _check_use(self) -> None:
        for stage in self.plan.stages:
            if stage not in self.used:
                raise Illegal(f"stage: the node is not used inside {stage.at}")
        for group in self.plan.groups.values():
            if group not in self.used:
                raise Illegal("group: the reductions cannot be made in one loop")
        for node in self.plan.keeps:
            if node not in self.used:
                raise Illegal("keep: no phase before the last makes the node")
        self.check_online()

    # --- outputs

    def _nests(self) -> list[tuple[Output, ...]]:
        """Outputs that are stored in one nest of loops: neighbors over the same axes, none of which reads another."""
        written = {output.buffer.name for output in self.region.outputs}
        reads = any(e.op == "load" and e.attribute.buffer.name in written for e in self.region.order())
        nests: list[tuple[Output, ...]] = []
        for output in self.region.outputs:
            first = nests[-1][0] if nests else None
            alike = first is not None and self.region.parallel_axes(first) == self.region.parallel_axes(output)
            scanned = first is not None and (self.facts.scans(first.value) or self.facts.scans(output.value))
            if alike and not reads and not scanned and self._loops(nests[-1][0]) == self._loops(output):
                nests[-1] = (*nests[-1], output)
            else:
                nests.append((output,))
        return nests

    def _store(self, outputs: tuple[Output, ...]) -> None:
        """The nest of an output, in whose innermost body others are stored as well."""
        output = outputs[0]
        axes = self.region.parallel_axes(output)
        head, outer, reduction = self._loops(output)
        if reduction is not None and self.plan.together:
            raise Illegal("together: a loop of a reduction stands outside")
        grid = [loop for loop in self.plan.grid if loop.axis in axes]
        shared = all(loop.axis in self.region.parallel_axes(stored) for stored in outputs for loop in grid)
        if self.plan.grid and (not grid or head[: len(grid)] != grid or not shared):
            raise Illegal("bind: the grid must be the outermost loops of every output")
        self.output, self.consumers = output, tuple(stored.value for stored in outputs)
        self.wanted = frozenset().union(*(self.facts.below(stored.value) for stored in outputs))
        self.push(self.body)
        self.roots = {axis: self.whole(axis, self.plan.cuts[axis]) for axis in axes}
        self.begin(list(self.roots.values()))

        def leaf() -> None:
            if outer is None or reduction is None:
                self._finish(outputs)
            else:
                self._continue(outputs, reduction, outer)

        def inside() -> None:
            self.grid_depth = len(self.scopes) - 1
            self.scanned_nest(output, head[len(grid) :], leaf)

        self.grid_depth = 0
        if reduction is not None:
            self.begin([self.whole(axis, self.plan.cuts[axis]) for axis in reduction.attribute.axes])
        if grid:
            self.grid(grid, inside)
        else:
            self.scanned_nest(output, head, leaf)
        self.scopes.pop()

    def _loops(self, output: Output) -> tuple[list[Loop], Loop | None, Expression | None]:
        """The loops of an output's nest, the one of them that is a reduction's, and that reduction."""
        axes = self.region.parallel_axes(output)
        if not self.plan.order:
            loops = [Loop(a, level) for a in axes for level in range(self.plan.cuts[a].levels)]
            return self.scanning_loops(loops, output), None, None
        order = list(self.plan.order)
        last = max((at for at, loop in enumerate(order) if loop.axis in axes), default=-1)
        head = order[: last + 1]
        outside = [loop for loop in head if loop.axis not in axes and self._is_reduced(loop, output)]
        head = [loop for loop in head if loop.axis in axes or loop in outside]
        return (head, outside[0], self._outer_reduction(output, outside)) if outside else (head, None, None)

    def _is_reduced(self, loop: Loop, output: Output) -> bool:
        return any(e.op == "reduce" and loop.axis in e.attribute.axes for e in self.facts.below(output.value))

    def _outer_reduction(self, output: Output, outside: list[Loop]) -> Expression:
        """The one reduction that a loop ordered outside a parallel loop belongs to."""
        axes = set(self.region.parallel_axes(output))
        axis = outside[0].axis
        if len(outside) > 1:
            raise Illegal("order: only one loop of a reduction may stand outside a parallel loop")
        found = [r for r in self.facts.reductions(output.value) if axis in r.attribute.axes]
        if len(found) != 1 or set(self.facts.axes(found[0])) != axes:
            raise Illegal(
                f"order: {outside[0]} stands outside, which needs one reduction over {axis.name} and the output's axes"
            )
        (reduction,) = found
        if self.facts.scans(output.value):
            raise Illegal(f"order: {outside[0]} stands outside, but the output needs a scan")
        if as_index(extent(axis)).low < 1:
            raise Illegal(f"order: {outside[0]} stands outside, but {axis.name} may be empty")
        if any((reduction, a) in self.plan.subs for a in reduction.attribute.axes):
            raise Illegal(f"order: {outside[0]} stands outside, but the reduction cuts {axis.name} its own way")
        if reduction.attribute.axes[0] in self.plan.online:
            raise Illegal(f"order: {outside[0]} stands outside, but {axis.name} is online")
        return reduction

    def _finish(self, outputs: tuple[Output, ...]) -> None:
        """In the innermost body: what is stored there."""
        axis = self.plan.apart
        if axis is None or self.top.bindings[axis].parts[0].extent == 1:
            self._put(outputs)
            return
        for output in outputs:
            self.prepare(output.value)
        sums = dict.fromkeys(e for output in outputs for e in self.facts.reductions(output.value) if axis in e.axes)
        # One that only nodes in memory need has not been made.
        self.waiting_sums([e for e in sums if self.available(e)], axis, lambda: self._put(outputs))

    def _put(self, outputs: tuple[Output, ...]) -> None:
        """The values, then their stores, so that one may lie where another was read."""
        found: list[tuple[Output, Value]] = []
        for output in outputs:
            self.prepare(output.value)
            found.append((output, self.value(_stored(output))))
        for output, value in found:
            index = tuple(i.substitute(self.top.substitution) for i in output.index)
            mask = self.conditions(self.region.parallel_axes(output))
            self.store(output.buffer, index, value, mask, self.plan.stream)

    # --- a reduction whose outer loop is open already

    def _continue(self, outputs: tuple[Output, ...], reduction: Expression, outer: Loop) -> None:
        """One iteration of the outer loop: take up the partial result, add to it, and finish or put it away."""
        start, end = self._stretch(outer.axis)
        size = extent(outer.axis)
        total = Value(self.fresh("a"), reduction.dtype, self.parts(self.facts.axes(reduction)))
        self.emit(Accumulator(total, identity(reduction.attribute.op, reduction.dtype)))
        first, last = Less(as_index(0), start), Less(as_index(size) - 1, end)
        always_last, never_last = less(*last), less(end, size)
        axes = self.facts.axes(reduction)
        whole = start == 0 and always_last
        memory = None if whole else self.carried_memory(reduction, reduction.dtype, outer.axis, axes)
        if memory is not None and start != 0:
            before = Value(self.fresh("v"), total.dtype, total.parts)
            resume: list[Statement] = [Load(before, *memory), Update(total, "set", (before,))]
            if less(*first):
                self.top.body.extend(resume)
            else:
                self.emit(If((first,), resume))
        self._add(reduction, outer, total)
        if never_last and memory is not None:
            self.emit(Store(*memory, total))
            return
        body = self.top.body if always_last else []
        scope = self.push(body, floor=not always_last)
        scope.memo[reduction] = (total, len(self.scopes) - 1)
        self._finish(outputs)
        self.scopes.pop()
        if not always_last and memory is not None:
            self.emit(If((last,), body, [Store(*memory, total)]))

    def _stretch(self, axis: Variable) -> tuple[Index, Index]:
        """What the present iteration of the outer loop covers: its first element of the axis, one past its last."""
        binding = self.top.bindings.get(axis)
        if binding is not None:
            return binding.start, binding.start + math.prod(part.extent for part in binding.parts)
        partial = self.top.partials[axis]
        return partial.start, partial.start + partial.total

    def _add(self, reduction: Expression, outer: Loop, total: Value) -> None:
        """The loops of the reduction that are still closed, adding to its partial result."""
        fold = reduction.attribute
        pieces = [piece for axis in fold.axes for piece in self.plan.cut(reduction, axis).inner]
        tiled = any(self.is_kept(reduction, piece.kind) for piece in pieces)
        accumulator = self.accumulator(reduction, fold.axes) if tiled else total
        loops = [loop for loop in self.reduction_loops(reduction) if loop != outer]
        outside, self.consumers = self.consumers, reduction.arguments
        self.nest(loops, lambda: self.update(accumulator, reduction))
        self.consumers = outside
        if tiled:
            self.emit(Update(total, fold.op, (self.folded(accumulator, fold.op, fold.axes),)))


def _stored(output: Output) -> Expression:
    """What is handed to a store, which rounds to the type of the memory itself."""
    e = output.value
    return e.arguments[0] if e.op == "round16" and e.attribute is output.buffer.dtype else e
