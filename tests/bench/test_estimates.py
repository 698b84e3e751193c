"""The suite that checks the cost model."""

from __future__ import annotations

import json

import pytest

from smelt.bench import command
from smelt.bench.estimates import correlation, geometric_mean, pairs, ranks


def test_ranks_and_their_correlation() -> None:
    assert ranks([3.0, 1.0, 2.0]) == [2, 0, 1]
    assert correlation([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]) == 1
    assert correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -1
    assert correlation([1.0], [5.0]) == 1
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)


def test_only_pairs_that_differ_by_more_than_chance_count() -> None:
    assert pairs([1.0, 2.0, 1.5], [1.0, 1.05, 3.0]) == [True, False]


def test_the_suite_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["estimates", "--quick", "--only", "f32-128", "--json", "-"]) == 0
    results = {each["name"]: each["figure"] for each in json.loads(capsys.readouterr().out)["results"]}
    assert results["regret, model"] >= 1 <= results["regret, default order"]
    assert results["f32-128 0"] > 0
