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


# The largest errors that functions may have, in units of the last place: float32, float64. 16-bit floats: SHORT.
BOUNDS: dict[str, tuple[float, float]] = {
    **{name: (1.05, 1.05) for name in ("exp", "log", "log2", "log1p")},
    **{"expm1": (1.05, 1.2), "exp2": (1.2, 1.2), "log10": (0.6, 1.05)},
    **{"sqrt": (0.51, 0.51), "rsqrt": (1.6, 1.6), "reciprocal": (0.51, 0.51), "cbrt": (0.6, 0.7)},
    **{"sin": (0.6, 1), "cos": (0.6, 1), "tan": (0.6, 1.6)},
    **{"asin": (0.6, 2.5), "acos": (0.6, 1.5), "atan": (0.6, 2), "atan2": (0.6, 2.5)},
    **{"sinh": (0.6, 2.5), "cosh": (0.6, 2), "tanh": (2, 2)},
    **{"asinh": (0.6, 2), "acosh": (0.6, 3), "atanh": (0.6, 2.5)},
    **{"erf": (1.5, 2), "erfc": (0.6, 4), "erfinv": (0.6, 2.5), "lgamma": (0.6, 8), "digamma": (0.6, 64)},
    **{"pow": (0.6, 1.5), "hypot": (0.6, 1.05)},
}
FORMULA_BOUNDS: dict[str, tuple[float, float]] = {
    **{"divide": (0.51, 0.51), "sigmoid": (4, 4), "softplus": (4, 4), "log_sigmoid": (4, 4), "logit": (4, 4)},
    **{"sinc": (4, 4), "deg2rad": (1.6, 1.6), "rad2deg": (1.6, 1.6), "logaddexp": (0.6, 4)},
}
SHORT = 0.51


# Near zeros other than 0, float64 results of these are only as exact as those of size 1.
ABSOLUTE = {"lgamma": 1.0, "digamma": 1.0, "logaddexp": 1.0}


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


def distance(got: NDArray[Any], wanted: NDArray[Any], dtype: DType, least: float = 0.0) -> NDArray[Any]:
    """As `units_off`, but what is rounded correctly counts with what its rounding lost, up to 0.5."""
    info = ml_dtypes.finfo(dtype.numpy)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.maximum(np.abs(wanted), least))
        unit = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, int(info.minexp)) - int(info.nmant))
        off = np.abs(got.astype(np.longdouble) - wanted) / unit
        rounded = wanted.astype(np.float64).astype(dtype.numpy)
    return np.where(np.isfinite(off), off, np.where(identical(got, rounded), 0, np.inf))


def samples(name: str, dtype: DType, count: int, seed: int = 0) -> NDArray[Any]:
    """Arguments of all magnitudes: a quarter of them random bits, the rest where functions are hard."""
    rng = np.random.default_rng(seed)
    part = count // 8
    bits = rng.integers(0, 256, (count - 6 * part) * dtype.itemsize, dtype=np.uint8).view(f"u{dtype.itemsize}")
    signs = rng.choice([-1.0, 1.0], part)
    parts = [
        rng.uniform(-1, 1, part),
        rng.standard_normal(part),
        rng.uniform(-30, 30, part),
        rng.uniform(-800, 800, part) if dtype.bits == 64 else rng.uniform(-110, 110, part),
        1 + rng.standard_normal(part) * 0.05,
        np.exp2(rng.uniform(-30, 30, part)) * signs,
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([bits.view(dtype.numpy), *(p.astype(dtype.numpy) for p in parts)])


def short_arguments(name: str, dtype: DType, pairs: bool, few: int) -> list[NDArray[Any]]:
    """Every number of a 16-bit dtype; for functions of two, all pairs of `few` of them spread over all magnitudes."""
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.numpy)
    if not pairs:
        return [every]
    step = (1 << 16) // few | 1
    chosen = every[::step]
    grid = np.meshgrid(chosen, chosen)
    return [g.ravel() for g in grid]
