"""Writes `reference/accuracy.md`: `python docs/generate_accuracy.py`, in a checkout, with a C compiler.

Every public math function is compared, as users call it, with a reference that is wider than its dtype: the C library's
functions of long doubles (`tests/render/wide.py`). All 65,536 numbers of the 16-bit dtypes, ten million of float32 and
one million of float64; functions of two arguments see all pairs of two thousand 16-bit numbers. `--quick` takes a
hundredth of the samples and prints the page instead of writing it.
"""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import smelt as sm  # noqa: E402
from smelt import dtypes  # noqa: E402
from smelt.dtypes import DType  # noqa: E402
from tests.render.accuracy import (  # noqa: E402
    ABSOLUTE,
    BOUNDS,
    FORMULA_BOUNDS,
    SHORT,
    distance,
    samples,
    short_arguments,
)
from tests.render.wide import PAIRS, wide_function  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "accuracy.md"
COUNTS = {dtypes.float32: 10_000_000, dtypes.float64: 1_000_000}
PIECE = 1_000_000
FEW = 2000  # 16-bit numbers of which functions of two see all pairs

HEAD = """# Accuracy

How far results are from the exact ones, in units of the last place (ULP): 0.5 is what rounding alone costs. Written by
`python docs/generate_accuracy.py`, which compares every function, compiled as users call it, with the C library's
functions of long doubles.

- float16 and bfloat16: all 65,536 numbers; for functions of two, all pairs of {few} numbers spread over all magnitudes.
- float32: {float32} arguments, float64: {float64}. A quarter are random bits, so that all exponents occur; the others
  lie around 0 and 1, between -1 and 1, -30 and 30, and the limits of the exponential.
- "allowed" is the bound that the tests hold the function to; for the 16-bit dtypes it is {short} throughout.
- Special cases (zeros, infinities, NaN) are exact and have tests of their own.
- {absolute} in float64: results below 1 in size count as of size 1. Near their zeros, other than 1 and 2 of `lgamma`,
  only the absolute error is small.

| function | dtype | largest | mean | allowed | worst at |
|---|---|---:|---:|---:|---|
"""


class Found(NamedTuple):
    largest: float
    total: float
    count: int
    worst: tuple[float, ...]


def measured(name: str, arguments: list[NDArray[Any]], dtype: DType) -> Found:
    """The errors of one piece."""
    got = getattr(sm, name)(*(sm.from_numpy(x) for x in arguments)).numpy()
    with np.errstate(invalid="ignore"):
        wanted = wide_function(name)(*(x.astype(np.longdouble) for x in arguments))
    least = ABSOLUTE.get(name, 0.0) if dtype is dtypes.float64 else 0.0
    off = distance(got, wanted, dtype, least)
    worst = int(np.argmax(off))
    return Found(float(off[worst]), float(off.sum()), off.size, tuple(float(x[worst]) for x in arguments))


def joined(pieces: list[Found]) -> Found:
    worst = max(pieces, key=lambda piece: piece.largest)
    return Found(worst.largest, sum(p.total for p in pieces), sum(p.count for p in pieces), worst.worst)


def errors(name: str, dtype: DType, scale: int) -> Found:
    """The errors of a function over all its samples; `scale` divides their number."""
    if dtype.bits == 16:
        arguments = short_arguments(name, dtype, name in PAIRS, FEW // scale)
        cuts = range(0, arguments[0].size, PIECE)
        return joined([measured(name, [x[at : at + PIECE] for x in arguments], dtype) for at in cuts])
    count, pieces = COUNTS[dtype] // scale, []
    for number, start in enumerate(range(0, count, PIECE)):
        size = min(PIECE, count - start)
        arguments = [samples(name, dtype, size, 2 * number)]
        if name in PAIRS:
            other = samples(name, dtype, size, 2 * number + 1)
            arguments.append(np.random.default_rng(number).permutation(other))
        pieces.append(measured(name, arguments, dtype))
    return joined(pieces)


def rows(name: str, scale: int) -> str:
    """The lines of one function."""
    bounds = {**BOUNDS, **FORMULA_BOUNDS}[name]
    allowed = {dtypes.float32: bounds[0], dtypes.float64: bounds[1]}
    lines = []
    for dtype in dtypes.FLOATS:
        found = errors(name, dtype, scale)
        worst = ", ".join(f"{x:.9g}" if dtype.bits < 64 else repr(x) for x in found.worst)
        figures = f"{found.largest:.3f} | {found.total / found.count:.3f} | {allowed.get(dtype, SHORT)}"
        lines.append(f"| `{name}` | {dtype} | {figures} | {worst} |\n")
    return "".join(lines)


def page(scale: int = 1) -> str:
    """The text of the page; a process for each processor works on one function at a time."""
    counts = {str(dtype): f"{count // scale:,}" for dtype, count in COUNTS.items()}
    absolute = ", ".join(f"`{name}`" for name in ABSOLUTE)
    lines = [HEAD.format(few=f"{FEW // scale:,}", short=SHORT, absolute=absolute, **counts)]
    names = sorted({**BOUNDS, **FORMULA_BOUNDS})
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        lines += pool.map(rows, names, [scale] * len(names))
    return "".join(lines)


if __name__ == "__main__":
    if "--quick" in sys.argv[1:]:
        print(page(scale=100))
    else:
        PAGE.write_text(page(), encoding="utf-8")
