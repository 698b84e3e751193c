"""Complex functions part by part, at the ends of what floats are and on both sides of each cut: NumPy's values with
longer floats, and a list of where the array API says otherwise.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import smelt as sm

LIMIT = 4  # units in the last place, of each part
KINDS = [np.complex64, np.complex128]
INF, NAN = math.inf, math.nan
LONG = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant  # else NumPy's complex128 is no more exact than ours
FUNCTIONS = (
    *("exp", "expm1", "log", "log10", "log2", "sqrt", "square", "reciprocal", "sign", "conj", "abs", "angle"),
    *(f"{arc}{name}" for arc in ("", "arc") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
)


def each_pair(values, kind):
    found = np.empty(len(values) ** 2, kind)
    found.real, found.imag = np.array(list(itertools.product(values, values)), found.real.dtype).T
    return found


def finite(kind):
    """Numbers near 0, 1, multiples of pi / 2, and where exp and squares stop being finite."""
    limits = np.finfo(kind)
    least, eps, most = float(limits.smallest_normal), float(limits.eps), float(limits.max)
    sizes = (
        *(0.0, float(limits.smallest_subnormal), least, 3 * least, math.sqrt(least), eps, 1e-3),
        *(0.5, 1 - eps / 2, 1.0, 1 + eps, 1.5, 2.0, math.pi / 2, math.pi, 20.5, math.log(most) * 0.999),
        *(math.log(most) * 1.002, 1e10, math.sqrt(most), 1e30, most / 4, most),
    )
    return each_pair([sign * size for size in sizes for sign in (1, -1)], kind)


def units(found, expected, size, dtype):
    """How far a part is from what it should be, in units of the last place of `size`; the wrong sign of 0 is far."""
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        exact, found = expected.astype(dtype).astype(np.longdouble), found.astype(np.longdouble)
        unit = np.exp2(np.floor(np.log2(size.astype(dtype))) - limits.nmant)
        far = abs(found - exact) / np.maximum(unit, limits.smallest_subnormal)
    same = (found == exact) & (np.signbit(found) == np.signbit(exact))
    return np.where(same | (np.isnan(found) & np.isnan(exact)), 0, np.where(found == exact, INF, far))


def parts(x):
    return (x.real, x.imag) if np.iscomplexobj(x) else (x,)


def assert_within(found, expected, given, whole=False):
    """Each part is within some units of its last place, or of that of the whole number."""
    dtype = np.finfo(found.dtype).dtype
    for a, b in zip(parts(found), parts(expected), strict=True):
        wrong = ~(units(a, b, abs(expected) if whole else abs(b), dtype) <= LIMIT)
        places = np.flatnonzero(wrong)[:5]
        assert not wrong.any(), [(given[k], found[k], expected[k]) for k in places]


@pytest.mark.skipif(not LONG, reason="there are no floats longer than float64 here")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_finite_numbers(name, kind):
    x = finite(kind)
    if name == "sign":
        x = x[x != 0]  # the standard has 0, whose signs NumPy drops
    if name == "reciprocal":
        x = x[x != 0]  # NumPy's is NaN
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.clongdouble))
        # The real part of expm1 is a difference, which cannot be more exact than what it is of.
        if name == "expm1":  # NumPy's imaginary part is NaN where exp is not finite
            expected.imag = np.exp(x.astype(np.clongdouble)).imag
            nothing = expected.real.astype(x.real.dtype) == 0  # a difference, with the sign of what is not 0 in it
            expected.real[nothing] = np.copysign(0, x.real)[nothing]
    assert_within(getattr(sm, name.replace("arc", "a"))(sm.asarray(x)).numpy(), expected, x, whole=name == "expm1")
