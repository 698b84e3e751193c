"""Random programs that index, order, scan and look by windows give the same results compiled as interpreted."""

from __future__ import annotations

from hypothesis import given

from tests.property.indexing_steps import indexing_program
from tests.property.test_random_graphs import check, seeds


@given(seeds)
def test_indexing_programs(chosen: list[tuple[int, int]]) -> None:
    check([indexing_program(seed, steps) for seed, steps in chosen])
