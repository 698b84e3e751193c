"""The official client of OpenAI's API against `smelt serve`'s application."""

from __future__ import annotations

import json

import pytest

from tests.llm.test_serve import served

pytestmark = pytest.mark.peers
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def openai():
    """Clients without a key, and with one."""
    module = pytest.importorskip("openai")
    with served(keys={"one": "secret"}, vocabulary=129) as client:
        base = f"http://127.0.0.1:{client.port}/v1"
        with module.OpenAI(base_url=base, api_key="secret", max_retries=0) as asking:
            yield module, asking


def test_chat(openai):
    _, client = openai
    answer = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=5, seed=1)
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    again = client.chat.completions.create(model="tiny", messages=HELLO, max_completion_tokens=5, seed=1)
    assert again.choices[0].message.content == answer.choices[0].message.content


def test_chat_as_a_stream(openai):
    _, client = openai
    options = {"model": "tiny", "messages": HELLO, "max_tokens": 5, "seed": 1}
    whole = client.chat.completions.create(**options).choices[0].message.content
    stream = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole
    assert chunks[-1].usage.completion_tokens >= 1


def test_a_stream_that_is_left_early_and_the_next_request(openai):
    _, client = openai
    with client.chat.completions.create(model="tiny", messages=HELLO, stream=True, max_tokens=50) as stream:
        next(iter(stream))
    assert client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=1).choices


def test_logprobs_choices_stops_and_biases(openai):
    _, client = openai
    answer = client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=4, n=2, logprobs=True, top_logprobs=3, stop=["zz"], temperature=0.5,
        logit_bias={65: 5}, presence_penalty=0.5, frequency_penalty=0.5, user="me",
    )  # fmt: skip
    assert len(answer.choices) == 2
    for choice in answer.choices:
        assert all(len(entry.top_logprobs) == 3 for entry in choice.logprobs.content)


def test_json_by_a_schema(openai):
    _, client = openai
    schema = {
        "type": "object",
        "properties": {"yes": {"type": "boolean"}},
        "required": ["yes"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=40,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
    )  # fmt: skip
    assert set(json.loads(answer.choices[0].message.content)) == {"yes"}


def test_texts(openai):
    _, client = openai
    answer = client.completions.create(model="tiny", prompt=["Once", "Twice"], max_tokens=3, logprobs=2)
    assert len(answer.choices) == 2
    assert len(answer.choices[0].logprobs.tokens) <= 3
    pieces = client.completions.create(model="tiny", prompt="Once", max_tokens=3, stream=True)
    assert all(piece.object == "text_completion" for piece in pieces)


def test_models(openai):
    _, client = openai
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "smelt"


def test_errors_have_the_types_of_the_client(openai):
    module, client = openai
    with pytest.raises(module.BadRequestError, match="temperature"):
        client.chat.completions.create(model="tiny", messages=HELLO, temperature=9)
    with pytest.raises(module.BadRequestError) as caught:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x" * 500}])
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(module.NotFoundError):
        client.chat.completions.create(model="other", messages=HELLO)
    with pytest.raises(module.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


def test_the_client_that_does_not_wait(openai):
    import asyncio

    module, client = openai

    async def ask() -> list[str | None]:
        async with module.AsyncOpenAI(base_url=str(client.base_url), api_key="secret", max_retries=0) as many:
            create = many.chat.completions.create
            asked = [create(model="tiny", messages=HELLO, max_tokens=4, seed=seed) for seed in range(6)]
            return [answer.choices[0].message.content for answer in await asyncio.gather(*asked)]

    together = asyncio.run(ask())
    for seed, text in enumerate(together):
        alone = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=4, seed=seed)
        assert alone.choices[0].message.content == text


# What a client may ask for besides, each of which is answered; `json` stands for a format.
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
JSON = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]
TURNS = [{"role": "developer", "content": "Be brief."}, *HELLO, {"role": "assistant", "content": "Hi"}, *HELLO]
CHATS = {
    "greedy": {"temperature": 0},
    "top_p": {"top_p": 0.5, "temperature": 1.5},
    "penalties": {"presence_penalty": 1.0, "frequency_penalty": -1.0},
    "bias": {"logit_bias": {"65": -100, "66": 10}},
    "seed": {"seed": 2**40},
    "one stop": {"stop": "e"},
    "four stops": {"stop": ["a", "b", "c", "d"]},
    "two choices": {"n": 2},
    "logprobs": {"logprobs": True},
    "top logprobs": {"logprobs": True, "top_logprobs": 5},
    "text": {"response_format": {"type": "text"}},
    "object": {"response_format": {"type": "json_object"}, "logit_bias": {"125": 20}},
    "schema": {"response_format": JSON, "max_completion_tokens": 40},
    "no tools": {"tools": [], "tool_choice": "none"},
    "stored": {"store": False, "metadata": {"a": "b"}, "user": "me", "service_tier": "auto"},
    "parts": {"messages": PARTS},
    "turns": {"messages": TURNS},
    "more of ours": {"extra_body": {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CHATS)
def test_what_clients_may_ask_for(openai, name, stream):
    _, client = openai
    asked = {"model": "tiny", "messages": HELLO, "max_completion_tokens": 6, "seed": 1} | CHATS[name]
    whole = client.chat.completions.create(**asked)
    texts = [choice.message.content for choice in whole.choices]
    if stream:
        parts = [""] * len(texts)
        for chunk in client.chat.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                parts[choice.index] += choice.delta.content or ""
        assert parts == texts
    assert all(choice.finish_reason in ("stop", "length") for choice in whole.choices)
    assert len(whole.choices) == asked.get("n", 1)
    if name == "schema":
        assert json.loads(texts[0])["a"] in (1, 2)


def test_embeddings(openai):
    _, client = openai
    floats, packed = (
        client.embeddings.create(model="tiny", input=["AAB", "B"], encoding_format=form) for form in ("float", "base64")
    )
    assert len(floats.data) == 2
    default = client.embeddings.create(model="tiny", input="AAB")  # which the client asks for as base64, and unpacks
    assert default.data[0].embedding == pytest.approx(floats.data[0].embedding)
    assert isinstance(packed.data[0].embedding, str)
