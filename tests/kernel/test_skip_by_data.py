"""`skip` by integers that data decide: whatever they are, nothing that counts is left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import InternalError
from smelt.kernel import (
    For,
    Illegal,
    lower,
    parse_kernel,
    parse_schedule,
    print_kernel,
    statements,
    verify,
)
from smelt.kernel.ir import Ask
from tests.kernel import regions as r
from tests.kernel.runners import RUNNERS, evaluate_region

SCHEDULES = {
    "blocks": "split k (2 reg, 2 lane); online k; skip k q condition",
    "rows": "split q (1 loop, 3 reg); split k (4 lane); order q.0 q.1 d.0; online k; bind q.0 grid; skip k q condition",
    "single": "online k; skip k q condition",
}
KINDS = ("one", "each", "from", "past")
ANY = st.one_of(st.integers(-3, 12), st.sampled_from([-(2**31), 2**31 - 1, 2**31 - 4]))


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", RUNNERS)
@given(
    kind=st.sampled_from(KINDS),
    low=st.sampled_from([-np.inf, -1e30]),
    schedule=st.sampled_from([*SCHEDULES]),
    values=st.lists(ANY, min_size=9, max_size=9),
)
def test_what_is_left_out_counts_nothing(name: str, kind: str, low: float, schedule: str, values: list[int]) -> None:
    case = r.windowed(9, 3, low=low, data=kind)
    kernel = lower(case.region, parse_schedule(SCHEDULES[schedule]))
    verify(kernel)
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    arrays = case.arrays(3)
    arrays["N"][:] = np.array(values[: arrays["N"].size])
    expected = {name: array.copy() for name, array in arrays.items()}
    with np.errstate(over="ignore"):
        evaluate_region(case.region, expected, case.integers)
    RUNNERS[name]([(kernel, arrays, case.integers)])
    np.testing.assert_allclose(arrays["o"], expected["o"], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", RUNNERS)
@pytest.mark.parametrize("schedule", ["blocks", "rows"])
def test_values_behind_the_last_place_are_not_read(name: str, schedule: str) -> None:
    case = r.windowed(9, 3, data="one")
    arrays = case.arrays(3)
    arrays["N"][:] = 5
    expected = {key: array.copy() for key, array in arrays.items()}
    evaluate_region(case.region, expected, case.integers)
    arrays["V"].reshape(9, 3)[6:] = np.nan
    RUNNERS[name]([(lower(case.region, parse_schedule(SCHEDULES[schedule])), arrays, case.integers)])
    np.testing.assert_allclose(arrays["o"], expected["o"], rtol=1e-3, atol=1e-5)


def test_the_integer_is_clamped_to_what_matters() -> None:
    kernel = lower(r.windowed(9, 3, data="one").region, parse_schedule(SCHEDULES["single"]))
    (asked,) = [s for s in statements(kernel.body) if isinstance(s, Ask)]
    assert (asked.variable.first, asked.variable.last) == (-1, 8)
    assert any(isinstance(s, For) for s in statements(kernel.body))


def test_masks_that_are_not_monotone_are_refused() -> None:
    case = r.windowed(9, 3, data="one")
    with pytest.raises(Illegal, match="skip"):
        lower(case.region, parse_schedule("online k; skip k d condition; skip q k condition"))


def test_a_value_with_parts_is_no_count() -> None:
    text = print_kernel(lower(r.windowed(9, 3, data="one").region, parse_schedule(SCHEDULES["single"])))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("ask")]
    name = line.split("=")[1].strip()
    wrong = text.replace(f"{name}: int32 ", f"{name}: float32 ").replace(line, line)
    with pytest.raises(InternalError):
        verify(parse_kernel(wrong))
