"""A hosted API beside a model here; what is asked is smelt's own server on this machine, or one that misbehaves."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from smelt.cli import main
from smelt.errors import ArgumentError, ParseError
from smelt.llm import hosted, load
from smelt.llm.hosted import Hosted, found_in
from tests.llm.test_serve import served

HELLO = [{"role": "user", "content": "Hello"}]
NAMES = (hosted.URL, hosted.KEY, "OPENAI_BASE_URL", *hosted.PROVIDERS)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_our_own_server_is_asked_as_a_hosted_one() -> None:
    with served(keys={"one": "secret"}) as client:
        api = Hosted(f"http://127.0.0.1:{client.port}/v1", "secret")
        assert api.models() == ["tiny"]
        pieces: list[str] = []
        said = api.say("tiny", HELLO, 6, pieces.append)
        asked = {"messages": HELLO, "max_tokens": 6, "temperature": 0}
        whole = client.ask("/v1/chat/completions", asked, {"authorization": "Bearer secret"}).json
        assert said.text == "".join(pieces) == whole["choices"][0]["message"]["content"]
        assert said.tokens == whole["usage"]["completion_tokens"]
        assert 0 < said.first <= said.seconds
        with pytest.raises(ArgumentError, match="answers 401: the API key"):
            Hosted(f"http://127.0.0.1:{client.port}/v1", "wrong").models()
        with pytest.raises(ArgumentError, match="has no model 'other'"):
            hosted.chosen(api, "other")


def test_both_are_asked_the_same() -> None:
    with served() as client, load("random:tiny", context=64) as model:
        api = Hosted(f"http://127.0.0.1:{client.port}/v1")
        ours, theirs = hosted.compared(model, api, "tiny", "Hi", 4)
        assert ours.row()["tokens"] == 4
        assert theirs.who == "127.0.0.1: tiny"
        assert set(ours.row()) == set(theirs.row())


@contextmanager
def misbehaving(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Iterator[tuple[str, list[Any]]]:
    asked: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                pass  # they have seen enough

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_time_info_is_passed_on() -> None:
    events = [
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {"reasoning": "Hm. "}}]},
        {"choices": [{"delta": {"content": "Yes"}}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 7}, "time_info": {"completion_time": 0.5}},
    ]
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events) + b": hi\ndata: [DONE]\n\n"
    with misbehaving(body) as (url, asked):
        said = Hosted(url, "key").say("m", HELLO, 3)
    assert (said.text, said.prompt_tokens, said.tokens) == ("Hm. Yes", 3, 7)
    assert said.row()["time_info"] == {"completion_time": 0.5}
    assert asked == [("/v1/chat/completions", "Bearer key")]


@pytest.mark.parametrize(
    ("body", "status", "error", "words"),
    [
        (b"nonsense", 200, ParseError, "does not list"),
        (b'{"data": 7}', 200, ParseError, "does not list"),
        (b"[" * 100_000, 200, ParseError, "does not list"),
        (b'{"error": {"message": "too many"}}', 429, ArgumentError, "answers 429: too many"),
        (b"", 500, ArgumentError, "answers 500: without a reason"),
        (b" " * (hosted._MOST_BYTES + 1), 200, ParseError, "does not list"),
    ],
)
def test_answers_that_are_none(body: bytes, status: int, error: type[Exception], words: str) -> None:
    with misbehaving(body, status) as (url, _), pytest.raises(error, match=words):
        Hosted(url).models()


def test_streams_that_are_none() -> None:
    for line in (
        b"data: [7]\n\n",
        b"data: {\n\n",
        b'data: {"choices": [{"delta": 7}]}\n\n',
        b'data: {"choices": 7}\n\n',
    ):
        with misbehaving(line) as (url, _):
            assert Hosted(url).say("m", HELLO, 3).text == ""
    with (
        misbehaving(b"data: " + b"x" * (hosted._MOST_LINE + 1)) as (url, _),
        pytest.raises(ParseError, match="more than"),
    ):
        Hosted(url).say("m", HELLO, 3)
    with misbehaving(b'data: {"error": {"message": "no"}}\n\n') as (url, _), pytest.raises(ArgumentError, match="no"):
        Hosted(url).say("m", HELLO, 3)


def test_nobody_is_followed_elsewhere() -> None:
    with misbehaving(b"{}") as (other, asked):
        with misbehaving(b"", 302, {"location": other}) as (url, _), pytest.raises(ArgumentError, match="302"):
            Hosted(url, "secret").models()
        assert asked == []


def test_keys_go_to_their_own_address_only() -> None:
    assert found_in({}) is None
    assert found_in({}, "https://api.example/v1") is None
    cerebras = found_in({"CEREBRAS_API_KEY": "a", "OPENAI_API_KEY": "b"})
    assert cerebras is not None
    assert (cerebras.name, cerebras._key) == ("api.cerebras.ai", "a")
    assert found_in({"CEREBRAS_API_KEY": "a"}, "https://evil.example/v1") is None
    own = found_in({"CEREBRAS_API_KEY": "a", hosted.KEY: "c"}, "https://mine.example/v1")
    assert own is not None
    assert own._key == "c"
    # A key for one address is not sent to another.
    assert found_in({hosted.URL: "https://mine.example/v1", hosted.KEY: "c"}, "https://evil.example/v1") is None
    other = found_in({"OPENAI_BASE_URL": "https://else.example/v1", "OPENAI_API_KEY": "b"})
    assert other is not None
    assert (other.name, other._key) == ("else.example", "b")
    here = found_in({"CEREBRAS_API_KEY": "a"}, "http://127.0.0.1:1/v1")
    assert here is not None
    assert here._key is None
    for url in ("http://api.example/v1", "ftp://x", "file:///etc/passwd", "https://a:b@c/v1", "nonsense"):
        with pytest.raises(ArgumentError):
            Hosted(url, "k")
    with pytest.raises(ArgumentError, match="no key"):
        Hosted("https://x/v1", "a\nb")


@pytest.mark.by_turns(3)
def test_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--random", "tiny"]
    assert main(["compare", *tiny]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no key" in captured.err
    assert captured.err.count("\n") == 1
    with served() as client:
        url = f"http://127.0.0.1:{client.port}/v1"
        assert main(["compare", "--hosted", url, "--list"]) == 0
        assert capsys.readouterr().out == "tiny\n"
        assert main(["compare", "Hello", *tiny, "--hosted", url, "-n", "4"]) == 0
        assert capsys.readouterr().out.count("first token") == 2
        assert main(["compare", "Hello", *tiny, "--hosted", url, "-n", "4", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["contender"] for row in rows] == ["smelt: random:tiny", "127.0.0.1: tiny"]
        bench = ["llm-bench", *tiny, "-p", "4", "-n", "4", "-r", "1", "--json"]
        assert main([*bench, "--hosted", url]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["rows"]) == 2
        assert len(found["hosted"]) == 2
    assert main([*bench, "--hosted", "https://api.example/v1"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["hosted"] == []
    assert "api.example/v1 is not compared: there is no key" in captured.err
