"""Calls of functions: found in what models write, forced by a grammar, and told in OpenAI's shape."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from smelt.errors import ArgumentError
from smelt.llm.tools import FORMS, Calls, form_of, grammar
from tests.llm.test_serve import CHAT, served
from tests.llm.tiny import Bytes, History

FORM = {form.name: form for form in FORMS}
WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"$ref": "#/$defs/few"}},
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"few": {"type": "integer", "minimum": 1, "maximum": 3}},
    },
}
TIME = {"name": "time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}
TOOLS = [{"type": "function", "function": one} for one in (WEATHER, TIME)]
TEMPLATES = {
    "hermes": "{% if tools %}{{ tools }} <tool_call> {% endif %}",
    "mistral": "{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]",
    "llama3": '{% if tools is not none %}{"name": x, "parameters": y}{% endif %} Environment: ipython',
}
# what Python reads, and what is no JSON
NO_JSON = [f'<tool_call>{{"name": "time", "arguments": {{"x": {x}}}}}</tool_call>' for x in ("NaN", "1e999")]
# what a model writes, and what is told of it: text, and names with arguments
WRITTEN: dict[str, list[tuple[str, str, list[tuple[str, Any]]]]] = {
    "hermes": [
        ("Sunny.", "Sunny.", []),
        ('<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>', "", [("weather", "Oslo")]),
        ('Well. <tool_call>{"name": "time"}</tool_call>', "Well. ", [("time", None)]),
        ('<tool_call>{"name": "time"}', "", [("time", None)]),  # whose end was forgotten
        (
            '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>\n'
            '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Rome\\"}"}</tool_call>',
            "",
            [("weather", "Oslo"), ("weather", "Rome")],
        ),
        ("<tool_call>{broken</tool_call> so", "<tool_call>{broken</tool_call> so", []),
        ('<tool_call>{"name": "rm"}</tool_call>', '<tool_call>{"name": "rm"}</tool_call>', []),
        ("a <tool", "a <tool", []),
        ("<tool_call>" + "[" * 5000, "<tool_call>" + "[" * 5000, []),
        *((written, written, []) for written in NO_JSON),
    ],
    "mistral": [
        ("Sunny [TOOL].", "Sunny [TOOL].", []),
        ('[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Oslo"}}]', "", [("weather", "Oslo")]),
        ('[TOOL_CALLS] [{"name": "time", "arguments": {}}, {"name": "time"}]', "", [("time", None), ("time", None)]),
        ("[TOOL_CALLS]nothing", "[TOOL_CALLS]nothing", []),
    ],
    "llama3": [
        ("Sunny {x}.", "Sunny {x}.", []),
        ('{"name": "weather", "parameters": {"city": "Oslo"}}', "", [("weather", "Oslo")]),
        (
            '\n<|python_tag|>{"name": "time", "parameters": {}}; {"name": "time"}',
            "\n",
            [("time", None), ("time", None)],
        ),
        ('{"a": 1}', '{"a": 1}', []),
        ('It is {"name": "time"}', 'It is {"name": "time"}', []),
    ],
}
CASES = [(name, *case) for name, cases in WRITTEN.items() for case in cases]


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize(("name", "written", "text", "called"), CASES)
def test_calls_are_found_however_the_text_is_cut(
    name: str, written: str, text: str, called: list[tuple[str, Any]], size: int
) -> None:
    calls = Calls(FORM[name], ["weather", "time"])
    said, found = "", []
    for place in range(0, len(written), size):
        more, new = calls.feed(written[place : place + size])
        said, found = said + more, found + new
    more, new = calls.close()
    assert said + more == text
    assert [(one.name, json.loads(one.arguments).get("city")) for one in found + new] == called
    assert calls.count == len(called)
    assert all(len(one.id) == 9 and one.id.isalnum() for one in found + new)


def test_text_that_is_no_call_is_not_held_back() -> None:
    calls = Calls(FORM["hermes"], ["time"])
    assert calls.feed("It is <b>") == ("It is <b>", [])
    assert calls.feed(" <tool") == (" ", [])
    assert calls.feed("box>") == ("<toolbox>", [])


def test_the_form_follows_from_the_template() -> None:
    for name, template in TEMPLATES.items():
        assert form_of(template).name == name
    for template, words in (("{{ messages }} <tool_call>", "no tools"), ("{{ tools }}", "not known"), ("", "no tools")):
        with pytest.raises(ArgumentError, match=words):
            form_of(template)


class Template:
    """A chat template that tells of tools, as text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.heard: list[Any] = []

    def prompt(self, messages: Sequence[Any], tools: Sequence[Any] | None = None) -> list[int]:
        self.heard.append((messages, tools))
        return list(b"?")


class Says(History):
    """A model that writes a given text, and ends."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.text = text

    def _logits(self, slot: int, position: int) -> np.ndarray:
        logits = np.zeros(self.vocabulary, np.float32)
        logits[self.text.encode()[position] if position < len(self.text) else 128] = 100
        return logits


class Letters(Bytes):
    """Bytes, with names of control tokens."""

    control = {"<end>": 128}  # noqa: RUF012


@contextlib.contextmanager
def saying(text: str, form: str = "hermes", **options: Any) -> Iterator[tuple[Any, Template]]:
    with served(made=Says, text=text, context=512, **options) as client:
        client.model.template, client.model.tokenizer = Template(TEMPLATES[form]), Letters()
        yield client, client.model.template


ASKED = {"messages": [{"role": "user", "content": "How is it?"}], "tools": TOOLS, "temperature": 0}


@pytest.mark.parametrize("form", list(FORM))
def test_a_call_has_the_shape_of_openai_whole_and_in_a_stream(form: str) -> None:
    _, written, *_ = next(case for case in CASES if case[0] == form and case[3])
    with saying(written, form) as (client, template):
        choice = client.ask(CHAT, ASKED).json["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] is None
        (call,) = choice["message"]["tool_calls"]
        assert call["type"] == "function"
        assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
        assert template.heard[0][1] == tuple(TOOLS)
        *pieces, last = client.ask(CHAT, ASKED | {"stream": True}).events
        assert last["choices"][0]["finish_reason"] == "tool_calls"
        deltas = [piece["choices"][0]["delta"] for piece in pieces]
        assert not any(delta.get("content") for delta in deltas)
        (told,) = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
        assert told[0]["index"] == 0
        assert told[0]["function"] == call["function"]
        # Told of no tools, the same words are text.
        plain = client.ask(CHAT, ASKED | {"tool_choice": "none"}).json["choices"][0]
        assert plain["message"]["content"] == written
        assert plain["finish_reason"] == "stop"
        assert not template.heard[-1][1]


def test_an_answer_that_was_cut_is_no_call() -> None:
    with saying('<tool_call>{"name": "time"}</tool_call>') as (client, _):
        choice = client.ask(CHAT, ASKED | {"max_tokens": 20}).json["choices"][0]
        assert choice["finish_reason"] == "length"
        assert choice["message"]["content"] == '<tool_call>{"name": '
        assert "tool_calls" not in choice["message"]


def test_several_calls_only_where_they_are_wanted() -> None:
    with saying(WRITTEN["hermes"][4][0]) as (client, _):
        for wanted, count in ((True, 2), (False, 1)):
            asked = ASKED | {"parallel_tool_calls": wanted}
            assert len(client.ask(CHAT, asked).json["choices"][0]["message"]["tool_calls"]) == count
            pieces = [piece["choices"][0]["delta"] for piece in client.ask(CHAT, asked | {"stream": True}).events]
            assert [one["tool_calls"][0]["index"] for one in pieces if "tool_calls" in one] == list(range(count))


def test_templates_hear_of_calls_and_results() -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "time", "arguments": '{"zone": 1}'}}
    messages = [
        *ASKED["messages"],  # type: ignore[misc]
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "noon"},
    ]
    with saying("Noon.") as (client, template):
        assert client.ask(CHAT, ASKED | {"messages": messages}).json["choices"][0]["message"]["content"] == "Noon."
        _, asked, told = template.heard[-1][0]
        assert asked["tool_calls"][0]["function"] == {"name": "time", "arguments": {"zone": 1}}
        assert told == {"role": "tool", "content": "noon", "tool_call_id": "abcdefghi"}


def test_half_of_a_character_in_arguments_stays_an_escape() -> None:
    written = '{"x": "\\ud800", "y": "\u00e9"}'
    for given in (written, json.dumps(written)):
        calls = Calls(FORM["hermes"], ["time"])
        _, (call,) = calls.feed(f'<tool_call>{{"name": "time", "arguments": {given}}}</tool_call>')
        assert call.arguments == written
    with saying('<tool_call>{"name": "time", "arguments": {"x": "\\ud800"}}</tool_call>') as (client, _):
        (call,) = client.ask(CHAT, ASKED).json["choices"][0]["message"]["tool_calls"]
        assert call["function"]["arguments"] == '{"x": "\\ud800"}'
        assert client.ask(CHAT, ASKED | {"stream": True}).events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_arguments_are_an_object_whatever_their_schema_says() -> None:
    pytest.importorskip("llguidance")
    listed = {"type": "function", "function": {"name": "time", "parameters": {"type": "array"}}}
    with served(context=512) as client:
        client.model.tokenizer, client.model.template = Letters(), Template(TEMPLATES["hermes"])
        asked = ASKED | {"tools": [listed], "tool_choice": "required", "max_tokens": 300, "logit_bias": {"125": 100}}
        (call,) = client.ask(CHAT, asked).json["choices"][0]["message"]["tool_calls"]
        assert call["function"]["arguments"] == "{}"


def test_forced_calls_follow_the_schemas() -> None:
    pytest.importorskip("llguidance")
    named = {"type": "function", "function": {"name": "weather"}}
    with served(context=512) as client:
        client.model.tokenizer = Letters()
        for template in TEMPLATES.values():
            client.model.template = Template(template)
            for choice, names in ((named, {"weather"}), ("required", {"weather", "time"})):
                for seed in range(3):
                    asked = ASKED | {"tool_choice": choice, "temperature": 1, "seed": seed, "max_tokens": 300}
                    found = client.ask(CHAT, asked).json["choices"][0]
                    assert found["finish_reason"] == "tool_calls", found
                    (call,) = found["message"]["tool_calls"]
                    arguments = json.loads(call["function"]["arguments"])
                    assert call["function"]["name"] in names
                    if call["function"]["name"] == "weather":
                        assert arguments["city"] in ("Oslo", "Rome")
                        assert arguments.get("days", 1) in (1, 2, 3)
                    else:
                        assert arguments == {}


def test_marks_that_are_control_tokens_are_no_text() -> None:
    assert "<[7]>" in grammar(FORM["mistral"], [TIME], {"[TOOL_CALLS]": 7})
    assert '"[TOOL_CALLS]"' in grammar(FORM["mistral"], [TIME], {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": [{}]}, "tools must have a function"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "two functions of the same name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools must have a function"),
        ({"tools": [{"type": "function", "function": {"name": 7}}]}, "tools must have a function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools must have a function"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": 7}}]}, "JSON schema"),
        ({"tools": TOOLS * 100}, "at most 128"),
        ({"tool_choice": "always"}, "tool_choice must be"),
        ({"tool_choice": {"type": "function", "function": {"name": "rm"}}}, "there is no tool 'rm'"),
        ({"tools": [], "tool_choice": "required"}, "there is no tool"),
        ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "cannot be both"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "message 0 has a tool call"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": "{"}}]}]},
            "no JSON",
        ),
    ],
)
def test_mistakes_about_tools_are_told(change: dict[str, Any], words: str) -> None:
    with saying("Hello") as (client, _):
        reply = client.ask(CHAT, ASKED | change)
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
        assert words in reply.json["error"]["message"]


def test_a_model_without_tools_refuses_them() -> None:
    with served() as client:
        client.model.template.text = "{{ messages }}"
        reply = client.ask(CHAT, ASKED)
        assert reply.status == 400
        assert "this model has no tools" in reply.json["error"]["message"]
        assert client.ask(CHAT, ASKED | {"tools": []}).status == 200
        assert client.ask(CHAT, ASKED | {"tool_choice": "none"}).status == 200


def test_the_official_client_calls_tools() -> None:
    openai = pytest.importorskip("openai")
    with contextlib.ExitStack() as stack:
        client, _ = stack.enter_context(saying(WRITTEN["hermes"][4][0]))
        with openai.OpenAI(base_url=f"http://127.0.0.1:{client.port}/v1", api_key="none") as api:
            whole = api.chat.completions.create(model="tiny", **ASKED).choices[0]
            assert whole.finish_reason == "tool_calls"
            assert [json.loads(one.function.arguments) for one in whole.message.tool_calls] == [
                {"city": "Oslo"},
                {"city": "Rome"},
            ]
            with api.chat.completions.stream(model="tiny", **ASKED) as stream:
                final = stream.get_final_completion().choices[0]
            assert [one.function.name for one in final.message.tool_calls] == ["weather", "weather"]
            assert final.finish_reason == "tool_calls"


def test_the_official_client_forces_a_call_of_a_random_model() -> None:
    openai = pytest.importorskip("openai")
    pytest.importorskip("llguidance")
    from smelt.llm import load
    from smelt.llm.chat import ChatTemplate
    from smelt.llm.language import LanguageModel
    from tests.llm.conversations import TEMPLATES as REAL
    from tests.llm.test_serve import serving_model

    with load("random:tiny", slots=1, context=1024) as loaded:
        template = ChatTemplate(REAL["tools"], loaded.tokenizer, trusted=True)
        model = LanguageModel("tiny", loaded.tokenizer, template, loaded.programs)
        with (
            serving_model(model) as client,
            openai.OpenAI(base_url=f"http://127.0.0.1:{client.port}/v1", api_key="none") as api,
        ):
            named = {"type": "function", "function": {"name": "weather"}}
            made = api.chat.completions.create(model="tiny", tool_choice=named, **ASKED, max_tokens=200).choices[0]
            assert made.finish_reason == "tool_calls"
            assert json.loads(made.message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Rome")
