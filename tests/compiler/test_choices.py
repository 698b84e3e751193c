"""What is asked of `Choices` about kernels, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import (
    MEASURED_AS,
    CompiledGraph,
    graph_text,
    kernels_of,
    marked,
    other_ways,
    question_of,
)
from smelt.compiler.driver import FUSION
from smelt.compiler.ways import Way
from smelt.config import configure
from smelt.device.protocol import Device
from smelt.device.toolchain import compile_count
from smelt.fuse import NO_CHOICES, STEPS
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
    assert default.asked[1:] == [question]  # the first was about the whole graph
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
        choices.answers[choices.asked[1]] = "split i0 (2 reg)"
        second = fresh.compiler.compile(key, device)
        assert first.kernels[0].schedule != second.kernels[0].schedule
        assert len(fresh.compiler.kernels) == 2


def attend(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
    return sm.attention(q, k, v).exp() + q.mean(-1, keepdims=True)


def cut(answer: str | None, explain: bool = True) -> tuple[CompiledGraph, np.ndarray]:
    """A graph cut as an answer says, in a process that knows nothing else; and what it computes."""
    q = sm.from_numpy(np.linspace(-1, 1, 2 * 32 * 16, dtype=np.float32).reshape(2, 32, 16))
    function = sm.jit(attend)
    key, device = function.graph_key(q, q, q)
    with runtime.using(Runtime(Told({} if answer is None else {question_of(graph_text(key)): answer}))) as fresh:
        graph = fresh.compiler.compile(key, device, explain=explain)
        return graph, function(q, q, q).numpy()


def kernels(graph: CompiledGraph) -> str:
    return kernels_of(record.region for record in graph.kernels)


@pytest.mark.by_turns(3)
def test_a_graph_is_cut_as_was_chosen() -> None:
    plain, expected = cut(None)
    assert FUSION not in plain.stages
    for site in (way.site for step in range(len(STEPS)) for way in ways(step)[:2]):
        chosen, values = cut(str(site.choices))
        assert chosen.stages[FUSION] == str(site.choices) and kernels(chosen) != kernels(plain)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
        again, _ = cut(f"{site.choices}{MEASURED_AS}{kernels(chosen)}")
        assert kernels(again) == kernels(chosen)
        stale, _ = cut(f"{site.choices}{MEASURED_AS}{'0' * 32}")
        assert kernels(stale) == kernels(plain) and "not what was measured" in stale.stages[FUSION]


def ways(step: int) -> list[Way]:
    q = sm.from_numpy(np.zeros((2, 32, 16), np.float32))
    key, device = sm.jit(attend).graph_key(q, q, q)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smelt.fuse.sites.LEAST_BYTES", 1)
        return other_ways(key, device.profile, NO_CHOICES, step, lambda: True)


def test_answers_that_cannot_be_are_passed_over() -> None:
    plain, expected = cut(None)
    for text in (
        "store 99999",
        "inside 9999",
        "pieces 3/7",
        "apart 999999",
        "equal 0/1",
        "equal 7/2",
        "store",
        "\x00",
        "a" * 4096,
    ):
        graph, values = cut(text)
        assert kernels(graph) == kernels(plain) and "not taken: " in graph.stages[FUSION]
        np.testing.assert_array_equal(values, expected)


def test_a_stored_graph_knows_how_it_was_cut() -> None:
    [way] = ways(2)
    cut(None, explain=False)
    before = compile_count()
    cut(None, explain=False)
    assert compile_count() == before
    graph, _ = cut(str(way.site.choices), explain=False)
    assert str(way.site.choices) in [answer for _, answer in graph.choices]
    assert compile_count() > before
    before = compile_count()
    again, _ = cut(str(way.site.choices), explain=False)
    assert compile_count() == before and len(again.kernels) == len(graph.kernels) > 1


def summed(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return (x @ w).sum(axis=0)


def equal(answer: str | None) -> tuple[CompiledGraph, np.ndarray]:
    x = sm.from_numpy(np.linspace(0, 1, 256 * 192, dtype=np.float32).reshape(256, 192))
    function = sm.jit(summed, contracts="regroups")
    key, device = function.graph_key(x, x.T)
    with runtime.using(Runtime(Told({} if answer is None else {question_of(graph_text(key)): answer}))) as fresh:
        return fresh.compiler.compile(key, device, explain=True), function(x, x.T).numpy()


def test_which_of_all_equal_programs_is_a_choice_as_well() -> None:
    x = sm.from_numpy(np.zeros((256, 192), np.float32))
    key, device = sm.jit(summed, contracts="regroups").graph_key(x, x.T)
    found = other_ways(key, device.profile, NO_CHOICES, 0, lambda: True)
    assert "as it is written" in str(found[-1].site) and found[-1].modelled < 1
    plain, expected = equal(None)
    other, values = equal(str(found[-1].site.choices))
    assert kernels(other) != kernels(plain) and other.stages[FUSION] == "equal 0/1"
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-3)
    again, _ = equal(f"equal 0/1{MEASURED_AS}{'0' * 32}")
    assert kernels(again) == kernels(plain) and "not what was measured" in again.stages[FUSION]
    for text in ("equal 0/9", "equal 1/1"):
        refused, values = equal(text)
        assert kernels(refused) == kernels(plain) and "not taken: equal: " in refused.stages[FUSION]
        np.testing.assert_array_equal(values, expected)


def test_who_holds_a_weight_is_no_other_question_until_it_is_steady() -> None:
    """What was tuned for arguments serves modules as well, and so does what was tuned before inputs were held."""
    x = sm.from_numpy(np.zeros((256, 192), np.float32))
    key, _ = sm.jit(summed).graph_key(x, x.T)
    held = marked(key, {1}, held=True)
    assert graph_text(held) == graph_text(key)
    assert len({graph_text(one) for one in (key, *(marked(x, {1}, steady=True) for x in (key, held)))}) == 3
