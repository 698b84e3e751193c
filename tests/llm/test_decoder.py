"""One decoder for every family: logits as a reference in NumPy has them, from both kinds of files, in any order."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import IndexRangeError
from smelt.llm.cache import PAGE, Cache, empty_cache
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.decoder import Decoder, step
from smelt.llm.weights import from_gguf, from_huggingface, random_model
from tests.llm.converted import converted
from tests.llm.tiny_models import CONFIGS, random_tensors, reference_logits

TOKENS = np.random.default_rng(1).integers(0, 61, 14).tolist()
SMALL = ModelConfig("llama", 2, 16, 4, 2, 4, 24, 31, 64, 1e-5, Rope(4), windows=(0, 3))


class Held(dict[str, Any]):
    """Arrays in place of a file."""

    def array(self, name: str) -> Any:
        return self[name]


@functools.cache
def program(config: ModelConfig, rows: int, pages: tuple[int, ...]) -> Any:
    """A program for each number of rows, as engines have them."""
    return sm.jit(step, donate=(1,))


def compiled(
    model: Decoder, cache: Cache, tokens: sm.Tensor, positions: sm.Tensor, pages: sm.Tensor, *more: Any
) -> Any:
    return program(model.config, tokens.shape[0], pages.shape)(model, cache, tokens, positions, pages, *more)


def ints(*values: int) -> sm.Tensor:
    return sm.asarray(values, dtype=sm.int32)


def at_once(model: Decoder, tokens: list[int]) -> Any:
    rows = ints(*range(len(tokens)))
    return compiled(model, empty_cache(model.config, 1), ints(*tokens), rows, ints(0), rows)[1].numpy()


def in_chunks(model: Decoder, cache: Cache, tokens: list[int], sizes: list[int], *pages: int) -> Any:
    """Logits of a text that is read in chunks into some pages, and the cache after it."""
    found, past = [], 0
    for size in sizes:
        chunk, rows = tokens[past : past + size], ints(*range(size))
        cache, logits = compiled(model, cache, ints(*chunk), ints(*range(past, past + size)), ints(*pages), rows)
        found.append(logits.numpy())
        past += size
    return cache, np.concatenate(found)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_of_every_family(name: str) -> None:
    config = CONFIGS[name]
    tensors = random_tensors(config)
    expected = reference_logits(config, tensors, TOKENS)
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(at_once(from_huggingface(config, Held(tensors)), TOKENS), expected, atol=2e-4, rtol=2e-5)
    if name != "mistral":  # llama.cpp knows no windows of such models
        metadata, arrays = converted(config, tensors)
        np.testing.assert_allclose(at_once(from_gguf(metadata, Held(arrays)), TOKENS), expected, atol=2e-4, rtol=2e-5)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2"])
def test_chunks_and_single_tokens_give_what_all_at_once_gives(name: str) -> None:
    model = from_huggingface(CONFIGS[name], Held(random_tensors(CONFIGS[name])))
    expected = at_once(model, TOKENS)
    for sizes in ([5, 9], [1] * 14):
        _, found = in_chunks(model, empty_cache(model.config, 1), TOKENS, sizes, 0)
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.by_turns(3)
def test_rows_of_several_texts_in_one_step() -> None:
    model = random_model(SMALL, seed=3)
    texts = [[3, 1, 4, 1, 5], [9, 2, 6], [5, 3, 5, 8, 9, 7]]
    alone = [at_once(model, text)[-1] for text in texts]
    cache = empty_cache(SMALL, 4)
    for slot, text in enumerate(texts):
        cache, _ = in_chunks(model, cache, text[:-1], [len(text) - 1], slot)
    order = [2, 0, 1]  # rows need not come in the order of pages
    last, places = [texts[n][-1] for n in order], [len(texts[n]) - 1 for n in order]
    _, logits = compiled(model, cache, ints(*last), ints(*places), ints(*order).expand_dims(-1), ints(2, 0))
    np.testing.assert_allclose(logits.numpy(), [alone[1], alone[2]], atol=1e-5)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("window", [0, 5, 300])
def test_texts_may_have_the_same_pages(window: int) -> None:
    """Texts longer than a page, whose pages lie anywhere; two begin with the same one."""
    config = replace(SMALL, context=1024, windows=(window, 0))
    model, shared = random_model(config, seed=3), [token % 31 for token in range(PAGE)]
    texts = [[*shared, 3, 1, 4], [*shared, 9], [5] * (PAGE - 1)]
    pages = [[4, 2, 0], [4, 1, 0], [3, 5, 0]]
    expected = [in_chunks(model, empty_cache(config, 2), text, [len(text)], 0, 1)[1][-1] for text in texts]
    cache, _ = in_chunks(model, empty_cache(config, 6), texts[0][:-1], [PAGE - 56, 56, 2], *pages[0])
    cache, _ = in_chunks(model, cache, texts[2][:-1], [PAGE - 2], *pages[2])
    last, places = [text[-1] for text in texts], [len(text) - 1 for text in texts]
    table = sm.asarray(pages, dtype=sm.int32)
    _, logits = compiled(model, cache, ints(*last), ints(*places), table, ints(0, 1, 2))
    np.testing.assert_allclose(logits.numpy(), expected, atol=1e-5)


def test_a_page_may_be_copied() -> None:
    model = random_model(SMALL, seed=3)
    cache, _ = in_chunks(model, empty_cache(SMALL, 3), [token % 31 for token in TOKENS[:-1]], [13], 1)
    copied = sm.jit(Cache.copied, donate=(0,))(cache, sm.asarray(1, dtype=sm.int32), sm.asarray(2, dtype=sm.int32))
    for part in (*copied.keys, *copied.values):
        assert (part[2] == part[1]).all()
        assert (part[0] == 0).all()
        assert (part[1] != 0).any()


def test_rows_of_one_text_may_be_mixed_with_others() -> None:
    """A chunk of one text and a token of another: each row names its slot, and sees the rows of its own text only."""
    model = random_model(SMALL, seed=3)
    first, second = [3, 1, 4, 1], [9, 2, 6]
    cache, _ = in_chunks(model, empty_cache(SMALL, 2), first[:2], [2], 1)
    tokens, places, slots = [4, 9, 1, 2, 6], [2, 0, 3, 1, 2], [1, 0, 1, 0, 0]
    _, logits = compiled(model, cache, ints(*tokens), ints(*places), ints(*slots).expand_dims(-1), ints(2, 4))
    np.testing.assert_allclose(logits.numpy(), [at_once(model, first)[-1], at_once(model, second)[-1]], atol=1e-5)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=7), st.integers(0, 6))
def test_what_a_slot_held_before_is_not_seen(text: list[int], more: int) -> None:
    """Nor is what rows of padding have written behind the text."""
    model = random_model(SMALL, seed=5)
    padded = text + [7] * (8 - len(text))
    garbage = Cache(*(tuple(part + 9.0 for part in parts) for parts in empty_cache(SMALL, 1)))
    _, logits = compiled(model, garbage, ints(*padded), ints(*range(8)), ints(0), ints(*range(8)))
    np.testing.assert_allclose(logits.numpy()[: len(text)], at_once(model, [*text, more])[:-1], atol=1e-5)


def test_half_precision_cache() -> None:
    model = random_model(SMALL, seed=3)
    rows = ints(*range(14))
    tokens = ints(*[token % 31 for token in TOKENS])
    cache, logits = compiled(model, empty_cache(SMALL, 1, sm.float16), tokens, rows, ints(0), rows)
    assert cache.keys[0].dtype is sm.float16
    assert logits.dtype is sm.float32
    np.testing.assert_allclose(logits.numpy(), at_once(model, [token % 31 for token in TOKENS]), atol=2e-3)


@pytest.mark.by_turns(3)
def test_a_cache_of_bytes() -> None:
    model, rows = random_model(SMALL, seed=3), ints(*range(14))
    tokens = ints(*[token % 31 for token in TOKENS])
    (cache, logits), (whole, expected) = (
        compiled(model, empty_cache(SMALL, 1, dtype), tokens, rows, ints(0), rows) for dtype in (sm.int8, sm.float32)
    )
    assert cache.keys[0].dtype is sm.int8
    assert sum(part.nbytes for parts in cache for part in parts) == 2 * 2 * 2 * PAGE * (4 + 2)
    for codes, steps, floats in (
        (cache.keys[0], cache.key_steps[0], whole.keys[0]),
        (cache.values[0], cache.value_steps[0], whole.values[0]),
    ):
        error = (codes.astype(sm.float32) * steps.astype(sm.float32) - floats).abs()
        assert (error <= 0.51 * steps.astype(sm.float32)).all()
        axis = -2 if codes.ndim == 5 else -1
        assert codes.astype(sm.int32).abs().max(axis=axis).max() == 127
    assert np.abs(expected.numpy()).max() > 0.2
    np.testing.assert_allclose(logits.numpy(), expected.numpy(), atol=6e-3)
    _, in_pieces = in_chunks(model, empty_cache(SMALL, 1, sm.int8), tokens.numpy().tolist(), [5, 1, 1, 7], 0)
    np.testing.assert_allclose(in_pieces, logits.numpy(), atol=6e-3)


def test_a_cache_that_is_full_is_an_error() -> None:
    model = random_model(SMALL)
    with pytest.raises(IndexRangeError):
        compiled(model, empty_cache(SMALL, 1), ints(1), ints(PAGE), ints(0), ints(0))[1].numpy()
    learned = from_huggingface(CONFIGS["gpt2"], Held(random_tensors(CONFIGS["gpt2"])))
    with pytest.raises(IndexRangeError):
        compiled(learned, empty_cache(learned.config, 1), ints(1), ints(64), ints(0), ints(0))[1].numpy()
