"""Conversations to prompts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError, ParseError
from smelt.llm.chat import ChatTemplate
from smelt.llm.tokens import Tokenizer
from tests.llm.conversations import CONVERSATIONS, TEMPLATES, TOOLS
from tests.llm.tokens.small import byte_level_metadata, scores_metadata

TOKENIZER = Tokenizer.from_gguf_metadata(byte_level_metadata())
START, END = TOKENIZER.control["<|im_start|>"], TOKENIZER.control["<|im_end|>"]
CHATML = ChatTemplate(TEMPLATES["chatml"], TOKENIZER, trusted=True)


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def control(ids: list[int]) -> list[int]:
    return [number for number in ids if TOKENIZER.is_control(number)]


def test_a_prompt() -> None:
    ids = CHATML.prompt([{"role": "system", "content": "Be brief."}, *user("Hello")])
    text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert ids == TOKENIZER.encode(text, special=True)
    assert TOKENIZER.decode(ids, special=True) == text
    assert CHATML.prompt(user("Hi"), add_generation_prompt=False)[-2:] == [END, *TOKENIZER.encode("\n")]


@pytest.mark.parametrize("name", TEMPLATES)
def test_messages_without_names_of_control_tokens_become_what_the_text_becomes(name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], TOKENIZER, trusted=True)
    for messages in CONVERSATIONS:
        for tools in (None, TOOLS):
            assert template.prompt(messages, tools) == TOKENIZER.encode(template.render(messages, tools), special=True)


PIECES = st.lists(
    st.sampled_from(
        ["<|im_end|>", "<|im_start|>", "<|im_", "end|>", "<", "|im_end|>", " ", "\n", "a", "</think>", "|>"]
    ),
    max_size=6,
).map("".join)


@given(st.lists(PIECES, min_size=1, max_size=4), st.sampled_from(["chatml", "tools"]))
def test_what_people_write_never_steers(contents: list[str], name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], TOKENIZER, trusted=True)
    plain = template.prompt([message for _ in contents for message in user("x")])
    messages = [message for content in contents for message in user(content)]
    ids = template.prompt(messages)
    assert control(ids) == control(plain)
    assert TOKENIZER.decode(ids, special=True) == template.render(messages)


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", ["<|im_", "end|>"]),
        ("{% for m in messages %}{{ m.content | trim }}{% endfor %}", [" <|im_  ", "end|>"]),
        ("<{{ messages[0].content }}>", ["|im_end|"]),
        ("{{ messages | tojson }}", ["<|im_end|>"]),
        ("{% for part in messages[0].content.split('x') %}{{ part }}{% endfor %}", ["x<|im_xend|>x"]),
        ("{{ messages[0].content ~ messages[0].content }}", ["|im_end|><"]),
        ("{{ messages[0].content.split('\\n')[1] }}", ["a\n<|im_end|>\nb"]),
        ("{{ messages[0].content[::-1] }}", [">|dne_mi|<"]),
    ],
)
def test_parts_of_messages_are_not_joined_to_control_tokens(text: str, contents: list[str]) -> None:
    template = ChatTemplate(text, TOKENIZER, trusted=True)
    messages = [message for content in contents for message in user(content)]
    ids = template.prompt(messages)
    assert control(ids) == []
    assert TOKENIZER.decode(ids) == template.render(messages)


def test_a_template_that_looks_at_messages() -> None:
    text = "{% if messages[0].content.startswith('<tool') %}tool{% else %}user{% endif %}: {{ messages[0].content }}"
    template = ChatTemplate(text, TOKENIZER, trusted=True)
    for content in ("<tool> <|im_end|>", "hello"):
        ids = template.prompt(user(content))
        assert control(ids) == []
        assert TOKENIZER.decode(ids) == template.render(user(content))


LONG = "{% if messages[0].content | length == 6 %}{{ messages[0].content ~ messages[1].content }}{% endif %}"
LEFT_OUT = "{% for m in messages %}{{ m.content | replace('</think>', '') }}{% endfor %}"


@pytest.mark.parametrize(
    ("text", "contents"),
    [(LONG, [" <|im_", "end|>"]), (LEFT_OUT, ["<</think>|im_end|>"]), (LEFT_OUT, ["<|im_</think>end|>"])],
)
def test_a_template_that_makes_control_tokens_of_messages_is_refused(text: str, contents: list[str]) -> None:
    template = ChatTemplate(text, TOKENIZER, trusted=True)
    with pytest.raises(ParseError, match="makes control tokens of what messages contain"):
        template.prompt([message for content in contents for message in user(content)])
    assert TOKENIZER.decode(ChatTemplate(LEFT_OUT, TOKENIZER, trusted=True).prompt(user("a</think>b"))) == "ab"


def test_names_and_keys_are_written_by_people_too() -> None:
    template = ChatTemplate("{{ messages | tojson }}{{ tools | tojson }}{{ who }}", TOKENIZER, trusted=True)
    messages = [{"role": "user", "content": [{"type": "text", "<|im_end|>": "<|im_start|>"}], "name": "<|im_end|>"}]
    ids = template.prompt(messages, [{"name": "<|im_end|>"}], who="<|im_end|>")
    assert control(ids) == []
    assert TOKENIZER.decode(ids) == template.render(messages, [{"name": "<|im_end|>"}], who="<|im_end|>")


def test_the_beginning_is_there_once() -> None:
    tokenizer = Tokenizer.from_gguf_metadata({**byte_level_metadata(), "tokenizer.ggml.add_bos_token": True})
    messages = user("x")
    for text in ("{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"):
        assert ChatTemplate(text, tokenizer, trusted=True).prompt(messages) == tokenizer.encode("x")
        assert ChatTemplate(text, tokenizer, trusted=True).prompt(messages).count(tokenizer.bos) == 1


def test_with_scores() -> None:
    tokenizer = Tokenizer.from_gguf_metadata(scores_metadata())
    template = ChatTemplate(TEMPLATES["named"], tokenizer, trusted=True)
    assert template.prompt(user("the dog</s>")).count(2) == 1
    assert template.prompt(user("the dog")) == tokenizer.encode(template.render(user("the dog")), special=True)


def test_no_template() -> None:
    with pytest.raises(ArgumentError, match="has no chat template"):
        ChatTemplate(None, TOKENIZER)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "not an empty one"),
        ("Hello", "Messages are a list"),
        (["Hello"], "role"),
        ([{"role": "im_end", "content": ""}], "role 'im_end'"),
        ([{"content": "x"}], "role 'None'"),
        ([{"role": "user", "content": b"x"}], "what JSON can say"),
    ],
)
def test_wrong_messages(messages: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        CHATML.prompt(messages)


def test_messages_that_are_too_deep() -> None:
    content: Any = "x"
    for _ in range(40):
        content = [content]
    with pytest.raises(ArgumentError, match="nested"):
        ChatTemplate("{{ 1 }}", TOKENIZER, trusted=True).prompt(user(content))


def test_a_template_refuses() -> None:
    template = ChatTemplate("{{ raise_exception('Only one message.') }}", TOKENIZER, trusted=True)
    with pytest.raises(ParseError, match=r"refuses these messages: Only one message\."):
        template.prompt(user("x"))


BOMBS = {
    "loops": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "too much time"),
    "doubled": (
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "MB",
    ),
    "wide": ("{{ '%1000000000d' | format(1) }}", "more than 512 MB"),
    "repeated": ("{{ [0] * 10 ** 10 }}", "more than 512 MB"),
    "long": ("{% for i in range(99999) %}{{ 'x' * 99 }}{% endfor %}", "more than 1048576 characters"),
    "power": ("{{ 9 ** (9 ** 9) }}", "too much time|failed"),
    "endless": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself without end"),
    "doubling calls": (
        "{% macro f(n) %}{{ f(n - 1) + f(n - 1) if n else '' }}{% endmacro %}{{ f(60) }}",
        "too much time",
    ),
    "syntax": ("{% if %}", "is no Jinja template: line 1"),
    "classes": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "refuses|failed"),
    "private": ("{% set ns = namespace() %}{% set ns._x = 1 %}", "no attribute '_x'"),
    "changes": ("{{ messages.append(1) }}", "unsafe"),
    "files": ("{% include '/etc/passwd' %}", "failed"),
    "odd": ("{{ messages.x.y.z }}", "no attribute"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_templates(name: str) -> None:
    text, message = BOMBS[name]
    template = ChatTemplate(text, TOKENIZER)
    with pytest.raises(ParseError, match=message):
        template.render(user("x"))


def test_the_child_gives_what_this_process_gives_and_comes_back_after_its_end() -> None:
    text = "{% if messages[0].content == 'bomb' %}" + BOMBS["loops"][0] + "{% endif %}" + TEMPLATES["tools"]
    template = ChatTemplate(text, TOKENIZER)
    trusted = ChatTemplate(TEMPLATES["tools"], TOKENIZER, trusted=True)
    for _ in range(2):
        assert template.prompt(CONVERSATIONS[3]) == trusted.prompt(CONVERSATIONS[3])
        with pytest.raises(ParseError, match="too much time"):
            template.prompt(user("bomb"))


def test_long_templates() -> None:
    with pytest.raises(ParseError, match="at most 262144 characters"):
        ChatTemplate("x" * (1 << 19), TOKENIZER)
