"""Norms and powers of matrices."""

from __future__ import annotations

import math
from typing import Any

from smelt.errors import ArgumentError, DTypeError
from smelt.graph import build, least
from smelt.linalg.matrices import batch_of, check_square, identity, matrices, rounded, shape_of, square_matrices
from smelt.linalg.solving import inverted
from smelt.linalg.spectral import singular_values
from smelt.tensor import Tensor, integer, keep_axes, node_of, vector_norm, wrap

__all__ = ["matrix_norm", "matrix_power"]

_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def matrix_norm(x: Tensor, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of each matrix in the last two axes.

    ord: "fro" takes all elements as one vector; "nuc" is the sum of the singular values, 2 and -2 are the largest and
    the smallest; 1 and -1 the largest and smallest sum of the sizes of a column, inf and -inf of a row.

    >>> import smelt as sm
    >>> sm.linalg.matrix_norm(sm.asarray([[3.0, 0.0], [4.0, 1.0]]), ord=1).item()
    7.0
    """
    given, dtype = matrices(x, "matrix_norm")
    if isinstance(ord, bool) or not isinstance(ord, int | float | str) or ord not in _ORDERS:
        raise ArgumentError(
            f"matrix_norm: ord={ord!r:.40}", rule="it is one of 'fro', 'nuc', 1, -1, 2, -2, inf and -inf."
        )
    keep = keep_axes(keepdims, False, "matrix_norm")
    found = _norm(given, ord)
    if keep:
        found = found[..., None, None]
    return rounded(found, dtype)


def _norm(x: Tensor, order: Any) -> Tensor:
    if order == "fro":
        return vector_norm(x, axis=(-2, -1))
    if order == "nuc":
        return singular_values(x).sum(-1)
    parts = singular_values(x) if abs(order) == 2 else x.abs().sum(-2 if abs(order) == 1 else -1)
    if order < 0:
        return parts.min(axis=-1)
    # Of no element, the largest size is 0.
    return parts.max(axis=-1) if least(shape_of(parts)[-1]) else _largest(parts)


def _largest(parts: Tensor) -> Tensor:
    size = shape_of(parts)[-1]
    if size == 0:
        return wrap(build.const(0, parts._node.dtype, shape_of(parts)[:-1]))
    return wrap(build.pad(parts._node, [(0, 0)] * (parts.ndim - 1) + [(0, 1)], build.const(0, parts._node.dtype))).max(
        axis=-1
    )


def matrix_power(x: Tensor, n: int) -> Tensor:
    """The product of n times the same square matrices; of their inverses if n is negative, the identity if it is 0.

    >>> import smelt as sm
    >>> sm.linalg.matrix_power(sm.asarray([[1, 1], [1, 0]]), 10).tolist()
    [[89, 55], [55, 34]]
    """
    count = integer(n, "matrix_power", "n")
    node = node_of(x, "matrix_power")
    if node.dtype.is_bool or (count < 0 and not node.dtype.is_inexact):
        raise DTypeError(
            f"matrix_power: {node.dtype} to the power of {count}",
            rule="integers have no negative powers, and bools none.",
            hint="Cast first, for example with x.astype(sm.float32).",
        )
    if not node.dtype.is_inexact:
        check_square(node, "matrix_power")
        return _power(wrap(node), count)
    given, dtype = square_matrices(wrap(node), "matrix_power")
    return rounded(_power(inverted(given) if count < 0 else given, abs(count)), dtype)


def _power(x: Tensor, count: int) -> Tensor:
    """By squares."""
    if count == 0:
        one = identity(shape_of(x)[-1], x)
        return wrap(build.broadcast_to(one._node, (*batch_of(x), *shape_of(one))))
    found: Tensor | None = None
    while True:
        if count & 1:
            found = x if found is None else found @ x
        count >>= 1
        if not count:
            assert found is not None
            return found
        x = x @ x
