"""A few whole programs in every way that users run them; `python -m tests.hunt` looks for new ones."""

from __future__ import annotations

import pytest

from tests.hunt.programs import made
from tests.hunt.ways import WAYS, difference


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_programs_give_what_numpy_gives(seed: int, way: str) -> None:
    program = made(seed)
    assert difference(program, way) is None, str(program)
