"""Compiled steps of a small decoder: chunks, batches, slots and padding give what reading token by token gives."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.errors import ArgumentError, ContextLengthError
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.engine import Engine, Request
from smelt.llm.loading import load, opened
from smelt.llm.programs import DecoderPrograms
from smelt.llm.weights import from_huggingface, random_model
from tests.llm.test_decoder import TOKENS, Held, at_once
from tests.llm.tiny_models import CONFIGS, random_tensors

PROMPT = [5, 9, 2, 200, 33, 7, 7, 1, 90, 4, 11]


@pytest.fixture(scope="module")
def decoder():
    return opened("random:tiny")[0]


@pytest.fixture(scope="module")
def programs(decoder):
    return DecoderPrograms(decoder, slots=3, context=64, chunks=(4, 8))


@pytest.fixture
def one_by_one(programs):
    """The logits behind each token of the prompt."""
    programs.reset()
    return [programs.extend([(programs.own(0), place, token)]).numpy()[0].copy() for place, token in enumerate(PROMPT)]


@pytest.mark.by_turns(3)
def test_chunks_give_what_single_tokens_give(programs, one_by_one):
    programs.reset()
    first = programs.read(programs.own(1), 0, PROMPT[:8]).numpy()[0]
    last = programs.read(programs.own(1), 8, PROMPT[8:]).numpy()[0]  # padded by one
    np.testing.assert_allclose(first, one_by_one[7], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last, one_by_one[-1], rtol=1e-5, atol=1e-5)


def test_texts_of_a_batch_do_not_see_each_other(programs, one_by_one):
    programs.reset()
    programs.read(programs.own(0), 0, [3, 3, 3])
    programs.read(programs.own(2), 0, PROMPT[:4])
    programs.read(programs.own(1), 0, PROMPT[:4])
    for place in range(4, len(PROMPT)):
        texts = [(2, place, PROMPT[place]), (0, place - 1, 17), (1, place, PROMPT[place])]
        rows = [(programs.own(slot), *more) for slot, *more in texts]
        logits = programs.extend(rows).numpy()
        assert logits.shape[0] == 4  # padded
        np.testing.assert_allclose(logits[0], one_by_one[place], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(logits[2], one_by_one[place], rtol=1e-5, atol=1e-5)


def test_a_slot_is_used_again_without_clearing(programs, one_by_one):
    programs.reset()
    programs.read(programs.own(0), 0, [8] * 8)
    programs.read(programs.own(0), 0, PROMPT[:8])
    logits = programs.read(programs.own(0), 8, PROMPT[8:]).numpy()[0]
    np.testing.assert_allclose(logits, one_by_one[-1], rtol=1e-5, atol=1e-5)


@pytest.mark.by_turns(3)
def test_embeddings_are_means_over_a_text_however_it_is_cut(programs, decoder):
    whole = DecoderPrograms(decoder, slots=1, context=64, chunks=(16,)).embed(PROMPT)
    np.testing.assert_allclose(programs.embed(PROMPT), whole, rtol=1e-4, atol=1e-5)
    assert np.linalg.norm(whole) == pytest.approx(1, abs=1e-5)
    assert np.abs(programs.embed(PROMPT[::-1]) - whole).max() > 1e-3
    with pytest.raises(ContextLengthError):
        programs.embed([1] * 65)


def test_a_text_may_fill_the_context(decoder):
    programs = DecoderPrograms(decoder, slots=1, context=8, chunks=(4,))
    engine = Engine(programs)
    told = []
    engine.submit(Request(PROMPT[:7], deliver=told.append))
    while engine.step():
        pass
    assert [event.reason for event in told] == [None, "length"]


@pytest.mark.by_turns(3)
def test_learned_positions_serve_the_whole_context():
    """Rows of padding lie behind the last position that the model has."""
    model = from_huggingface(CONFIGS["gpt2"], Held(random_tensors(CONFIGS["gpt2"])))
    programs = DecoderPrograms(model, context=model.config.context, chunks=(48,))
    tokens = (TOKENS * 5)[: model.config.context]
    found = [programs.read(programs.own(0), at, tokens[at : at + 48]).numpy()[0] for at in (0, 48)]
    np.testing.assert_allclose(found, at_once(model, tokens)[[47, 63]], atol=1e-4)


@pytest.mark.by_turns(3)
def test_everything_is_compiled_before_it_is_asked_for(decoder):
    programs = DecoderPrograms(decoder, slots=2, context=16, chunks=(4,))
    seen = []
    with Engine(programs) as engine:
        engine.compile(lambda done, total: seen.append((done, total)))
        engine.prepare()
    assert seen == [(done, 6) for done in range(6)]  # a chunk, copying, two batches, and choosing for each
    assert len(programs._step._entries) == 4


@pytest.mark.parametrize("options", [{"slots": 0}, {"slots": 65}, {"context": 1}, {"context": 8193}])
def test_sizes_that_cannot_be_are_refused(decoder, options):
    with pytest.raises(ArgumentError):
        DecoderPrograms(decoder, **options)


def test_a_model_chats_and_remembers():
    with load("random:tiny", context=128) as model:
        messages = [{"role": "user", "content": "Hello"}]
        answer = model.generate(messages, max_tokens=6)
        assert "".join(model.chat(messages, max_tokens=6)) == answer.text
        again = model.generate([*messages, {"role": "assistant", "content": "x"}], max_tokens=2)
        assert again.figures.reused_tokens > len("user: Hello\n")
        assert model.tokens("Hi") == model.tokenizer.encode("Hi")
    with pytest.raises(ArgumentError, match="sizes are tiny"):
        load("random:huge")


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(("kind", "cache"), [("Q4_0", "float16"), ("Q4_1", "float16"), ("Q4_1", "int8")])
def test_rows_of_rounded_models_have_the_bits_of_single_ones(kind, cache):
    """Which is why guesses change no token, and why neighbors in a batch do not."""
    config = ModelConfig("llama", 2, 64, 4, 2, 16, 128, 512, 64, 1e-5, Rope(16), tied=True)
    programs = DecoderPrograms(random_model(config, kind=kind), slots=2, context=64, chunks=(4, 8), dtype=cache, rows=8)
    assert programs.batches == (1, 2, 4, 8)
    single = [
        programs.extend([(programs.own(0), place, token)]).numpy()[0].copy() for place, token in enumerate(PROMPT)
    ]
    assert (programs.read(programs.own(1), 0, PROMPT[:3]).numpy()[0] == single[2]).all()
    for count in (1, 2, 4, 8):
        rows = [(programs.own(1), place, PROMPT[place]) for place in range(3, 3 + count)]
        assert (programs.extend(rows).numpy() == np.array(single[3 : 3 + count])).all()
    assert (programs.read(programs.own(1), 3, PROMPT[3:]).numpy()[0] == single[-1]).all()
    programs.copy(programs.own(1)[0], programs.own(0)[0])  # what another text begins with
    assert (programs.read(programs.own(0), 4, PROMPT[4:]).numpy()[0] == single[-1]).all()
