"""The stablehlo suite on small inputs: contenders answer and agree, and the rows say what was measured."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from smelt.bench.stablehlo.cases import CASES
from smelt.bench.stablehlo.suite import measure_stablehlo

pytestmark = [pytest.mark.peers, pytest.mark.slow]


def test_functions_through_text_are_compared_with_both_others() -> None:
    native, jax, launches, mean = measure_stablehlo(["norm"], True, lambda text: None)
    assert native.name == "norm / native" and jax.name == "norm / jax.jit" and mean.figure
    assert launches.figure == 1 and launches.detail == "1 against 1"
    assert all(name in CASES for name in ("mlp", "gpt", "scan"))


def test_reading_and_first_calls() -> None:
    rows = measure_stablehlo(["read", "compile"], True, lambda text: None)
    assert [row.unit for row in rows] == ["s", "s", "s", "s", "×", "s", "s"]
    assert all(row.figure is not None and row.figure > 0 for row in rows)
