"""Schedules as data: a schedule is a tuple of actions, each a small frozen record with a text form.

An action cuts an axis, orders loops, or says where values live. It never changes what is computed. Actions are checked
when a region is lowered with them: one that is not legal raises `Illegal` and is never repaired.

Loops are named `axis.0` (the outermost part), `axis.1`, …; nodes by the names of `Region.named`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smelt.errors import ParseError

KINDS = ("loop", "reg", "thread", "lane")
TAILS = ("shrink", "balance", "overlap", "mask", "unit")
PLACES = ("local", "out")

Parts = tuple[tuple[int, str], ...]  # (extent, kind) from the outside to the inside


class Illegal(Exception):
    """An action that does not fit the region, or another action; the message says why."""


@dataclass(frozen=True, slots=True)
class Split:
    """Cut an axis: an outer loop `axis.0`, then these parts (loops, then at most one `reg`, `thread` and `lane`).

    A `thread` part is shared out over the threads of a group. All such parts of a schedule multiply to the size of the
    group; those of later splits are the nearer threads.

    tail says what happens where the parts do not fit: `shrink` (one exact smaller tile), `balance` (tiles that differ
    by at most one register), `overlap` (the last tile begins early enough to be whole; with `apart` only, so that no
    element is finished twice), `mask` (one loop, every access masked), `unit` (one element at a time).
    """

    axis: str
    parts: Parts
    tail: str = "shrink"

    def __str__(self) -> str:
        return f"split {self.axis} {_parts(self.parts)}" + (f" tail {self.tail}" if self.tail != "shrink" else "")


@dataclass(frozen=True, slots=True)
class Bind:
    """Run the outermost loops as independent tasks: together they become one `grid` loop."""

    loops: tuple[str, ...]
    kind: str = "grid"

    def __str__(self) -> str:
        return f"bind {' '.join(self.loops)} {self.kind}"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of loops, outermost first. Every loop of a parallel axis is named; loops of reductions may be."""

    loops: tuple[str, ...]

    def __str__(self) -> str:
        return f"order {' '.join(self.loops)}"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where loop `at` is entered, compute a node over all that is left inside, into local memory.

    The memory is laid out by axes in `order`; each row gets `pad` elements more. An axis may be cut: `n/64` and `n%64`
    are its block and the place in it, so that `(n/64, k, n%64)` lays panels of 64 columns one after the other.
    """

    node: str
    at: str
    order: tuple[str, ...]
    pad: int = 0

    def __str__(self) -> str:
        return f"stage {self.node} at {self.at} ({', '.join(self.order)})" + (f" pad {self.pad}" if self.pad else "")


@dataclass(frozen=True, slots=True)
class Keep:
    """Store a node where a reduction first makes it, in local memory or the output itself; later phases load it."""

    node: str
    place: str = "local"

    def __str__(self) -> str:
        return f"keep {self.node} {self.place}"


@dataclass(frozen=True, slots=True)
class Unroll:
    """Ask the compiler to unroll a loop."""

    loop: str
    factor: int

    def __str__(self) -> str:
        return f"unroll {self.loop} {self.factor}"


@dataclass(frozen=True, slots=True)
class Stream:
    """Store outputs past the caches."""

    def __str__(self) -> str:
        return "stream"


@dataclass(frozen=True, slots=True)
class Online:
    """Run a maximum over an axis and the sums of exp(x - maximum) in one loop that rescales as the maximum grows."""

    axis: str

    def __str__(self) -> str:
        return f"online {self.axis}"


@dataclass(frozen=True, slots=True)
class Sub:
    """One reduction cuts an axis its own way. Inside an `online` loop it walks each block once more."""

    reduction: str
    axis: str
    parts: Parts = ()

    def __str__(self) -> str:
        return f"sub {self.reduction} {self.axis} {_parts(self.parts)}"


@dataclass(frozen=True, slots=True)
class Skip:
    """In the loops over an axis, leave out the blocks where a condition is false throughout.

    The condition is axis <= bound + constant or axis >= bound + constant. Blocks where it holds throughout do without
    it. This concerns the `online` loop, and sums whose summands are zero where the condition does not hold.
    """

    axis: str
    bound: str
    condition: str

    def __str__(self) -> str:
        return f"skip {self.axis} {self.bound} {self.condition}"


@dataclass(frozen=True, slots=True)
class Group:
    """Run reductions over the same axes together: they share the outermost loop of each axis, and what is staged there.

    Inside it, each walks the loops that are left by itself.
    """

    reductions: tuple[str, ...]

    def __str__(self) -> str:
        return f"group {' '.join(self.reductions)}"


@dataclass(frozen=True, slots=True)
class Together:
    """Store all outputs in one nest of loops, that of the first, which has the axes of all others."""

    def __str__(self) -> str:
        return "together"


@dataclass(frozen=True, slots=True)
class Apart:
    """Finish tiles of sums one register of an axis at a time. The sums wait in local memory, and what is made of them
    is written once instead of once for each register.
    """

    axis: str

    def __str__(self) -> str:
        return f"apart {self.axis}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Make a reduction by a matrix or dot product instruction: a row of `instructions`."""

    reduction: str
    instruction: str

    def __str__(self) -> str:
        return f"matrix {self.reduction} {self.instruction}"


Action = Split | Bind | Order | Stage | Keep | Unroll | Stream | Online | Sub | Skip | Group | Together | Apart | Matrix
Schedule = tuple[Action, ...]


# --- text


def print_schedule(schedule: Iterable[Action]) -> str:
    """One action a line."""
    return "\n".join(str(action) for action in schedule)


def parse_schedule(text: str) -> Schedule:
    """The schedule that `print_schedule` printed; semicolons separate actions like line ends."""
    lines = (line.strip() for line in re.split(r"[\n;]", text))
    return tuple(parse_action(line) for line in lines if line)


def parse_action(text: str) -> Action:
    """One action."""
    for pattern, build in _FORMS:
        match = pattern.fullmatch(text)
        if match is not None:
            return build(*match.groups())
    raise ParseError(f"{text[:80]!r} is not an action")


def _parts(parts: Parts) -> str:
    return f"({', '.join(f'{extent} {kind}' for extent, kind in parts)})"


def _parse_parts(text: str) -> Parts:
    pieces = [piece.split() for piece in text.split(",")] if text.strip() else []
    return tuple((int(extent), kind) for extent, kind in pieces)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


_NAME = r"([^\s(),;]+)"
_AXIS = r"([^\s(),;.]+)"
_NUMBER = r"(\d{1,9})"
_PARTS = r"\(((?:\d{1,9} \w+(?:, \d{1,9} \w+)*)?)\)"
_LIST = r"([^\s(),;]+(?: [^\s(),;]+)*)"

_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Action]], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (rf"split {_AXIS} {_PARTS}(?: tail (\w+))?", lambda a, p, t: Split(a, _parse_parts(p), t or "shrink")),
        (rf"bind {_LIST} (\w+)", lambda loops, kind: Bind(_names(loops), kind)),
        (rf"order {_LIST}", lambda loops: Order(_names(loops))),
        (
            rf"stage {_NAME} at {_NAME} \(([^()]*)\)(?: pad {_NUMBER})?",
            lambda n, at, order, pad: Stage(n, at, _names(order), int(pad or 0)),
        ),
        (rf"keep {_NAME} (\w+)", Keep),
        (rf"unroll {_NAME} {_NUMBER}", lambda loop, n: Unroll(loop, int(n))),
        (r"stream", Stream),
        (rf"online {_AXIS}", Online),
        (rf"sub {_NAME} {_AXIS} {_PARTS}", lambda r, a, p: Sub(r, a, _parse_parts(p))),
        (rf"skip {_AXIS} {_AXIS} {_NAME}", Skip),
        (rf"group {_LIST}", lambda names: Group(_names(names))),
        (r"together", Together),
        (rf"apart {_AXIS}", Apart),
        (rf"matrix {_NAME} {_NAME}", Matrix),
    )
)
