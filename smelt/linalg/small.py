"""Many small matrices at once, in C: LAPACK takes one after the other, and of a small one calls are most of the time.

Each lane of a vector has a matrix of its own, so nothing inside of a matrix has to be a multiple of anything. Every
function gives None where this is not the place for its matrices.
"""

from __future__ import annotations

import math
import os
from functools import cache
from typing import Any, Final

import numpy as np

from smelt.dtypes import DType, as_dtype, float32, int64
from smelt.errors import CompilerError
from smelt.linalg.hosted import Array

# Below, there are too few matrices to be worth a compilation; above, LAPACK's blocks stay in faster caches.
LEAST_MATRICES: Final = 64
LEAST_ELEMENTS: Final = 4096
LARGEST: Final = 64
LARGEST_EQUATIONS: Final = 48
MOST_ELEMENTS: Final = 1 << 14  # of right sides


def cholesky(x: Array) -> Array | None:
    """The factors."""
    function = _compiled("cholesky", x, LARGEST)
    if function is None:
        return None
    flat = _flat(x)
    y, bad = function([flat], [flat.shape, flat.shape[:1]])
    return _checked(y, bad, x.shape)


def triangle(a: Array, b: Array, upper: bool, transposed: bool, unit_diagonal: bool) -> Array | None:
    """Solutions for triangles."""
    function = _compiled("triangle", a, LARGEST, b)
    if function is None:
        return None
    matrices, right = _flat(a), _flat(b)
    options = np.array([upper, transposed, unit_diagonal], np.int64)
    y, bad = function([matrices, right, options], [right.shape, right.shape[:1]])
    return _checked(y, bad, b.shape)


def solve(a: Array, b: Array) -> Array | None:
    """Solutions."""
    found = _eliminated(a, b)
    return None if found is None else _checked(found[0], found[3], b.shape)


def inv(x: Array) -> Array | None:
    """The inverses."""
    found = _eliminated(x, np.eye(x.shape[-1], dtype=x.dtype)[None])
    return None if found is None else _checked(found[0], found[3], x.shape)


def det(x: Array) -> Array | None:
    """The determinants: 0 of singular matrices."""
    found = _eliminated(x, np.zeros((1, x.shape[-1], 0), x.dtype))
    if found is None:
        return None
    _, pivots, parity, bad = found
    return np.where(bad, 0, pivots.prod(-1) * parity).reshape(x.shape[:-2])


def slogdet(x: Array) -> tuple[Array, Array] | None:
    """Signs and logarithms of the determinants: 0 and -inf of singular matrices."""
    found = _eliminated(x, np.zeros((1, x.shape[-1], 0), x.dtype))
    if found is None:
        return None
    _, pivots, parity, bad = found
    sign, logarithm = np.sign(pivots).prod(-1) * parity, np.log(abs(pivots)).sum(-1)
    batch = x.shape[:-2]
    return np.where(bad, 0, sign).reshape(batch), np.where(bad, -np.inf, logarithm).reshape(batch)


def _eliminated(a: Array, right: Array) -> list[Array] | None:
    """Solutions, pivots, the sign of the order of rows, and which matrices are singular."""
    function = _compiled("equations", a, LARGEST_EQUATIONS, right)
    if function is None:
        return None
    flat, right = _flat(a), _flat(right)
    count, n = flat.shape[:2]
    found: list[Array] = function([flat, right], [(count, *right.shape[1:]), (count, n), (count,), (count,)])
    return found


def _flat(x: Array) -> Array:
    """With one axis in front of the matrices."""
    flat: Array = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    return flat


def _checked(y: Array, bad: Array, shape: tuple[int, ...]) -> Array:
    if bad.any():
        raise np.linalg.LinAlgError
    return y.reshape(shape)


def _compiled(name: str, x: Array, largest: int, right: Array | None = None) -> Any:
    """The function of a file, if it is for such matrices."""
    n, count = x.shape[-1], math.prod(x.shape[:-2])
    if x.dtype.kind == "c" or count < LEAST_MATRICES or count * n * n < LEAST_ELEMENTS or n > largest:
        return None
    if right is not None and n * right.shape[-1] > MOST_ELEMENTS:
        return None
    return _function(name, as_dtype(x.dtype))


@cache
def _function(name: str, dtype: DType) -> Any:
    """The function of the file of that name, for a dtype; None without a compiler for this processor."""
    from smelt.doors import native

    with open(os.path.join(os.path.dirname(__file__), f"{name}.c"), encoding="utf-8") as file:
        text = file.read()
    words = ("float", "int32_t", "sqrtf") if dtype is float32 else ("double", "int64_t", "sqrt")
    head = "".join(f"#define {word} {meant}\n" for word, meant in zip(("T", "I", "ROOT"), words, strict=True))
    batch, flags = (dtype, 3), (int64, 1)
    given, gives = {
        "cholesky": ((batch,), (batch, flags)),
        "triangle": ((batch, batch, flags), (batch, flags)),
        "equations": ((batch, batch), (batch, (dtype, 2), (dtype, 1), flags)),
    }[name]
    try:
        return native.native(name, head + text, given, gives)
    except CompilerError:
        return None
