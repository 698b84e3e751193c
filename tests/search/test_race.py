"""Races on simulated machines: whoever is no faster is never adopted, whoever is almost always."""

from __future__ import annotations

import math
import random

import pytest

from smelt.search.race import LEAST_TURNS, MARK, MOST_TURNS, Marks, bounds, is_adopted, race, worse
from tests.search.clocks import Machine, duel


def adoptions(ratio: float, count: int, seed: int, **noise: float) -> int:
    rng = random.Random(seed)
    firsts = [duel(ratio, rng, **noise) for _ in range(count)]
    return sum(is_adopted(first) and is_adopted(worse(first, duel(ratio, rng, **noise))) for first in firsts)


NOISES = [{}, {"tail": 0.12, "phase": 0.5}, {"noise": 0.06}, {"long": 20.0}]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("noise", NOISES)
def test_the_default_does_not_beat_itself(noise: dict[str, float]) -> None:
    assert adoptions(1.0, 300, 1, **noise) <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_a_slower_one_is_never_adopted(noise: dict[str, float]) -> None:
    assert adoptions(1 / 1.05, 100, 2, **noise) == 0


@pytest.mark.parametrize("noise", NOISES)
def test_a_faster_one_is_almost_always_adopted(noise: dict[str, float]) -> None:
    assert adoptions(1.05, 100, 3, **noise) >= 95


def test_the_fastest_of_many_is_found_and_losers_leave_early() -> None:
    for seed in range(20):
        times = [1e-3 * factor for factor in (1.0, 1.3, 0.8, 1.1, 0.95, 2.0, 1.0, 0.9)]
        results = Machine(times, random.Random(seed)).raced()
        assert max(range(8), key=lambda c: results[c].ratio) == 2
        assert results[2].ratio == pytest.approx(1.25, rel=0.02)
        assert results[5].turns < LEAST_TURNS <= results[2].turns


def test_the_slower_half_of_many_leaves() -> None:
    times = [1e-3, *(1e-3 / (1 + k / 400) for k in range(16))]
    machine = Machine(times, random.Random(7), noise=0.01, tail=0.0)
    results = machine.raced(2.0)
    assert sorted(result.turns for result in results[1:])[4] <= 9 and max(r.turns for r in results[1:]) >= LEAST_TURNS


def test_who_cannot_win_leaves() -> None:
    machine = Machine((1e-3, 1e-3), random.Random(8), noise=0.01, tail=0.0)
    result = race(machine.clock, 2, 1e9, machine.now, machine.rng, worth=1.02)[1]
    assert result.turns == LEAST_TURNS and result.high < 1.02


def test_marks_tell_slow_turns_also_from_race_to_race() -> None:
    marks = Marks()
    assert marks.usual == math.inf and all(marks.is_quiet([1.0, 1.0], [3.0]) for _ in range(5))
    assert not marks.is_quiet([1.5], [3.0]) and (marks.counted, marks.thrown) == (5, 1) and marks.usual == 1.0
    assert not marks.is_quiet([1.0], [4.0]), "the incumbent was disturbed"
    marks.begin()
    assert marks.is_quiet([1.0], [4.0]) and not marks.is_quiet([1.5], [4.0]) and marks.counted == marks.thrown == 1
    assert [marks.is_quiet([1.5], [4.0]) for _ in range(20)][-1], "what lasts is usual"


def test_slow_phases_do_not_count() -> None:
    machine = Machine((1e-3, 1e-3), random.Random(4), tail=0.0, phase=0.4)
    result = machine.raced()[1]
    assert result.turns >= LEAST_TURNS and result.seconds < 1.1e-3


def test_turns_and_seconds_are_bounded() -> None:
    machine = Machine((1.0, 1.0), random.Random(5), noise=0.5)
    machine.raced(30.0)
    assert machine.now() < 60.0
    turns = 0

    def clock(order: list[int]) -> list[float]:
        nonlocal turns
        turns += 1
        return [(0.5e-3, 2e-3)[turns % 2] if number == 1 else 1e-3 for number in order]

    race(clock, 2, 1e9, lambda: 0.0, random.Random(0))
    assert turns == MOST_TURNS


def test_every_turn_is_symmetric_around_its_middle() -> None:
    orders: list[list[int]] = []

    def clock(order: list[int]) -> list[float]:
        orders.append(list(order))
        return [1.0] * len(order)

    race(clock, 5, 1e9, lambda: 0.0, random.Random(0))
    for order in orders:
        assert order == order[::-1] and order[0] == 0 and order[1] == MARK
    assert len({tuple(order) for order in orders}) > 3


def test_bounds_are_order_statistics() -> None:
    assert bounds([1.0]) == (1.0, 1.0)
    assert bounds([3.0, 1.0, 2.0]) == (1.0, 3.0)
    rng, inside = random.Random(6), 0
    for _ in range(400):
        low, high = bounds([rng.paretovariate(0.8) for _ in range(25)])
        inside += low <= 2 ** (1 / 0.8) <= high
    assert inside >= 360
