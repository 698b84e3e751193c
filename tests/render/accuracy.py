"""Wider references for the math functions, and distances in units of the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType
from tests.render.wide import NAMES, wide_function

WIDE: dict[str, Any] = {name: wide_function(name) for name in NAMES}


def widen(array: NDArray[Any]) -> NDArray[Any]:
    """The next wider float type."""
    return array.astype(np.longdouble if array.dtype == np.float64 else np.float64)


def identical(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Equal including the sign of zeros, or both NaN."""
    return np.asarray(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


# Near zeros other than 0, float64 results of these are only as exact as those of size 1.
ABSOLUTE = {"lgamma": 1.0, "digamma": 1.0}


def units_off(got: NDArray[Any], wanted: NDArray[Any], dtype: DType, least: float = 0.0) -> NDArray[Any]:
    """How far results are from wider references, in units of the last place of a dtype; zeros must agree in sign.

    References below `least` in size count as of that size.
    """
    info = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(wanted), least)
        exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
        unit = np.exp2(np.maximum(exponent, int(info.minexp)) - int(info.nmant))
        off = np.abs(got.astype(wanted.dtype) - wanted) / unit
        rounded = wanted.astype(dtype.numpy)
    same = identical(got, rounded)
    off = np.where(same, 0, off)
    return np.where(np.isfinite(off) & ~((wanted == 0) & ~same), off, np.where(same, 0, np.inf))
