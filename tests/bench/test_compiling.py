"""The training step that compile time is measured with."""

from __future__ import annotations

import pytest

from smelt.bench.compiling import planning, training


@pytest.mark.slow
def test_a_step_is_right_and_repeats() -> None:
    found = training("tiny", 2)
    assert found["first"] > found["median"] > 0
    assert found["kernels"] > found["distinct_kernels"] > 0


@pytest.mark.by_turns(3)
def test_layers_add_launches_and_no_kernels() -> None:
    """Launches are series of small ones by then, of which each layer has the same."""
    few, many = planning(12), planning(48)
    assert many["nodes"] > 3 * few["nodes"]
    assert many["kernels"] > 2 * few["kernels"]
    assert many["distinct_kernels"] <= few["distinct_kernels"]
    assert many["seconds"] > 0
