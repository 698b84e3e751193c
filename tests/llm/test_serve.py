"""The server, over real connections on this machine."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from smelt.errors import ArgumentError
from smelt.llm.language import LanguageModel
from smelt.llm.serve import application, bound
from smelt.llm.serve.app import Limits, configured
from tests.llm.tiny import Bytes, History, Lines

uvicorn = pytest.importorskip("uvicorn")
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "seed": 1}


class Reply(NamedTuple):
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]


class Client:
    """Asks one server."""

    def __init__(self, port: int, model: LanguageModel) -> None:
        self.port, self.model = port, model

    def ask(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            given = ({"content-type": "application/json"} if body is not None else {}) | (headers or {})
            connection.request("GET" if body is None else "POST", path, data, given)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())


@contextlib.contextmanager
def served(keys: dict[str, str] | None = None, limits: Limits | None = None, queue: int = 64, **programs: Any):
    everybody = programs.pop("everybody", False)
    made = programs.pop("made", History)(**{"slots": 3, "context": 128, "vocabulary": 129} | programs)
    model = LanguageModel("tiny", Bytes(), Lines(), made, queue)
    with serving_model(model, keys, limits, everybody) as client:
        yield client


@contextlib.contextmanager
def serving_model(model, keys=None, limits=None, everybody=False):
    """A server of a model, which is closed with it."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(configured(application(model, keys, limits, everybody=everybody)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Client(listener.getsockname()[1], model)
    finally:
        server.should_exit = True
        thread.join()
        model.close()
        listener.close()


@pytest.fixture(scope="module")
def client():
    with served() as found:
        yield found


def test_a_chat_is_answered_in_the_shape_of_openai(client):
    reply = client.ask(CHAT, HELLO)
    assert reply.status == 200
    answer = reply.json
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "tiny"
    choice = answer["choices"][0]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("stop", "length")
    usage = answer["usage"]
    assert usage["prompt_tokens"] == len("u:Hello\na:")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert client.ask(CHAT, HELLO).json["choices"] == answer["choices"]  # the same seed


def test_a_stream_has_the_same_text_and_ends_with_its_usage(client):
    whole = client.ask(CHAT, HELLO).json
    reply = client.ask(CHAT, HELLO | {"stream": True, "stream_options": {"include_usage": True}})
    assert reply.headers["content-type"].startswith("text/event-stream")
    *pieces, last = reply.events
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
    assert text == whole["choices"][0]["message"]["content"]
    assert pieces[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert len({piece["id"] for piece in [*pieces, last]}) == 1


def test_several_choices_differ_and_come_in_order(client):
    asked = HELLO | {"n": 3}
    choices = client.ask(CHAT, asked).json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in choices}) == 3
    pieces = client.ask(CHAT, asked | {"stream": True}).events
    for choice in choices:
        own = [piece["choices"][0] for piece in pieces if piece["choices"][0]["index"] == choice["index"]]
        assert "".join(one["delta"].get("content", "") for one in own) == choice["message"]["content"]


def test_texts_and_tokens_go_on(client):
    asked = {"prompt": "Once", "max_tokens": 6, "temperature": 0}
    text = client.ask(TEXT, asked).json
    assert text.get("object") == "text_completion", text
    assert client.ask(TEXT, asked | {"prompt": list(b"Once")}).json["choices"] == text["choices"]
    both = client.ask(TEXT, asked | {"prompt": ["Once", "Twice"]}).json
    assert len(both["choices"]) == 2
    assert both["choices"][0] == text["choices"][0]
    pieces = client.ask(TEXT, asked | {"stream": True}).events
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == text["choices"][0]["text"]


def test_a_text_may_go_on_behind_its_end(client):
    # Only token 128 can come, which ends a text.
    asked = {"prompt": "x", "max_tokens": 5, "temperature": 0, "logit_bias": {"128": 100}}
    ends = client.ask(TEXT, asked).json
    goes_on = client.ask(TEXT, asked | {"ignore_eos": True}).json
    assert ends["choices"][0]["finish_reason"] == "stop"
    assert goes_on["choices"][0]["finish_reason"] == "length"
    assert goes_on["usage"]["completion_tokens"] == 5


def test_stop_strings_end_a_text_before_them(client):
    asked = {"prompt": "abc", "max_tokens": 20, "temperature": 0}
    text = client.ask(TEXT, asked).json["choices"][0]["text"]
    stop = text[3:5]
    reply = client.ask(TEXT, asked | {"stop": stop}).json["choices"][0]
    assert reply["text"] == text[: text.index(stop)]
    assert reply["finish_reason"] == "stop"


def test_log_probabilities(client):
    content = client.ask(CHAT, HELLO | {"logprobs": True, "top_logprobs": 2, "temperature": 0}).json["choices"][0]
    for entry in content["logprobs"]["content"]:
        assert entry["logprob"] <= 0
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        assert len(entry["top_logprobs"]) == 2
    asked = {"prompt": "x", "max_tokens": 4, "logprobs": 1}
    told = client.ask(TEXT, asked).json["choices"][0]["logprobs"]
    assert len(told["tokens"]) == len(told["token_logprobs"]) == len(told["text_offset"])


def test_a_bias_can_force_and_forbid(client):
    asked = {"prompt": "x", "max_tokens": 3}
    assert client.ask(TEXT, asked | {"logit_bias": {"65": 100}}).json["choices"][0]["text"] == "AAA"
    first = client.ask(TEXT, asked | {"temperature": 0}).json["choices"][0]["text"][0]
    other = client.ask(TEXT, asked | {"temperature": 0, "logit_bias": {str(ord(first)): -100}})
    assert first not in other.json["choices"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
def test_json_follows_its_schema(client, stream):
    pytest.importorskip("llguidance")
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "ok": {"type": "boolean"}},
        "required": ["kind", "ok"],
        "additionalProperties": False,
    }
    asked = HELLO | {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        "max_tokens": 60,
        "stream": stream,
    }
    reply = client.ask(CHAT, asked)
    if stream:
        text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in reply.events)
    else:
        assert reply.json["choices"][0]["finish_reason"] == "stop"
        text = reply.json["choices"][0]["message"]["content"]
    found = json.loads(text)
    assert found["kind"] in ("a", "b")
    assert isinstance(found["ok"], bool)


@pytest.mark.parametrize(
    ("path", "change", "status", "words"),
    [
        (CHAT, {"messages": []}, 400, "messages"),
        (CHAT, {"messages": [{"role": "robot", "content": ""}]}, 400, "robot"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "no text"),
        (CHAT, {"messages": None}, 400, "messages is missing"),
        (CHAT, {"temperature": 3}, 400, "temperature"),
        (CHAT, {"temperature": True}, 400, "temperature must be a number"),
        (CHAT, {"temperature": 10**400}, 400, "temperature must be at least"),  # which no float holds
        (CHAT, {"temperature": float("nan")}, 400, "temperature must be at least"),
        (CHAT, {"logit_bias": {"1": -(10**400)}}, 400, "logit_bias must be at least"),
        (CHAT, {"n": 0}, 400, "n must be"),
        (CHAT, {"stop": ["a"] * 5}, 400, "stop"),
        (CHAT, {"stop": ""}, 400, "stop"),
        (CHAT, {"top_logprobs": 2}, 400, "logprobs"),
        (CHAT, {"logit_bias": {"x": 1}}, 400, "logit_bias"),
        (CHAT, {"logit_bias": {"999": 1}}, 400, "999"),
        (CHAT, {"tools": [{}]}, 400, "tools"),
        (CHAT, {"bogus": 1}, 400, "bogus"),
        (CHAT, {"\ud800": 1}, 400, "ud800"),  # half of a surrogate pair, which has no bytes
        (CHAT, {"model": "other"}, 404, "other"),
        (CHAT, {"response_format": {"type": "xml"}}, 400, "response_format"),
        (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}}, 400, "usable"),
        (CHAT, {"messages": [{"role": "user", "content": "x" * 200}]}, 400, "context of 128"),
        (TEXT, {"prompt": []}, 400, "prompt"),
        (TEXT, {"prompt": [1, "a"]}, 400, "prompt"),
        (TEXT, {"prompt": [5000]}, 400, "does not have"),
        (TEXT, {"prompt": ""}, 400, "empty"),
    ],
)
def test_mistakes_are_told_in_the_shape_of_openai(client, path, change, status, words):
    asked = (HELLO if path == CHAT else {"prompt": "x"}) | change
    reply = client.ask(path, asked)
    assert reply.status == status
    error = reply.json["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}


def test_bodies_that_are_no_json_or_too_large_and_places_that_are_not_there(client):
    assert client.ask(CHAT, b"{").status == 400
    assert client.ask(CHAT, b"[" * 100_000).status == 400
    assert client.ask(CHAT, b"7").status == 400
    assert client.ask(CHAT, b" " * (1 << 20) + b"{}").status == 413
    assert client.ask(CHAT, b"{}", {"content-type": "text/plain"}).status == 415
    assert client.ask(CHAT).status == 405
    assert client.ask("/v1/nothing").json["error"]["message"] == "GET /v1/nothing is not here"


def test_embeddings(client):
    reply = client.ask("/v1/embeddings", {"input": [[65, 65, 66], [65, 66]], "model": "tiny"}).json
    assert [one["index"] for one in reply["data"]] == [0, 1]
    assert reply["data"][0]["embedding"][65] == pytest.approx(2 / 5**0.5)
    assert reply["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    packed = client.ask("/v1/embeddings", {"input": "AAB", "encoding_format": "base64"}).json["data"][0]["embedding"]
    found = np.frombuffer(base64.b64decode(packed), "<f4")
    np.testing.assert_allclose(found, reply["data"][0]["embedding"])
    assert client.ask("/v1/embeddings", {"input": []}).status == 400


def test_models_tokens_health_and_metrics(client):
    assert client.ask("/health").json == {"status": "ok"}
    assert [model["id"] for model in client.ask("/v1/models").json["data"]] == ["tiny"]
    assert client.ask("/v1/models/tiny").json["id"] == "tiny"
    assert client.ask("/v1/models/other").status == 404
    assert client.ask("/tokenize", {"text": "AB"}).json == {"tokens": [65, 66]}
    assert client.ask("/detokenize", {"tokens": [65, 66]}).json == {"text": "AB"}
    client.ask(CHAT, HELLO)
    text = client.ask("/metrics").body.decode()
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures["smelt_slots_free"] == "3"
    assert int(figures["smelt_generated_tokens_total"]) > 0
    assert int(figures["smelt_time_to_first_token_seconds_count"]) > 0


def test_a_key_is_asked_for_and_strangers_names_are_refused(client):
    with served(keys={"one": "secret"}) as guarded:
        assert guarded.ask("/health").status == 200
        assert guarded.ask("/v1/models").json["error"]["code"] == "invalid_api_key"
        assert guarded.ask("/v1/models", headers={"authorization": "Bearer wrong"}).status == 401
        assert guarded.ask("/v1/models", headers={"authorization": "Bearer secret"}).status == 200
    for host, status in (("evil.example", 403), ("localhost", 200), ("127.0.0.1", 200), ("[::1]", 200)):
        for port in ("", ":80"):
            assert client.ask("/v1/models", headers={"host": host + port}).status == status
    with served(everybody=True) as open_to_all:
        assert open_to_all.ask("/v1/models", headers={"host": "a.machine.example:80"}).status == 200
    with pytest.raises(ArgumentError, match="SMELT_API_KEY"):
        bound("0.0.0.0", 0, None)
    with bound("127.0.0.1", 0, None) as taken:
        taken.listen()
        for port in (taken.getsockname()[1], 99_999):
            with pytest.raises(ArgumentError, match="cannot be served"):
                bound("127.0.0.1", port, None)


class Held(History):
    """A model that answers when it is let go on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go_on = threading.Semaphore(0)

    def read(self, *arguments: Any) -> Any:
        self.go_on.acquire()
        return super().read(*arguments)

    def extend(self, rows: Any) -> Any:
        self.go_on.acquire()
        return super().extend(rows)


def test_a_full_queue_says_when_to_come_back_and_time_is_bounded(client):
    with served(queue=1) as small:
        reply = small.ask(CHAT, HELLO | {"n": 16})
        assert reply.status == 429
        assert reply.json["error"]["type"] == "rate_limit_error"
        assert int(reply.headers["retry-after"]) >= 1
    with served(limits=Limits(timeout=-1.0, max_tokens=2)) as late:
        assert late.ask(CHAT, HELLO).status == 504
    with served(limits=Limits(max_tokens=2)) as short:
        assert short.ask(TEXT, {"prompt": "x", "max_tokens": 50}).json["usage"]["completion_tokens"] <= 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_is_cancelled(client, stream):
    model, ended, reasons = client.model, threading.Event(), []
    held = Held(slots=model.programs.slots, context=128, vocabulary=129)
    engine, was = model.engine, (model.engine.programs, model.engine.on_end)
    engine.programs = held
    engine.on_end = lambda handle: (reasons.append(handle.reason), ended.set())
    try:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        asked = json.dumps({"prompt": "x", "max_tokens": 100, "stream": stream, "logit_bias": {"65": 100}})
        connection.request("POST", TEXT, asked, {"content-type": "application/json"})
        held.go_on.release(3)
        if stream:
            assert connection.getresponse().read(20)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        while not ended.is_set():  # one step at a time
            held.go_on.release()
            ended.wait(0.01)
    finally:
        engine.programs, engine.on_end = was
        held.go_on.release(100)
    assert reasons == ["cancelled"]
    assert engine.pages.held == 0
