"""`keep`: nodes that stay in memory after the phase that first made them."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.dtypes import compute_dtype
from smelt.graph import ZERO, Variable
from smelt.kernel.actions.action import Action
from smelt.kernel.lowering.hooks import Extra, Handler
from smelt.kernel.lowering.memory import held, room_of, whole_size
from smelt.kernel.lowering.plan import Plan
from smelt.kernel.lowering.reduce import finished_value
from smelt.kernel.lowering.state import Reload, Room, State
from smelt.kernel.lowering.values import is_stored, reload_index, store
from smelt.kernel.region import Expression, Output

PLACES = ("local", "out")


@dataclass(frozen=True, slots=True)
class Keep(Action):
    """Store a node where a reduction first makes it, in local memory or the output itself; later phases load it."""

    form = "keep {node:name} {place:word}"
    node: str
    place: str = "local"

    def apply(self, plan: Plan) -> None:
        keeps, node = plan.keeps, plan.node(self.node)
        self.refuse(self.place not in PLACES, f"{self.place} is not a place")
        self.refuse(node in keeps, f"{self.node} is kept already")
        self.refuse(node.op == "reduce", f"{self.node} is a reduction, which is made once anyway")
        keeps[node] = self.place
        plan.expected[node] = "keep: no phase before the last makes the node"

    @classmethod
    def settle(cls, plan: Plan) -> None:
        held = plan.together and "out" in plan.keeps.values()
        cls.refuse(held, "where outputs are stored together, none of them can hold a node meanwhile")


def to_keep(state: State, reduction: Expression) -> list[Expression]:
    """The kept nodes that a phase makes first: not in other reductions, and not in memory yet."""
    if state.copying or not state.plan.keeps:
        return []
    made: set[Expression] = set()
    stack = list(reduction.arguments)
    while stack:
        e = stack.pop()
        if e.op != "reduce" and e not in made and not is_stored(state, e):
            made.add(e)
            stack.extend(e.arguments)
    own = set(reduction.attribute.axes)
    return [node for node in state.plan.keeps if node in made and node.axes & own]


class Keeps(Handler):
    """Stores nodes in the steps of reductions."""

    def extra(self, members: tuple[Expression, ...], depth: int) -> Extra | None:
        state = self.state
        if len(members) > 1:
            return None
        filling = {node: self._kept(node, members[0], depth) for node in to_keep(state, members[0])}

        def each() -> None:
            for node, reload in filling.items():
                # Where the step itself reads something staged, nothing else needed the sums of the node.
                value = finished_value(state, node)
                mask = state.conditions(state.facts.axes(node)) if reload.masked else ()
                store(state, reload.buffer, reload_index(state, reload), value, mask)

        def after() -> None:
            state.top.reloads.update(filling)  # only now: during the phase it is not all there
            state.used.update(filling)

        return Extra(each, after)

    def _kept(self, node: Expression, reduction: Expression, depth: int) -> Reload:
        """Where a phase keeps a node: over the whole reduced axes, and the tiles of the others."""
        state = self.state
        axes, own, bindings = state.facts.axes(node), reduction.attribute.axes, state.top.bindings
        if state.plan.keeps[node] == "out":
            output = self._output_for(node, own, depth)
            whole = {a: Room(1, ZERO, None if a in own else bindings[a]) for a in axes}
            return Reload(output.buffer, output.index, whole, masked=True)
        rooms = {a: room_of(state, a) for a in axes if a not in own and bindings[a].parts}
        rooms |= {a: Room(whole_size(state, a), ZERO, None) for a in axes if a in own}
        # A phase further inside, generated earlier, may run between this one and its reads: it has memory of its own.
        return held(state, "k", (node, reduction, depth), node, rooms)

    def _output_for(self, node: Expression, own: tuple[Variable, ...], depth: int) -> Output:
        """The output, if a node can lie in it until its elements are stored."""
        state, output = self.state, self.state.output
        assert output is not None
        buffer, axes = output.buffer, state.facts.axes(node)
        own_axes = set(axes) == set(state.region.parallel_axes(output))
        Keep.refuse(not own_axes, "a node in the output must have the output's own axes")
        fits = buffer.dtype is node.dtype and compute_dtype(buffer.dtype) is buffer.dtype
        Keep.refuse(not fits, f"the output holds {buffer.dtype}, the node is {node.dtype}")
        Keep.refuse(depth < state.grid_depth, "the phase runs outside the grid, in every task")
        Keep.refuse(any(self._is_open(axis) for axis in own), "the phase runs between stores to the output")
        apart = any(a not in own and not state.top.bindings[a].origin.within(state.roots[a]) for a in axes)
        Keep.refuse(apart, "the phase walks the output in loops of its own")
        return output

    def held(self, node: Expression, reload: Reload | None = None) -> None:
        """What lies in the output is there until the output's own loops come past."""
        if reload is None or not reload.masked:
            return
        for axis in reload.rooms:
            between = self._is_open(axis) and not self.state.top.bindings[axis].origin.within(self.state.roots[axis])
            Keep.refuse(between, "a phase between stores to the output reads what was kept there")

    def _is_open(self, axis: Variable) -> bool:
        """True if the output's nest has opened a loop of this axis."""
        root = self.state.roots.get(axis)
        if root is None:
            return False
        bound = [scope.bindings[axis].origin for scope in self.state.scopes if axis in scope.bindings]
        begun = [scope.partials[axis] for scope in self.state.scopes if axis in scope.partials]
        return any(at.within(root) for at in [*bound, *(partial for partial in begun if partial is not root)])
