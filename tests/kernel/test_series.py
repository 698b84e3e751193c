"""Series of kernels: into how many pieces they are cut, and that compiled ones compute what their parts do."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.device.toolchain import build
from smelt.kernel import Kernel, Series, interpret, parse_kernel, pieces, verify
from smelt.render import render, workspace_bytes
from tests.kernel.runners import call

ROWS = """kernel rows tasks 4
argument o float32 [4, 1] strides [1, 1] offset 0
argument x float32 [4, 8] strides [8, 1] offset 0
grid g0 < 4
  a0: float32 = acc 0.0
  loop i1 < 8
    v1: float32 = load x[g0, i1]
    a0 add= v1
  store o[g0, 0] = a0
"""
BLOCKS = """kernel blocks tasks 8
argument o float32 [4, 8] strides [8, 1] offset 0
argument x float32 [4, 8] strides [8, 1] offset 0
argument s float32 [4, 1] strides [1, 1] offset 0
grid g0 < 8
  let h in 0 .. 1 = g0 % 2
  let r in 0 .. 3 = g0 // 2
  v0: float32 = load s[r, 0]
  v1: float32<c.lane:4> = load x[r, 4*h + c.lane]
  v2: float32<c.lane:4> = mul v1 v0
  store o[r, 4*h + c.lane] = v2
"""
NEIGHBORS = BLOCKS.replace("load s[r, 0]", "load s[3 - r, 0]")
COLUMNS = """kernel columns tasks 8
argument o float32 [4, 8] strides [8, 1] offset 0
argument x float32 [4, 8] strides [8, 1] offset 0
grid g0 < 8
  loop i1 < 4
    v1: float32 = load x[i1, g0]
    store o[i1, g0] = v1
"""
OUTSIDE = """kernel outside tasks 4
argument o float32 [4] strides [1] offset 0
argument s float32 [4, 1] strides [1, 1] offset 0
v0: float32 = load s[0, 0]
grid g0 < 4
  v1: float32 = load s[g0, 0]
  v2: float32 = add v0 v1
  store o[g0] = v2
"""
MASKED = """kernel masked tasks 4
argument o float32 [4] strides [1] offset 0
argument s float32 [4, 1] strides [1, 1] offset 0
grid g0 < 4
  a0: float32 = acc 0.0
  loop i1 < 3
    v1: float32 = load s[g0, 0] if g0 + i1 < 4
    a0 add= v1
  store o[g0] = a0
"""
NBYTES = {0: 16, 1: 128, 2: 128, 3: 128}  # sums, what is scaled, the input, a third result


def kernel(text: str) -> Kernel:
    found = parse_kernel(text)
    verify(found)
    return found


@pytest.mark.parametrize(
    ("texts", "buffers", "number"),
    [
        ((ROWS, BLOCKS), ((0, 2), (1, 2, 0)), 4),
        ((ROWS, NEIGHBORS), ((0, 2), (1, 2, 0)), 1),  # pieces of the other end
        ((BLOCKS, COLUMNS), ((1, 2, 0), (3, 1)), 1),  # columns are of all pieces
        ((BLOCKS, COLUMNS), ((1, 2, 0), (3, 2)), 8),  # of what nobody writes, anything is read
        ((COLUMNS, BLOCKS), ((3, 1), (1, 2, 0)), 1),  # what is written later is not written too early
        ((ROWS, OUTSIDE), ((0, 2), (3, 0)), 1),  # every task reads the first sum
        ((ROWS, MASKED), ((0, 2), (3, 0)), 4),  # with conditions of what the address does not know
        ((ROWS, BLOCKS, COLUMNS), ((0, 2), (1, 2, 0), (3, 2)), 4),
    ],
)
def test_pieces_are_those_that_touch_nothing_of_each_other(
    texts: tuple[str, ...], buffers: tuple[tuple[int, ...], ...], number: int
) -> None:
    assert pieces([kernel(text) for text in texts], buffers, NBYTES) == number


@pytest.mark.parametrize("stretches", [[(0, 4)], [(2, 4), (0, 1), (1, 2)]])
def test_a_compiled_series_computes_what_its_parts_compute(stretches: list[tuple[int, int]]) -> None:
    parts = kernel(ROWS), kernel(BLOCKS)
    series = Series(parts, ((0, 2), (1, 2, 0)), ((), ()), (), 4, "series")
    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    expected = {"o": np.zeros(4, np.float32), "x": x}
    interpret(parts[0], expected, {})
    scaled = {"o": np.zeros(32, np.float32), "x": x, "s": expected["o"]}
    interpret(parts[1], scaled, {})
    sums, found = np.zeros(4, np.float32), np.zeros(32, np.float32)
    (library,) = build([render([series])])
    call(library.address("series"), [sums, found, x], [], workspace_bytes(series), stretches)
    np.testing.assert_array_equal(sums, expected["o"])
    np.testing.assert_array_equal(found, scaled["o"])
