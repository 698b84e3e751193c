"""Races at several sizes: one kernel serves a range, and must lose nowhere in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.kernel import Region, parse_region
from smelt.runtime import device
from smelt.search import climb, measure, sized
from smelt.search.contender import Contender, Outcome, Timed, Verdict
from smelt.transform.jit import Jit
from smelt.tuning.programs import questions
from smelt.tuning.watching import Watched, watching

ROWS = """region
parameter d0 in 1 .. 4096
axis i in 0 .. d0 - 1
axis j in 0 .. 63
buffer b0 float32 [d0, 64] strides [64, 1] offset 0
%0: float32 = load b0[i, j]
%1: float32 = exp %0
output o float32 [d0, 64] strides [64, 1] offset 0
store o[i, j] = %1
"""


class At:
    """A measurer at one size, where contenders are so much faster by their number; what it was asked about."""

    def __init__(self, *ratios: float, state: str = "timed") -> None:
        self.ratios, self.state, self.asked, self.needed = (1.0, *ratios), state, list[int](), 0.0

    def race(self, region: Region, contenders: Sequence[Contender], seconds: float) -> list[Outcome]:
        self.asked.append(len(contenders))
        verdict = Verdict(self.state == "timed", "", "sums")
        return [
            Outcome("", self.state, "", verdict, Timed(ratio, ratio, ratio, 1.0, 15) if self.state == "timed" else None)
            for ratio in self.ratios[: len(contenders)]
        ]

    def confirm(self, region: Region, best: Contender, default: Contender, seconds: float) -> Timed:
        return Timed(self.ratios[1], self.ratios[1], self.ratios[1], 1.0, 15 if seconds >= self.needed else 9)


@pytest.fixture
def region() -> Region:
    return parse_region(ROWS)


@pytest.fixture
def contenders(region: Region) -> list[Contender]:
    return [Contender.default(region, device("cpu"))] * 3


def test_sizes_stand_for_the_range(region: Region) -> None:
    assert [place.sizes["d0"] for place in sized.places(region)] == [513, 4096, 64, 1]
    seen = sized.places(region, [{"d0": 100}, {"d0": 64}, {"d0": 7}])
    assert [(place.sizes["d0"], place.weight) for place in seen][:3] == [(64, 2.0), (100, 2.0), (513, 1.0)]
    assert len(seen) == 5


def test_what_no_memory_holds_is_not_tried() -> None:
    wide = parse_region(ROWS.replace("4096", "1000000000"))
    largest = max(place.sizes["d0"] for place in sized.places(wide))
    assert 10_000 < largest <= sized.MOST_BYTES // 512


def test_starts_of_slices_stay_within_bounds() -> None:
    sliced = parse_region(ROWS.replace("parameter d0 in 1 .. 4096", "parameter d0 in 3 .. 9\nparameter p0 in 0 .. 0"))
    for place in sized.places(sliced):
        assert 3 <= place.sizes["d0"] <= 9 and place.sizes["p0"] == 0


def test_only_what_may_win_races_everywhere(region: Region, contenders: list[Contender]) -> None:
    first, second = At(1.2, 0.9), At(1.1)
    outcomes = sized.Sized([first, second], [1.0, 1.0]).race(region, contenders, 1.0)
    assert first.asked == [3] and second.asked == [2]
    ratios = [outcome.timed.ratio for outcome in outcomes if outcome.timed is not None]
    np.testing.assert_allclose(ratios, [1.0, (1.2 * 1.1) ** 0.5, 0.9])
    assert outcomes[1].verdict is not None and outcomes[1].verdict.bits == "sums"


def test_what_loses_somewhere_is_not_adopted(region: Region, contenders: list[Contender]) -> None:
    everywhere = sized.Sized([At(2.0), At(1.5), At(0.97)], [1.0, 1.0, 1.0])
    assert everywhere.confirm(region, contenders[1], contenders[0], 1.0).low < 1
    outcome = everywhere.race(region, contenders[:2], 1.0)[1]
    assert outcome.timed is not None and outcome.timed.ratio <= 1
    assert sized.Sized([At(2.0), At(1.0)], [1.0, 3.0]).confirm(region, contenders[1], contenders[0], 1.0).low > 1.02


def test_large_sizes_get_time_for_enough_turns(region: Region, contenders: list[Contender]) -> None:
    large = At(1.5)
    large.needed = 2.0
    assert sized.Sized([At(1.5), large], [1.0, 1.0]).confirm(region, contenders[1], contenders[0], 1.0).turns == 15


def test_what_is_wrong_at_one_size_is_wrong(region: Region, contenders: list[Contender]) -> None:
    outcome = sized.Sized([At(1.5), At(1.5, state="wrong")], [1.0, 1.0]).race(region, contenders[:2], 1.0)[1]
    assert outcome.state == "wrong" and outcome.timed is None


def test_programs_tell_their_sizes_and_versions_take_turns() -> None:
    f = Jit(lambda x: (x.softmax(-1) @ x.T).exp(), shapes=[(sm.Dim("n", 1, 4096), 64)])
    x = np.linspace(-1, 1, 48 * 64, dtype=np.float32).reshape(48, 64)
    with watching(Watched()) as watched:
        expected = {rows: f(x[:rows]).numpy() for rows in (7, 48)} | {48: f(x).numpy()}
    (program,) = watched.programs.values()
    assert program.sizes() == [{"d0": 48}, {"d0": 7}]
    asked = list(questions([program]))
    assert asked and all(question.sizes == ({"d0": 48}, {"d0": 7}) for question in asked)
    program.other = runtime.current().compiler.compile(program.key, program.device)
    assert program.compiled.homes and program.can_run(program.other)
    with watching(watched):
        for rows in (48, 7) * 4:
            np.testing.assert_array_equal(f(x[:rows]).numpy(), expected[rows])
    assert len(program.taken[1]) == 4


def test_a_kernel_is_searched_at_several_sizes() -> None:
    """For real, though briefly: verified at all sizes."""
    region, cpu = parse_region(ROWS.replace("4096", "64")), device("cpu")
    racers: list[measure.Racer] = []

    def make(sizes: sized.Sizes | None) -> measure.Racer:
        racers.append(measure.Racer(cpu, sizes))
        return racers[-1]

    racer = sized.racer(region, make)
    assert isinstance(racer, sized.Sized)
    contenders = [Contender.default(region, cpu)]
    for point in climb.starts(region, cpu.profile)[:1]:
        changed = next(one for one in climb.steps(point) if one.knobs.grain != point.knobs.grain)
        contenders.append(Contender.of(changed.candidate, region, cpu))
    outcomes = racer.race(region, contenders, 0.1)
    assert outcomes[0].state == "timed" and outcomes[1].state == "timed"
    assert isinstance(sized.racer(parse_region(measure.MARK), make), measure.Racer)
    for one in racers:
        one.close()
