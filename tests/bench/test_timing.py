"""The helpers that time things: what they call, when they stop, and how they treat child processes."""

from __future__ import annotations

import os

import pytest

from smelt.bench import timing
from smelt.bench.timing import ChildError, best_of, paired, private_cache, processes_in_turn, run_json, run_process


class Clock:
    """A clock that work moves forward by hand, so that nothing here depends on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, *seconds: float) -> Worker:
        return Worker(self, seconds)


class Worker:
    """Takes the given seconds, one after the other, over and over."""

    def __init__(self, clock: Clock, seconds: tuple[float, ...]) -> None:
        self.clock, self.seconds, self.calls = clock, seconds, 0

    def __call__(self) -> None:
        self.clock.now += self.seconds[self.calls % len(self.seconds)]
        self.calls += 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_best_of_gives_seconds_per_call(clock: Clock) -> None:
    worker = clock.work(0.003)
    assert best_of(worker, rounds=3, window=0.3, clock=clock) == pytest.approx(0.003)
    assert worker.calls >= 300


def test_best_of_calls_a_slow_function_once_a_round(clock: Clock) -> None:
    worker = clock.work(*[9.0] * 4, 7.0, 5.0, 6.0)  # one call to warm up and three to see how long it takes
    assert best_of(worker, rounds=3, window=0.01, clock=clock) == 5.0
    assert worker.calls == 7


def test_best_of_ends_for_a_function_that_takes_no_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_MOST_CALLS", 100)
    assert best_of(clock.work(0.0), rounds=2, clock=clock) == 0.0


def test_paired_stops_as_soon_as_the_ratio_is_stable(clock: Clock) -> None:
    result = paired(clock.work(1.0), clock.work(3.0), window=0.1, least=5, most=50, clock=clock)
    assert result.ratio == pytest.approx(3.0)
    assert (result.first, result.second) == pytest.approx((1.0, 3.0))
    assert result.rounds == 5
    assert result.error == pytest.approx(0.0, abs=1e-12)


def test_paired_gives_up_on_noise_and_says_how_uncertain_it_is(clock: Clock) -> None:
    result = paired(clock.work(1.0), clock.work(1.0, 9.0, 2.0, 5.0, 3.0), least=5, most=11, clock=clock)
    assert result.rounds == 11
    assert result.error > 0.01


def test_one_disturbed_round_does_not_move_the_ratio(clock: Clock) -> None:
    # Four calls warm up; the fifth is the one that something else disturbs.
    disturbed = clock.work(*[2.0] * 4, 90.0, *[2.0] * 30)
    result = paired(clock.work(2.0), disturbed, window=0.1, least=7, most=7, clock=clock)
    assert result.ratio == pytest.approx(1.0)
    assert result.second_best == pytest.approx(2.0)


def test_a_child_gets_its_environment_and_answers_in_json() -> None:
    code = "import json, os; print(json.dumps([os.environ['SMELT_TEST_WORD'], 1 + 1]))"
    assert run_json(["-c", code], {"SMELT_TEST_WORD": "naïve $(echo) \"'"}) == ["naïve $(echo) \"'", 2]


def test_a_failing_child_says_why() -> None:
    with pytest.raises(ChildError, match=r"status 3(.|\n)*out of cheese"):
        run_process(["-c", "import sys; print('out of cheese', file=sys.stderr); sys.exit(3)"])


def test_a_child_that_prints_no_json_is_an_error() -> None:
    with pytest.raises(ChildError, match="no JSON"):
        run_json(["-c", "print('figures')"])


def test_a_child_that_hangs_is_ended() -> None:
    with pytest.raises(ChildError, match="still running"):
        run_process(["-c", "import threading; threading.Event().wait()"], timeout=0.2)


def test_contenders_take_turns_after_a_warm_up() -> None:
    order: list[str] = []

    def contender(name: str) -> float:
        order.append(name)
        return float(len(order))

    times = processes_in_turn([lambda: contender("a"), lambda: contender("b")], 2)
    assert order == ["a", "b"] * 3
    assert times == [[3.0, 5.0], [4.0, 6.0]]


def test_a_private_cache_is_empty_and_does_not_stay() -> None:
    with private_cache() as environment:
        folder = environment["SMELT_CACHE_DIR"]
        assert os.listdir(folder) == []
    assert not os.path.exists(folder)


def test_a_disturbed_warm_up_does_not_make_rounds_shorter(clock: Clock) -> None:
    calm, disturbed = clock.work(0.01), clock.work(1.0, 5.0, 0.01, 0.01, *[0.01] * 1000)
    paired(calm, disturbed, window=0.1, least=4, most=4, clock=clock)
    assert calm.calls == disturbed.calls
