"""Guesses, judged by stored lists of measured schedules: the same figures on every machine, and no clock."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from smelt.search.guess import TRUST, Estimate, Guess
from smelt.search.report import Measured, Quality, contenders, explained, load, main, quality, ranked, table

LISTS = sorted((Path(__file__).parent / "lists").glob("*.json"))
EVERY = 3, 1  # points of long and of short lists count: lowering all of them takes too long for a test
SHORT = ("sum_rows", "cumulative_sum", "product_transposed")
LEAST = 0.65  # R² of guesses of points that were not seen


@cache
def judged() -> dict[str, Quality]:
    return {path.stem: quality(load(path, EVERY[path.stem in SHORT], alone=True), seeds=3) for path in LISTS}


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_guesses_explain_what_was_measured(path: Path) -> None:
    """The whole lists give more (docs/design/tuning.md): these are a third of them, with less to learn from."""
    one = judged()[path.stem]
    assert one.points >= 40
    assert one.guess >= LEAST and one.rank >= LEAST


def test_sixteen_contenders_are_nearly_as_good_as_all() -> None:
    regrets = sorted(one.regrets[16] for one in judged().values())
    assert len(regrets) == 12
    assert median(regrets) <= 0.05 and regrets[-2] <= 0.15


def test_more_contenders_are_no_worse() -> None:
    for one in judged().values():
        assert one.regrets[8] >= one.regrets[16] >= one.regrets[32] >= 0.0


def test_contenders_are_chosen_once_and_can_be_chosen_again() -> None:
    points = [(frozenset({f"knob {n % 5}", f"other {n % 3}"}), Estimate(-0.1 * (n % 7), (n / 40,))) for n in range(40)]
    measured = Measured("made up", points, np.linspace(-1, 0.2, 40))
    first = contenders(measured, 32, seed=1)
    assert first == contenders(measured, 32, seed=1) and len(set(first)) == 32


def test_a_guess_before_anything_is_known_is_the_model() -> None:
    guess = Guess()
    assert guess({"a"}, Estimate(-0.5, (1.0, 2.0))) == pytest.approx(TRUST * -0.5)
    guess.learn({"a"}, Estimate(-0.5, (1.0, 2.0)), -0.1)
    assert -0.2 < guess({"a"}, Estimate(-0.5, (1.0, 2.0))) < -0.05
    assert guess({"b"}, Estimate(-0.5, (1.0, 2.0))) < guess({"a"}, Estimate(-0.5, (1.0, 2.0)))


def test_figures() -> None:
    measured = np.array([1.0, 2.0, 3.0])
    assert explained(measured, measured) == 1.0 and explained(measured, np.full(3, 2.0)) == 0.0
    assert ranked(measured, np.array([0.0, 0.5, 9.0])) == pytest.approx(1.0)
    rows = list(table(list(judged().values())))
    assert len(rows) == len(LISTS) + 3 and rows[-2].startswith("median")


def test_the_report_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "lists of measured" in capsys.readouterr().out
