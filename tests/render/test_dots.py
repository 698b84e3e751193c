"""Inner products of integers are exact, whichever instructions a processor has for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smelt.dtypes import int32
from tests.render.support import MACHINES, Compiled, elementwise

FIRST = {"dot2_ss": np.int16, "dot4": np.uint8, "dot4_low": np.uint8, "dot4_ss": np.int8, "dot4_uu": np.uint8}
LANES = (1, 2, 4, 8, 16)
COUNT = 203


@pytest.mark.parametrize("flags", MACHINES)
def test_dots_of_any_integers_are_exact(flags: str, tmp_path: Path) -> None:
    names = [(op, lanes) for op in FIRST for lanes in LANES]
    made = [elementwise(f"{op}_{lanes}", op, [int32, int32], int32, COUNT, lanes) for op, lanes in names]
    compiled, rng = Compiled(made, tmp_path, flags=flags), np.random.default_rng(0)
    for op, lanes in names:
        a, b = (rng.choice(np.array([0, 1, 127, 128, 129, 255, 77], np.uint8), (COUNT, 4)) for _ in range(2))
        a = a & np.uint8(127) if op == "dot4_low" else a
        second = {"dot2_ss": np.int16, "dot4_uu": np.uint8}.get(op, np.int8)
        wanted = (a.view(FIRST[op]).astype(np.int64) * b.view(second).astype(np.int64)).sum(-1)
        found = np.zeros(COUNT, np.int32)
        compiled.run(f"{op}_{lanes}", [found, a.view(np.int32)[:, 0].copy(), b.view(np.int32)[:, 0].copy()])
        np.testing.assert_array_equal(found, wanted.astype(np.int32), err_msg=f"{op} of {lanes} lanes")
