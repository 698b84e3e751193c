"""What builders say about dtypes that an operation does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError
from smelt.graph import ops
from smelt.graph.node import Node

_KINDS: Final = {"b": "bool", "i": "integer", "f": "float"}


def dtypes_differ(name: str, a: Node, b: Node) -> DTypeError:
    """The error about operands of two dtypes."""
    return DTypeError(
        f"{name}: dtypes differ: {a.dtype} and {b.dtype}",
        rule="both operands must have the same dtype.",
        hint=f"Cast one of them first, for example with x.astype(sm.{a.dtype}).",
    )


def only_stored(dtype: DType, name: str) -> DTypeError:
    """The error about a type that nothing is computed in."""
    return DTypeError(
        f"{name}: {dtype} is not supported",
        rule=f"{dtype} only stores values.",
        hint=f"Cast first, for example with x.astype(sm.{dtypes.sum_dtype(dtype)}).",
    )


def no_order(name: str) -> DTypeError:
    """The error about complex numbers that would have to be compared."""
    return DTypeError(
        f"{name}: complex numbers are not supported", rule="they have no order.", hint="Use abs(x), or sm.real(x)."
    )


def check_fold(op: str, known: Sequence[str], kind: str, dtype: DType, name: str) -> None:
    """Check that there is such a reduction, scan or update, and that it can combine elements of a type."""
    if op not in known:
        raise ArgumentError(f"{name}: there is no {kind} called {op!r}", hint=f"Use one of: {', '.join(known)}.")
    if dtype in dtypes.STORAGE:
        raise only_stored(dtype, name)
    if dtype.is_complex and op not in ("add", "mul", "set"):
        raise no_order(name)
    if dtype.is_bool and op in ("add", "mul"):
        raise DTypeError(f"{name}: bool is not supported", hint="Cast to an integer first.")


def not_taken(table: dict[str, ops.Function], function: str, dtype: DType, name: str) -> Exception:
    """The error about a dtype that an elementwise function does not take."""
    if function not in table:
        return ArgumentError(f"{name or function}: there is no elementwise function called {function!r}")
    if dtype in dtypes.STORAGE:
        return only_stored(dtype, name or function)
    taken, only = table[function].kinds, table[function].only
    if only is not None:
        return DTypeError(f"{name or function}: {dtype} is not supported", rule=f"the operands must be {only}.")
    hint = "Cast first, for example with x.astype(sm.float32)."
    if dtype.is_complex:
        hint = "Take a part first: sm.real(x), sm.imag(x), or the size abs(x)."
    elif "f" not in taken:
        hint = "Compare first: ~(x > 0), (x > 0) & (y > 0). Or cast, for example with x.astype(sm.int64)."
    elif dtype.is_bool and function == "neg":
        hint = "Write ~x for the opposite, or cast first, for example with x.astype(sm.float32)."
    return DTypeError(
        f"{name or function}: {dtype} is not supported",
        rule=f"the operands must be {' or '.join(_KINDS[letter] for letter in taken)}.",
        hint=hint,
    )
