"""Choosing tokens: against a plain reference in NumPy, row by row."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError
from smelt.llm.sampling import GREEDY, Chooser, Sampling, adjusted, choose

VOCABULARY = 300  # more than the candidates, so that both ways are met


def logits_of(seed: int, rows: int = 1, spread: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(rows, VOCABULARY)) * spread).astype(np.float32)


def one(logits: np.ndarray, sampling: Sampling, prompt=(1, 2, 3)) -> int:
    chosen = choose(sm.asarray(logits[None]), [Chooser(sampling, list(prompt), VOCABULARY)])[0]
    assert chosen is not None
    return chosen.token


def may_be_drawn(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The tokens that are left after the cuts, most likely first."""
    x = logits.astype(np.float64)
    order = np.argsort(-x, kind="stable")
    p = np.exp(x[order] - x.max())
    p /= p.sum()
    keep = np.ones(len(order), bool)
    if sampling.top_k:
        keep &= np.arange(len(order)) < sampling.top_k
    if sampling.top_p < 1:
        keep &= np.cumsum(p) - p < sampling.top_p - 1e-6
    keep &= p >= sampling.min_p * p[0] * (1 + 1e-6)
    keep[0] = True
    return order[keep]


CUTS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.1, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 40, 299, 5000]),
    top_p=st.sampled_from([0.01, 0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.9]),
    seed=st.integers(0, 2**64 - 1),
)


@given(CUTS, st.integers(0, 99))
def test_what_is_drawn_is_left_after_the_cuts(sampling, seed):
    logits = logits_of(seed)[0]
    # The reference rounds otherwise: one token more may be left at each edge.
    edge = Sampling(top_k=sampling.top_k, top_p=min(1.0, sampling.top_p + 2e-6), min_p=sampling.min_p * (1 - 2e-6))
    assert one(logits, sampling) in may_be_drawn(logits, edge)


@pytest.mark.parametrize("sampling", [{"top_k": 5}, {"top_p": 0.8}, {"min_p": 0.2}, {"temperature": 2.0}, {}])
def test_draws_have_the_right_frequencies(sampling):
    logits = logits_of(7, spread=2.0)[0]
    draws, batch = 2000, 250
    counts: Counter[int] = Counter()
    for start in range(0, draws, batch):
        choosers = [Chooser(Sampling(seed=start + k, **sampling), [1], VOCABULARY) for k in range(batch)]
        counts.update(choice.token for choice in choose(sm.asarray(np.tile(logits, (batch, 1))), choosers))
    wanted = np.zeros(VOCABULARY)
    left = may_be_drawn(logits, Sampling(**sampling))
    x = logits[left].astype(np.float64) / sampling.get("temperature", 1.0)
    wanted[left] = np.exp(x - x.max())
    wanted /= wanted.sum()
    found = np.array([counts[token] for token in range(VOCABULARY)]) / draws
    assert np.abs(found - wanted).max() < 0.05
    assert not found[wanted == 0].any()


@pytest.mark.by_turns(3)
@given(st.lists(CUTS | st.just(GREEDY), min_size=1, max_size=4), st.integers(0, 99))
def test_a_row_gives_the_same_alone_and_in_a_batch(samplings, seed):
    logits = logits_of(seed, len(samplings))
    alone = [one(row, sampling) for row, sampling in zip(logits, samplings, strict=True)]
    choosers = [Chooser(sampling, [1, 2, 3], VOCABULARY) for sampling in samplings]
    assert [choice.token for choice in choose(sm.asarray(logits), choosers)] == alone


def test_draws_follow_seed_and_position():
    logits = np.zeros(VOCABULARY, np.float32)
    by_seed = [one(logits, Sampling(seed=seed)) for seed in range(8)]
    by_position = [one(logits, Sampling(seed=1), range(1, 2 + k)) for k in range(8)]
    assert len(set(by_seed)) > 4
    assert len(set(by_position)) > 4
    assert by_seed == [one(logits, Sampling(seed=seed)) for seed in range(8)]


@given(st.sampled_from([0.5, 1.0, 1.3]), st.sampled_from([-2.0, 0.0, 0.5]), st.sampled_from([0.0, 0.7]))
def test_penalties_and_biases(repetition, presence, frequency):
    logits = logits_of(3)[0]
    prompt, answer = [1, 2, 2, 3], [3, 4, 4]
    sampling = Sampling(
        temperature=0, repetition=repetition, presence=presence, frequency=frequency, bias={4: 1.0, 9: -100.0}
    )
    chooser = Chooser(sampling, prompt, VOCABULARY)
    for token in answer:
        chooser.accept(token)
    arguments = np.zeros((3, 1, VOCABULARY), np.float32)
    chooser.fill(0, arguments[0], arguments[1], arguments[2])
    controls = np.float32([[repetition, presence, frequency]])
    x = adjusted(sm.asarray(logits[None]), *map(sm.asarray, (arguments[0], arguments[1] > 0, arguments[2], controls)))
    wanted = logits.astype(np.float64)
    for token in set(prompt + answer):
        wanted[token] = wanted[token] / repetition if wanted[token] > 0 else wanted[token] * repetition
    for token, count in Counter(answer).items():
        wanted[token] -= presence + frequency * count
    wanted[4] += 1
    wanted[9] -= 100
    np.testing.assert_allclose(x.numpy()[0], wanted, rtol=1e-6, atol=1e-6)
    assert choose(sm.asarray(logits[None]), [chooser])[0].token == int(np.argmax(wanted))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_allowed_tokens_are_chosen(temperature):
    chooser = Chooser(Sampling(temperature=temperature), [1], VOCABULARY)
    allowed = np.zeros(VOCABULARY, bool)
    allowed[[17, 18]] = True
    for _ in range(5):
        chooser.allowed = allowed
        assert choose(sm.asarray(logits_of(1)), [chooser])[0].token in (17, 18)


def test_logprobs_are_those_of_the_model():
    logits = logits_of(5)
    chooser = Chooser(Sampling(temperature=0, logprobs=3, bias={8: 1000.0}), [1], VOCABULARY)
    choice = choose(sm.asarray(logits), [chooser])[0]
    x = logits[0].astype(np.float64)
    wanted = x - np.log(np.exp(x).sum())
    assert choice.token == 8  # by its bias, which the log-probabilities do not show
    assert choice.logprob == pytest.approx(wanted[8], abs=1e-5)
    best = np.argsort(-x)[:3]
    assert [token for token, _ in choice.top] == best.tolist()
    assert [value for _, value in choice.top] == pytest.approx(wanted[best].tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("temperature", -1),
            ("temperature", float("nan")),
            ("top_p", 0),
            ("top_p", 1.1),
            ("top_k", -1),
            ("min_p", 2),
        ),
        *(("seed", -1), ("repetition", 0), ("presence", 3), ("frequency", -3), ("logprobs", 21)),
    ],
)
def test_values_outside_their_ranges_are_refused(name, value):
    with pytest.raises(ArgumentError, match=f"{name} is {value}"):
        Sampling(**{name: value})


def test_a_bias_for_a_token_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match="there is no token 300"):
        Chooser(Sampling(bias={VOCABULARY: 1.0}), [], VOCABULARY)
