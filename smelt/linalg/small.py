"""Many small matrices at once, in C: LAPACK takes one after the other, and of a small one calls are most of the time.

Each lane of a vector has a matrix of its own, so nothing inside of a matrix has to be a multiple of anything.
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
LARGEST: Final = 64
MOST_ELEMENTS: Final = 1 << 14  # of right sides


def cholesky(x: Array) -> Array | None:
    """The factors; None if this is not the place for them."""
    if not _fits(x):
        return None
    function = _compiled("cholesky", as_dtype(x.dtype))
    if function is None:
        return None
    flat = x.reshape(-1, *x.shape[-2:])
    y, bad = function([flat], [flat.shape, flat.shape[:1]])
    if bad.any():
        raise np.linalg.LinAlgError
    result: Array = y.reshape(x.shape)
    return result


def triangle(a: Array, b: Array, upper: bool, transposed: bool, unit_diagonal: bool) -> Array | None:
    """Solutions for triangles; None if this is not the place for them."""
    if not _fits(a) or b.shape[-2] * b.shape[-1] > MOST_ELEMENTS:
        return None
    function = _compiled("triangle", as_dtype(a.dtype))
    if function is None:
        return None
    matrices, right = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
    options = np.array([upper, transposed, unit_diagonal], np.int64)
    y, bad = function([matrices, right, options], [right.shape, right.shape[:1]])
    if bad.any():
        raise np.linalg.LinAlgError
    result: Array = y.reshape(b.shape)
    return result


def _fits(x: Array) -> bool:
    n = x.shape[-1]
    return 0 < n <= LARGEST and math.prod(x.shape[:-2]) >= LEAST_MATRICES


@cache
def _compiled(name: str, dtype: DType) -> Any:
    """The function of the file of that name, for a dtype; None without a compiler for this processor."""
    from smelt.doors import native

    path = os.path.join(os.path.dirname(__file__), f"{name}.c")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    is_single = dtype is float32
    head = f"#define T {'float' if is_single else 'double'}\n#define ROOT {'sqrtf' if is_single else 'sqrt'}\n"
    batch, flags = (dtype, 3), (int64, 1)
    given = {"cholesky": (batch,), "triangle": (batch, batch, flags)}[name]
    try:
        return native.native(name, head + text, given, (batch, flags))
    except CompilerError:
        return None
