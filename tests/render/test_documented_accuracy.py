"""Public functions keep the bounds that `docs/reference/accuracy.md` prints, on a sample of its arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from tests.render.accuracy import ABSOLUTE, BOUNDS, FORMULA_BOUNDS, SHORT, distance, samples, short_arguments
from tests.render.wide import PAIRS, wide_function

COUNT = 1 << 15
ALL_BOUNDS = {**BOUNDS, **FORMULA_BOUNDS}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "accuracy.md"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_errors_are_within_the_documented_bounds(dtype: DType) -> None:
    given = {}
    for name in ALL_BOUNDS:
        pairs = name in PAIRS
        if dtype.bits == 16:
            given[name] = short_arguments(name, dtype, pairs, few=211)
        else:
            given[name] = [samples(name, dtype, COUNT, seed) for seed in range(2 if pairs else 1)]
            given[name][1:] = [np.random.default_rng(1).permutation(x) for x in given[name][1:]]
    results = {name: getattr(sm, name)(*map(sm.from_numpy, arguments)) for name, arguments in given.items()}
    sm.realize(*results.values())
    over = []
    for name, arguments in given.items():
        with np.errstate(invalid="ignore"):
            wanted = wide_function(name)(*(x.astype(np.longdouble) for x in arguments))
        off = distance(results[name].numpy(), wanted, dtype, ABSOLUTE.get(name, 0.0) if dtype.bits == 64 else 0.0)
        worst = int(np.argmax(off))
        bound = SHORT if dtype.bits == 16 else ALL_BOUNDS[name][dtype.bits == 64]
        if off[worst] > bound:
            over.append(f"{name}{tuple(float(x[worst]) for x in arguments)} is {off[worst]} off, over {bound}")
    assert not over, "\n".join(over)


def test_the_page_has_a_row_for_every_function_and_dtype_within_its_bound() -> None:
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    found = {(row[1].strip(" `"), row[2].strip()): (float(row[3]), float(row[5])) for row in rows}
    bounds = {
        (name, str(dtype)): SHORT if dtype.bits == 16 else ALL_BOUNDS[name][dtype.bits == 64]
        for name in ALL_BOUNDS
        for dtype in dtypes.FLOATS
    }
    assert {key: allowed for key, (_, allowed) in found.items()} == bounds, "run docs/generate_accuracy.py"
    assert [key for key, (largest, allowed) in found.items() if largest > allowed] == []
