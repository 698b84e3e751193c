"""What test programs assert about their results, in the `check` dialect and as custom calls."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

import smelt as sm
from smelt.formats.mlir import Typed
from smelt.formats.stablehlo import Call, Row, Value, constant
from smelt.graph import Node

Array = Any


class Check(NamedTuple):
    """One assertion: what is found, what is expected, and how far apart they may be."""

    name: str
    found: Node
    expected: Node
    ulps: tuple[int, int]
    tolerance: float


KINDS: Final = ("expect_eq", "expect_almost_eq", "expect_close", "expect_eq_const", "expect_almost_eq_const")
_CLOSE = 3  # representable numbers, where a test does not say how many
_ALMOST = 1e-4
# What the first tests called them, as custom calls.
_OLD: Final = {"eq": "expect_eq", "eq_const": "expect_eq_const", "almost_eq": "expect_almost_eq"}


def kind_of(name: str) -> str | None:
    """Which assertion `check.name` is."""
    name = name.removeprefix("check.")
    name = _OLD.get(name, name)
    return name if name in KINDS else None


def noted(call: Call, name: str, checks: list[Check]) -> list[Value]:
    """Note what an operation asserts."""
    if name.endswith("_const"):
        found, value = call.operands[0], call.attribute("value")
        expected = constant(call, value, found.dtype, found.shape)
    elif len(call.operands) == 2:
        found, expected = call.operands
    else:
        call.wrong("it compares two tensors")
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        call.wrong(f"it compares {found.dtype}{list(found.shape)} and {expected.dtype}{list(expected.shape)}")
    ulps = call.integer("min_ulp_difference", 0), call.integer("max_ulp_difference", _CLOSE)
    tolerance = call.attribute("tolerance")
    tolerance = tolerance.value if isinstance(tolerance, Typed) else tolerance
    checks.append(Check(name, found, expected, ulps, _ALMOST if tolerance is None else float(tolerance)))
    # As a call it may give whether it holds, which nobody asks here.
    return [sm.asarray(True)._node for _ in call.operation.types]


def rows(table: dict[str, Row], checks: list[Check]) -> dict[str, Row]:
    """A table of operations with those that assert."""

    def custom(call: Call) -> Any:
        target = call.symbol("call_target_name")
        kind = kind_of(target) if target.startswith("check.") else None
        return table["stablehlo.custom_call"].function(call) if kind is None else noted(call, kind, checks)

    def row(name: str) -> Row:
        return Row(lambda call: noted(call, name, checks), (), 1 if name.endswith("_const") else 2)

    found = {**table, "stablehlo.custom_call": table["stablehlo.custom_call"]._replace(function=custom)}
    return {**found, **{f"check.{name}": row(name) for name in KINDS}}


def difference(check: Check, found: Array, expected: Array) -> str:
    """How two arrays differ by more than a test allows; nothing if they do not."""
    if found.dtype.kind == "c":
        parts = ((found.real, expected.real), (found.imag, expected.imag))
        return next(filter(None, (difference(check, *pair) for pair in parts)), "")
    wrong = ~_fits(check, np.ascontiguousarray(found), np.ascontiguousarray(expected)).reshape(found.shape)
    if not wrong.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    count = int(wrong.sum())
    return f"{count} of {wrong.size} differ ({check.name}): {found[at]} and not {expected[at]} at {list(at)}"


def _fits(check: Check, found: Array, expected: Array) -> Array:
    if not _is_float(found.dtype):
        return found == expected
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if check.name.startswith("expect_eq"):
            return same
        if check.name.startswith("expect_almost_eq"):
            return same | (abs(a - b) <= check.tolerance)
    apart = abs(_place(found).astype(object) - _place(expected).astype(object))
    low, high = check.ulps
    near = np.asarray((apart >= low) & (apart <= high), bool)
    return (same if low == 0 else False) | (near & ~np.isnan(a) & ~np.isnan(b))


def _is_float(dtype: Any) -> bool:
    return bool(dtype.kind == "f" or (dtype.kind == "V" and "int" not in dtype.name))


def _place(x: Array) -> Array:
    """Where floats stand among all of their type: neighbors are 1 apart."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    least = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, least - bits, bits)
