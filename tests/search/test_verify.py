"""Verification: what is right passes, and memory shows what was done to it."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from smelt.device.cpu import CPU
from smelt.dtypes import float32
from smelt.kernel import Region
from smelt.schedule import Candidate
from smelt.search.contender import Contender, Verdict
from smelt.search.inputs import inputs, usual_sizes
from smelt.search.measure import described
from smelt.search.reference import Expected
from smelt.search.verify import PATTERNS, Guarded, Runnable, Trial, difference
from tests.kernel import regions as r
from tests.kernel.regions import CASES

DEVICE = CPU()


def runnable(contender: Contender) -> Runnable:
    (library,) = DEVICE.build([contender.source])
    facts = described(contender, library, DEVICE)
    return Runnable(library, **{name: value for name, value in facts.items() if name != "key"})


def trial(region: Region, sizes: dict[str, int]) -> Trial:
    made = Trial(region, sizes, 5, DEVICE)
    made.prepare()
    return made


@pytest.mark.parametrize("name", CASES)
def test_defaults_are_right(name: str) -> None:
    case = CASES[name]()
    region = case.region if "A" in dict(case.region.roles) else replace(case.region, roles=())
    kernel = runnable(Contender.default(region, DEVICE))
    assert trial(region, case.integers).verify(kernel, kernel) == Verdict(True, "", "same")


def test_sums_in_another_order_are_right_and_said_to_be_other_bits() -> None:
    case = r.full("add", 7, 501)
    default = Contender.default(case.region, DEVICE)
    plain = Contender.of(Candidate("plain", case.region, ()), case.region, DEVICE)
    tried = trial(case.region, {})
    assert tried.verify(runnable(default), runnable(default)).bits == "same"
    assert tried.verify(runnable(plain), runnable(default)) == Verdict(True, "", "sums")


def test_symbolic_sizes_are_the_middle_of_their_bounds() -> None:
    case = r.symbolic_rows()
    assert usual_sizes(case.region) == {"N": 10}
    kernel = runnable(Contender.default(case.region, DEVICE))
    assert trial(case.region, {"N": 10}).verify(kernel, kernel).right


def test_indices_lie_where_they_point_into() -> None:
    case = r.embedding(6, 19, 5)
    for kind in ("whole", "normal", "special"):
        found = inputs(case.region, {}, kind, 0)["t"]
        assert found.min() >= 0 and found.max() <= 4


def test_memory_ends_where_nothing_may_be_read() -> None:
    held = Guarded.of(np.arange(5, dtype=np.float32))
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            ctypes.string_at(held.bytes.ctypes.data, 21)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGSEGV


def test_what_is_wrong_is_said() -> None:
    value = np.array([1.0, 2.0, 3.0, 0.0], np.float32)
    written = np.array([True, True, True, False])
    expected = Expected(value, np.zeros(4), written)
    pattern = np.full(16, PATTERNS[0], np.uint8).view(np.float32)

    def told(*values: float, last: float = pattern[0]) -> str:
        got = np.array([*values, last], np.float32)
        return difference(expected, got.view(np.uint8), float32, PATTERNS[0])

    assert told(1, 2, 3) == ""
    assert told(1, 2, pattern[0]) == "1 elements were not written"
    assert told(1, 2, 3, last=0.0) == "it writes where nothing belongs"
    assert told(1, 2, 4) == "element 2 is 4.0, and should be 3.0"
    assert told(1, 4, 4) == "element 1 is 4.0, and should be 2.0; 2 elements are wrong"
    assert told(1, 2, np.nan).startswith("element 2 is nan")


def test_nan_and_infinities_belong_where_they_are_expected() -> None:
    value = np.array([np.nan, np.inf, 1.0], np.float32)
    expected = Expected(value, np.array([0.1, 0.1, np.inf]), np.ones(3, np.bool_))

    def is_right(*values: float, skips: bool = False) -> bool:
        got = np.array(values, np.float32).view(np.uint8)
        return difference(expected, got, float32, PATTERNS[0], skips) == ""

    assert is_right(np.nan, np.inf, 7.0)
    assert not is_right(0.0, np.inf, 1.0)
    assert not is_right(np.nan, -np.inf, 1.0)
    assert is_right(0.0, 3.0, 1.0, skips=True)


def test_zeros_keep_their_sign_where_nothing_is_added() -> None:
    expected = Expected(np.array([-0.0], np.float32), np.zeros(1), np.ones(1, np.bool_))
    got = np.zeros(1, np.float32).view(np.uint8)
    assert difference(expected, got, float32, PATTERNS[0]) == ""
    assert difference(expected, got, float32, PATTERNS[0], signs=True) != ""
