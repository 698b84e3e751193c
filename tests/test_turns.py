"""What one run leaves out, others take: after a few turns or shards everything was run, and nothing was run twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import turns


def items(count: int, every: int | None = None) -> list[Any]:
    """The cases of a test, as pytest would collect them."""
    marker = None if every is None else pytest.mark.by_turns(every).mark
    return [Item(f"tests/test_it.py::test_it[{k}]", marker) for k in range(count)]


class Item(SimpleNamespace):
    """As much of a test case as choosing needs."""

    def __init__(self, nodeid: str, marker: Any) -> None:
        super().__init__(nodeid=nodeid, get_closest_marker=lambda _: marker)

    def __hash__(self) -> int:
        return hash(self.nodeid)


@pytest.mark.parametrize(("count", "every"), [(10, 3), (2, 4), (1, 2), (12, 4)])
def test_turns_take_every_case_once(count: int, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_TAKES_TURNS", True)
    taken: list[Any] = []
    cases = items(count, every)
    for turn in range(every):
        monkeypatch.setattr(turns, "TURN", turn)
        taken += turns.in_turn(cases)
    assert sorted(item.nodeid for item in taken) == sorted(item.nodeid for item in cases)


def test_unmarked_tests_and_runs_without_a_turn_take_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_TAKES_TURNS", True)
    assert len(turns.in_turn(items(5))) == 5
    monkeypatch.setattr(turns, "_TAKES_TURNS", False)
    assert len(turns.in_turn(items(5, 2))) == 5


def test_cases_inside_of_a_test_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TEST_ALL", False)
    for length in (1, 2, 7):
        taken: list[int] = []
        for turn in range(min(length, 3)):
            monkeypatch.setattr(turns, "TURN", turn)
            taken += turns.one_in(3, range(length))
        assert sorted(taken) == list(range(length))
    assert list(turns.one_in(3, [])) == []
    monkeypatch.setattr(turns, "TEST_ALL", True)
    assert list(turns.one_in(3, range(7))) == list(range(7))


def test_shards_divide_what_would_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = set(items(100))
    shards = []
    for number in (1, 2, 3):
        monkeypatch.setenv("SMELT_TEST_SHARD", f"{number}/3")
        shards.append(turns.in_shard(cases))
    assert all(len(shard) > 20 for shard in shards)
    assert sorted(item.nodeid for shard in shards for item in shard) == sorted(item.nodeid for item in cases)
