"""Functions of a module as graphs: every operation is read by the row that its name has in the tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from smelt.dtypes import DType, uint32
from smelt.errors import ArgumentError, DTypeError, ParseError, ShapeError, SmeltError, UnsupportedOp
from smelt.formats import mlir
from smelt.formats.mlir import LIMITS, Function, Limits, Module, Operation, Ranked, Region, Type
from smelt.formats.stablehlo import sizes, types
from smelt.formats.stablehlo.rows import Call, Row, Scope, Value, stand_in
from smelt.formats.stablehlo.unknown import ENDS, unknown
from smelt.graph import Index, IndexLike, Node, Shape, shape_text, topological, upper


class Rules(NamedTuple):
    """Where authorities disagree. `whole_windows`: a scatter's window that lies partly outside is dropped as a whole,
    as XLA has it; otherwise element by element, as the specification says.
    """

    whole_windows: bool


SPECIFICATION: Final = Rules(whole_windows=False)
XLA: Final = Rules(whole_windows=True)


class Missing:
    """The value of an operation that could not be read, and whose type says too little."""


_MOST_MISTAKES = 50  # then nothing more is looked for


class UnknownSize(UnsupportedOp):
    """A size that depends on the values of some arguments, whose numbers are `arguments`."""

    def __init__(self, message: str, name: str, at: mlir.Place, arguments: tuple[int, ...]) -> None:
        hint = "Call the program with numbers for them, or with tensors that are computed already." if arguments else ""
        super().__init__(message, name, at.line, at.column, hint=hint)
        self.arguments = arguments


class Assertion(NamedTuple):
    """What sizes must fulfil, what is said when they do not, and the numbers in that."""

    condition: sizes.Condition
    message: str
    numbers: tuple[Any, ...]

    def check(self, values: dict[str, int]) -> None:
        """Refuse sizes that do not."""
        if not self.condition.holds(values):
            numbers = [n.evaluate(values) if isinstance(n, Index) else n for n in self.numbers]
            raise ShapeError(sizes.filled(self.message, numbers))


_DEPTH = 200  # calls in each other


class Reading:
    """A module that is being read; what has been found out is remembered."""

    def __init__(
        self, module: Module, table: dict[str, Row], rules: Rules = SPECIFICATION, limits: Limits = LIMITS
    ) -> None:
        self.module, self.table, self.rules, self.limits = module, table, rules, limits
        self.trusted = False  # whether composites that say they are ours are: the module was written here
        self.composites: dict[Any, Any] = {}  # of ours, by all that they say
        self.constants: dict[tuple[int, DType, Shape], Node] = {}  # by the identity of their elements
        self.entries = sizes.Entries()
        self.given: dict[Node, int] = {}  # the numbers of the arguments
        self.assertions: list[Assertion] = []
        self.filled: list[IndexLike] = []  # sizes that are not 0 where the region that is being read runs
        self._follows = sizes.are_values(module.text)
        self._types: dict[Type, tuple[DType, Shape]] = {}
        self.keys: list[Node] = []  # stand-ins for keys of random numbers, new ones in every call of the program
        self._depth = self._calls = 0
        self._end = time.monotonic() + limits.seconds
        self.mistakes: list[SmeltError] | None = None  # where all of them are looked for, those that have been found
        self._met = 0  # how often one was met
        self._doubted: set[Node] = set()  # stand-ins for values that are wrong: of these only the text knows the type

    def random_key(self) -> Node:
        """The key of numbers that nothing in the text decides."""
        self.keys.append(stand_in(uint32, (2,)))
        return self.keys[-1]

    def trusting(self, module: Module) -> Reading:
        """The same for a module that was written here."""
        other = Reading(module, self.table, self.rules, self.limits)
        other.trusted, other._follows = True, self._follows
        return other

    # --- functions and regions

    def function(self, name: str, values: Sequence[Value], operation: Operation | None = None) -> list[Value]:
        """What a function gives for some values."""
        function = self.module.functions.get(name)
        if function is None or function.body is None:
            where = "" if operation is None else f"{self.place(operation)}: "
            raise ParseError(f"{where}the module has no function called {name!r} with a body")
        self._depth += 1
        self._calls += 1
        if self._depth > _DEPTH or self._calls > self.limits.calls:
            raise ParseError(f"calls of {name!r} do not end", rule=f"at most {_DEPTH} functions call each other.")
        if time.monotonic() > self._end:
            at, rule = mlir.place(self.module.text, function.at), f"at most {self.limits.seconds:g} seconds are spent."
            raise ParseError(f"{at}: reading takes too long", rule=rule)
        if len(function.body.blocks) != 1:
            at = mlir.place(self.module.text, function.at)
            raise ParseError(f"{at}: {name} has several blocks", rule="StableHLO has no jumps between blocks.")
        self._check_given(function, values, operation)
        if len({argument.name for argument in function.arguments}) < len(values):
            at = mlir.place(self.module.text, function.at)
            raise ParseError(f"{at}: {name}: two arguments have one name")
        try:
            results = self.region(function.body, values, {})
        except RecursionError:  # bodies inside take many more of Python's calls than functions do
            raise ParseError(f"calls of {name!r} do not end, or bodies lie in each other too deep") from None
        self._depth -= 1
        try:
            self._check_results(function, results)
        except SmeltError as error:
            self._noted(error)
            return [self._declared(kind) for kind, _ in function.results]
        return results

    def _check_results(self, function: Function, values: Sequence[Value]) -> None:
        if len(values) != len(function.results):
            where = f"{mlir.place(self.module.text, function.at)}: {function.name}"
            raise ParseError(f"{where} gives {len(values)} values", rule=f"it declares {len(function.results)}.")
        for k, (value, (kind, _)) in enumerate(zip(values, function.results, strict=True)):
            if isinstance(value, Node) and isinstance(kind, Ranked) and not _fits(value, kind):
                where = f"{mlir.place(self.module.text, function.at)}: {function.name}"
                self._check(value, kind, f"{where}: result {k}")

    def _check_given(self, function: Function, values: Sequence[Value], operation: Operation | None) -> None:
        if len(values) != len(function.arguments):
            raise ArgumentError(
                f"{function.name}: {len(values)} values are given", rule=f"it takes {len(function.arguments)}."
            )
        for argument, value in zip(function.arguments, values, strict=True):
            if isinstance(argument.type, Ranked) and isinstance(value, Node):
                for axis, (size, bound) in enumerate(zip(value.shape, types.bounds(argument.type), strict=False)):
                    if bound is not None and upper(size) > bound:
                        rule = f"axis {axis} has at most {bound} elements, says the text."
                        raise ShapeError(
                            f"{function.name}: {argument.name} has shape {shape_text(value.shape)}", rule=rule
                        )
                self._check(value, argument.type, f"{function.name}: {argument.name}", operation)

    def region(self, region: Region, values: Sequence[Value], scope: Scope) -> list[Value]:
        """What the only block of a region gives; what it does not define is found in the scope around it."""
        if len(region.blocks) != 1:
            raise ParseError("a body has several blocks", rule="StableHLO has no jumps between blocks.")
        [block] = region.blocks
        if len(values) != len(block.arguments):
            raise ParseError(f"a body takes {len(block.arguments)} values, and is given {len(values)}")
        # A copy for every body would take time with the square of the text's length: a body adds its names, and
        # takes them out again. Where all mistakes are looked for, one may replace an outer one: in a copy.
        inner, outside = scope if self.mistakes is None else dict(scope), len(scope)
        for argument, value in zip(block.arguments, values, strict=True):
            self._name(argument.name, value, inner)
        for argument, value in zip(block.arguments, values, strict=True):
            if isinstance(value, Node) and not _is(value, argument.type):
                self._check(value, argument.type, f"the argument {argument.name}")
        for number, operation in enumerate(block.operations, 1):
            if operation.name in ENDS:
                if number < len(block.operations):
                    after = block.operations[number]
                    raise ParseError(f"{self.place(after)}: {after.name}: it stands behind the end of its body")
                given = self._given_back(operation, inner)
                break
            if self.mistakes is None:
                self._step(operation, inner)
            else:
                self._try(operation, inner)
        else:
            given = []
        while len(inner) > outside:
            inner.popitem()  # the last one
        return given

    # --- all mistakes

    def _noted(self, error: SmeltError) -> None:
        """Go on after a mistake, if all of them are looked for; each is noted once, however often it is met."""
        if self.mistakes is None or len(self.mistakes) >= _MOST_MISTAKES:
            raise error
        self._met += 1
        if str(error.told) not in [str(other.told) for other in self.mistakes]:
            self.mistakes.append(error)

    def _given_back(self, operation: Operation, scope: Scope) -> list[Value]:
        try:
            return self._operands(operation, scope)
        except SmeltError as error:
            self._noted(error)
            return [scope.get(name, Missing()) for name in operation.operands]

    def _try(self, operation: Operation, scope: Scope) -> None:
        """Read an operation. If it is wrong, that is noted, and its results are of the types that it declares; so it is
        if an operand is missing, or something is wrong inside: then the rest is no mistake of its own.
        """
        before = self._met
        if not any(isinstance(scope.get(name), Missing) for name in operation.operands):
            try:
                return self._step(operation, scope)
            except SmeltError as error:
                if self._met == before:
                    self._noted(error)
            except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
                if not self._met:  # rows rely on what has been checked
                    raise
        for name, kind in zip(operation.results, operation.types, strict=False):
            scope[name] = self._declared(kind)

    def _declared(self, kind: Type) -> Value:
        try:
            value = stand_in(*self.type(None, kind))
        except SmeltError:
            return Missing()
        self._doubted.add(value)
        return value

    def _name(self, name: str, value: Value, scope: Scope, operation: Operation | None = None) -> None:
        if name in scope:
            raise ParseError(f"{self._where(operation)}{name} is defined twice")
        scope[name] = value

    def _operands(self, operation: Operation, scope: Scope) -> list[Value]:
        """The values that an operation takes, which are of the types that are written there."""
        try:
            values = [scope[name] for name in operation.operands]
        except KeyError as error:
            message = f"{operation.name}: there is no value {error.args[0]} here"
            raise ParseError(f"{self.place(operation)}: {message}") from None
        for k, (value, kind) in enumerate(zip(values, operation.operand_types, strict=False)):
            if isinstance(value, Node) and not _is(value, kind):
                try:
                    self._check(value, kind, f"operand {k}", operation)
                except SmeltError:
                    if value not in self._doubted:
                        raise
                    values[k] = self._declared(kind)  # that types differ follows from the mistake where it is made
        return values

    def _step(self, operation: Operation, scope: Scope) -> None:
        """Read one operation, and note its results."""
        row = self.table.get(operation.name)
        if row is None:
            raise unknown(operation.name, self.place(operation))
        operands = self._operands(operation, scope)
        if row.operands is not None and len(operands) != row.operands:
            message = f"it has {len(operands)} operands, and should have {row.operands}"
            raise ParseError(f"{self.place(operation)}: {operation.name}: {message}")
        if row.tensors and not all([isinstance(value, Node) for value in operands]):  # a list is the fastest here
            raise ParseError(f"{self.place(operation)}: {operation.name}: an operand is no tensor")
        call = Call(self, operation, operands, scope)
        try:
            given = row.function(call)
        except UnsupportedOp as error:
            if str(error).startswith("line "):
                raise
            raise self.unsupported(operation, error.message, error.hint, error.rule) from error
        except SmeltError as error:
            if str(error).startswith("line "):
                raise
            # The kind of the mistake stays; its place is one of the text's.
            kind = type(error) if type(error) in _RELOCATED else ShapeError
            message = f"{self.place(operation)}: {operation.name}: {error.message}"
            raise kind(message, rule=error.rule, hint=error.hint) from error
        results: Sequence[Value] = [given] if isinstance(given, Node) else given
        if len(results) != len(operation.results):
            raise ParseError(
                f"{self.place(operation)}: {operation.name} gives {len(results)} values, "
                f"and {len(operation.results)} are named"
            )
        if self._follows and operation.name in sizes.RULES:
            results = [sizes.followed(call, value) if isinstance(value, Node) else value for value in results]
        for name, kind_, value in zip(operation.results, operation.types, results, strict=True):
            if isinstance(value, Node) and not _is(value, kind_):
                self._check(value, kind_, "", operation)
            self._name(name, value, scope, operation)

    # --- types and places

    def type(self, operation: Operation | None, kind: Type) -> tuple[DType, Shape]:
        """A type's dtype and shape, which must be known."""
        known = self._types.get(kind)
        if known is not None:
            return known
        if not isinstance(kind, Ranked):
            raise ParseError(f"{self._where(operation)}{kind} is not the type of a tensor")
        dtype = types.dtype_of(kind.element)
        if dtype is None:
            message = f"{self._where(operation)}the element type {kind.element} is not supported"
            raise self._refusal(operation, kind.element, message)
        if None in kind.sizes:
            raise self._refusal(operation, kind.element, f"{self._where(operation)}the sizes of {kind} are not known")
        found = dtype, tuple(size or 0 for size in kind.sizes)
        self._types[kind] = found
        return found

    def dtype(self, operation: Operation | None, kind: Type) -> DType:
        """A type's dtype, whatever its sizes."""
        dtype = types.dtype_of(kind.element) if isinstance(kind, Ranked) else None
        return self.type(operation, kind)[0] if dtype is None else dtype

    # --- sizes

    def unknown_size(self, operation: Operation, node: Node) -> NoReturn:
        """Say that sizes depend on values, and on which arguments."""
        numbers = sorted(self.given[x] for x in topological([node]) if x in self.given)
        at, names = self.place(operation), ", ".join(f"argument {k}" for k in numbers)
        raise UnknownSize(
            f"{at}: {operation.name}: a size depends on values" + (f" of {names}" if names else ""),
            operation.name,
            at,
            tuple(numbers),
        )

    def refuse_sizes(self, operation: Operation, message: str) -> NoReturn:
        """Say that sizes do not fulfil what the program asserts."""
        raise ShapeError(f"{self.place(operation)}: {message}")

    def asserted(self, operation: Operation, condition: sizes.Condition, message: str, numbers: Sequence[Any]) -> None:
        """Note what is to be looked at in every call."""
        self.assertions.append(Assertion(condition, f"{self.place(operation)}: {message}", tuple(numbers)))

    def _refusal(self, operation: Operation | None, name: str, message: str) -> UnsupportedOp:
        at = mlir.Place(0, 0) if operation is None else self.place(operation)
        return UnsupportedOp(message, name if operation is None else operation.name, at.line, at.column)

    def _check(self, value: Node, kind: Type, what: str, operation: Operation | None = None) -> None:
        """Check a value against the type that the text declares."""
        if not isinstance(kind, Ranked) or _fits(value, kind):
            return
        dtype = types.dtype_of(kind.element)
        what = f"{self._where(operation)}{what}".removesuffix(": ")
        if dtype is None:
            raise self._refusal(operation, kind.element, f"{what}: the element type {kind.element} is not supported")
        if value.dtype is not dtype:
            raise DTypeError(f"{what} is {value.dtype}", rule=f"the text declares {kind}.")
        raise ShapeError(f"{what} has shape {shape_text(value.shape)}", rule=f"the text declares {kind}.")

    def _where(self, operation: Operation | None) -> str:
        """How a message about an operation begins. Finding the place takes a walk through the text, so nothing else
        asks for it.
        """
        return "" if operation is None else f"{self.place(operation)}: {operation.name}: "

    def place(self, operation: Operation) -> mlir.Place:
        """Where an operation stands in the text."""
        return mlir.place(self.module.text, operation.at)

    def unsupported(self, operation: Operation, reason: str, hint: str = "", rule: str = "") -> UnsupportedOp:
        """The error about a legal operation that cannot be read."""
        at = self.place(operation)
        message = f"{at}: {operation.name}: {reason}"
        return UnsupportedOp(message, operation.name, *at, rule=rule, hint=hint)


def _is(value: Node, kind: Type) -> bool:
    """Whether a value is of a type without open sizes: the quick question."""
    return isinstance(kind, Ranked) and kind.sizes == value.shape and types.dtype_of(kind.element) is value.dtype


def _fits(value: Node, kind: Ranked) -> bool:
    """Whether a value is of a type, of which sizes may be open."""
    sizes = zip(value.shape, kind.sizes, strict=False)
    same = len(value.shape) == len(kind.sizes) and all(wanted in (None, size) for size, wanted in sizes)
    return same and value.dtype is types.dtype_of(kind.element)


_RELOCATED: Final[frozenset[Any]] = frozenset({ShapeError, DTypeError, ArgumentError, ParseError})
