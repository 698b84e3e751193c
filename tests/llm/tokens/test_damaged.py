"""Damaged and hostile descriptions: a tokenizer that works, or an error that says what is wrong."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ParseError
from smelt.llm.tokens import Tokenizer
from tests.llm.tokens.small import byte_level_json, byte_level_metadata, scores_metadata, spaces_json

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 3),
        st.sampled_from([1 << 31, 1 << 32, 1 << 64, -(1 << 63)]),
        st.floats(),
        st.sampled_from(["", " ", "a", "▁", "<s>", "BPE", "Split", "Sequence", "ByteLevel", "llama", "gpt2", "\ud800"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "id", "content", "pattern", "a", "Regex"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all that a description contains; of long lists and dictionaries the first items."""
    if isinstance(value, dict):
        inner = list(value.items())[:12]
    elif isinstance(value, list):
        inner = list(enumerate(value[:3]))
    else:
        inner = []
    return [path] * bool(path) + [found for key, item in inner for found in places(item, (*path, key))]


def damaged(description: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(description)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


def works(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("The dog's <s> 12\n", special=True)
    assert all(0 <= number < tokenizer.size for number in [*ids, *tokenizer.stops])
    assert isinstance(tokenizer.decode(ids, special=True), str)


METADATA = [byte_level_metadata(), scores_metadata()]
DESCRIPTIONS = [byte_level_json("smollm"), spaces_json("prepend"), spaces_json("first")]


@given(st.data(), VALUES)
def test_metadata(data: st.DataObject, value: Any) -> None:
    description = data.draw(st.sampled_from(METADATA))
    changed = damaged(description, data.draw(st.sampled_from(places(description))), value)
    try:
        works(Tokenizer.from_gguf_metadata(changed))
    except ParseError:
        pass


@given(st.data(), VALUES)
def test_json(data: st.DataObject, value: Any) -> None:
    description = data.draw(st.sampled_from(DESCRIPTIONS))
    changed = damaged(description, data.draw(st.sampled_from(places(description))), value)
    try:
        works(Tokenizer.from_tokenizer_json(changed, data.draw(st.sampled_from([None, {}, {"bos_token": value}]))))
    except ParseError:
        pass


@given(VALUES)
def test_anything(value: Any) -> None:
    for make in (Tokenizer.from_gguf_metadata, Tokenizer.from_tokenizer_json):
        try:
            works(make(value))
        except ParseError:
            pass
