"""Answers by JSON schemas: whatever the model would rather say, they are valid."""

from __future__ import annotations

import json

import pytest

from smelt.errors import ArgumentError
from smelt.llm import Sampling
from smelt.llm.language import LanguageModel
from tests.llm.schemas import schemas, valid
from tests.llm.tiny import Bytes, History, Lines
from tests.turns import one_in

pytest.importorskip("llguidance")


def test_what_is_valid() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}
    assert valid({"a": 1}, schema)
    for value in ({}, {"a": True}, {"a": 1, "b": 2}, [], None):
        assert not valid(value, schema)


def test_answers_to_two_hundred_schemas_are_valid() -> None:
    chosen = one_in(4, list(enumerate(schemas())))
    with LanguageModel("tiny", Bytes(), Lines(), History(slots=3, context=2000, vocabulary=129)) as model:
        for seed, schema in chosen:
            grammar = model.grammars.json_schema(schema)
            # Random weights would write numbers and lists for ever, where the schema has no end for them.
            bias = {ord(letter): 4.0 for letter in '"}]'}
            sampling = Sampling(temperature=1.0, seed=seed, bias=bias)
            answer = model.generate("x", sampling, grammar=grammar, max_tokens=1900)
            assert answer.reason == "stop", (schema, answer.text[:200])
            assert valid(json.loads(answer.text), schema), (schema, answer.text)


def test_what_no_token_can_say_is_an_error_and_no_answer() -> None:
    schema = {"type": "object", "properties": {"größe": {"type": "null"}}, "required": ["größe"]}
    with LanguageModel("tiny", Bytes(), Lines(), History(slots=3, context=200, vocabulary=129)) as model:
        grammar = model.grammars.json_schema(schema | {"additionalProperties": False})
        with pytest.raises(ArgumentError, match="not usable"):
            model.generate("x", Sampling(seed=1), grammar=grammar, max_tokens=50)
