"""Math functions within their bounds on random arguments: all magnitudes, and where the functions are hard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType
from tests.render.accuracy import ABSOLUTE, BOUNDS, WIDE, units_off, widen
from tests.render.support import MACHINES, Compiled, elementwise
from tests.turns import one_in

pytestmark = pytest.mark.xdist_group("accuracy")  # compiled once

COUNT = 1 << 14
LANES = {dtypes.float32: 16, dtypes.float64: 8}

TWO = ("pow", "atan2", "hypot")
ANGLES = ("sin", "cos", "tan")
CHOSEN = one_in(4, list(BOUNDS))


@pytest.fixture(scope="module", params=MACHINES)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    kernels = [
        elementwise(f"{op}_{dtype.name}_{n}", op, [dtype] * (2 if op in TWO else 1), dtype, COUNT, n)
        for op in {*CHOSEN, *ANGLES}
        for dtype, lanes in LANES.items()
        for n in (1, lanes)
    ]
    return Compiled(kernels, tmp_path_factory.mktemp("accuracy"), flags=request.param)


def arguments(op: str, dtype: DType) -> list[NDArray[Any]]:
    rng = np.random.default_rng(len(op))
    unsigned = np.dtype(f"u{dtype.itemsize}")
    quarter = COUNT // 4
    any_bits = rng.integers(0, 256, quarter * dtype.itemsize, dtype=np.uint8).view(unsigned).view(dtype.numpy)
    wide = 1100.0 if dtype is dtypes.float64 else 155.0
    spread = rng.uniform(-wide, wide, quarter)
    near = (
        1 + rng.standard_normal(quarter) * 0.3
        if op.startswith("log") and op != "log1p"
        else rng.standard_normal(quarter)
    )
    magnitudes = np.exp2(rng.uniform(-40, 40, quarter)) * rng.choice([-1, 1], quarter)
    x = np.concatenate([part.astype(dtype.numpy) for part in (any_bits, spread, near, magnitudes)])
    if op not in TWO:
        return [x]
    if op != "pow":
        return [x, rng.permutation(x)]
    y = np.concatenate([rng.uniform(-40, 40, COUNT // 2), rng.integers(-30, 30, COUNT // 2)]).astype(dtype.numpy)
    return [np.where(rng.random(COUNT) < 0.8, np.abs(x), x), rng.permutation(y)]


@pytest.mark.parametrize("op", CHOSEN)
@pytest.mark.parametrize("dtype", LANES, ids=str)
@pytest.mark.by_turns(2)
def test_error_in_units_of_the_last_place(op: str, dtype: DType, compiled: Compiled) -> None:
    given = arguments(op, dtype)
    with np.errstate(all="ignore"):
        wanted = WIDE[op](*[widen(x) for x in given])
    scalar, vector = np.zeros(COUNT, dtype.numpy), np.zeros(COUNT, dtype.numpy)
    compiled.run(f"{op}_{dtype.name}_1", [scalar, *given])
    compiled.run(f"{op}_{dtype.name}_{LANES[dtype]}", [vector, *given])
    for out in (scalar, vector):
        off = units_off(out, wanted, dtype, ABSOLUTE.get(op, 0.0) if dtype is dtypes.float64 else 0.0)
        worst = int(np.argmax(off))
        assert off[worst] <= BOUNDS[op][dtype is dtypes.float64], ([x[worst] for x in given], out[worst], wanted[worst])


def test_huge_angles_of_sine_and_cosine(compiled: Compiled) -> None:
    """Multiples of pi/2 that are hardest to reduce: the nearest floats to them, at all magnitudes."""
    count = np.exp2(np.linspace(0, 1000, COUNT)).astype(np.longdouble)
    x = (np.floor(count) * (np.longdouble(np.pi) / 2)).astype(np.float64)
    for op in ANGLES:
        out = np.zeros(COUNT)
        compiled.run(f"{op}_float64_8", [out, x])
        with np.errstate(all="ignore"):
            wanted = WIDE[op](widen(x))
        off = units_off(out, wanted, dtypes.float64)
        assert off.max() <= 2, (op, x[off.argmax()], out[off.argmax()], wanted[off.argmax()])
