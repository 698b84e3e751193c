"""The reference agrees with kernels that have no schedule, and knows what is exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from smelt.dtypes import float32
from smelt.kernel import lower
from smelt.search import reference as module
from smelt.search.inputs import KINDS, inputs, length
from smelt.search.reference import reference
from smelt.search.verify import PATTERNS, difference
from tests.kernel import regions as r
from tests.kernel.regions import CASES, Case
from tests.kernel.runners import Runner, run_compiled, run_interpreted


def evaluated(case: Case, arrays: dict[str, np.ndarray], run: Runner = run_interpreted) -> dict[str, np.ndarray]:
    """The bytes of every output, where nothing is written a pattern."""
    outputs = {output.buffer.name: output.buffer for output in case.region.outputs}
    found = dict(arrays)
    for name, buffer in outputs.items():
        count = length(buffer, case.integers)
        found[name] = np.full(count * buffer.dtype.itemsize, PATTERNS[0], np.uint8).view(buffer.dtype.numpy)
    run([(lower(case.region), found, dict(case.integers))])
    return {name: found[name].view(np.uint8) for name in outputs}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [module.BLOCK, 16])
def test_it_agrees_with_kernels_without_a_schedule(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    case = CASES[name]()
    for kind in KINDS:
        arrays = inputs(case.region, case.integers, kind, 3)
        expected = reference(case.region, arrays, case.integers)
        results = evaluated(case, arrays)
        for output in case.region.outputs:
            found = expected[output.buffer.name]
            reason = difference(found, results[output.buffer.name], output.buffer.dtype, PATTERNS[0])
            assert reason == "", (kind, reason)
            assert np.isfinite(found.radius).mean() > 0.5, "nothing is compared"


@pytest.mark.parametrize("case", [r.batched(2, 3, 4, 0), r.full("add", 0, 5), r.elementwise(0)])
def test_nothing_is_fine_too(case: Case) -> None:
    """Found by random schedules: sums over nothing."""
    expected = reference(case.region, inputs(case.region, {}, "normal", 0), {})["o"]
    assert expected.written.all() and not expected.value.any()


def test_of_large_results_some_blocks_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    case = r.elementwise(640)
    expected = reference(case.region, inputs(case.region, {}, "normal", 0), {}, 4)["o"]
    known = np.isfinite(expected.radius)
    assert expected.written.all() and 0.2 < known.mean() < 0.35 and known[0] and known[-1]


def test_whole_numbers_are_exact_in_any_order() -> None:
    case = r.batched(2, 5, 18, 7)
    expected = reference(case.region, inputs(case.region, {}, "whole", 0), {})
    assert not expected["o"].radius.any()
    assert reference(case.region, inputs(case.region, {}, "normal", 0), {})["o"].radius.all()


@pytest.mark.parametrize("name", ["bias", "concatenated", "padded"])
def test_what_is_moved_or_added_once_is_known_to_the_last_place(name: str) -> None:
    case = CASES[name]()
    expected = reference(case.region, inputs(case.region, {}, "normal", 0), {})["o"]
    assert (expected.radius <= 1e-6 * np.abs(expected.value)).all()


@pytest.mark.parametrize("make", [lambda: r.layer_norm(64, 1024), lambda: r.softmax(2, 20000)])
def test_sums_of_numbers_that_repeat_may_be_rounded_the_same_way_each_time(make: Callable[[], Case]) -> None:
    """Found by verifying kernels that add one number after the other: few whole numbers repeat all the time."""
    case = make()
    arrays = inputs(case.region, {}, "whole", 1)
    kernel = lower(case.region, ())
    stored = {b.name: np.full(length(b, {}) * b.dtype.itemsize, PATTERNS[0], np.uint8) for b in case.region.buffers()}
    stored |= {name: array.copy().view(np.uint8) for name, array in arrays.items()}
    run_compiled([(kernel, stored, {})])
    expected = reference(case.region, arrays, {})["o"]
    assert difference(expected, stored["o"], float32, PATTERNS[0]) == ""


def test_a_missing_element_is_seen_at_real_sizes() -> None:
    case = r.matmul(64, 64, 4096)
    arrays = inputs(case.region, {}, "whole", 0)
    expected = reference(case.region, arrays, {})["o"]
    left, right = arrays["A"].reshape(64, 4096), arrays["B"].reshape(4096, 64)
    results = evaluated(case, arrays | {"A": np.where(np.arange(4096) < 4095, left, 0).reshape(-1)}, run_compiled)["o"]
    assert "elements are wrong" in difference(expected, results, case.region.outputs[0].buffer.dtype, PATTERNS[0])
    assert left.any() and right.any()
