"""Where lowering stands: the open loops, how each open axis is bound there, and what has been made.

Scopes form a stack. A scope is one open loop (or one that runs once, and so shares the body around it). A value belongs
to the scope in which it was made; it may be used wherever all the axes that it varies over are still bound as they were
there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from smelt.dtypes import DType, Scalar
from smelt.errors import InternalError
from smelt.graph import ZERO, Index, IndexLike, Variable, as_index, of
from smelt.kernel.ir import Accumulator, Compute, Let, Part, Reduce, Statement, Value, make_part, share_threads
from smelt.kernel.lowering.facts import Facts
from smelt.kernel.lowering.hooks import Handler
from smelt.kernel.lowering.plan import Dimension, Illegal, Loop, Plan, refuse
from smelt.kernel.region import Buffer, Expression, Less, Mask, Output, extent
from smelt.kernel.segments import Cut, Piece, Segment


@dataclass(slots=True, eq=False)
class Partial:
    """An axis with some or none of its loops open: `total` elements from `start` on are left to those inside."""

    axis: Variable
    start: Index
    total: IndexLike
    cut: Cut
    level: int  # of the next loop to open
    origin: Partial | None

    @property
    def loop(self) -> Loop:
        """The next loop to open."""
        return Loop(self.axis, self.level)

    def within(self, partial: Partial | None) -> bool:
        """True if the axis was opened through this partial opening."""
        at: Partial | None = self
        while at is not None and at is not partial:
            at = at.origin
        return at is not None


@dataclass(slots=True, eq=False)
class Binding:
    """An axis all of whose loops are open: its index is `start` (loops) plus that in a tile (parts of the value)."""

    start: Index
    index: Index
    parts: tuple[Part, ...]
    condition: Less | None  # where the tile may reach past the end
    depth: int  # of the scope that bound it
    origin: Partial
    seen: Index = ZERO  # how many elements of the tile another tile has finished


class Room(NamedTuple):
    """What is held of an axis: how many elements, the first of them, and what opened them (None: all are there)."""

    size: int
    base: Index
    opener: Binding | Partial | None


class Reload(NamedTuple):
    """A node in memory: where, and what of its axes is there."""

    buffer: Buffer
    places: tuple[Index, ...]  # over the region's axes, from their bases on
    rooms: dict[Variable, Room]
    order: Sequence[Dimension] = ()  # how axes are cut there, if some are
    masked: bool = False  # the memory has no room for what a tile reaches past the end


class Scope:
    """One open loop."""

    __slots__ = ("bindings", "body", "floor", "memo", "partials", "reloads", "substitution")

    def __init__(self, body: list[Statement], parent: Scope | None, floor: bool = False) -> None:
        self.body = body
        self.floor = floor  # values are not moved out of it: it is under a condition
        self.bindings: dict[Variable, Binding] = dict(parent.bindings) if parent else {}
        self.partials: dict[Variable, Partial] = dict(parent.partials) if parent else {}
        self.substitution: dict[Variable, IndexLike] = dict(parent.substitution) if parent else {}
        self.memo: dict[Expression, tuple[Value, int]] = {}  # with the depth of the scope that made it
        self.reloads: dict[Expression, Reload] = {}

    def bind(self, axis: Variable, binding: Binding) -> None:
        self.bindings[axis] = binding
        self.substitution[axis] = binding.index

    def unbind(self, axis: Variable) -> None:
        self.bindings.pop(axis, None)
        self.substitution.pop(axis, None)


class State:
    """The stack of scopes, fresh names, what is being made for whom, and the small questions about open axes."""

    def __init__(self, plan: Plan) -> None:
        self.region, self.plan, self.facts = plan.region, plan, Facts(plan.region)
        self.handlers: tuple[Handler, ...] = ()
        self.body: list[Statement] = []
        self.scopes = [Scope(self.body, None)]
        self.waiting: list[list[Scope]] = []
        self.memory: dict[tuple[object, ...], Buffer] = {}  # local memory by who uses it
        # How segments of a loop are entered, where not all of its blocks run one after the other.
        self.visits: dict[Partial, Callable[[Segment, Callable[[Segment], None]], None]] = {}
        self.consumers: tuple[Expression, ...] = ()  # whose loops are being opened
        self.copying = False  # the loops are those of a copy into memory
        self.used: set[object] = set()  # what came to something: stages, kept nodes
        self.output: Output | None = None  # being stored
        self.wanted: frozenset[Expression] = frozenset()  # what it, and others stored with it, are made of
        self.roots: dict[Variable, Partial] = {}  # the axes of its nest, before their first loop
        self.grid_depth = 0  # of the scope inside its grid loop
        self._positions = {axis.name: at for axis, at in self.facts.position.items()}
        # Fresh names avoid those of the region, some of which users chose.
        self._taken = {variable.name for variable in (*self.region.axes, *self.region.parameters)}
        self._taken |= {buffer.name for buffer in self.region.buffers()}
        self._count = 0

    @property
    def top(self) -> Scope:
        return self.scopes[-1]

    def fresh(self, letter: str) -> str:
        while True:
            self._count += 1
            name = f"{letter}{self._count - 1}"
            if name not in self._taken:
                return name

    @contextmanager
    def scope(self, body: list[Statement], begun: Iterable[Partial] = (), floor: bool = False) -> Iterator[Scope]:
        """Work in a new scope, in which some axes start anew (whole axes, or blocks of them)."""
        scope = Scope(body, self.top, floor)
        for partial in begun:
            scope.unbind(partial.axis)
            scope.partials[partial.axis] = partial
        self.scopes.append(scope)
        yield scope
        self.scopes.pop()

    @contextmanager
    def moved_out(self, depth: int) -> Iterator[None]:
        """Work in the scope at this depth; those inside it wait."""
        waiting = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        self.waiting.append(waiting)
        yield
        self.waiting.pop()
        self.scopes.extend(waiting)

    def floor(self) -> int:
        """The depth of the innermost condition: nothing moves out of it."""
        return max((at for at, scope in enumerate(self.scopes) if scope.floor), default=0)

    def depth(self, e: Expression) -> int:
        """The depth of the scope that bound the last of an expression's axes."""
        bindings = self.top.bindings
        return max((bindings[axis].depth for axis in self.facts.axes(e)), default=0)

    def whole(self, axis: Variable, cut: Cut) -> Partial:
        """An axis none of whose loops is open."""
        return Partial(axis, ZERO, extent(axis), cut, 0, None)

    # --- statements

    def emit(self, statement: Statement, depth: int | None = None) -> None:
        self.scopes[-1 if depth is None else depth].body.append(statement)

    def compute(
        self, op: str, dtype: DType, parts: tuple[Part, ...], arguments: tuple[Value, ...] = (), attribute: Any = None
    ) -> Value:
        """A value computed in the present scope."""
        value = Value(self.fresh("v"), dtype, parts)
        self.emit(Compute(value, op, arguments, attribute))
        return value

    def named(self, value: Index, first: IndexLike | None = None, last: IndexLike | None = None) -> Index:
        """A number as a variable that is known to be just that, or to have some bounds."""
        variable = Variable(self.fresh("q"), value if first is None else first, value if last is None else last)
        self.emit(Let(variable, value))
        return of(variable)

    def accumulate(self, dtype: DType, parts: tuple[Part, ...], initial: Scalar) -> Value:
        """A new accumulator in the present scope."""
        value = Value(self.fresh("a"), dtype, parts)
        self.emit(Accumulator(value, initial))
        return value

    def fold(self, op: str, source: Value, over: tuple[Part, ...]) -> Value:
        """A value folded over some of its parts, if there are any."""
        if not over:
            return source
        value = Value(self.fresh("v"), source.dtype, tuple(part for part in source.parts if part not in over))
        self.emit(Reduce(value, op, source, over))
        return value

    # --- tiles

    def parts(self, axes: tuple[Variable, ...], used: Collection[Variable] | None = None) -> tuple[Part, ...]:
        """The parts that open axes have in values; only those in `used`, if it is given."""
        bindings = self.top.bindings
        found = [part for axis in axes for part in bindings[axis].parts]
        return self.sorted_parts([p for p in found if used is None or p.variable in used])

    def sorted_parts(self, parts: list[Part]) -> tuple[Part, ...]:
        """Parts in the order that values have them: the lane part last."""
        shared = self.plan.threads > 1 and share_threads(parts)
        refuse(shared, "the threads of a part are those of another part of the value")
        lanes = [part for part in parts if part.is_lane]
        if len(lanes) > 1:
            raise Illegal(f"a value cannot have two lane parts: {lanes[0].name} and {lanes[1].name}")
        return (*(part for part in parts if not part.is_lane), *lanes)

    def joined(self, values: tuple[Value, ...]) -> tuple[Part, ...]:
        """The parts of a value computed from others."""
        first = values[0].parts if values else ()
        if all(value.parts == first or not value.parts for value in values[1:]):
            return first
        found: dict[str, Part] = {}
        for value in values:
            for part in value.parts:
                if found.setdefault(part.name, part).extent != part.extent:
                    raise InternalError(f"two tiles differ in {part.name}")
        return self.sorted_parts(sorted(found.values(), key=self.part_order))

    def part_order(self, part: Part) -> tuple[int, str]:
        return self._positions[part.axis], "" if part.kind == "reg" else part.name

    def conditions(self, axes: tuple[Variable, ...]) -> Mask:
        """Where the elements of the open tiles are inside their axes."""
        bindings = self.top.bindings
        found = [bindings[axis].condition for axis in axes]
        return tuple(condition for condition in found if condition is not None)


def parts_of(axis: Variable, pieces: Iterable[Piece], extents: Sequence[int]) -> list[Part]:
    """The parts of a tile that is cut in this way, or of a smaller one."""
    return [make_part(axis.name, piece.kind, n, piece.stride) for piece, n in zip(pieces, extents, strict=True)]


def tile_of(axis: Variable, pieces: tuple[Piece, ...], extents: tuple[int, ...]) -> tuple[Index, tuple[Part, ...]]:
    """The offset of an element in a tile, and the tile's parts.

    Parts of extent 1 stay: without them a value would be broadcast.
    """
    offset, step = as_index(0), 1
    parts = parts_of(axis, pieces, extents)
    for each in reversed(parts):
        offset = offset + of(each.variable) * step
        step *= each.extent
    return offset, tuple(parts)
