"""The special cases of the array API standard 2024.12, and of functions beyond it, as inputs and what they give.

Where the standard speaks of "finite numbers" or of numbers below a limit, representatives stand for them. Integers that
stand for floats are written as floats; every number is one that all float dtypes hold.
"""

from __future__ import annotations

import math

Row = tuple[tuple[float, ...], float | bool]

inf, nan, pi = math.inf, math.nan, math.pi


def _odd(*rows: tuple[float, float]) -> list[Row]:
    """Rows of an odd function: each also with both signs changed, and NaN."""
    return [((nan,), nan), *(((sign * x,), sign * y) for x, y in rows for sign in (1.0, -1.0))]


def _even(*rows: tuple[float, float]) -> list[Row]:
    return [((nan,), nan), *(((sign * x,), y) for x, y in rows for sign in (1.0, -1.0))]


def _each(*rows: tuple[float, float]) -> list[Row]:
    return [((nan,), nan), *(((x,), y) for x, y in rows)]


_WHOLE = [(0.0, 0.0), (inf, inf), (3.0, 3.0), (1024.0, 1024.0)]
_LOGARITHM = [(-1.0, nan), (-inf, nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf)]

UNARY: dict[str, list[Row]] = {
    "abs": _even((0.0, 0.0), (inf, inf), (2.0, 2.0)),
    "acos": _each((2.0, nan), (-2.0, nan), (inf, nan), (-inf, nan), (1.0, 0.0), (-1.0, pi), (0.0, pi / 2)),
    "acosh": _each((0.5, nan), (-1.0, nan), (-inf, nan), (1.0, 0.0), (inf, inf)),
    "asin": _odd((2.0, nan), (inf, nan), (0.0, 0.0), (1.0, pi / 2)),
    "asinh": _odd((0.0, 0.0), (inf, inf)),
    "atan": _odd((0.0, 0.0), (inf, pi / 2), (1.0, pi / 4)),
    "atanh": _odd((2.0, nan), (inf, nan), (1.0, inf), (0.0, 0.0)),
    "ceil": [*_odd(*_WHOLE), ((-0.5,), -0.0), ((0.5,), 1.0), ((-1.5,), -1.0)],
    "floor": [*_odd(*_WHOLE), ((-0.5,), -1.0), ((0.5,), 0.0), ((1.5,), 1.0)],
    "trunc": _odd(*_WHOLE, (0.5, 0.0), (1.5, 1.0)),
    "round": _odd(*_WHOLE, (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (3.5, 4.0)),
    "cos": _even((0.0, 1.0), (inf, nan)),
    "cosh": _even((0.0, 1.0), (inf, inf)),
    "exp": _each((0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)),
    "exp2": _each((0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (3.0, 8.0), (-2.0, 0.25)),
    "expm1": _each((0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0)),
    "log": _each(*_LOGARITHM),
    "log2": _each(*_LOGARITHM, (8.0, 3.0)),
    "log10": _each(*_LOGARITHM, (100.0, 2.0)),
    "log1p": _each((-2.0, nan), (-inf, nan), (-1.0, -inf), (-0.0, -0.0), (0.0, 0.0), (inf, inf)),
    "negative": _odd((0.0, -0.0), (inf, -inf), (2.0, -2.0)),
    "positive": _odd((0.0, 0.0), (inf, inf)),
    "reciprocal": _odd((inf, 0.0), (0.0, inf), (2.0, 0.5)),
    "sign": [((nan,), nan), ((0.0,), 0.0), ((-0.0,), 0.0), ((3.0,), 1.0), ((-3.0,), -1.0), ((-inf,), -1.0)],
    "sin": _odd((0.0, 0.0), (inf, nan)),
    "sinh": _odd((0.0, 0.0), (inf, inf)),
    "square": _even((0.0, 0.0), (inf, inf), (3.0, 9.0)),
    "sqrt": _each((-1.0, nan), (-inf, nan), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (4.0, 2.0)),
    "tan": _odd((0.0, 0.0), (inf, nan)),
    "tanh": _odd((0.0, 0.0), (inf, 1.0)),
    "isfinite": [((x,), math.isfinite(x)) for x in (inf, -inf, nan, 0.0, -0.0, 1.0)],
    "isinf": [((x,), math.isinf(x)) for x in (inf, -inf, nan, 0.0, -0.0, 1.0)],
    "isnan": [((x,), math.isnan(x)) for x in (inf, -inf, nan, 0.0, -0.0, 1.0)],
    "signbit": [((x,), math.copysign(1.0, x) < 0) for x in (inf, -inf, nan, -nan, 0.0, -0.0, 1.0, -1.0)],
    "logical_not": [((x,), x == 0) for x in (inf, -inf, nan, 0.0, -0.0, 1.0)],
    # Beyond the standard.
    "cbrt": _odd((0.0, 0.0), (inf, inf), (8.0, 2.0)),
    "erf": _odd((0.0, 0.0), (inf, 1.0)),
    "erfc": _each((0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 2.0)),
    "erfinv": _odd((0.0, 0.0), (1.0, inf), (2.0, nan), (inf, nan)),
    "lgamma": _each((1.0, 0.0), (2.0, 0.0), (0.0, inf), (-0.0, inf), (-1.0, inf), (-3.0, inf), (inf, inf), (-inf, inf)),
    "digamma": _each((0.0, -inf), (-0.0, inf), (-1.0, nan), (-2.0, nan), (inf, inf), (-inf, nan)),
    "rsqrt": _each((0.0, inf), (-1.0, nan), (inf, 0.0), (4.0, 0.5)),
    "sigmoid": _each((0.0, 0.5), (inf, 1.0), (-inf, 0.0)),
    "softplus": _each((inf, inf), (-inf, 0.0), (0.0, math.log(2))),
    "log_sigmoid": _each((inf, 0.0), (-inf, -inf), (0.0, -math.log(2))),
    "logit": _each((0.0, -inf), (1.0, inf), (0.5, 0.0), (2.0, nan), (-1.0, nan)),
    "sinc": _even((0.0, 1.0), (1.0, 0.0), (2.0, 0.0)),
    "frac": _odd((0.0, 0.0), (1.5, 0.5), (inf, nan)),
    "relu": _each((-1.0, 0.0), (2.0, 2.0), (inf, inf), (-inf, 0.0)),
}

_TWO = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 3.0, -3.0]
_NAN_EITHER: list[Row] = [((nan, x), nan) for x in _TWO] + [((x, nan), nan) for x in _TWO]


def _signed(rows: list[tuple[float, float, float]]) -> list[Row]:
    """Rows of a product or quotient: the sign of the result is that of the arguments."""
    signs = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]
    return [((s * x, t * y), s * t * z) for x, y, z in rows for s, t in signs]


def _compared(holds: str) -> list[Row]:
    tests = {
        "equal": lambda a, b: a == b,
        "not_equal": lambda a, b: a != b,
        "less": lambda a, b: a < b,
        "less_equal": lambda a, b: a <= b,
        "greater": lambda a, b: a > b,
        "greater_equal": lambda a, b: a >= b,
        "logical_and": lambda a, b: bool(a) and bool(b),
        "logical_or": lambda a, b: bool(a) or bool(b),
        "logical_xor": lambda a, b: bool(a) != bool(b),
    }
    return [((a, b), tests[holds](a, b)) for a in _TWO for b in _TWO]


_QUOTIENT = [(inf, inf, nan), (0.0, 0.0, nan), (0.0, 3.0, 0.0), (3.0, 0.0, inf), (inf, 3.0, inf), (3.0, inf, 0.0)]

BINARY: dict[str, list[Row]] = {
    "add": [
        *_NAN_EITHER,
        *[((inf, -inf), nan), ((-inf, inf), nan), ((inf, inf), inf), ((-inf, -inf), -inf)],
        *[((inf, 1.0), inf), ((-inf, 1.0), -inf), ((1.0, inf), inf), ((1.0, -inf), -inf)],
        *[((-0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0), ((0.0, -0.0), 0.0), ((0.0, 0.0), 0.0)],
        *[((0.0, 3.0), 3.0), ((-0.0, 3.0), 3.0), ((3.0, -0.0), 3.0), ((3.0, -3.0), 0.0), ((-3.0, 3.0), 0.0)],
    ],
    "subtract": [
        *_NAN_EITHER,
        *[((inf, inf), nan), ((-inf, -inf), nan), ((inf, -inf), inf), ((-inf, inf), -inf)],
        *[((-0.0, 0.0), -0.0), ((0.0, 0.0), 0.0), ((-0.0, -0.0), 0.0), ((3.0, 3.0), 0.0)],
    ],
    "multiply": [
        *_NAN_EITHER,
        *_signed(
            [(inf, inf, inf), (inf, 0.0, nan), (0.0, inf, nan), (inf, 3.0, inf), (3.0, inf, inf), (0.0, 3.0, 0.0)]
        ),
    ],
    "divide": [*_NAN_EITHER, *_signed(_QUOTIENT)],
    "floor_divide": [
        *_NAN_EITHER,
        *_signed(_QUOTIENT),
        *[((7.0, 2.0), 3.0), ((-7.0, 2.0), -4.0), ((7.0, -2.0), -4.0), ((-7.0, -2.0), 3.0)],
    ],
    "remainder": [
        *_NAN_EITHER,
        *[((s * inf, t * y), nan) for s in (1.0, -1.0) for t in (1.0, -1.0) for y in (inf, 3.0, 0.0)],
        *[((s * x, t * 0.0), nan) for s in (1.0, -1.0) for t in (1.0, -1.0) for x in (0.0, 3.0)],
        *[((0.0, 3.0), 0.0), ((-0.0, 3.0), 0.0), ((0.0, -3.0), -0.0), ((-0.0, -3.0), -0.0)],
        *[((3.0, inf), 3.0), ((3.0, -inf), -inf), ((-3.0, inf), inf), ((-3.0, -inf), -3.0)],
        *[((7.0, 2.0), 1.0), ((-7.0, 2.0), 1.0), ((7.0, -2.0), -1.0), ((-7.0, -2.0), -1.0)],
    ],
    "pow": [
        *[((x, 0.0), 1.0) for x in _TWO],
        *[((x, -0.0), 1.0) for x in _TWO],
        *[((nan, 3.0), nan), ((3.0, nan), nan), ((-3.0, nan), nan), ((0.0, nan), nan), ((nan, inf), nan)],
        *[((s * 3.0, inf), inf) for s in (1.0, -1.0)],
        *[((s * 3.0, -inf), 0.0) for s in (1.0, -1.0)],
        *[((s * 1.0, t * inf), 1.0) for s in (1.0, -1.0) for t in (1.0, -1.0)],
        *[((1.0, x), 1.0) for x in (3.0, -3.0, 0.5)],
        *[((s * 0.5, inf), 0.0) for s in (1.0, -1.0)],
        *[((s * 0.5, -inf), inf) for s in (1.0, -1.0)],
        *[((inf, 3.0), inf), ((inf, -3.0), 0.0), ((-inf, 3.0), -inf), ((-inf, 2.0), inf), ((-inf, 0.5), inf)],
        *[((-inf, -3.0), -0.0), ((-inf, -2.0), 0.0), ((-inf, -0.5), 0.0)],
        *[((0.0, 3.0), 0.0), ((0.0, -3.0), inf), ((-0.0, 3.0), -0.0), ((-0.0, 2.0), 0.0), ((-0.0, 0.5), 0.0)],
        *[((-0.0, -3.0), -inf), ((-0.0, -2.0), inf), ((-0.0, -0.5), inf), ((0.0, inf), 0.0), ((0.0, -inf), inf)],
        *[((-3.0, 0.5), nan), ((-3.0, -0.5), nan), ((-3.0, 3.0), -27.0), ((-2.0, 2.0), 4.0)],
    ],
    "atan2": [
        *_NAN_EITHER,
        *[((3.0, 0.0), pi / 2), ((3.0, -0.0), pi / 2), ((-3.0, 0.0), -pi / 2), ((-3.0, -0.0), -pi / 2)],
        *[((0.0, 3.0), 0.0), ((0.0, 0.0), 0.0), ((0.0, -0.0), pi), ((0.0, -3.0), pi)],
        *[((-0.0, 3.0), -0.0), ((-0.0, 0.0), -0.0), ((-0.0, -0.0), -pi), ((-0.0, -3.0), -pi)],
        *[((3.0, inf), 0.0), ((3.0, -inf), pi), ((-3.0, inf), -0.0), ((-3.0, -inf), -pi)],
        *[((inf, 3.0), pi / 2), ((inf, -3.0), pi / 2), ((-inf, 3.0), -pi / 2), ((-inf, -3.0), -pi / 2)],
        *[((inf, inf), pi / 4), ((inf, -inf), 3 * pi / 4), ((-inf, inf), -pi / 4), ((-inf, -inf), -3 * pi / 4)],
    ],
    "copysign": [((x, y), math.copysign(x, y)) for x in (nan, inf, 0.0, -0.0, 3.0, -3.0) for y in _TWO],
    "hypot": [
        *[((s * inf, x), inf) for s in (1.0, -1.0) for x in _TWO],
        *[((x, s * inf), inf) for s in (1.0, -1.0) for x in _TWO],
        *[((nan, 3.0), nan), ((3.0, nan), nan), ((nan, nan), nan), ((0.0, nan), nan)],
        *[((s * 0.0, -3.0), 3.0) for s in (1.0, -1.0)],
        *[((3.0, s * 0.0), 3.0) for s in (1.0, -1.0)],
        *[((s * 0.0, t * 0.0), 0.0) for s in (1.0, -1.0) for t in (1.0, -1.0)],
    ],
    "logaddexp": [
        *[((nan, 3.0), nan), ((3.0, nan), nan), ((inf, 3.0), inf), ((3.0, inf), inf), ((inf, inf), inf)],
        *[((inf, -inf), inf), ((-inf, inf), inf), ((-inf, -inf), -inf), ((-inf, 3.0), 3.0), ((3.0, -inf), 3.0)],
    ],
    "maximum": [
        *_NAN_EITHER,
        *[((inf, 3.0), inf), ((-inf, 3.0), 3.0), ((3.0, inf), inf), ((0.0, -0.0), 0.0), ((-0.0, 0.0), 0.0)],
    ],
    "minimum": [
        *_NAN_EITHER,
        *[((inf, 3.0), 3.0), ((-inf, 3.0), -inf), ((3.0, -inf), -inf), ((0.0, -0.0), -0.0), ((-0.0, 0.0), -0.0)],
    ],
    "nextafter": [
        *_NAN_EITHER,
        *[((-0.0, 0.0), 0.0), ((0.0, -0.0), -0.0), ((inf, inf), inf), ((-inf, -inf), -inf), ((3.0, 3.0), 3.0)],
    ],
    "fmax": [((nan, 3.0), 3.0), ((3.0, nan), 3.0), ((nan, nan), nan), ((-0.0, 0.0), 0.0), ((inf, 3.0), inf)],
    "fmin": [((nan, 3.0), 3.0), ((3.0, nan), 3.0), ((nan, nan), nan), ((-0.0, 0.0), -0.0), ((inf, 3.0), 3.0)],
    "fmod": [
        *_NAN_EITHER,
        *[((inf, 3.0), nan), ((3.0, 0.0), nan), ((-0.0, 3.0), -0.0), ((3.0, inf), 3.0), ((-3.0, inf), -3.0)],
        *[((-7.0, 2.0), -1.0), ((7.0, -2.0), 1.0)],
    ],
    "heaviside": [((nan, 1.0), nan), ((0.0, nan), nan), ((-0.0, 0.5), 0.5), ((-inf, 0.5), 0.0), ((inf, 0.5), 1.0)],
    "xlogy": [((0.0, 0.0), 0.0), ((0.0, inf), 0.0), ((0.0, nan), nan), ((nan, 1.0), nan), ((1.0, 0.0), -inf)],
    **{name: _compared(name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    **{name: _compared(name) for name in ("logical_and", "logical_or", "logical_xor")},
}

CASES: dict[str, list[Row]] = {**UNARY, **BINARY}

STANDARD = (
    *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift"),
    *("bitwise_invert", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "copysign", "cos", "cosh"),
    *("divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite"),
    *("isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and"),
    *("logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter"),
    *("not_equal", "positive", "pow", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "square"),
    *("sqrt", "subtract", "tan", "tanh", "trunc"),
)
"""The elementwise functions of the standard that take real numbers."""
