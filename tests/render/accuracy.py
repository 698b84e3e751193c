"""Wider references for the math functions, and distances in units of the last place."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType

_erf = np.vectorize(math.erf, otypes=[np.float64])

WIDE: dict[str, Any] = {
    **{"exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p},
    **{"sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "pow": np.power},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "erf": lambda x: _erf(x.astype(np.float64)).astype(x.dtype),
}


def widen(array: NDArray[Any]) -> NDArray[Any]:
    """The next wider float type."""
    return array.astype(np.longdouble if array.dtype == np.float64 else np.float64)


def identical(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Equal including the sign of zeros, or both NaN."""
    return np.asarray(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


def units_off(got: NDArray[Any], wanted: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """How far results are from wider references, in units of the last place of a dtype; zeros must agree in sign."""
    info = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        size = np.abs(wanted)
        exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
        unit = np.exp2(np.maximum(exponent, int(info.minexp)) - int(info.nmant))
        off = np.abs(got.astype(wanted.dtype) - wanted) / unit
        rounded = wanted.astype(dtype.numpy)
    same = identical(got, rounded)
    off = np.where(same, 0, off)
    return np.where(np.isfinite(off) & ~((wanted == 0) & ~same), off, np.where(same, 0, np.inf))
