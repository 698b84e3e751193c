"""Symbolic sizes as numbers, in a user's own arithmetic and comparisons.

Whole numbers stay in the algebra of `index`. Fractions are values, which the tensor package makes. A comparison is
answered where bounds decide it for every size, and refused where they do not: a function is compiled once for all.
"""

from __future__ import annotations

import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Never

import numpy as np

from smelt.errors import TraceError
from smelt.graph import index  # which imports this module first: its names are there when functions are called


class Program(NamedTuple):
    """What is known of the program around: how a size becomes a value, and whether a function is being traced."""

    value: Callable[[Any, bool], Any]
    is_tracing: Callable[[], bool]


_program: list[Program] = []


def register(program: Program) -> None:
    """Say what the program around is, which this package knows nothing of."""
    _program[:] = [program]


def _value(size: Any, fractional: bool = True) -> Any:
    return _program[0].value(size, fractional) if isinstance(size, index.Index) else size


# --- arithmetic


def mixed(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """a ∘ b of a size and what is neither a size nor an integer of Python's."""
    left, right = (
        int(x) if isinstance(x, np.integer) else float(x) if isinstance(x, np.floating) else x for x in (a, b)
    )
    if isinstance(left, float) or isinstance(right, float):
        return operation(_value(left), _value(right))
    return NotImplemented if left is a and right is b else operation(left, right)


def divide(a: Any, b: Any) -> Any:
    """a / b."""
    return operator.truediv(_value(a), _value(b)) if _are_numbers(a, b) else NotImplemented


def power(a: Any, b: Any) -> Any:
    """a ** b: a size again, where b is a whole number that is not negative."""
    if isinstance(b, int | np.integer) and b >= 0:
        return index.as_index(index.product_of([a] * int(b)))
    fractional = not isinstance(b, index.Index) or isinstance(a, float | np.floating)
    return operator.pow(_value(a, fractional), _value(b, fractional)) if _are_numbers(a, b) else NotImplemented


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(x, index.Index | int | float | np.integer | np.floating) for x in values)


def swapped(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operation with its operands in the other order."""
    return lambda a, b: operation(b, a)


# --- comparisons


def _comparison(symbol: str) -> Callable[[index.Index, Any], Any]:
    return lambda a, b: _ordered(symbol, a, b)


def _ordered(symbol: str, a: index.Index, b: Any) -> Any:
    """a ∘ b for an order, if it is the same for every size."""
    limit = b
    if isinstance(b, float | np.floating):
        if not math.isfinite(b):
            return bool(_ORDERS[symbol](0.0, b))
        limit = math.ceil(b) if symbol in ("<", ">=") else math.floor(b)
    elif isinstance(b, np.integer):
        limit = int(b)
    elif not isinstance(b, index.Index | int):
        return NotImplemented
    up, down = limit - a, a - limit  # a < b is b - a - 1 >= 0, and false if a - b >= 0
    if symbol in ("<", ">="):
        less, not_less = up - 1, down
    else:
        less, not_less = up, down - 1
    if index.nonnegative(less):
        return symbol in ("<", "<=")
    if index.nonnegative(not_less):
        return symbol in (">", ">=")
    raise _undecided(f"{a} {symbol} {b}", a, b)


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

lt, le, gt, ge = (_comparison(symbol) for symbol in _ORDERS)


def equals(a: index.Index, b: Any) -> bool:
    """False, for sizes whose normal forms differ. In a function that is traced the answer must hold for every size;
    smelt's own code asks whether two sizes are known to be the same.
    """
    if not a.terms or not _is_asked_in_trace(3):
        return False
    if index.nonnegative(a - b - 1) or index.nonnegative(index.as_index(b) - a - 1):
        return False
    raise _undecided(f"{a} == {b}", a, b)


def _is_asked_in_trace(depth: int) -> bool:
    """Whether a function that is being traced asks, and not smelt's own code."""
    name = sys._getframe(depth).f_globals.get("__name__", "")
    return name.partition(".")[0] != "smelt" and bool(_program) and _program[0].is_tracing()


def truth(a: index.Index) -> bool:
    """Whether a size is not zero."""
    if not a.terms:
        return a.constant != 0
    return True if a.low > 0 or a.high < 0 else not equals(a, 0)


def _undecided(question: str, *sizes: Any) -> TraceError:
    """The error about a comparison that some sizes answer in one way and others in another."""
    dims = {v for size in sizes if isinstance(size, index.Index) for v in size.variables()}
    bounds = ", ".join(sorted(f"{v.text} in {v.low}..{v.high}" for v in dims))
    name = min((v.text for v in dims), default="n")
    return TraceError(
        f"whether {question} depends on the call",
        rule=f"a function with symbolic sizes is compiled once for all of them ({bounds}).",
        hint=f"Give the Dim narrower bounds, choose by value (sm.where(sm.asarray({name}) > 1, a, b) or sm.cond), or "
        "leave the axis out of shapes=,\nso that every size is compiled on its own.",
    )


# --- what only a number that is known can give


def _refusal(kind: str, hint: str) -> Callable[[index.Index], Never]:
    def refuse(a: index.Index) -> Never:
        raise TraceError(
            f"{kind}: the size {a} is symbolic",
            rule="its value is known when the compiled function is called, not while it is traced.",
            hint=hint,
        )

    return refuse


def check_hash(a: index.Index) -> None:
    """A dictionary or set would not find a size under the number that it will be."""
    if a.terms and _is_asked_in_trace(3):
        _to_key(a)


class _Found(threading.local):
    """Whether symbolic sizes stand for numbers that the user knows nothing of."""

    active = False


_found = _Found()


@contextmanager
def found_sizes() -> Iterator[None]:
    """Inside, sizes are symbolic although nobody has said so: as texts they have the wrong words."""
    before, _found.active = _found.active, True
    try:
        yield
    finally:
        _found.active = before


def as_text(a: index.Index) -> index.Index:
    """The size itself, unless its text would be that of no number."""
    if a.terms and _found.active and _is_asked_in_trace(3):
        _to_text(a)
    return a


_to_key = _refusal("hash", "Look up by a number that is known, or leave the axis out of shapes=.")
_to_text = _refusal("str", "Write repr(n) for a message.")
to_float = _refusal("float", "Compute with the size itself: n ** 0.5, x / n, or sm.sqrt(n).")
to_integer = _refusal(
    "int", "Compute with the size itself; for a loop of n steps use sm.fori_loop or sm.scan, for 0 … n-1 sm.arange(n)."
)
