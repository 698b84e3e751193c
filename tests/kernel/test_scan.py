"""Scans: every op and type in every kind of loop, and the kernels that they become."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.dtypes import DType, bool_, float16, float32, float64, int8, int64
from smelt.errors import InternalError, ParseError
from smelt.graph.ops import REDUCTIONS, SCANS
from smelt.kernel import lower, parse_region, parse_schedule, print_kernel, print_region, verify
from smelt.kernel.ir import Scan, Store
from smelt.kernel.rules import verify_region
from tests.kernel import regions as r
from tests.kernel.regions import Case
from tests.kernel.runners import RUNNERS, evaluate_region
from tests.kernel.test_lower import count, outcome
from tests.turns import TEST_ALL, one_in

WIDE = "split c (2 reg, 8 lane) tail mask; split r (2 reg)"
SCHEDULES = (
    "",
    "split c (4 lane); bind r.0 grid",
    WIDE,
    "split c (3 loop, 2 lane); split r (3 reg) tail balance",
)
DOWN = (
    "",
    "split c (2 reg, 4 lane); order c.0 r.0; bind c.0 grid",
    "split c (2 loop, 4 lane); split r (2 loop); order c.0 r.0 c.1 r.1; bind c.0 grid",
    "split r (2 loop, 2 reg); order r.0 c.0 r.1; split c (8 lane) tail mask",
)
KINDS = [
    *((op, dtype) for op in SCANS for dtype in (float16, float32, float64)),
    *((op, dtype) for op in REDUCTIONS for dtype in (int8, int64)),
    *((op, bool_) for op in ("max", "min")),
]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("special", [False, True])
def test_scans_along_and_down(runner: str, special: bool) -> None:
    """All in one translation unit: NaN, infinities and -0.0 as the reference has them."""
    jobs, checks = [], []
    for op, dtype in one_in(12, KINDS, int(special)):
        for first, schedules in ((False, SCHEDULES), (True, DOWN)):
            case = r.running(op, 5, 21, first, dtype)
            for schedule in schedules:
                if op == "logaddexp" and schedule == WIDE and not TEST_ALL:
                    continue  # seven seconds of the compiler's time
                kernel = lower(case.region, parse_schedule(schedule))
                verify(kernel)
                arrays = case.arrays(7, special)
                expected = {name: array.copy() for name, array in arrays.items()}
                evaluate_region(case.region, expected, {})
                jobs.append((kernel, arrays, {}))
                checks.append((arrays["o"], expected["o"], f"{op} {dtype} {first} {schedule}"))
    RUNNERS[runner](jobs)
    for found, expected, story in checks:
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=1e-3, err_msg=story
        )


def run(case: Case, schedule: str, x: list[float], runner: str) -> list[float]:
    kernel = lower(case.region, parse_schedule(schedule))
    arrays = case.arrays()
    arrays["x"][:] = x
    RUNNERS[runner]([(kernel, arrays, {})])
    return list(arrays["o"])


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("schedule", ["", "split i (2 reg, 4 lane)", "split i (8 lane) tail mask"])
def test_the_sign_of_a_first_zero_survives(runner: str, schedule: str) -> None:
    i = r.axis("i", 5)
    case = Case(r.region(r.out(r.buffer("o", 5), [i], r.scan("add", r.load(r.buffer("x", 5), i), i)), [i]))
    found = run(case, schedule, [-0.0, -0.0, 0.0, -0.0, 1.0], runner)
    assert [np.signbit(value) for value in found] == [True, True, False, False, False]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("schedule", ["", "split i (4 lane)"])
def test_logaddexp_of_infinities(runner: str, schedule: str) -> None:
    i = r.axis("i", 6)
    case = Case(r.region(r.out(r.buffer("o", 6), [i], r.scan("logaddexp", r.load(r.buffer("x", 6), i), i)), [i]))
    inf = float("inf")
    found = run(case, schedule, [-inf, -inf, 0.0, 0.0, inf, inf], runner)
    np.testing.assert_allclose(found, [-inf, -inf, 0.0, np.log(2.0), inf, inf], rtol=1e-6)


def test_the_carry_stays_in_a_register_within_a_row() -> None:
    kernel = lower(r.running("add", 4, 64).region, parse_schedule("split c (16 lane); bind r.0 grid"))
    text = print_kernel(kernel)
    assert "= scan add v5 over c.lane from a1" in text
    assert count(kernel, Store) == 1


def test_the_carry_waits_in_memory_between_blocks_of_columns() -> None:
    schedule = "split c (2 loop, 4 lane); split r (2 loop); order c.0 r.0 c.1 r.1; bind c.0 grid"
    kernel = lower(r.running("add", 8, 16, first=True).region, parse_schedule(schedule))
    assert count(kernel, Scan) == 1
    assert count(kernel, Store) == 2
    outcome(r.running("add", 8, 16, first=True), schedule)


def test_two_scans_share_the_loop() -> None:
    kernel = lower(r.running_twice().region, parse_schedule("split c (4 lane) tail mask; order r.0 k.0 c.0"))
    assert count(kernel, Scan) == 2


def over_two_axes() -> Case:
    a, c = r.axis("a", 3), r.axis("c", 4)
    value = r.scan("add", r.scan("add", r.load(r.buffer("x", 3, 4), a, c), c), a)
    return Case(r.region(r.out(r.buffer("o", 3, 4), [a, c], value), [a, c]))


def below_a_sum() -> Case:
    a, c = r.axis("a", 3), r.axis("c", 4)
    value = r.reduce("add", r.scan("add", r.load(r.buffer("x", 3, 4), a, c), c), c)
    return Case(r.region(r.out(r.buffer("o", 3), [a], value), [a, c]))


def read_by_a_sum() -> Case:
    c = r.axis("c", 4)
    s = r.scan("add", r.load(r.buffer("x", 4), c), c)
    return Case(r.region(r.out(r.buffer("o", 4), [c], r.op("div", s, r.reduce("max", s, c))), [c]))


@pytest.mark.parametrize(
    ("make", "message"),
    [(over_two_axes, "over one of its axes"), (below_a_sum, "over one of its axes"), (read_by_a_sum, "reads a scan")],
)
def test_regions_that_fusion_never_makes(make: type[Case], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify_region(make().region)


@pytest.mark.parametrize("dtype", [float32, int8])
def test_text_of_regions(dtype: DType) -> None:
    text = print_region(r.running("max", dtype=dtype).region)
    assert "= scan %2 max over c" in text
    assert print_region(parse_region(text)) == text
    for broken in (text.replace("max over c", "div over c"), text.replace("max over c", "max over z")):
        with pytest.raises(ParseError, match=r"expected a reduction, found 'div'|expected an axis, found 'z'"):
            parse_region(broken)
