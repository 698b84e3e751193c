"""Guesses of what comes next: where from, and how many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt import llm
from smelt.errors import ArgumentError
from smelt.llm import loading
from smelt.llm.speculate import Draft, Lookup, Pace
from tests.llm.tiny import Bytes, Slots


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 5))
def test_a_text_is_guessed_to_go_on_as_after_its_last_tokens_before(text, most):
    lookup = Lookup()
    for end in range(1, len(text) + 1):
        if end % 3 == 0 and end < len(text):  # some calls come later: nothing is guessed while it rests
            continue
        tokens = text[:end]
        guess = lookup.guess(tokens, most)
        places = {n: [k for k in range(n, end) if tokens[k - n : k] == tokens[end - n :]] for n in (4, 3) if end >= n}
        expected = next((found[-1] for found in places.values() if found), None)
        assert guess == ([] if expected is None else tokens[expected : expected + most])


def test_one_wrong_guess_at_the_beginning_does_not_end_them():
    pace = Pace(7)
    pace.told(3, 0, 1.4)
    assert pace.ask()
    pace.told(1, 0, 1.4)
    assert not pace.ask()


def test_more_is_guessed_while_it_is_right_and_nothing_for_a_while_where_it_does_not_pay():
    pace = Pace(7)
    assert pace.ask() == 3
    pace.told(3, 3, 1.2)
    assert pace.ask() == 7
    pace.told(7, 1, 1.5)
    assert pace.ask() == 3
    asked = 0
    for _ in range(1000):
        if count := pace.ask():
            asked += 1
            pace.told(count, 0, 1.2)
    assert 3 <= asked < 20


def test_another_model_does_not_see_tokens_that_it_does_not_have():
    draft = Draft(Slots(slots=1, vocabulary=50), limit=40)
    guesser = draft.begin()
    assert guesser.guess([1, 2, 39], 2) == []  # a chunk of two was read
    assert len(guesser.guess([1, 2, 39], 2)) == 2
    assert guesser.guess([1, 2, 39, 45], 2) == []
    assert draft.programs.memory.max() < 40


def test_a_model_of_other_tokens_does_not_guess(monkeypatch):
    opened = loading.opened

    def other(model, report=None, **options):
        return opened(model, report, **options) if model == "random:tiny" else (opened("random:tiny")[0], Bytes(), None)

    monkeypatch.setattr(loading, "opened", other)
    with pytest.raises(ArgumentError, match="other has other tokens"):
        llm.load("random:tiny", context=64, draft="other")
