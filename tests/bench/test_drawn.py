"""Kernels that are drawn: the same for a seed, of all families, right, and what becomes of them in the tuned suite."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import smelt as sm
from smelt.bench import __main__ as command
from smelt.bench import tuned
from smelt.bench.drawn import FAMILIES, LONGEST, OPERATIONS, SHORTEST, Drawn, drawn
from smelt.bench.report import Verdict
from smelt.bench.timing import ChildError
from smelt.bench.tuned import Result, geomean, result_of, rows
from smelt.device.cpu import CPU

PROFILE = CPU().profile


def test_sixty_kernels_are_of_all_families() -> None:
    found = drawn(60, 3, PROFILE)
    assert Counter(OPERATIONS[one.operation].family for one in found) == FAMILIES
    assert all(SHORTEST <= one.seconds(PROFILE) <= LONGEST for one in found)
    assert len(set(found)) > 55
    assert drawn(60, 3, PROFILE) == found
    assert drawn(60, 4, PROFILE) != found


def test_a_short_draw_is_the_beginning_of_a_long_one() -> None:
    assert drawn(30, 5, PROFILE)[:7] == drawn(7, 5, PROFILE)


def test_sizes_are_primes_ones_and_multiples_of_blocks() -> None:
    sizes = [size for seed in range(10) for one in drawn(20, seed, PROFILE) for size in one.sizes]
    assert sum(size == 1 for size in sizes) > 10
    assert sum(size % 64 == 0 for size in sizes) > 30
    assert sum(size > 64 and all(size % d for d in range(2, int(size**0.5) + 1)) for size in sizes) > 30


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_compute_what_numpy_does(name: str) -> None:
    operation = OPERATIONS[name]
    for dtype in dict.fromkeys(operation.dtypes):
        one = Drawn(name, tuple(min(low + 6, high) for low, high in operation.bounds), dtype)
        if operation.family in ("attention", "conv"):
            one = one._replace(sizes=tuple(min(size, 19) for size in one.sizes))
        if one.sizes[0] > 1000:
            one = one._replace(sizes=(37,))
        inputs = one.inputs()
        found = sm.jit(one.compute)(*inputs)
        assert one.error(inputs, found) <= 1, one.name
        assert one.error(inputs, found + 1) > 1 or dtype in ("float16", "bfloat16")


def compared(ratio: float, error: float = 0.1, same: bool = False) -> dict[str, Any]:
    spread = {"ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
    return {"default": 1e-3, "tuned": 1e-3 / ratio, "errors": [0.1, error], "same": same, **spread}


FOUND = {"seconds": 2.0, "changed": ["tiled: unroll 4"], "contenders": {"timed": 9}}


def test_several_processes_give_one_result() -> None:
    result = result_of("matmul: a", FOUND, [compared(1.1), compared(1.2)])
    assert result.ratio == pytest.approx((1.1 * 1.2) ** 0.5)
    assert (result.low, result.high) == (pytest.approx(1.09), pytest.approx(1.21))
    assert result.tuning == 2.0 and result.wrong == 0 and not result.is_slower


def test_the_same_program_is_as_fast_as_itself() -> None:
    result = result_of("matmul: a", FOUND | {"changed": []}, [compared(0.7, same=True)] * 2)
    assert (result.ratio, result.low, result.high, result.seconds) == (1.0, 1.0, 1.0, result.default)


def is_good(results: list[Result], budget: str) -> bool:
    return {row.verdict for row in rows(results, budget)} <= {Verdict.PASS, Verdict.NONE}


def test_bars() -> None:
    good = result_of("matmul: a", FOUND, [compared(1.2)] * 2)
    assert geomean([good, good]) == pytest.approx(1.2)
    assert is_good([good], "max")
    assert not is_good([good, result_of("b", FOUND, [compared(0.9)] * 2)], "quick")
    assert is_good([good, result_of("b", FOUND, [compared(0.975)] * 2)], "quick")  # within noise
    assert not is_good([good, result_of("b", FOUND, [compared(1.2, error=3.0)] * 2)], "quick")
    assert not is_good([result_of("b", FOUND, [compared(1.06)] * 2)], "max")
    assert [row.name for row in rows([good], "quick")] == ["matmul: a", "matmul: geometric mean", "geometric mean"]


def fake(monkeypatch: pytest.MonkeyPatch, calls: list[str], fails: type[BaseException] | None = None) -> None:
    def task(name: str, options: Any, variables: Any) -> Any:
        calls.append(name)
        if fails is not None and len(calls) > 3:
            raise fails("a child died")
        return FOUND if name == "tune_drawn" else compared(1.25)

    monkeypatch.setattr(tuned, "task", task)


def test_a_run_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    calls: list[str] = []
    words = ["tuned", "--seed", "7", "--draw", "3", "--budget", "quick", "--json", str(tmp_path / "t.json")]
    fake(monkeypatch, calls, KeyboardInterrupt)
    assert command.main(words) == 1
    assert "1 kernels" in capsys.readouterr().out  # what was there is printed
    assert len(json.loads((tmp_path / "t.json").read_text())["results"]) == 1
    with (tmp_path / "t.jsonl").open("a") as file:
        file.write('{"torn')
    calls.clear()
    fake(monkeypatch, calls)
    assert command.main([*words, "--strict"]) == 0
    assert calls.count("tune_drawn") == 2
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["geomean"] == pytest.approx(1.25) and found["seed"] == 7
    assert {"name", "ratio", "low", "seconds"} <= set(found["results"][0])


def test_a_kernel_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    fake(monkeypatch, [], ChildError)
    assert command.main(["tuned", "--seed", "7", "--draw", "2", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["results"][1]["failed"] == "a child died"


def test_only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [one.name for one in tuned.chosen(20, 1, ["softmax", "conv"], PROFILE)]
    assert names and all("softmax" in name or "conv" in name for name in names)


def test_results_from_before_a_change_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []
    fake(monkeypatch, calls)
    kernels, kept = drawn(1, 1, PROFILE), tmp_path / "t.jsonl"
    for budget in ("quick", "quick", "max"):
        assert [isinstance(one, Result) for one in tuned.measure_tuned(kernels, budget, kept, lambda _: None)] == [True]
    assert calls.count("tune_drawn") == 2
    os.utime(kept, (1, 1))
    list(tuned.measure_tuned(kernels, "quick", kept, lambda _: None))
    assert calls.count("tune_drawn") == 3
