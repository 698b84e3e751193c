"""The training step that compile time is measured with."""

from __future__ import annotations

import pytest

from smelt.bench.compiling import planning, training


@pytest.mark.slow
def test_a_step_is_right_and_repeats() -> None:
    found = training("tiny", 2)
    assert found["first"] > found["median"] > 0
    assert found["kernels"] > found["distinct_kernels"] > 0


def test_layers_add_launches_and_no_kernels() -> None:
    few, many = planning(3), planning(12)
    assert many["nodes"] > 3 * few["nodes"]
    assert many["kernels"] > 3 * few["kernels"]
    assert many["distinct_kernels"] == few["distinct_kernels"]
    assert many["seconds"] > 0
