"""Random programs that index, order, scan and look by windows give the same results compiled as interpreted."""

from __future__ import annotations

import pytest
from hypothesis import given

from smelt.config import configure
from tests.devices import DEVICES
from tests.property.indexing_steps import indexing_program
from tests.property.test_random_graphs import check, seeds


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("device", DEVICES)
@given(chosen=seeds)
def test_indexing_programs(device: str, chosen: list[tuple[int, int]]) -> None:
    with configure(device=device):
        check([indexing_program(seed, steps) for seed, steps in chosen])
