"""The rules of Kernel IR, checked. A kernel that breaks one is a bug in smelt, so every failure is an `InternalError`.

Values are made before they are used, in a scope that is still open, and have the types and tiles that their operations
demand. Every access stays inside its buffer, proven for all values of the variables, with the help of its own mask and
the conditions around it. Grid loops stand at the top level; their tasks store to different elements, and nothing
outside them stores to an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from smelt.dtypes import compute_dtype, int32
from smelt.errors import InternalError
from smelt.graph import (
    REDUCTIONS,
    Index,
    Maximum,
    Quotient,
    Remainder,
    Variable,
    as_index,
    exact_quotient,
    maximum,
    nonnegative,
    of,
)
from smelt.kernel import ir
from smelt.kernel.barriers import missing_barrier
from smelt.kernel.instructions import BY_NAME, check_instructions
from smelt.kernel.ir import DOTS, PRODUCTS, Kernel, Part, Statement, Value, make_part, share_threads
from smelt.kernel.lowering.plan import Illegal
from smelt.kernel.proofs import implied
from smelt.kernel.region import Buffer, Less, Mask, Place, variables_of
from smelt.kernel.rules import is_typed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UPDATES = frozenset({*REDUCTIONS, "set", *PRODUCTS})


def verify(kernel: Kernel) -> None:
    """Raise InternalError if the kernel breaks a rule."""
    _Verifier(kernel).run()
    try:
        check_instructions(kernel.body)
    except Illegal as refusal:
        raise InternalError(f"{kernel.name}: {refusal}") from None


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.values: dict[str, Value] = {}
        self.accumulators: set[str] = set()
        self.buffers: dict[str, Buffer] = {}
        self.variables: set[Variable] = set(kernel.parameters)
        self.names: set[str] = set()  # of values and variables: each is given once
        self.facts: list[Less] = []  # the conditions that hold here
        self.grid: Variable | None = None
        self.components: set[Variable] = set()  # what the iterations of the present grid loop are taken apart into
        self.has_grid = any(isinstance(s, ir.For) and s.kind == "grid" for s in kernel.body)

    def run(self) -> None:
        kernel = self.kernel
        self.name(kernel.name)
        for buffer in kernel.buffers:
            self.buffer(buffer, Place.ARGUMENT)
        self.body(kernel.body, 0)
        counts = [s.count for s in kernel.body if isinstance(s, ir.For) and s.kind == "grid"]
        tasks = sum(counts, as_index(0)) if counts else as_index(1)
        self.check(kernel.tasks == tasks, f"the tasks are {tasks}, not {kernel.tasks}")
        early = missing_barrier(kernel.body) if kernel.threads > 1 else None
        self.check(early is None, f"threads access {early} without waiting for each other")

    def check(self, holds: bool, message: str) -> None:
        if not holds:
            raise InternalError(f"kernel {self.kernel.name}: {message}")

    def name(self, name: str) -> None:
        self.check(_NAME.fullmatch(name) is not None, f"{name!r} is not a name")
        self.check(name not in self.names, f"{name} is given twice")
        self.names.add(name)

    # --- statements

    def body(self, statements: Iterable[Statement], depth: int) -> None:
        values, variables, buffers = dict(self.values), set(self.variables), dict(self.buffers)
        for statement in statements:
            self.statement(statement, depth)
        self.values, self.variables, self.buffers = values, variables, buffers

    def statement(self, statement: Statement, depth: int) -> None:
        for read in ir.reads(statement):
            self.used(read)
        match statement:
            case ir.For():
                self.loop(statement, depth)
            case ir.If(condition, inside, other):
                self.check(bool(condition), "an if without a condition")
                self.indices(variables_of((), condition))
                self.facts += condition
                self.body(inside, depth + 1)
                del self.facts[len(self.facts) - len(condition) :]
                self.body(other, depth + 1)
            case ir.Let():
                self.let(statement)
            case ir.Ask(variable, asked):
                whole = asked.dtype.is_bool or asked.dtype.is_integer
                self.check(whole and not asked.parts, f"{variable} asks for more than one bool or integer")
                self.indices({*as_index(variable.first).variables(), *as_index(variable.last).variables()})
                self.declare(variable)
            case ir.Local(buffer):
                self.check(depth == 0, f"{buffer.name} is declared inside a loop")
                self.buffer(buffer, Place.LOCAL)
                self.check(all(isinstance(n, int) for n in buffer.shape), f"{buffer.name} has no fixed size")
            case ir.Barrier():
                self.check(self.kernel.threads > 1, "a barrier without a group")
            case ir.Load():
                self.load(statement)
            case ir.Store():
                self.store(statement)
            case ir.Compute():
                self.compute(statement)
            case ir.Accumulator(value, _):
                self.accumulators.add(value.name)
            case ir.Update():
                self.update(statement)
            case ir.Reduce() | ir.Scan():
                self.fold(statement)
        made = ir.defines(statement)
        if made is not None:
            self.define(made)

    def declare(self, variable: Variable) -> None:
        """An integer that is known from here on."""
        self.name(variable.name)
        self.indices(variables_of((variable.first, variable.last)))
        self.variables.add(variable)

    def loop(self, loop: ir.For, depth: int) -> None:
        self.check(loop.kind in ("loop", "grid"), f"{loop.kind} is not a kind of loop")
        self.check(loop.unroll >= 1, f"{loop.variable}: unroll {loop.unroll}")
        self.check(
            loop.variable == Variable(loop.variable.name, 0, loop.count - 1), f"{loop.variable} has other bounds"
        )
        if loop.kind == "grid":
            self.check(depth == 0, f"the grid loop {loop.variable} is not at the top level")
            self.grid, self.components = loop.variable, set()
        self.declare(loop.variable)
        self.facts.append(Less(as_index(0), loop.count))  # the body runs only if there is an iteration
        self.body(loop.body, depth + 1)
        self.facts.pop()
        self.variables.discard(loop.variable)
        if loop.kind == "grid":
            self.grid = None

    def let(self, let: ir.Let) -> None:
        self.indices(variables_of((let.expression, let.variable.first, let.variable.last)))
        first, last, e = let.variable.first, let.variable.last, let.expression
        inside = self.holds(e - first, ()) and (self.holds(last - e, ()) or self.is_component(let))
        self.check(inside, f"{let.variable} = {e} may leave its bounds")
        self.declare(let.variable)
        if self.grid is not None and self.grid in e.variables():
            self.components.add(let.variable)

    def is_component(self, let: ir.Let) -> bool:
        """True for one loop's share of a flattened grid: g // inner, or g // inner % count."""
        if self.grid is None or let.variable.first != 0:
            return False
        count, total = let.variable.last + 1, self.grid.last + 1
        if let.expression == 0:  # there is an iteration, so no factor of the number of tasks is zero
            return exact_quotient(total, count) is not None
        atom = next(iter(let.expression.atoms()), None)
        if atom is None or let.expression != of(atom):
            return False
        if isinstance(atom, Remainder):
            return atom.b in (count, maximum(count, 1))
        if not isinstance(atom, Quotient) or atom.a != of(self.grid):
            return False
        (divisor,) = atom.b.atoms() if len(atom.b.terms) == 1 else (None,)
        inner = [atom.b, divisor.a, divisor.b] if isinstance(divisor, Maximum) else [atom.b]
        return any(count * size == total for size in inner)

    def load(self, load: ir.Load) -> None:
        value, buffer = load.value, load.buffer
        self.check(value.dtype is compute_dtype(buffer.dtype), f"{value.name}: {buffer.name} holds another type")
        for variable, chosen in load.picks:
            self.fits(chosen, value)
            self.check(chosen.dtype.is_integer, f"{value.name}: {chosen.name} is not an integer")
            self.declare(variable)
        self.access(load)
        self.variables -= {variable for variable, _ in load.picks}

    def store(self, store: ir.Store) -> None:
        self.check(store.value.dtype is compute_dtype(store.buffer.dtype), f"{store.buffer.name} holds another type")
        self.access(store)
        found = variables_of(store.index, store.mask)
        for part in store.value.parts:
            used = part.extent == 1 or part.variable in found
            self.check(used, f"{store.buffer.name}: elements of {store.value.name} along {part.name} share one place")
        if store.buffer.place is Place.LOCAL or not self.has_grid:
            return
        self.check(self.grid is not None, f"{store.buffer.name} is stored outside the grid, by every task")
        assert self.grid is not None
        needed = self.components or {self.grid}
        used = any(not _untold(store.index, shares) for shares in ({self.grid}, needed)) or self.grid.high <= 0
        self.check(used, f"several iterations of {self.grid} store to the same place of {store.buffer.name}")

    def compute(self, statement: ir.Compute) -> None:
        value, op, arguments, attribute = statement.value, statement.op, statement.arguments, statement.attribute
        for argument in arguments:
            self.fits(argument, value)
        if op in ("index", "mask"):
            self.indices(variables_of((), attribute) if op == "mask" else attribute.variables(), value.parts)
        typed = is_typed(op, value.dtype, [argument.dtype for argument in arguments], attribute)
        self.check(typed, f"{value.name}: {op} does not take or give these types")

    def update(self, update: ir.Update) -> None:
        accumulator, op = update.accumulator, update.op
        self.used(accumulator)
        self.check(accumulator.name in self.accumulators, f"{accumulator.name} is changed but is no accumulator")
        self.check(op in _UPDATES, f"{op} is not an update")
        row = BY_NAME.get(update.instruction)
        known = row.op == op if row is not None else not update.instruction
        self.check(known, f"{update.instruction} is no instruction for {op}")
        self.check(
            len(update.arguments) == (2 if op in PRODUCTS else 1), f"{accumulator.name}: {op} takes other arguments"
        )
        taken, given = (int32, DOTS[op].result) if op in DOTS else (accumulator.dtype, accumulator.dtype)
        self.check(accumulator.dtype is given, f"{accumulator.name}: {op} gives another type")
        sizes = {part.name: part.extent for part in accumulator.parts}
        seen: dict[str, int] = {}
        for argument in update.arguments:
            self.check(argument.dtype is taken, f"{accumulator.name} and {argument.name} differ in type")
            for part in argument.parts:
                same = seen.setdefault(part.name, part.extent) == part.extent
                self.check(same, f"{accumulator.name}: two extents of {part.name}")
                size = sizes.get(part.name, part.extent)
                fits = part.extent == size or (part.kind == "reg" and part.extent < size)
                self.check(fits, f"{accumulator.name}: {part.name} of {argument.name} has another length")
                summed = op in PRODUCTS and not part.stride
                self.check(summed or part.name in sizes, f"{accumulator.name}: {part.name} must be folded first")

    def fold(self, fold: ir.Reduce | ir.Scan) -> None:
        source, value = fold.source, fold.value
        word = "scan" if isinstance(fold, ir.Scan) else "reduce"
        typed = is_typed(word, value.dtype, [source.dtype], fold)
        self.check(typed, f"{value.name}: {fold.op} is not a {word} of {source.name}")
        left = tuple(part for part in source.parts if part not in fold.parts)
        fits = all(part in source.parts for part in fold.parts)
        if isinstance(fold, ir.Scan):
            self.check(fold.carry.name in self.accumulators, f"{fold.carry.name} is changed but is no accumulator")
            fits = fits and fold.carry.parts == left and fold.carry.dtype is value.dtype
        fits = fits and value.parts == (source.parts if isinstance(fold, ir.Scan) else left)
        self.check(fits, f"{value.name}: the {word} does not fit {source.name}")

    # --- values

    def define(self, value: Value) -> None:
        self.name(value.name)
        lanes = [part for part in value.parts if part.is_lane]
        self.check(not lanes or (len(lanes) == 1 and lanes[0] is value.parts[-1]), f"{value.name}: lane parts")
        names = [part.name for part in value.parts]
        self.check(len(set(names)) == len(names), f"{value.name} has a part twice")
        powers = all(n & (n - 1) == 0 for part in value.parts if part.stride for n in (part.stride, part.extent))
        self.check(powers and not share_threads(value.parts), f"{value.name}: two parts share threads")
        last = sum((part.extent - 1) * part.stride for part in value.parts)
        self.check(last < self.kernel.threads, f"{value.name} has more threads than the group")
        for part in value.parts:
            good = _NAME.fullmatch(part.axis) and part == make_part(part.axis, part.kind, part.extent, part.stride)
            of_threads = part.kind == "thread" if part.stride else part.kind in ("reg", "lane")
            self.check(bool(good) and of_threads, f"{value.name}: {part.name} is not a part")
        self.values[value.name] = value

    def used(self, value: Value) -> None:
        self.check(self.values.get(value.name) == value, f"{value.name} is used where it has not been made")

    def fits(self, argument: Value, value: Value) -> None:
        sizes = {part.name: part.extent for part in value.parts}
        for part in argument.parts:
            self.check(sizes.get(part.name) == part.extent, f"{value.name}: the tile of {argument.name} does not fit")

    # --- memory

    def buffer(self, buffer: Buffer, place: Place) -> None:
        self.name(buffer.name)
        self.check(buffer.place is place, f"{buffer.name} is in another place")
        self.check(len(buffer.shape) == len(buffer.strides), f"{buffer.name} has other strides")
        self.indices(variables_of(map(as_index, (*buffer.shape, *buffer.strides, buffer.offset))))
        self.buffers[buffer.name] = buffer

    def access(self, access: ir.Load | ir.Store) -> None:
        buffer, parts = access.buffer, access.value.parts
        declared = self.buffers.get(buffer.name)
        self.check(declared is not None, f"{buffer.name} is not declared")
        if declared is not None and isinstance(access, ir.Load) and declared.place is Place.ARGUMENT:
            declared = declared.viewed(buffer.dtype)
        self.check(declared == buffer, f"{buffer.name} is declared in another form")
        self.check(len(access.index) == len(buffer.shape), f"{buffer.name} has {len(buffer.shape)} axes")
        self.indices(variables_of(access.index, access.mask), parts)
        for i, size in zip(access.index, buffer.shape, strict=True):
            inside = self.holds(i, access.mask) and self.holds(as_index(size) - 1 - i, access.mask)
            self.check(inside, f"{buffer.name}: index {i} may leave [0, {size})")

    def holds(self, expression: Index, mask: Mask) -> bool:
        """True if an expression is proven not to be negative."""
        return nonnegative(expression) or implied(expression, (*mask, *self.facts))

    def indices(self, variables: Iterable[Variable], parts: tuple[Part, ...] = ()) -> None:
        """The variables of an index are known where it is, or are parts of the value that it is for."""
        known = self.variables.union(part.variable for part in parts)
        for variable in variables:
            self.check(variable in known, f"{variable} is used where it is not known")


def _untold(index: tuple[Index, ...], variables: set[Variable]) -> set[Variable]:
    """Those variables that may have several values for one index, if nothing else differs."""
    left = set(variables)
    told = [(i, v) for i in index for v in variables & i.variables() if not variables & i.coefficient(v).variables()]
    while found := {v for i, v in told if v in left and _tells(i, v, left - {v})}:
        left -= found
    return left


def _tells(index: Index, variable: Variable, others: set[Variable]) -> bool:
    """Whether an index tells the value of a variable, and not of others: it is a multiple of it, and what is added does
    not depend on it, as a remainder would, and differs by less than that multiple whatever the others are.
    """
    factor = index.coefficient(variable)
    rest = index - of(variable) * factor
    if variable in rest.variables():
        return False
    if not others & rest.variables():
        return factor != 0
    again = {v: of(Variable(f"{v.name}'", v.first, v.last)) for v in others & rest.variables()}
    differs = rest - rest.substitute(again)
    return any(nonnegative(step - 1 - differs) for step in (factor, -factor))
