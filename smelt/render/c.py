"""Kernel IR to source: one function per kernel, one translation unit for many.

What is written is C with vector extensions; a `Dialect` says what another language spells otherwise.

In C a kernel becomes `void NAME(void *const *buffers, const long *integers, char *workspace, long begin, long end)`:
it runs the tasks from `begin` to `end` (without it) on its buffers and integer parameters, in the calling order of the
IR; locals lie in `workspace`. Where the number of tasks is symbolic, `long NAME_tasks(const long *integers)` tells it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType

from smelt.dtypes import Scalar, bool_, compute_dtype
from smelt.errors import InternalError
from smelt.graph import Index, as_index, scan_start, upper
from smelt.kernel import (
    DOTS,
    Accumulator,
    Ask,
    Barrier,
    Buffer,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Part,
    Reduce,
    Routine,
    Scan,
    Series,
    Statement,
    Store,
    Update,
    Value,
    statements,
)
from smelt.render import elementwise
from smelt.render.dialect import C, Dialect
from smelt.render.expressions import Expressions
from smelt.render.library import Library, Type
from smelt.render.matrix import Matrix
from smelt.render.memory import access
from smelt.render.prefetch import lines_ahead, rows_ahead
from smelt.render.routines import render_routine
from smelt.render.spell import shuffled
from smelt.render.tiles import Coordinates, combinations

LARGE_TILE = 12  # registers that hold sums, of those that a processor has
_ALIGNMENT = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def render(
    kernels: Sequence[Kernel | Routine | Series], dialect: Dialect = C, features: frozenset[str] = frozenset()
) -> str:
    """The text of one translation unit that defines every kernel.

    `features` are those of the processor that the compiler has no checks for: matrix instructions.
    """
    if not all(_NAME.fullmatch(kernel.name) for kernel in kernels):
        raise InternalError("a kernel's name must be a C identifier")
    library = Library(dialect)
    functions = [_function(kernel, library, features) for kernel in kernels]
    return dialect.spelled(library.text + "".join(functions))


def _function(kernel: Kernel | Routine | Series, library: Library, features: frozenset[str]) -> str:
    if isinstance(kernel, Routine):
        return render_routine(kernel, library)
    return (
        _series(kernel, library, features)
        if isinstance(kernel, Series)
        else _Writer(kernel, library, features).function()
    )


def _series(series: Series, library: Library, features: frozenset[str]) -> str:
    """The functions of the parts, and one that calls them for one piece after the other."""
    made, given, calls, dialect = "", [], [], library.dialect
    for k, part in enumerate(series.parts):
        name, count = f"{series.name}_{k}", as_index(part.tasks).high
        made += _function(replace(part, name=name), library, features)
        buffers = ", ".join(f"buffers[{number}]" for number in series.buffers[k])
        integers = ", ".join(f"integers[{number}]" for number in series.integers[k]) or "0"
        given += [f"void *const b{k}[] = {{{buffers}}};", f"const long d{k}[] = {{{integers}}};"]
        first = f"t * {count} / {series.pieces}"
        calls.append(f"{name}(b{k}, d{k}, workspace, {first}, (t + 1) * {count} / {series.pieces});")
        # Nothing of one part is moved into another one: memory that they share may be of two types.
        made = f"__attribute__((noinline)) {dialect.head(name, 0, 0, 1)[0]};\n{made}"
    (head,) = dialect.head(series.name, 1 + max(map(max, series.buffers)), len(series.parameters), 1)
    lines = [*given, "for (long t = begin; t < end; t++) {", *calls, "}"]
    return f"{made}\n{head} {{\n{_indented(lines)}}}\n"


def workspace_bytes(kernel: Kernel | Routine | Series) -> int:
    """How many bytes of workspace, aligned to 64, each thread needs."""
    if isinstance(kernel, Series):
        return max(map(workspace_bytes, kernel.parts))
    if isinstance(kernel, Routine):
        return -(-kernel.workspace // _ALIGNMENT) * _ALIGNMENT
    return sum(_local_bytes(statement.buffer) for statement in statements(kernel.body) if isinstance(statement, Local))


def _local_bytes(buffer: Buffer) -> int:
    last = as_index(buffer.offset).high
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        if upper(size) == 0:
            return 0
        last += (upper(size) - 1) * upper(stride)
    return -(-(last + 1) * buffer.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _largest_tile(kernel: Kernel) -> int:
    """How many registers the largest sum of a kernel is spread over."""
    sums = [s.accumulator for s in statements(kernel.body) if isinstance(s, Update)]
    return max((_count(part for part in value.parts if not part.is_lane) for value in sums), default=0)


def _count(parts: Iterable[Part]) -> int:
    """How many registers some parts are."""
    return math.prod(part.extent for part in parts)


class _Writer(Expressions):
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, library: Library, features: frozenset[str]) -> None:
        super().__init__(library, kernel)
        self.matrix = Matrix(kernel, features, self)
        self._unasked = set(kernel.fetched) if kernel.ahead and library.dialect.extensions else set()
        self._around: list[For] = []  # the loops around
        self._share: Mapping[str, range] = {}  # of a loop's sums, the elements of a part that are summed this time
        self.workspace = 0
        self.loops = itertools.count()

    def function(self) -> str:
        kernel, dialect = self.kernel, self.library.dialect
        head, *declared = dialect.head(kernel.name, len(kernel.buffers), len(kernel.parameters), kernel.threads)
        self.lines += self.parameters(kernel.parameters)
        tasks = self.task_count(kernel) if not dialect.groups else ""
        for number, buffer in enumerate(kernel.buffers):
            self.buffers[buffer.name] = f"b{number}"
            element = self.elements[buffer.name] = elementwise.memory_element(buffer.dtype)
            self.lines.append(f"{dialect.space}{element} *b{number} = buffers[{number}];")
        first = len(self.lines)
        self.matrix.begin()
        self._top(kernel.body)
        self.matrix.end()
        self.lines[first:first] = self.groups.declarations
        if dialect.extensions and any(isinstance(s, Store) and s.stream for s in statements(kernel.body)):
            self.lines.append(f"{self.helper('fence')}();")
        order = "IN_ORDER " if dialect.extensions and _largest_tile(kernel) >= LARGE_TILE else ""
        return f"{tasks}\n{order}{head} {{\n{_indented([*declared, *self.lines])}}}\n"

    # --- blocks

    def _top(self, body: Sequence[Statement]) -> None:
        """Grid loops share the tasks: each takes its own stretch, cut to [begin, end). The rest runs in every call."""
        before: Index = as_index(0)
        several = sum(isinstance(statement, For) and statement.kind == "grid" for statement in body) > 1
        for statement in body:
            if not (isinstance(statement, For) and statement.kind == "grid"):
                self._ask_ahead(statement)
                self._statement(statement)
                continue
            self.settle()
            offset, after = self.spell(before), before + statement.count
            if self.library.dialect.groups:
                self._task(statement, offset, self.spell(after), several)
            else:
                first = f"{self.helper('greatest')}(begin, {offset}) - ({offset})"
                last = f"{self.helper('least')}(end, {self.spell(after)}) - ({offset})"
                self._loop(statement, first, last)
            before = after

    def _task(self, statement: For, first: str, last: str, several: bool) -> None:
        """The one task of this call, if it is one of these."""
        name = f"t{next(self.loops)}"
        self.lines.append(f"if (begin >= {first} && begin < {last}) {{" if several else "{")
        self.lines.append(f"const long {name} = begin - ({first});")
        self._block(statement.body, {statement.variable.name: name})
        self.lines.append("}")

    def _loop(self, statement: For, first: str, last: str) -> None:
        if statement.unroll > 1 and self.library.dialect.extensions:
            self.lines += [
                *("#ifdef __clang__", f"#pragma clang loop unroll_count({statement.unroll})"),
                *("#else", f"#pragma GCC unroll {statement.unroll}", "#endif"),
            ]
        number = next(self.loops)
        name, end = f"t{number}", f"e{number}"
        self.lines.append(f"for (long {name} = {first}, {end} = {last}; {name} < {end}; {name}++) {{")
        self._fetch_ahead(statement, name, end)
        self._around.append(statement)
        self._block(statement.body, {statement.variable.name: name})
        self._around.pop()
        self.lines.append("}")

    def _shares(self, loop: For) -> Iterator[Mapping[str, range]]:
        """Which elements of a part are summed each time that a loop of products runs: as many as registers hold."""
        alone = all(isinstance(s, Load | Compute) or (isinstance(s, Update) and s.op == "fma") for s in loop.body)
        asked = self.kernel.registers > 0 and alone
        tiles = [self.tile(s.accumulator).parts for s in loop.body if asked and isinstance(s, Update)]
        shared = [part for part in tiles[0] if all(part in parts for parts in tiles)] if tiles else []
        widest = max(shared, key=lambda part: part.extent, default=None)
        each = self.kernel.registers // max(1, sum(_count(parts) // widest.extent for parts in tiles)) if widest else 0
        if widest is None or not 0 < each < widest.extent:
            yield {}
        else:
            each = -(-widest.extent // -(-widest.extent // each))  # about as many each time
            yield from ({widest.name: range(k, k + each)} for k in range(0, widest.extent, each))

    def _fetch_ahead(self, statement: For, name: str, end: str) -> None:
        """Ask for the rows that a later iteration gathers."""
        turns = self.kernel.turns if self.library.dialect.extensions else 0
        numbers, rows = rows_ahead(statement, self.kernel.fetched) if turns else ([], [])
        if not rows:
            return
        later = self.fresh("n")
        self.lines += ["{", f"const long {later} = {name} + {turns} < {end} ? {name} + {turns} : {name};"]
        with self._scope({statement.variable.name: later}):
            for source in numbers:  # written where they are needed
                self._statement(source)
            for row in rows:
                self.declare(row.load.value)
                pointer = self.gathered(row.load)
                self.lines += [f"__builtin_prefetch({pointer} + {offset});" for offset in row.offsets]
        self.lines.append("}")

    def _ask_ahead(self, access: Statement) -> None:
        """Ask for what comes after the first access to an argument that a kernel walks through."""
        if not isinstance(access, Load | Store) or access.buffer.name not in self._unasked:
            return
        if access.stream if isinstance(access, Store) else access.picks:
            return  # it is not fetched, or it is not known what comes next
        self._unasked.remove(access.buffer.name)
        hint = ", 1" if isinstance(access, Store) else ""
        pointers = [self.pointer(access.buffer, at) for at in lines_ahead(access, self._around, self.kernel.ahead)]
        self.lines += [f"__builtin_prefetch({pointer}{hint});" for pointer in pointers]

    @contextmanager
    def _scope(self, names: Mapping[str, str]) -> Iterator[None]:
        """Variables have these names inside, and what else gets a name there is forgotten after it."""
        spilled = self.matrix.spilled
        with self.named(names):
            self._scopes.append({})
            yield
            self.forget()
            self._scopes.pop()
        self.matrix.spilled = spilled

    def _block(self, body: Iterable[Statement], names: Mapping[str, str] = MappingProxyType({})) -> None:
        with self._scope(names):
            for statement in body:
                self._ask_ahead(statement)
                self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        if self.matrix.takes(statement):
            return
        match statement:
            case For():
                self.settle()
                for share in self._shares(statement):
                    self._share = share
                    self._loop(statement, "0", self.spell(statement.count))
                self._share = {}
            case If():
                self._if(statement)
            case Let() | Ask():
                text = self.spell(statement.expression) if isinstance(statement, Let) else self._asked(statement)
                name = self.names[statement.variable.name] = self.fresh("n")
                self.lines.append(f"const long {name} = {text};")
            case Barrier():
                self.settle()
                self.groups.wait()
            case Local():
                self._local(statement.buffer)
            case Compute(op="const", value=value):
                self.declare(value, literal=elementwise.literal(statement.attribute, value.dtype))
            case Load() if self.kernel.transposes and self.transpose(statement):
                return
            case Load() | Compute() | Reduce():
                self.postpone(statement)
            case Accumulator():
                self._accumulator(statement)
            case Update():
                self._update(statement)
            case Scan():
                self._scan(statement)
            case Store():
                self._store(statement)

    def _asked(self, statement: Ask) -> str:
        """What data decide, within its bounds."""
        if statement.value.dtype.is_bool:
            return f"{self.use(statement.value, {})} != 0"
        first, last = (self.spell(as_index(end)) for end in (statement.variable.first, statement.variable.last))
        asked = f"(long)({self.use(statement.value, {})})"
        return f"{asked} < {first} ? {first} : {asked} > {last} ? {last} : {asked}"

    def _if(self, statement: If) -> None:
        self.settle()
        self.lines.append(f"if ({self.conditions(statement.condition)}) {{")
        self._block(statement.body)
        if statement.other:
            self.lines.append("} else {")
            self._block(statement.other)
        self.lines.append("}")

    # --- statements with an effect

    def _local(self, buffer: Buffer) -> None:
        name, size = self.fresh("s"), _local_bytes(buffer)
        self.buffers[buffer.name] = name
        words = {"space": self.space(buffer), "element": elementwise.memory_element(buffer.dtype), "name": name}
        count = max(1, size // buffer.dtype.itemsize)
        self.lines.append(self.library.dialect.local.format(**words, at=self.workspace, count=count))
        self.workspace += size

    def _store(self, statement: Store) -> None:
        value, buffer = statement.value, statement.buffer
        if value.dtype is not compute_dtype(buffer.dtype):
            raise InternalError(f"a store of {value.dtype} to {buffer.dtype}")
        self.settle_loads(buffer.name)
        tile = self.tile(value)
        wanted = Type("i8", tile.form.lanes) if value.dtype is bool_ and tile.form.lanes > 1 else tile.form
        owner, stream = self.groups.owner(value), statement.stream and self.library.dialect.extensions
        for at in combinations(tile.parts):
            self.store(access(statement, at, tile.lane), self.operand(value, at, wanted), owner, stream)

    def _accumulator(self, statement: Accumulator) -> None:
        value, tile = statement.value, self.declare(statement.value)
        kind, initial = self.library.type(tile.form), self._everywhere(statement.initial, value)
        names = [self.register(self.key(value, at)) for at in combinations(tile.parts)]
        self.lines += [f"{kind} {name} = {initial};" for name in names]

    def _update(self, statement: Update) -> None:
        accumulator, arguments = statement.accumulator, statement.arguments
        self.settle_readers(accumulator.name)
        tile = self.tile(accumulator)
        parts: dict[str, Part] = {}
        for part in itertools.chain.from_iterable(self.tile(value).parts for value in (accumulator, *arguments)):
            # A shorter part changes only the first elements.
            parts[part.name] = min(parts.get(part.name, part), part, key=lambda part: part.extent)
        outer = {part.name for part in self.tile(arguments[0]).parts}
        # What is summed comes first: a number that several registers are multiplied with is read once for all of them.
        kept = {part.name for part in tile.parts} if statement.op in DOTS else parts
        for at in combinations(sorted(parts.values(), key=lambda part: (part.name in kept, part.name not in outer))):
            if any(at[name] not in share for name, share in self._share.items()):
                continue
            target = self.register(self.key(accumulator, at))
            self.lines.append(f"{target} = {self._updated(statement, at, target)};")

    def _updated(self, statement: Update, at: Coordinates, target: str) -> str:
        accumulator, arguments, op = statement.accumulator, statement.arguments, statement.op
        form = wide = self.tile(accumulator).form
        if op == "fma" or op in DOTS:
            wide = Type(form.element, max(form.lanes, *(self.tile(argument).lanes for argument in arguments)))
        if op == "fma":
            texts = self.operands(arguments, at, wide)
        elif op == "dot4_ss" and wide == form and self._is_vector_by_scalar(arguments):
            a, b = sorted(arguments, key=lambda argument: self.tile(argument).lanes, reverse=True)
            each = self.library.function("add_dot4_ss_each", form)
            return f"{each}({target}, {self.use(a, at)}, {self.use(b, at)})"
        elif op in DOTS:
            texts = [self.operand(argument, at, wide.integer) for argument in arguments]
        elif elementwise.is_operator(op):
            texts = [self.use(arguments[0], at)]
        else:
            texts = [self.operand(arguments[0], at, form)]
        if wide == form:
            return self._combined(op, accumulator, form, target, texts)
        zero = self.splat("0", wide)
        own = " * ".join(texts) if op == "fma" else self._combined(op, accumulator, wide, zero, texts)
        return f"{target} + {self.library.function('fold_add', wide)}({own})"

    def _is_vector_by_scalar(self, arguments: Sequence[Value]) -> bool:
        return sorted(min(2, self.tile(argument).lanes) for argument in arguments) == [1, 2]

    def _combined(self, op: str, accumulator: Value, form: Type, old: str, texts: Sequence[str]) -> str:
        """What an update makes of the old register and its operands."""
        if op == "set":
            return texts[0]
        if op == "fma":
            return f"{old} + {texts[0]} * {texts[1]}"
        if op in DOTS:
            return f"{self.library.function(f'add_{op}', form)}({old}, {texts[0]}, {texts[1]})"
        return self.combine(op, accumulator, form, old, texts[0])

    def _scan(self, statement: Scan) -> None:
        """Along registers one after the other, along the lanes of a vector by doubling: a vector is combined with
        itself moved up by one lane, then by two, by four and so on, the lanes below filled with the identity. The carry
        is combined last, so that it alone ties one vector to the next.
        """
        value, carry, scanned = statement.value, statement.carry, {part.name for part in statement.parts}
        self.settle_readers(carry.name)
        tile = self.declare(value, self.tile(statement.source).form.bits)
        form, kind = tile.form, self.library.type(tile.form)
        across = tile.lane is not None and tile.lane.name in scanned
        # Registers of other parts are independent chains: side by side they hide each other's latency.
        for at in combinations(sorted(tile.parts, key=lambda part: part.name not in scanned)):
            name = self.register(self.key(value, at))
            self.lines.append(f"{kind} {name} = {self.operand(statement.source, at, form)};")
            for before in [*(self._moved(statement, form, name) if across else []), self.operand(carry, at, form)]:
                self.lines.append(f"{name} = {self.combine(statement.op, value, form, before, name)};")
            last = self.mask_as(name, form.bits, self.tile(carry).form)
            if across:
                last = f"{name}[{form.lanes - 1}]" + (" != 0" if value.dtype is bool_ else "")
            self.lines.append(f"{self.register(self.key(carry, at))} = {last};")

    def _moved(self, statement: Scan, form: Type, name: str) -> list[str]:
        """A vector moved up by one lane, by two, by four and so on."""
        lanes, fill = form.lanes, self._everywhere(scan_start(statement.op, statement.value.dtype), statement.value)
        steps = [1 << k for k in range((lanes - 1).bit_length())]
        return [shuffled(fill, name, (j if j < step else lanes + j - step for j in range(lanes))) for step in steps]

    def _everywhere(self, scalar: Scalar, value: Value) -> str:
        """A scalar in every lane of a value."""
        form, literal = self.tile(value).form, elementwise.literal(scalar, value.dtype)
        return self.splat(f"-({literal})" if value.dtype is bool_ and form.lanes > 1 else literal, form)


def _indented(lines: list[str]) -> str:
    """Lines in the shape of their blocks."""
    depth, out = 1, []
    for line in lines:
        if line.startswith("}"):
            depth -= 1
        out.append(f"{line}\n" if line.startswith("#") else f"{'  ' * depth}{line}\n")
        if line.endswith("{"):
            depth += 1
    return "".join(out)
