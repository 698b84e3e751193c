"""Tokens in, text out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError
from smelt.llm.tokens import TextStream, Tokenizer
from tests.llm.tokens.small import byte_level_metadata

TOKENIZER = Tokenizer.from_gguf_metadata(byte_level_metadata())


def streamed(text: str, stops: list[str]) -> tuple[list[str], TextStream]:
    stream = TextStream(TOKENIZER, stops)
    # One byte each: the hardest way to cut characters and stop strings.
    single = {TOKENIZER.piece(number): number for number in range(256)}
    shown = [stream.feed(single[bytes([byte])]) for byte in text.encode()]
    return [*shown, stream.close()], stream


@given(st.text("ab🦙é\n", max_size=20), st.lists(st.text("ab🦙", min_size=1, max_size=3), max_size=3))
def test_all_before_the_first_stop_string_comes_out(text: str, stops: list[str]) -> None:
    shown, stream = streamed(text, stops)
    # The first that is complete ends the answer: nobody waits for a longer one.
    ends = [(text.find(stop) + len(stop), stop) for stop in stops if stop in text]
    if not ends:
        assert ("".join(shown), stream.stopped) == (text, None)
        return
    end = min(ends)[0]
    assert stream.stopped is not None
    assert "".join(shown) + stream.stopped == text[:end]


@given(st.text(max_size=30))
def test_characters_come_whole(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    shown, _ = streamed(text, [])
    assert "".join(shown) == text
    assert all("�" not in piece for piece in shown) or "�" in text


def test_what_could_be_a_stop_string_is_held_back() -> None:
    stream = TextStream(TOKENIZER, ["END"])
    letter = {TOKENIZER.piece(number).decode("latin-1"): number for number in range(256)}
    assert [stream.feed(letter[each]) for each in "aENxEND"] == ["a", "", "", "ENx", "", "", ""]
    assert (stream.stopped, stream.rest, stream.close()) == ("END", "", "")
    assert stream.feed(letter["a"]) == ""


def test_what_stands_behind_a_stop_string() -> None:
    stream = TextStream(TOKENIZER, ["u"])
    token = TOKENIZER.encode(" quick")
    assert len(token) < 6
    assert "".join(map(stream.feed, token)) == " q"
    assert stream.rest == TOKENIZER.piece(token[0]).decode().partition("u")[2]


def test_half_a_character_at_the_end() -> None:
    stream = TextStream(TOKENIZER)
    number = next(number for number in range(256) if TOKENIZER.piece(number) == b"\xf0")
    assert (stream.feed(number), stream.close()) == ("", "�")


def test_control_tokens_have_no_text() -> None:
    assert TextStream(TOKENIZER).feed(TOKENIZER.control["<|im_end|>"]) == ""


@pytest.mark.parametrize("stops", [[""], ["a"] * 3 + [None], [str(number) for number in range(100)]])
def test_wrong_stop_strings(stops: list[str]) -> None:
    with pytest.raises(ArgumentError, match="Stop strings"):
        TextStream(TOKENIZER, stops)
