"""References that are wider than what they judge: the C library's functions of long doubles, over arrays.

What the C library lacks is written here in long doubles: erfinv by Halley's method on its erf and erfc, digamma by its
recurrence and asymptotic series. A long double must have more than 53 bits for this to be a reference of float64.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.config import settings

Array = NDArray[Any]

_UNARY = {
    **{name: f"{name}l(x)" for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")},
    **{name: f"{name}l(x)" for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: f"{name}l(x)" for name in ("asinh", "acosh", "atanh", "erf", "erfc", "lgamma")},
    "rsqrt": "1 / sqrtl(x)",
    "reciprocal": "1 / x",
    "erfinv": "erfinv(x)",
    "digamma": "digamma(x)",
}
_BINARY = {name: f"{name}l(x, y)" for name in ("pow", "atan2", "hypot", "copysign")}
NAMES = (*_UNARY, *_BINARY)
# Public functions that are made of several primitives.
_FORMULAS = {
    "sigmoid": "1 / (1 + expl(-x))",
    "softplus": "x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x))",
    "log_sigmoid": "x < 0 ? x - log1pl(expl(x)) : -log1pl(expl(-x))",
    "logit": "x < 0.25L ? logl(x / (1 - x)) : 2 * atanhl(2 * x - 1)",
    "sinc": "sinc(x)",
    "deg2rad": "x * (3.14159265358979323846264338327950288L / 180)",
    "rad2deg": "x * (180 / 3.14159265358979323846264338327950288L)",
    "divide": "x / y",
    "logaddexp": "x == y ? x + logl(2.L) : x != x || y != y ? x + y : fmaxl(x, y) + log1pl(expl(-fabsl(x - y)))",
}
PAIRS = frozenset({*_BINARY, "divide", "logaddexp"})

_HEAD = r"""
#include <math.h>
typedef long double wide;
static wide erfinv(wide x) {
  wide a = fabsl(x);
  if (!(a < 1)) return a == 1 ? copysignl(INFINITY, x) : NAN;
  wide r = a < 0.7L ? a * 0.886226925452758013649L * (1 + 0.26L * a * a) : 0.9L * sqrtl(-logl((1 - a) * (1 + a)));
  for (int i = 0; i < 60; i++) {
    wide off = a < 0.5L ? erfl(r) - a : (1 - a) - erfcl(r);
    wide u = off * 0.886226925452758013649083741670572591L * expl(r * r), step = u / (1 + r * u);
    r -= step;
    if (fabsl(step) <= fabsl(r) * 1e-22L) break;
  }
  return copysignl(r, x);
}
static wide sinc(wide x) {
  const wide pi = 3.14159265358979323846264338327950288L;
  wide n = rintl(x), r = x - n;
  if (x == 0) return 1;
  if (r == 0) return 0;
  return (fmodl(n, 2) == 0 ? sinl(pi * r) : -sinl(pi * r)) / (pi * x);
}
static wide digamma(wide x) {
  const wide pi = 3.14159265358979323846264338327950288L;
  static const wide series[] = {1 / 12.L, -1 / 120.L, 1 / 252.L, -1 / 240.L, 1 / 132.L, -691 / 32760.L, 1 / 12.L};
  if (x == 0) return -1 / x;
  if (x < 0) {
    wide turn = x - rintl(x);
    return turn == 0 || isinf(x) ? NAN : digamma(1 - x) - pi / tanl(pi * turn);
  }
  if (isinf(x)) return x;
  wide total = 0, rest = 0;
  while (x < 40) total -= 1 / x++;
  for (int k = 6; k >= 0; k--) rest = (rest + series[k]) / (x * x);
  return total + logl(x) - 0.5L / x - rest;
}
"""
_FUNCTION = r"""
void wide_{name}(const wide *xs, const wide *ys, wide *out, long n) {{
  for (long i = 0; i < n; i++) {{ wide x = xs[i], y = ys[i]; (void)y; out[i] = {expression}; }}
}}
"""


@functools.cache
def _library() -> ctypes.CDLL:
    text = _HEAD + "".join(
        _FUNCTION.format(name=n, expression=e) for n, e in {**_UNARY, **_BINARY, **_FORMULAS}.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "wide.c", Path(folder) / "wide.so"
        source.write_text(text, encoding="utf-8")
        compiler = (settings().compiler or "cc").split()
        subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"], check=True)
        return ctypes.CDLL(str(library))


def wide_function(name: str) -> Callable[..., Array]:
    """A function of one or two arrays that computes, and gives, long doubles."""

    def apply(x: Array, y: Array | None = None) -> Array:
        first = np.ascontiguousarray(x, np.longdouble)
        second = first if y is None else np.ascontiguousarray(y, np.longdouble)
        out = np.empty_like(first)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (first, second, out)]
        getattr(_library(), f"wide_{name}")(*pointers, ctypes.c_long(first.size))
        return out

    return apply
