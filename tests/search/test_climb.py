"""The search for one region, on a simulated clock: it climbs, adopts nothing slower, and can be repeated."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from smelt.device.cpu import CPU
from smelt.kernel import Region
from smelt.search.climb import Climb, Limits, _Search, climb
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.search.guess import TRUST, Estimate, Guess
from smelt.search.space import Point, leaps, starts, steps
from tests.kernel import regions as r


class Simulated:
    """Speeds of schedules are drawn by their digest and by single words of their labels; the clock is counted."""

    def __init__(self, seed: int, spread: float, noise: float = 0.01) -> None:
        self.seed, self.spread, self.noise = seed, spread, noise
        self.rng = random.Random(seed)
        self.now = 0.0
        self.raced: list[str] = []

    def clock(self) -> float:
        self.now += 1e-4
        return self.now

    def speed(self, contender: Contender) -> float:
        """Single knobs have effects, and so has each schedule: nothing is faster than some bound."""
        effects = [random.Random(f"{self.seed} {word}").gauss(0, self.spread) for word in contender.label.split(", ")]
        return math.exp(max(-2.0, min(0.4, sum(effects) / 2)))

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        self.now += 0.1 * len(contenders)
        default = self.speed(contenders[0])
        self.raced += [contender.digest for contender in contenders]
        return [self.outcome(contender, self.speed(contender) / default) for contender in contenders]

    def outcome(self, contender: Contender, ratio: float) -> Outcome:
        if self.rng.random() < 0.05:
            return Outcome(contender.digest, "hung", "it took too long", None, None)
        found = ratio * math.exp(self.rng.gauss(0, self.noise))
        timed = Timed(found, found * (1 - 2 * self.noise), found * (1 + 2 * self.noise), 1e-3 / found, 9)
        return Outcome(contender.digest, "timed", "", Verdict(True, "", "same"), timed)

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        self.now += seconds
        ratio = self.speed(best) / self.speed(default) * math.exp(self.rng.gauss(0, self.noise / 3))
        return Timed(ratio, ratio * (1 - self.noise), ratio * (1 + self.noise), 1e-3 / ratio, 30)


REGIONS = {"a product": r.matmul(24, 16, 48), "rows": r.softmax(16, 64), "elementwise": r.bias(32, 256)}


def found(name: str, seed: int, spread: float, seconds: float = 8.0) -> tuple[Climb, Simulated]:
    simulated = Simulated(seed, spread)
    limits = Limits(seconds, batch=6)
    return climb(REGIONS[name].region, CPU(), simulated, limits, random.Random(seed), clock=simulated.clock), simulated


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", REGIONS)
def test_what_is_adopted_is_faster(name: str) -> None:
    gains = []
    for seed in range(3):
        result, simulated = found(name, seed, 0.1)
        assert result.tried
        if result.adopted is not None:
            gains.append(simulated.speed(result.adopted.contender) / simulated.speed(result.default))
    assert gains and min(gains) > 1.0


@pytest.mark.by_turns(3)
def test_where_nothing_is_faster_nothing_is_adopted() -> None:
    result, _ = found("a product", 1, 0.0)
    assert result.tried and result.adopted is None


@pytest.mark.by_turns(3)
def test_the_same_seed_tries_the_same() -> None:
    first, second = (found("rows", 5, 0.1)[1].raced for _ in range(2))
    assert first == second and len(first) > 6


def test_the_first_point_is_the_default() -> None:
    device = CPU()
    for case in REGIONS.values():
        point = starts(case.region, device.profile)[0]
        default = Contender.default(case.region, device)
        assert Contender.of(point.candidate, case.region, device).source == default.source
        assert str(point) == point.form


def test_steps_change_one_knob_and_leaps_at_most_two() -> None:
    point = starts(REGIONS["a product"].region, CPU().profile)[0]
    assert {len(list(one.changes())) for one in steps(point)} == {1}
    assert {len(list(one.changes())) for one in leaps(point, 20, random.Random(0))} <= {0, 1, 2}


def test_a_guess_learns_what_knobs_do() -> None:
    guess = Guess()
    same = Estimate(0.0)
    assert guess(["a", "b"], Estimate(1.0)) == pytest.approx(TRUST)
    for _ in range(20):
        guess.learn({"a"}, same, 0.3)
        guess.learn({"b"}, same, -0.3)
        guess.learn({"a", "b"}, same, 0.0)
    assert guess(["a"], same) == pytest.approx(0.3, abs=0.02)
    assert guess(["b"], same) == pytest.approx(-0.3, abs=0.02)
    assert guess(["b", "c"], same) == pytest.approx(-0.3, abs=0.15)


def test_chunks_of_tasks_are_looked_at() -> None:
    """They change no kernel, so once they were taken for what had been looked at before."""
    search = _Search(REGIONS["rows"].region, CPU(), random.Random(0))
    search.look(steps(starts(search.region, search.device.profile)[0]), math.inf, lambda: 0.0)
    assert any("grain" in str(seen.point) for seen in search.waiting)
    assert not any("gathered" in str(seen.point) or "lanes 64" in str(seen.point) for seen in search.waiting)


def test_points_are_told_by_what_they_change() -> None:
    region = REGIONS["a product"].region
    first = starts(region, CPU().profile)[0]
    other = next(iter(steps(first)))
    assert other != first and other == Point(other.template, other.knobs) and len({first, other, first}) == 2
    assert other.features > first.features
