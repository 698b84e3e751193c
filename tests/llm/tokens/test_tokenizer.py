"""Text to tokens and back."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError, IndexRangeError, ParseError
from smelt.llm.tokens import Tokenizer
from smelt.llm.tokens.finding import Finder
from smelt.llm.tokens.merging import merged
from smelt.llm.tokens.pretokenize import PRETOKENIZERS, Splitter, named
from tests.llm.tokens.small import byte_level_json, byte_level_metadata, scores_metadata, spaces_json

NAMES = [row.names[0] for row in PRETOKENIZERS]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text(" \n\r\t'sSlL1a.,!?<>|é🦙中▁Ġthe", max_size=40),
)


def made(metadata: dict[str, Any], **changes: Any) -> Tokenizer:
    return Tokenizer.from_gguf_metadata(
        {**metadata, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
    )


BYTE_LEVEL = {name: made(byte_level_metadata(name)) for name in NAMES}
SCORES = made(scores_metadata())


@given(TEXTS, st.sampled_from(NAMES))
def test_bytes_come_back(text: str, name: str) -> None:
    tokenizer = BYTE_LEVEL[name]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.piece, ids)) == text.encode()


@given(TEXTS)
def test_characters_come_back(text: str) -> None:
    # What is written for a space is a space afterwards.
    assert SCORES.decode(SCORES.encode(text)) == text.replace("▁", " ")
    assert SCORES.encode(text, bos=False) == SCORES.encode(text)[1:]


@given(TEXTS, st.sampled_from(NAMES))
def test_words_are_the_text(text: str, name: str) -> None:
    words = Splitter(named(name).patterns).words(text)
    assert "".join(words) == text
    assert all(words)


@given(st.text("ab", min_size=1, max_size=30), st.permutations(["a a", "a b", "b a", "aa b", "ab ab", "b b", "bb a"]))
def test_merges_are_made_one_by_one_the_best_first(word: str, merges: list[str]) -> None:
    ranks = {merge: float(rank) for rank, merge in enumerate(merges)}
    symbols = list(word)
    while pairs := [
        (ranks[f"{left} {right}"], place)
        for place, (left, right) in enumerate(pairwise(symbols))
        if f"{left} {right}" in ranks
    ]:
        _, place = min(pairs)
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    assert merged(list(word), ranks, " ") == symbols


@given(TEXTS)
def test_both_files_say_the_same(text: str) -> None:
    assert Tokenizer.from_tokenizer_json(JSON).encode(text) == BYTE_LEVEL["gpt-2"].encode(text)


JSON = byte_level_json()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-2", ["It", "'s", " 1984", ",", "  ", " and", "\n", "\n", "x"]),
        ("llama-bpe", ["It", "'s", " ", "198", "4", ",", "  ", " and", "\n\n", "x"]),
        ("qwen2", ["It", "'s", " ", "1", "9", "8", "4", ",", "  ", " and", "\n\n", "x"]),
        ("starcoder", ["It", "'s", " ", "1", "9", "8", "4", ",", "  ", " and", "\n", "\n", "x"]),
        ("falcon", ["It", "'", "s", " ", "198", "4", ",", "  ", " and", "\n", "\n", "x"]),
        ("deepseek-coder", ["It", "'", "s", " ", "1", "9", "8", "4", ",", "  ", " and", "\n", "\n", "x"]),
    ],
)
def test_splits(name: str, words: list[str]) -> None:
    assert Splitter(named(name).patterns).words("It's 1984,   and\n\nx") == words


def test_control_tokens_are_text_unless_asked_for() -> None:
    tokenizer = BYTE_LEVEL["gpt-2"]
    start, end = tokenizer.control["<|im_start|>"], tokenizer.control["<|im_end|>"]
    text = "<|im_start|>user<|im_end|>"
    assert not {start, end} & set(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    ids = tokenizer.encode(text, special=True)
    assert (ids[0], ids[-1]) == (start, end)
    assert tokenizer.decode(ids) == "user"
    assert tokenizer.decode(ids, special=True) == text


def test_names_of_bytes_and_of_control_tokens_are_text_with_scores() -> None:
    for text in ("<0x41>", "<s>", "</s>", "<unk>"):
        assert SCORES.decode(SCORES.encode(text)) == text
        assert not set(SCORES.encode(text, bos=False)) & {0, 1, 2, SCORES.encode("A", bos=False)[0] - 1000}
    assert SCORES.encode("a</s>b", special=True).count(2) == 1


def test_defined_tokens_come_first() -> None:
    tokenizer = BYTE_LEVEL["gpt-2"]
    assert tokenizer.size - 2 in tokenizer.encode("a<tool>b")
    assert tokenizer.decode(tokenizer.encode("a<tool>b   c")) == "a<tool>b   c"


def test_tokens_that_look_like_control_tokens_are() -> None:
    metadata = byte_level_metadata()
    kinds = [4 if kind == 3 else kind for kind in metadata["tokenizer.ggml.token_type"]]
    tokenizer = made(metadata, token_type=kinds)
    assert tokenizer.control["<|im_end|>"] not in tokenizer.encode("<|im_end|>")


def test_ends() -> None:
    tokenizer = BYTE_LEVEL["gpt-2"]
    assert tokenizer.stops == {tokenizer.control["<|im_end|>"], tokenizer.control["<|endoftext|>"]}
    assert tokenizer.eos == tokenizer.control["<|im_end|>"]


def test_beginnings() -> None:
    metadata = byte_level_metadata()
    tokenizer = made(metadata, add_bos_token=True)
    assert tokenizer.encode("a")[0] == tokenizer.bos
    assert tokenizer.encode("a", bos=False) == BYTE_LEVEL["gpt-2"].encode("a")
    assert BYTE_LEVEL["gpt-2"].encode("a", bos=True) == tokenizer.encode("a")
    del metadata["tokenizer.ggml.bos_token_id"]
    assert made(metadata, add_bos_token=True).encode("a") == tokenizer.encode("a", bos=False)


def test_beginnings_in_json() -> None:
    process = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}
    tokenizer = Tokenizer.from_tokenizer_json(
        {**spaces_json(), "post_processor": process}, {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
    )
    assert tokenizer.encode("a")[0] == tokenizer.bos == 1
    assert tokenizer.eos == 2


@pytest.mark.parametrize(
    ("form", "text"), [("first", " a</s>b"), ("always", " a</s> b"), ("never", "a</s>b"), ("prepend", " a</s> b")]
)
def test_where_spaces_are_put_in_front(form: str, text: str) -> None:
    tokenizer = Tokenizer.from_tokenizer_json(spaces_json(form))
    ids = tokenizer.encode("a</s>b", special=True)
    assert b"".join(map(tokenizer.piece, ids)).decode() == text


def test_halves_of_surrogates_become_a_question_mark() -> None:
    assert BYTE_LEVEL["gpt-2"].decode(BYTE_LEVEL["gpt-2"].encode("a\ud800b")) == "a?b"


@pytest.mark.parametrize("text", [" " * 40_000 + "x", "a" * 40_000, "<" * 40_000, "\n" * 40_000 + " ", "'" * 40_000])
@pytest.mark.parametrize(
    "tokenizer", [BYTE_LEVEL["deepseek-llm"], BYTE_LEVEL["tekken"], SCORES], ids=["llm", "tekken", "scores"]
)
def test_long_runs_take_no_longer_than_other_texts(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("number", [-1, 1 << 32, 10**6])
def test_numbers_that_are_no_tokens(number: int) -> None:
    with pytest.raises(IndexRangeError, match="is no token"):
        SCORES.decode([number])


def test_only_texts_are_encoded() -> None:
    with pytest.raises(ArgumentError, match="takes a string"):
        SCORES.encode(b"bytes")  # type: ignore[arg-type]


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"pre": None}, "names no pre-tokeniser"),
    ({"pre": "llama-bpe-2"}, "unknown pre-tokeniser(.|\n)*llama-bpe"),
    ({"pre": 7}, "unknown pre-tokeniser"),
    ({"model": "bert"}, "'bert' are not supported"),
    ({"model": None}, "'tokenizer.ggml.model' is missing"),
    ({"tokens": None}, "tokens' is missing"),
    ({"tokens": "abc"}, "of type str"),
    ({"tokens": []}, "0 tokens"),
    ({"tokens": ["a", 7]}, "type int"),
    ({"tokens": ["a", "a"], "token_type": [1, 1], "merges": []}, "'a' is in the vocabulary twice"),
    ({"token_type": [1]}, "has 1 items"),
    ({"token_type": ["1"]}, "type str"),
    ({"merges": ["zzz qqq"]}, "'zzz qqq' makes no token"),
    ({"merges": ["a b"] * 3 + [1]}, "type int"),
    ({"merges": {}}, "of type dict"),
    ({"bos_token_id": -1}, "bos token is -1"),
    ({"eos_token_id": 1 << 31}, "eos token is"),
    ({"eos_token_id": "2"}, "of type str"),
    ({"eos_token_id": True}, "of type bool"),
    ({"add_bos_token": 1}, "of type int"),
]


@pytest.mark.parametrize(("changes", "message"), HOSTILE)
def test_wrong_metadata(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        made(byte_level_metadata(), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": None}, "scores' is missing"),
        ({"scores": [0.0]}, "has 1 items"),
        ({"scores": [float("nan")] * SCORES.size}, "not a number"),
        ({"token_type": [99] * SCORES.size}, "types .99"),
        ({"token_type": [-1] * SCORES.size}, "types .-1"),
        ({"tokens": [f"<0x-{place}>" for place in range(SCORES.size)]}, "is the byte '<0x-"),
    ],
)
def test_wrong_scores(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        made(scores_metadata(), **changes)


def with_model(**changes: Any) -> dict[str, Any]:
    return {**byte_level_json(), "model": {**byte_level_json()["model"], **changes}}


def with_split(pattern: Any, behavior: str = "Isolated") -> dict[str, Any]:
    return {**byte_level_json(), "pre_tokenizer": {"type": "Split", "pattern": pattern, "behavior": behavior}}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, "'model' is missing"),
        (with_model(type="Unigram"), "type 'Unigram'"),
        (with_model(end_of_word_suffix="</w>"), "end_of_word_suffix"),
        (with_model(vocab={"a": 1 << 32}), "go up to"),
        (with_model(vocab={"a": -1}), "go up to|are both"),
        (with_model(vocab={"a": 1.5}), "no integers"),
        (with_model(vocab={"a": 0, "b": 0}), "both token 0"),
        (with_model(merges=[["a", "b", "c"]]), "no pair"),
        (with_model(merges=[["a b", "c"]]), "spaces in it"),
        (with_model(merges=[7]), "no pair"),
        (with_split({"Regex": "(a+)+$"}), "pattern '.a"),
        (with_split({"String": "x"}), "pattern None"),
        (with_split({"Regex": r"\p{N}"}, "MergedWithPrevious"), "behavior 'MergedWithPrevious'"),
        ({**byte_level_json(), "pre_tokenizer": {"type": "BertPreTokenizer"}}, "BertPreTokenizer"),
        ({**byte_level_json(), "pre_tokenizer": 3}, "of type int"),
        ({**byte_level_json(), "normalizer": {"type": "Lowercase"}}, "Lowercase"),
        ({**byte_level_json(), "added_tokens": [{"id": 1, "content": 2}]}, "of type int"),
        ({**byte_level_json(), "pre_tokenizer": None}, "neither bytes nor"),
    ],
)
def test_wrong_json(description: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        Tokenizer.from_tokenizer_json(description)


def test_vocabularies_with_gaps() -> None:
    metadata = byte_level_metadata()
    tokens = [*metadata["tokenizer.ggml.tokens"], "", ""]
    tokenizer = made(metadata, tokens=tokens, token_type=[*metadata["tokenizer.ggml.token_type"], 1, 3])
    assert tokenizer.decode(tokenizer.encode("gap<|im_end|>", special=True)) == "gap"
    assert tokenizer.piece(len(tokens) - 1) == b""


def test_characters_without_tokens() -> None:
    tokenizer = made({}, model="gpt2", pre="gpt-2", tokens=["a", "?"], merges=[])
    assert tokenizer.encode("ab") == [0]
    assert made({}, model="gpt2", pre="gpt-2", tokens=["a", "?"], merges=[], unknown_token_id=1).encode("ab") == [0, 1]


@given(st.text("<a>b", max_size=30), st.sets(st.text("<a>b", min_size=1, max_size=4), max_size=5))
def test_names_are_found_from_the_left_the_longest_first(text: str, names: set[str]) -> None:
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    assert Finder(names).split(text) == (re.split(f"({pattern})", text) if names else [text])


def test_thousands_of_special_tokens() -> None:
    metadata = byte_level_metadata()
    unused = [f"<unused{number}>" for number in range(20_000)]
    tokens, kinds = ([*metadata[f"tokenizer.ggml.{key}"]] for key in ("tokens", "token_type"))
    tokenizer = made(metadata, tokens=tokens + unused, token_type=kinds + [4] * len(unused))
    text = "<unused19999>" + "<unuse" * 20_000
    assert tokenizer.encode(text)[0] == tokenizer.size - 1
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_steps_after_bytes_became_letters_see_the_letters() -> None:
    # The byte 0xB3 is written as ³, which is a number for patterns.
    description = byte_level_json()
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": False}
    merges = {"vocab": {**description["model"]["vocab"], "Ã³": 600}, "merges": ["Ã ³"]}
    description["model"] |= merges
    assert len(Tokenizer.from_tokenizer_json({**description, "pre_tokenizer": level}).encode("ó")) == 1
    steps = {"type": "Sequence", "pretokenizers": [level, digits]}
    assert len(Tokenizer.from_tokenizer_json({**description, "pre_tokenizer": steps}).encode("ó")) == 2
