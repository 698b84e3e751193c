"""The engine: many requests at once get what each gets alone, and leave nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError, BusyError, ContextLengthError
from smelt.llm.engine import Engine, Event, Request
from smelt.llm.language import answered
from smelt.llm.pages import common
from smelt.llm.sampling import Sampling
from smelt.llm.speculate import Draft
from tests.llm.tiny import History, Slots

VOCABULARY = 50


def alone(prompt: Sequence[int], **options) -> tuple[list[int], str | None]:
    return together([Request(list(prompt), **options)])[0]


def together(requests: list[Request], engine: Engine | None = None) -> list[tuple[list[int], str | None]]:
    """Tokens and reasons of requests that were submitted at once."""
    engine = engine or Engine(History())
    told: list[list[Event]] = [[] for _ in requests]
    for request, events in zip(requests, told, strict=True):
        request.deliver = events.append
        engine.submit(request)
    while engine.step():
        pass
    assert engine.pages.held == 0
    assert all(event.reason is None for events in told for event in events[:-1])
    return [([event.choice.token for event in events if event.choice], events[-1].reason) for events in told]


PROMPTS = st.lists(st.integers(0, 4), min_size=1, max_size=12)
REQUESTS = st.tuples(PROMPTS, st.integers(1, 9), st.sampled_from([0.0, 1.0]), st.integers(0, 5))


@given(st.lists(REQUESTS, min_size=1, max_size=8))
def test_requests_get_the_same_tokens_alone_and_among_others(requests):
    made = [
        {"prompt": prompt, "max_tokens": count, "sampling": Sampling(temperature=temperature, seed=seed)}
        for prompt, count, temperature, seed in requests
    ]
    got = together([Request(**options) for options in made])
    assert got == [alone(**options) for options in made]


@given(st.lists(PROMPTS, min_size=2, max_size=6))
def test_what_was_kept_from_before_changes_nothing(prompts):
    engine = Engine(History(slots=2))
    for prompt in prompts:
        assert together([Request(prompt, max_tokens=4)], engine)[0] == alone(prompt, max_tokens=4)


def test_a_second_turn_reads_only_what_is_new():
    programs = History()
    engine = Engine(programs)
    first, _ = together([Request([1, 2, 3, 4, 5, 6], max_tokens=3)], engine)[0]
    before = programs.read_tokens
    request = Request([1, 2, 3, 4, 5, 6, *first, 7, 8], max_tokens=1)
    together([request], engine)
    assert programs.read_tokens - before == 3  # the last token of the answer, and the two new ones
    assert engine.done.reused_tokens == 8


def test_answers_go_on_while_a_long_prompt_is_read_in_chunks():
    programs = History()
    engine = Engine(programs, max_pause=0.0)
    told: list[str] = []
    short = Request([1], max_tokens=12, deliver=lambda event: told.append("short"))
    long = Request(list(range(16)), max_tokens=1, deliver=lambda event: told.append("long"))
    engine.submit(short)
    engine.step()
    engine.submit(long)
    while engine.step():
        pass
    assert told.index("long") > 6  # eight chunks of two, with a token for the other between each
    assert max(programs.extended) == 1


def test_requests_join_and_leave_between_steps():
    programs = History(slots=3)
    engine = Engine(programs)
    together([Request([k], max_tokens=4 + k) for k in range(3)], engine)
    assert max(programs.extended) == 3
    assert programs.extended[-1] == 1


def test_the_context_ends_an_answer():
    tokens, reason = together([Request([1, 2, 3])], Engine(History(context=8)))[0]
    assert (len(tokens), reason) == (5, "length")


def test_stop_tokens_end_an_answer_and_are_not_part_of_it():
    tokens, _ = alone([1, 2, 3], max_tokens=8)
    until = tokens.index(tokens[4])
    assert alone([1, 2, 3], max_tokens=8, stop_tokens=frozenset({tokens[4]})) == (tokens[:until], "stop")


@given(st.lists(REQUESTS, min_size=1, max_size=4), st.integers(1, 7), st.integers(1, 3))
def test_guesses_change_no_token(requests, most, reach):
    made = [
        {"prompt": prompt * 3, "max_tokens": 3 * count, "sampling": Sampling(temperature, seed=seed, logprobs=0)}
        for prompt, count, temperature, seed in requests
    ]
    plain = together([Request(**options) for options in made], Engine(History(reach=reach)))
    engine = Engine(History(rows=8, reach=reach), speculate=most)
    assert together([Request(**options) for options in made], engine) == plain


@given(st.lists(REQUESTS, min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 3), st.sampled_from([16, 64]))
def test_guesses_of_another_model_change_no_token(requests, most, reach, context):
    made = [
        {"prompt": prompt * 2, "max_tokens": 2 * count, "sampling": Sampling(temperature, seed=seed, logprobs=0)}
        for prompt, count, temperature, seed in requests
    ]
    plain = together([Request(**options) for options in made])
    # It knows less of what was before, so that some guesses are right, and may have less room.
    draft = Draft(Slots(reach=reach, context=context), 50)
    engine = Engine(History(rows=8), speculate=most, draft=draft)
    assert together([Request(**options) for options in made], engine) == plain
    assert sorted(draft._free) == [0, 1, 2]


def test_a_model_that_guesses_right_saves_steps_and_reads_what_was_taken_once():
    programs, drafts = History(slots=1, context=256, rows=8), Slots(slots=1, context=256)
    engine = Engine(programs, speculate=4, draft=Draft(drafts, 50))
    engine._seconds.note = lambda rows, seconds: engine._seconds.update({rows: 1.0})
    engine._guessing.note = lambda count, seconds: engine._guessing.update({count: 0.5})
    together([Request([1, 2, 3, 4, 5], max_tokens=101)], engine)
    assert engine.done.right_tokens == engine.done.guessed_tokens >= 72  # once the prompt is read, 4 in each step
    assert len(programs.extended) <= 101 - 72
    assert len(drafts.extended) + drafts.read_tokens <= 101 + 5


def test_a_model_whose_guesses_take_too_long_is_asked_seldom():
    engine = Engine(History(slots=1, context=256, rows=8), speculate=4, draft=Draft(Slots(slots=1, context=256), 50))
    engine._seconds.note = lambda rows, seconds: engine._seconds.update({rows: 1.0})
    engine._guessing.note = lambda count, seconds: engine._guessing.update({count: 9.0})
    together([Request([1, 2, 3], max_tokens=100)], engine)
    assert 0 < engine.done.guessed_tokens < 20


def test_right_guesses_save_steps_and_are_counted():
    programs = History(slots=1, context=256, rows=8, reach=1)
    engine = Engine(programs, speculate=7)
    # Steps of all sizes take the same time.
    engine._seconds.note = lambda rows, seconds: engine._seconds.update({rows: 1.0})
    tokens, _ = together([Request([1], max_tokens=100)], engine)[0]
    assert tokens == together([Request([1], max_tokens=100)], Engine(History(slots=1, context=256, reach=1)))[0][0]
    assert len(programs.extended) < 60
    assert engine.done.right_tokens == 100 - 1 - len(programs.extended)
    assert engine.done.guessed_tokens >= engine.done.right_tokens


def test_an_answer_waits_for_its_last_event_however_late_it_comes():
    with Engine(History()) as engine:
        engine.on_end = lambda handle: time.sleep(0.05)  # it has ended, and nobody has been told
        answer = answered(engine, Request([1, 2, 3], max_tokens=3))
    assert (answer.reason, len(answer.choices)) == ("length", 3)


def test_the_first_step_of_a_size_is_no_measure_of_its_cost():
    engine = Engine(History())
    engine._seconds.note(8, 30.0)  # it was compiled
    assert engine._seconds[8] == float("inf")
    engine._seconds.note(8, 0.02)
    engine._seconds.note(8, 5.0)
    assert engine._seconds[8] == pytest.approx(0.021)


def test_all_requests_can_be_cancelled_at_once():
    engine = Engine(History(slots=1), queue_limit=9)
    ends = []
    for _ in range(3):
        engine.submit(Request([1, 2], deliver=lambda event: ends.append(event.reason) if event.reason else None))
    engine.step()
    assert engine.cancel() == 3
    assert engine.cancel() == 0
    while engine.step():
        pass
    assert ends == ["cancelled"] * 3


def test_stop_tokens_and_the_context_end_answers_among_guesses():
    for options in ({"context": 40}, {"context": 64, "stop": 20}):
        stop = options.pop("stop", None)
        ends: frozenset[int] = frozenset()
        if stop is not None:
            ends = frozenset({alone([1], max_tokens=stop)[0][-1]})
        plain = together([Request([1], stop_tokens=ends)], Engine(History(**options, reach=2)))
        assert (
            together([Request([1], stop_tokens=ends)], Engine(History(**options, rows=8, reach=2), speculate=5))
            == plain
        )


class Letters:
    """Text of tokens: a letter each, and a stop string of one letter."""

    def __init__(self, stop: int) -> None:
        self.stopped, self.stop = None, stop

    def feed(self, token: int) -> str:
        self.stopped = "!" if token == self.stop else None
        return "" if self.stopped else chr(65 + token)

    def close(self) -> str:
        return "" if self.stopped else "."


def test_text_is_delivered_with_its_tokens_and_stops():
    tokens, _ = alone([1, 2], max_tokens=6)
    told: list[Event] = []
    engine = Engine(History())
    stop = tokens[3]
    engine.submit(Request([1, 2], max_tokens=6, text=Letters(stop), deliver=told.append))
    while engine.step():
        pass
    until = tokens.index(stop)
    assert "".join(event.text for event in told) == "".join(chr(65 + token) for token in tokens[:until])
    assert told[-1].reason == "stop"


class Only:
    """A grammar that wants some tokens in a row."""

    def __init__(self, *tokens: int) -> None:
        self.left = list(tokens)

    @property
    def is_done(self) -> bool:
        return not self.left

    def allowed(self) -> np.ndarray:
        return np.arange(VOCABULARY) == self.left[0]

    def accept(self, token: int) -> None:
        assert token == self.left.pop(0)


def test_a_grammar_decides_and_leaves_others_alone():
    quiet = alone([5, 6], max_tokens=5)
    got = together([Request([1], constraint=Only(7, 8, 9)), Request([5, 6], max_tokens=5)])
    assert got == [([7, 8, 9], "stop"), quiet]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancelling_frees_the_slot_in_one_step_and_leaves_others_alone(steps):
    engine = Engine(History())
    told: list[Event] = []
    quiet = alone([5, 6], max_tokens=9)
    other: list[Event] = []
    handle = engine.submit(Request(list(range(9)), deliver=told.append))
    engine.submit(Request([5, 6], max_tokens=9, deliver=other.append))
    for _ in range(steps):
        engine.step()
    handle.cancel()
    engine.step()
    assert engine.pages.held <= 3  # of what the other one has
    assert told[-1].reason == "cancelled"
    while engine.step():
        pass
    assert [event.choice.token for event in other if event.choice] == quiet[0]


def test_late_requests_end_and_broken_listeners_are_cancelled():
    engine = Engine(History())

    def gone(event: Event) -> None:
        raise RuntimeError("the connection is closed")

    assert together([Request([1], timeout=-1.0)], engine) == [([], "timeout")]
    engine.submit(Request([1], deliver=gone))
    while engine.step():
        pass
    assert engine.finished == {"timeout": 1, "cancelled": 1}


def test_when_a_program_fails_requests_hear_of_it_and_the_next_one_runs():
    programs = History()
    engine = Engine(programs)
    programs.fails = True
    told: list[Event] = []
    engine.submit(Request([1, 2], deliver=told.append))
    engine.step()
    assert told[-1].reason == "error"
    assert "the programs broke" in told[-1].error
    programs.fails = False
    assert together([Request([1, 2], max_tokens=3)], engine)[0] == alone([1, 2], max_tokens=3)


def test_a_cache_that_cannot_be_made_anew_fails_requests_until_it_can():
    class Full(History):
        def reset(self) -> None:
            super().reset()
            if self.fails:
                raise MemoryError("no room for a cache")

    programs = Full()
    with Engine(programs) as engine:
        for fails, reasons in ((True, ["error", "error"]), (False, ["length", "length"])):
            programs.fails = fails
            ends = [[*engine.stream(Request([1, 2], max_tokens=3, timeout=9))][-1].reason for _ in reasons]
            assert ends == reasons


def test_a_full_queue_and_prompts_that_do_not_fit_are_refused():
    engine = Engine(History(context=8), queue_limit=2)
    for _ in range(2):
        engine.submit(Request([1], max_tokens=1))
    with pytest.raises(BusyError, match="2 requests are waiting"):
        engine.submit(Request([1]))
    assert engine.rejected == 1
    with pytest.raises(ContextLengthError, match=r"8 tokens[\s\S]*context of 8"):
        engine.submit(Request(list(range(8))))
    for prompt, message in [([], "empty"), ([VOCABULARY], "does not have"), ([-1], "does not have")]:
        with pytest.raises(ArgumentError, match=message):
            engine.submit(Request(prompt))
    with pytest.raises(ArgumentError, match="max_tokens is 0"):
        engine.submit(Request([1], max_tokens=0))


def test_many_threads_share_one_engine():
    results: dict[int, list[int]] = {}
    with Engine(History()) as engine:

        def user(number: int) -> None:
            events = list(engine.stream(Request([number, 1], max_tokens=5)))
            results[number] = [event.choice.token for event in events if event.choice]

        threads = [threading.Thread(target=user, args=(number,)) for number in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for event in engine.stream(Request([1])):  # left early
            assert event.choice
            break
    assert results == {number: alone([number, 1], max_tokens=5)[0] for number in range(9)}
    assert engine.pages.held == 0
    with pytest.raises(BusyError, match="closing"):
        engine.submit(Request([1]))


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_beginnings(first, second):
    count = common(first, second)
    assert first[:count] == second[:count]
    assert first[: count + 1] != second[: count + 1] or count == min(len(first), len(second))


def test_what_another_owner_has_read_is_read_again():
    engine, prompt = Engine(History()), [1, 2, 3, 4, 5, 6]
    text = alone(prompt, max_tokens=4)
    for owner, reused in [("a", 0), ("b", 0), ("a", 5), ("b", 5), ("c", 0), ("", 0), ("c", 5)]:
        request = Request(prompt, max_tokens=4, owner=owner)
        assert together([request], engine) == [text]
        assert request.figures.reused_tokens == reused, owner


def test_choices_of_a_prompt_read_it_once():
    for count in (2, 3, 5):  # the last ones wait for a slot
        programs = History()
        engine, prompt = Engine(programs), list(range(10))
        made = [{"prompt": prompt, "max_tokens": 6, "sampling": Sampling(1.0, seed=seed)} for seed in range(count)]
        requests = [Request(**options) for options in made]
        assert together(requests, engine) == [alone(**options) for options in made]
        assert programs.read_tokens == len(prompt) + (count > 3)  # who came later reads the last token
        assert programs.copies == count - 1  # of the page that is not full


def test_a_prompt_that_is_being_read_or_answered_serves_others():
    programs = History(context=256)
    engine, shared = Engine(programs), [7, 3] * 20
    told: list[Event] = []
    engine.submit(Request([*shared, 1], max_tokens=200, deliver=told.append))
    second, third = Request([*shared, 2], max_tokens=3), Request([*shared[:9], 5], max_tokens=3)
    engine.step()
    expected = [alone(second.prompt, max_tokens=3), alone(third.prompt, max_tokens=3)]
    found: list[list[int]] = [[], []]
    for request, tokens in zip((second, third), found, strict=True):
        request.deliver = lambda event, tokens=tokens: tokens.append(event.choice.token) if event.choice else None
        engine.submit(request)
    while not (second.figures.finished and third.figures.finished):
        engine.step()
    assert engine.running  # the first one still is
    assert found == [tokens for tokens, _ in expected]
    assert (second.figures.reused_tokens, third.figures.reused_tokens) == (40, 9)
