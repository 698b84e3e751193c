"""Kernel IR: loop trees over small statically shaped tiles typed by named axis parts.

A value is a dense tile `dtype<part:extent, ...>`; a scalar is a tile without parts. A part is a stretch of an axis in
registers, threads or lanes, is written `axis.kind` (`i1.reg`, `i1.thread16`, `i1.lane`), and is also an index variable.
Elementwise operations broadcast by part name.
Accumulators are the only values that change. The IR is what renderers spell out; nothing schedules it any more.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from smelt.dtypes import DType, Scalar, bfloat16, float32, int8, int16, int32, uint8
from smelt.graph import Index, Variable
from smelt.kernel.region import Buffer, Mask


class Part(NamedTuple):
    """One dimension of a tile; `make_part` makes one."""

    variable: Variable  # from 0 to extent - 1
    extent: int
    axis: str
    kind: str  # "reg", "thread" or "lane"
    stride: int  # how far apart the threads of neighboring elements are in their group; 0 if it is none of threads

    @property
    def name(self) -> str:
        return self.variable.name

    @property
    def is_lane(self) -> bool:
        return self.kind == "lane"


def make_part(axis: str, kind: str, extent: int, stride: int = 0) -> Part:
    """A stretch of an axis in a tile."""
    return Part(Variable(f"{axis}.{kind}{stride or ''}", 0, extent - 1), extent, axis, kind, stride)


def share_threads(parts: Iterable[Part]) -> bool:
    """Whether two parts of one value lie in the same threads: each has some bits of the thread's number."""
    bits = [(part.extent - 1) * part.stride for part in parts]
    return sum(bits) != functools.reduce(operator.or_, bits, 0)


_PART = re.compile(r"(?P<axis>[A-Za-z_][A-Za-z0-9_]*)\.(?P<kind>reg|lane|thread(?=[1-9]))(?P<stride>[0-9]*)")


def named_part(name: str, extent: int) -> Part | None:
    """The part with a name; None if it is not one of a part."""
    found = _PART.fullmatch(name)
    return found and make_part(found["axis"], found["kind"], extent, int(found["stride"] or 0))


@dataclass(frozen=True, slots=True)
class Value:
    """A named tile; the parts are in a fixed order with the lane part, if any, last."""

    name: str
    dtype: DType
    parts: tuple[Part, ...] = ()


@dataclass(slots=True)
class For:
    """Run the body for variable = 0 .. count - 1, in order (kind `loop`) or as independent tasks (kind `grid`)."""

    variable: Variable
    count: Index
    body: list[Statement]
    kind: str = "loop"
    unroll: int = 1


@dataclass(slots=True)
class If:
    """Run the body if all conditions hold, else the other one. Conditions are scalar (no parts)."""

    condition: Mask
    body: list[Statement]
    other: list[Statement] = field(default_factory=list)


@dataclass(slots=True)
class Let:
    """A named integer: variable = expression. Its variable may then be used in index expressions."""

    variable: Variable
    expression: Index


@dataclass(slots=True)
class Ask:
    """A named integer that data decide, for counts of loops: that of a bool or an integer without parts, or the nearest
    within the bounds of the variable.
    """

    variable: Variable
    value: Value


@dataclass(slots=True)
class Barrier:
    """The threads of a group wait for each other; what each has stored, all see afterwards."""


@dataclass(slots=True)
class Local:
    """Memory of one thread, or of one group of threads that run a task together; uninitialized."""

    buffer: Buffer


@dataclass(slots=True)
class Load:
    """Where the mask does not hold, nothing is read and the element is zero. The index may use the value's parts.

    The buffer is the declared one, or a view of it (`Buffer.viewed`).

    `picks` are variables of this index alone, which stand for the elements of integer tiles. Where the mask holds,
    those lie within the bounds of the variables.
    """

    value: Value
    buffer: Buffer
    index: tuple[Index, ...]
    mask: Mask = ()
    picks: tuple[tuple[Variable, Value], ...] = ()


@dataclass(slots=True)
class Store:
    """The index uses all parts of the value, or the mask limits it to one element each."""

    buffer: Buffer
    index: tuple[Index, ...]
    value: Value
    mask: Mask = ()
    stream: bool = False  # past the caches


@dataclass(slots=True)
class Compute:
    """value = op(arguments), broadcast by part name; the value may have parts that no argument has.

    op: an elementwise function of `graph.ops`, or const, index, mask, where, cast, cast_odd, bitcast, round16, copy;
    or an inner product of words (see `DOTS`).
    attribute: the scalar of `const`, the Index of `index`, the Mask of `mask`, the DType of `round16`, the stored types
    on both sides of `bitcast` (where they differ from the values').
    """

    value: Value
    op: str
    arguments: tuple[Value, ...] = ()
    attribute: Any = None


@dataclass(slots=True)
class Accumulator:
    """A value that `Update` changes, filled with a scalar."""

    value: Value
    initial: Scalar


class Dot(NamedTuple):
    """An inner product of the numbers in two int32 words: their types, and that of the result."""

    first: DType
    second: DType
    result: DType

    @property
    def numbers(self) -> int:
        """Numbers of a word."""
        return 4 // self.first.itemsize


DOTS = {
    "dot2": Dot(bfloat16, bfloat16, float32),  # instructions take subnormal numbers, and give subnormal sums, as zeros
    "dot2_ss": Dot(int16, int16, int32),  # wraps
    "dot4": Dot(uint8, int8, int32),
    "dot4_low": Dot(uint8, int8, int32),  # where the unsigned bytes are known to be below 128
    "dot4_ss": Dot(int8, int8, int32),
    "dot4_uu": Dot(uint8, uint8, int32),
}
PRODUCTS = frozenset({"fma", *DOTS})  # updates by two arguments


@dataclass(slots=True)
class Update:
    """accumulator op= argument. op: add, mul, max, min or set; or fma, which adds the product of two arguments, and
    those of `DOTS`, which add their inner products.

    Parts that the accumulator lacks are summed away by products, unless they lie in threads (those take a `Reduce`, in
    which the threads meet), and not allowed otherwise. An argument's part may have fewer registers than the
    accumulator's: then only its first elements change. `instruction` is the row of `instructions` that does it, if that
    is settled.
    """

    accumulator: Value
    op: str
    arguments: tuple[Value, ...]
    instruction: str = ""


@dataclass(slots=True)
class Reduce:
    """value = the source folded over some of its parts."""

    value: Value
    op: str
    source: Value
    parts: tuple[Part, ...]


@dataclass(slots=True)
class Scan:
    """value = each element of the source combined with all before it along the parts (the last varies fastest).

    The elements continue from the carry, an accumulator without those parts, which then takes the last of them. op: one
    of `graph.ops.SCANS`. Without parts the value is the source combined with the carry, and the carry takes it.
    """

    value: Value
    op: str
    source: Value
    parts: tuple[Part, ...]
    carry: Value


Statement = For | If | Let | Ask | Barrier | Local | Load | Store | Compute | Accumulator | Update | Reduce | Scan


def bodies(statement: Statement) -> tuple[list[Statement], ...]:
    """The bodies that a statement has."""
    match statement:
        case For():
            return (statement.body,)
        case If():
            return statement.body, statement.other
    return ()


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """All statements of a body, inner blocks included, in order."""
    for statement in body:
        yield statement
        for inner in bodies(statement):
            yield from statements(inner)


def reads(statement: Statement) -> tuple[Value, ...]:
    """The values that a statement reads."""
    match statement:
        case Compute() | Update():
            return statement.arguments
        case Store():
            return (statement.value,)
        case Reduce():
            return (statement.source,)
        case Scan():
            return (statement.source, statement.carry)
        case Load():
            return tuple(value for _, value in statement.picks)
        case Ask():
            return (statement.value,)
    return ()


def defines(statement: Statement) -> Value | None:
    """The value that a statement makes."""
    return statement.value if isinstance(statement, Load | Compute | Accumulator | Reduce | Scan) else None


@dataclass(frozen=True)
class Kernel:
    """A whole kernel: arguments in calling order, integer parameters in calling order, and the statements.

    `grid` loops stand at the top level only and share one space of tasks: the first has tasks [0, T1), the next
    [T1, T1 + T2), and so on. `tasks` is the sum of their counts, 1 without any. What stands outside them runs for every
    range of tasks and stores to local memory only.
    """

    name: str
    buffers: tuple[Buffer, ...]
    parameters: tuple[Variable, ...]
    body: tuple[Statement, ...]
    tasks: Index
    threads: int = 1  # that run a task together: the product of all thread parts
    transposes: int = 0  # whether squares with lanes across the rows of memory are transposed in registers
    ahead: int = 0  # bytes that `fetched` buffers are asked for ahead of where they are walked through
    turns: int = 0  # of a loop, ahead of which rows that it gathers from them are
    fetched: tuple[str, ...] = ()
    registers: int = 0  # that the sums of one loop of products may take; 0 if it does not matter
