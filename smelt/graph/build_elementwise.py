"""Builders of constants and elementwise nodes."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, Scalar
from smelt.errors import ArgumentError, DTypeError
from smelt.graph.build_movement import spread
from smelt.graph.index import IndexLike
from smelt.graph.node import Node, Shape, constant_bytes, made
from smelt.graph.ops import BINARY, UNARY, Function, Op, kind_letter
from smelt.graph.shapes import broadcast_shapes, checked_shape

_SCALARS: Final = frozenset({bool, int, float})
_KINDS: Final = {"b": "bool", "i": "integer", "f": "float"}


def _results(functions: dict[str, Function]) -> dict[tuple[str, DType], DType]:
    return {
        (name, dtype): dtypes.bool_ if function.boolean else dtype
        for name, function in functions.items()
        for dtype in dtypes.ALL
        if kind_letter(dtype) in function.kinds
    }


# What a function gives for a dtype; what is missing here is not allowed.
UNARY_RESULTS: Final = _results(UNARY)
BINARY_RESULTS: Final = _results(BINARY)


def const(value: Scalar, dtype: DType, shape: Shape = ()) -> Node:
    """A scalar, converted as a cast would, and expanded to `shape`."""
    if type(value) not in _SCALARS:  # asked first: most are
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, bool | int | float):
            raise ArgumentError(f"const: {value!r} is not a bool, an integer or a float")
    node = made(Op.CONST, dtype, (), (), constant_bytes(value, dtype))
    return node if shape == () else spread(node, checked_shape(shape, "const"))


def iota(n: IndexLike, dtype: DType, *, name: str = "iota") -> Node:
    """0, 1, 2, … of shape (n,)."""
    if dtype.is_bool or dtype in dtypes.STORAGE:
        raise DTypeError(f"{name}: {dtype} cannot count", hint="Use an integer or a float dtype.")
    return made(Op.IOTA, dtype, checked_shape((n,), name))


def unary(function: str, x: Node, *, name: str = "") -> Node:
    """An elementwise function of one tensor, named as in `ops.UNARY`."""
    dtype = UNARY_RESULTS.get((function, x.dtype))
    if dtype is None:
        raise _not_taken(UNARY, function, x.dtype, name)
    return made(Op.UNARY, dtype, x.shape, (x,), function)


def binary(function: str, a: Node, b: Node, *, name: str = "") -> Node:
    """An elementwise function of two tensors of one dtype, named as in `ops.BINARY`; shapes broadcast."""
    if a.dtype is not b.dtype:
        raise _dtypes_differ(name or function, a, b)
    dtype = BINARY_RESULTS.get((function, a.dtype))
    if dtype is None:
        raise _not_taken(BINARY, function, a.dtype, name)
    if a.shape != b.shape:
        shape = broadcast_shapes(a.shape, b.shape, name or function)
        a, b = spread(a, shape), spread(b, shape)
    return made(Op.BINARY, dtype, a.shape, (a, b), function)


def where(condition: Node, a: Node, b: Node, *, name: str = "where") -> Node:
    """`a` where the condition holds, `b` elsewhere; shapes broadcast."""
    if not condition.dtype.is_bool:
        raise DTypeError(
            f"{name}: the condition is {condition.dtype}",
            rule="it must be bool.",
            hint="Compare it first, as in x != 0.",
        )
    if a.dtype is not b.dtype:
        raise _dtypes_differ(name, a, b)
    if not (a.shape == b.shape == condition.shape):
        shape = broadcast_shapes(condition.shape, broadcast_shapes(a.shape, b.shape, name), name)
        condition, a, b = spread(condition, shape), spread(a, shape), spread(b, shape)
    return made(Op.WHERE, a.dtype, a.shape, (condition, a, b))


def cast(x: Node, dtype: DType) -> Node:
    """The values in another dtype: floats saturate to integers and NaN becomes 0, integers wrap."""
    return x if x.dtype is dtype else made(Op.CAST, dtype, x.shape, (x,))


def bitcast(x: Node, dtype: DType, *, name: str = "bitcast") -> Node:
    """The bits as another dtype of the same width."""
    if x.dtype is dtype:
        return x
    if x.dtype.bits != dtype.bits:
        raise DTypeError(
            f"{name}: {x.dtype} has {x.dtype.bits} bits and {dtype} has {dtype.bits}",
            rule="the widths must be the same.",
        )
    if x.dtype in dtypes.STORAGE or dtype in dtypes.STORAGE:
        raise DTypeError(f"{name}: {x.dtype} and {dtype} are not both computed with", hint="Cast instead.")
    if dtype.is_bool:
        raise DTypeError(f"{name}: not every byte is a bool", hint="Compare with 0 instead.")
    return made(Op.BITCAST, dtype, x.shape, (x,))


def _dtypes_differ(name: str, a: Node, b: Node) -> DTypeError:
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


def check_fold(op: str, dtype: DType, name: str) -> None:
    """Check that a reduction, a scan or a scatter can combine elements of a type."""
    if dtype in dtypes.STORAGE:
        raise only_stored(dtype, name)
    if dtype.is_bool and op in ("add", "mul"):
        raise DTypeError(f"{name}: bool is not supported", hint="Cast to an integer first.")


def _not_taken(table: dict[str, Function], function: str, dtype: DType, name: str) -> Exception:
    if function not in table:
        return ArgumentError(f"{name or function}: there is no elementwise function called {function!r}")
    if dtype in dtypes.STORAGE:
        return only_stored(dtype, name or function)
    taken = table[function].kinds
    hint = "Cast first, for example with x.astype(sm.float32)."
    if "f" not in taken:
        hint = "Compare first: ~(x > 0), (x > 0) & (y > 0). Or cast, for example with x.astype(sm.int64)."
    elif dtype.is_bool and function == "neg":
        hint = "Write ~x for the opposite, or cast first, for example with x.astype(sm.float32)."
    return DTypeError(
        f"{name or function}: {dtype} is not supported",
        rule=f"the operands must be {' or '.join(_KINDS[letter] for letter in taken)}.",
        hint=hint,
    )


# --- functions by name

neg: Final = partial(unary, "neg")
exp: Final = partial(unary, "exp")
log: Final = partial(unary, "log")
sqrt: Final = partial(unary, "sqrt")
rsqrt: Final = partial(unary, "rsqrt")
reciprocal: Final = partial(unary, "reciprocal")
tanh: Final = partial(unary, "tanh")
erf: Final = partial(unary, "erf")
logical_not: Final = partial(unary, "not")
add: Final = partial(binary, "add")
sub: Final = partial(binary, "sub")
mul: Final = partial(binary, "mul")
div: Final = partial(binary, "div")
maximum: Final = partial(binary, "max")
minimum: Final = partial(binary, "min")
bitwise_and: Final = partial(binary, "and")
eq: Final = partial(binary, "eq")
ne: Final = partial(binary, "ne")
lt: Final = partial(binary, "lt")
le: Final = partial(binary, "le")


def scale(x: Node, value: Scalar) -> Node:
    """x times a number."""
    return binary("mul", x, const(value, x.dtype, x.shape))


def shift(x: Node, value: Scalar) -> Node:
    """x plus a number."""
    return binary("add", x, const(value, x.dtype, x.shape))
