"""The cpu suite: tables that fit together, the same networks everywhere, contenders that answer, and rows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import smelt as sm
from smelt.bench import command, models
from smelt.bench.contest import Contest
from smelt.bench.cpu import in_numpy, in_smelt, memory, networks, suite
from smelt.bench.cpu.cases import CASES, GROUPS
from smelt.bench.cpu.machine import Copier
from smelt.bench.cpu.suite import Asked, Ring, chosen, measure_cpu
from smelt.bench.report import Row, Verdict
from smelt.bench.roof import Roof
from smelt.bench.timing import ChildError


def test_every_case_has_an_operation_in_smelt_and_a_reference() -> None:
    operations = {case.operation for case in CASES.values()} | {case.quick for case in CASES.values() if case.quick}
    assert operations <= in_smelt.OPERATIONS.keys()
    assert operations <= in_numpy.OPERATIONS.keys()


def test_cases_say_how_much_work_they_are() -> None:
    assert all(case.flops or case.nbytes for case in CASES.values() if case.peers)


def test_names_are_of_groups_and_cases() -> None:
    assert list(chosen([])) == list(GROUPS)
    assert chosen(["streams", "f32-128"]) == {"matmul-f32": ["f32-128"], "streams": ["gelu", "layer-norm", "softmax"]}


def test_a_transpose_is_written_out() -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    found = sm.jit(in_smelt.OPERATIONS["transpose"])(sm.from_numpy(x)).numpy()
    assert not np.shares_memory(found, x)
    assert np.array_equal(found, in_numpy.OPERATIONS["transpose"](x))


def test_the_decoder_has_the_weights_that_it_says() -> None:
    assert round(networks.LLAMA.weights() / 1e9, 2) == 1.04
    weights, *_ = networks.decoder_inputs(networks.SMALL, np.float32)
    assert sum(array.size for array in weights.values()) == networks.SMALL.weights()


def test_a_step_of_the_decoder_is_the_same_in_smelt_and_numpy() -> None:
    weights, x, cache, *turn = networks.decoder_inputs(networks.SMALL, np.float32)
    expected = in_numpy.OPERATIONS["decode small"](weights, x, cache, *turn)

    def held(arrays: dict[str, np.ndarray]) -> dict[str, sm.Tensor]:
        return {name: sm.from_numpy(array) for name, array in arrays.items()}

    tensors = (held(weights), sm.from_numpy(x), held(cache), *(sm.from_numpy(array) for array in turn))
    found = sm.jit(in_smelt.OPERATIONS["decode small"])(*tensors)
    assert found.shape == (1, networks.SMALL.vocabulary)
    models.check_close(found.numpy(), expected)


def test_the_forward_pass_is_that_of_the_models() -> None:
    size = models.TINY
    weights = models.parameters(size)
    x = models.embed(weights, size)
    found = networks.gpt2(in_numpy.SPELLING, size, weights, x[0])
    models.check_close(found, models.reference(weights, x, size.layers, size.heads)[0])
    tensors = {name: sm.from_numpy(array) for name, array in weights.items()}
    models.check_close(networks.gpt2(in_smelt.SPELLING, size, tensors, sm.from_numpy(x[0])).numpy(), found)


def test_the_memory_that_is_needed_is_that_of_the_shapes() -> None:
    assert memory.weight_bytes(models.TINY) == sum(array.nbytes for array in models.parameters(models.TINY).values())
    logits = 4 * networks.GPT2.length * networks.GPT2.vocabulary
    assert logits < max(memory.live_sets(networks.GPT2)) < 1.1 * logits


@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_copies_everything(threads: int) -> None:
    copy = Copier(1 << 20, threads)
    assert copy(3) > 0
    assert copy.source.nbytes == 1 << 19
    assert np.array_equal(copy.source, copy.target)


@pytest.mark.slow
def test_one_case_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cpu", "--quick", "--only", "f32-128", "--threads", "1", "--against", "numpy", "--json", "-"]
    assert command.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    names = ["machine: multiply-adds, 1 thread", "machine: copy, 1 thread", "f32-128, 1 thread"]
    assert [result["name"] for result in found["results"]] == names
    assert all(result["figure"] > 0 and result["verdict"] is None for result in found["results"])
    assert "(numpy)" in found["results"][-1]["detail"]


class FakeRing(Ring):
    """Contenders that take as long as they are told, and refuse the cases that are not known to them."""

    times: ClassVar[dict[str, float]] = {}

    def prepare(self, library: str, case: str) -> dict[str, Any]:
        if library not in self.times and library != "copy":
            raise ChildError(f"{library} has no idea")
        return {"seconds": self.times.get(library, 1.0)}

    def contest(self, first: str, second: str) -> Contest:
        return Contest([(self.times[first], self.times.get(second, 1.0))] * 5)


def rows_with(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], names: list[str], *, quick: bool = False
) -> dict[str, Row]:
    monkeypatch.setattr(suite, "Ring", FakeRing)
    monkeypatch.setattr(suite, "installed", lambda name: name != "jax")
    monkeypatch.setattr(FakeRing, "times", times)
    monkeypatch.setattr(suite, "measured_roof", lambda threads: Roof(threads, 1e11, 0.0, 1e10, ((math.inf, 1e10),)))
    rows = measure_cpu(names, Asked([1, 2], quick=quick)).rows
    return {row.name: row for row in rows if not row.name.startswith("machine")}


def test_smelt_meets_the_fastest_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"smelt": 1.0, "numpy": 3.0, "torch": 2.0, "jax": 0.1}
    rows = rows_with(monkeypatch, times, ["rms-norm", "attention"])
    assert rows["rms-norm, 2 threads"].figure == 2.0
    assert "(torch)" in rows["rms-norm, 2 threads"].detail
    assert "torch.compile failed: torch.compile has no idea" in rows["rms-norm, 2 threads"].detail
    assert rows["attention-causal, 2 threads"].bar == 1.2
    assert rows["attention-causal, 1 thread"].bar is None


def test_bars_hold_for_whole_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_with(monkeypatch, {"smelt": 1.0, "torch": 0.9}, ["matmul-f32", "rms-norm", "nll"])
    assert rows["f32-128, 1 thread"].verdict is Verdict.PASS
    assert rows["matmul-f32: geometric mean, 1 thread"].verdict is Verdict.MISS
    assert rows["rows: geometric mean, 2 threads"].bar is None
    quick = rows_with(monkeypatch, {"smelt": 1.0, "torch": 0.9}, ["matmul-f32"], quick=True)
    assert {row.verdict for row in quick.values()} == {Verdict.NONE}


def test_streams_are_shares_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_with(monkeypatch, {"smelt": 2.0, "torch": 9.0}, ["softmax"])["softmax, 2 threads"]
    assert (row.figure, row.bar, row.verdict) == (0.5, 0.6, Verdict.MISS)


def test_without_peers_only_the_time_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_with(monkeypatch, {"smelt": 1.0}, ["f32-128"])["f32-128, 1 thread"]
    assert (row.figure, row.unit, row.verdict) == (1.0, "ms", Verdict.NONE)
    assert "nobody to compete with" in row.detail


def test_a_case_that_smelt_cannot_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows_with(monkeypatch, {"torch": 1.0}, ["f32-128"])["f32-128, 1 thread"]
    assert (row.verdict, row.detail) == (Verdict.FAILED, "smelt: smelt has no idea")


@pytest.mark.slow
def test_a_contender_that_refused_a_case_starts_again(tmp_path: Path) -> None:
    with Ring(1, str(tmp_path), quick=True) as ring:
        with pytest.raises(ChildError, match="no such case"):
            ring.prepare("numpy", "no such case")
        assert ring.prepare("numpy", "f32-128")["seconds"] > 0


@pytest.mark.slow
def test_the_memory_of_a_forward_pass_is_measured() -> None:
    assert memory.memory_row(quick=True).figure is not None


@pytest.mark.parametrize("words", [["--only", "f32-127"], ["--threads", "0"], ["--against", "nobody"]])
def test_unknown_names_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["cpu", *words])
    assert stop.value.code == 2
    assert capsys.readouterr().out == ""
