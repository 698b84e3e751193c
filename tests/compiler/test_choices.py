"""What is asked of `Choices` about kernels, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import CompiledGraph, question_of
from smelt.config import configure
from smelt.device.protocol import Device
from smelt.device.toolchain import compile_count
from smelt.runtime import Runtime

X = np.linspace(-1, 1, 6 * 10, dtype=np.float32).reshape(6, 10)


class Told:
    """Answers by question, and what was asked."""

    def __init__(self, answers: dict[str, str] | None = None) -> None:
        self.answers, self.asked = answers or {}, list[str]()

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        assert device.name == "cpu"
        self.asked.append(question)
        return self.answers.get(question)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[None]:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True):
        yield


def compiled(choices: Told) -> tuple[CompiledGraph, int]:
    """A graph, in a process that knows nothing, and how often the C compiler ran for it."""
    before = compile_count()
    with runtime.using(Runtime(choices)) as fresh:
        x = sm.asarray(X)
        np.testing.assert_allclose((x * 3 + x.exp()).numpy(), X * 3 + np.exp(X), rtol=1e-5, atol=1e-6)
        [graph] = fresh.graphs.values()
    return graph, compile_count() - before


def region() -> str:
    with runtime.using(Runtime()) as fresh:
        key, device = sm.jit(lambda x: x * 3 + x.exp()).graph_key(sm.asarray(X))
        [kernel] = fresh.compiler.compile(key, device, explain=True).kernels
    return kernel.region


def test_an_answer_is_taken_and_known_by_the_stored_graph() -> None:
    question, answer = question_of(region()), "split i0 (2 reg)"
    default, mine = Told(), Told({question: answer})
    plain, _ = compiled(default)
    assert default.asked == [question]
    assert plain.kernels[0].schedule != answer

    chosen, runs = compiled(mine)  # the stored graph was made with another answer
    assert runs > 0
    assert (chosen.kernels[0].form, chosen.kernels[0].schedule) == ("chosen", answer)

    again, runs = compiled(mine)  # read back
    assert runs == 0
    assert again.kernels[0].schedule == answer
    back, _ = compiled(default)
    assert back.kernels[0].schedule == plain.kernels[0].schedule


def test_a_schedule_that_does_not_fit_is_passed_over() -> None:
    graph, _ = compiled(Told({question_of(region()): "split nowhere (4 lane)"}))
    assert graph.kernels[0].form != "chosen"


def test_kernels_of_several_schedules_stand_side_by_side() -> None:
    choices = Told()
    with runtime.using(Runtime(choices)) as fresh, configure(disk_cache=False):
        function = sm.jit(lambda x: x * 3 + x.exp())
        key, device = function.graph_key(sm.asarray(X))
        first = fresh.compiler.compile(key, device)
        choices.answers[choices.asked[0]] = "split i0 (2 reg)"
        second = fresh.compiler.compile(key, device)
        assert first.kernels[0].schedule != second.kernels[0].schedule
        assert len(fresh.compiler.kernels) == 2
