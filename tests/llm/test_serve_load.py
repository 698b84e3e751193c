"""The server under load, and clients that are slow, that vanish, or that want something else than an answer."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from smelt.llm.serve.app import Limits
from tests.llm.test_serve import CHAT, HELLO, TEXT, Client, Held, served
from tests.llm.tiny import History

patience = pytest.importorskip("smelt.llm.serve.patience", exc_type=ImportError)

HEAD = b"POST /%s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
ROUTES = ["/metrics", "/v1/models", "/v1/models/tiny", CHAT, TEXT, "/v1/embeddings", "/tokenize", "/detokenize"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def until(holds: Any) -> None:
    """Wait for what another thread is about to do."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never came")


def at_rest(client: Client) -> bool:
    engine = client.model.engine
    return not engine.running and not engine.waiting and engine.pages.held == 0


def test_a_hundred_clients_are_answered_or_told_to_come_back() -> None:
    with served(queue=64) as client:
        counts = []

        def ask(number: int) -> tuple[int, Any]:
            body = {"prompt": f"client {number % 7}", "max_tokens": 12, "seed": number % 7, "stream": number % 2 == 0}
            reply = client.ask(TEXT, body)
            if reply.status != 200:
                assert int(reply.headers["retry-after"]) >= 1
                return reply.status, reply.json["error"]["code"]
            if number % 2:
                return 200, reply.json["choices"][0]["text"]
            return 200, "".join(event["choices"][0]["text"] for event in reply.events)

        for _ in range(3):
            with ThreadPoolExecutor(100) as pool:
                replies = list(pool.map(ask, range(100)))
            assert {status for status, _ in replies} <= {200, 429}
            assert sum(status == 200 for status, _ in replies) >= 64
            until(lambda: at_rest(client))
            counts.append(descriptors())
        for number in range(7):
            # The same, however many others there were.
            alone = ask(number)[1]
            assert {text for at, (status, text) in enumerate(replies) if at % 7 == number and status == 200} <= {alone}
        assert counts[2] <= counts[0] + 2, counts


def _vanishing(gone: http.client.HTTPConnection, engine: Any, held: Any, when: str) -> Any:
    """A request whose client goes away while it is read, written, or waits; when the server has noticed."""
    until(lambda: len(engine.running) == 1)
    long = "x" * (60 if when == "in prefill" else 2)
    body = {"prompt": long, "max_tokens": 60, "stream": when == "streaming", "logit_bias": {"65": 100}}
    gone.request("POST", TEXT, json.dumps(body), {"content-type": "application/json"})
    until(lambda: len(engine.running) + len(engine.waiting) == 2)
    (found,) = [h for h in [*engine.running, *engine.waiting] if len(h.request.prompt) == len(long)]
    if when == "streaming":
        while not found.output:
            held.go_on.release()
            threading.Event().wait(0.002)
        assert gone.getresponse().read(10)
    if when == "in prefill":
        while found.chain is None or not found.chain.length:
            held.go_on.release()
            threading.Event().wait(0.002)
    gone.sock.shutdown(socket.SHUT_RDWR)
    gone.close()
    until(lambda: found.cancelled)
    return found


@pytest.mark.parametrize("when", ["streaming", "in prefill", "queued"])
def test_others_do_not_notice_a_client_that_vanishes(when: str) -> None:
    with served(made=Held, slots=1 if when == "queued" else 3) as client:
        held: Any = client.model.programs
        engine = client.model.engine
        held.go_on.release(10_000)
        other = {"prompt": "somebody else", "max_tokens": 30, "seed": 3, "temperature": 1}
        quiet = client.ask(TEXT, other).json["choices"][0]["text"]
        while held.go_on.acquire(blocking=False):
            pass
        gone = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(client.ask, TEXT, other)
            try:
                vanished = _vanishing(gone, engine, held, when)
                tokens = len(vanished.output)
            finally:
                held.go_on.release(10_000)
            assert reply.result().json["choices"][0]["text"] == quiet
        assert vanished.reason == "cancelled"
        assert len(vanished.output) <= tokens + 1  # the step that was on its way
        assert vanished.chain is None or vanished not in engine.running
        until(lambda: not engine.running and not engine.waiting)
        assert engine.pages.held == 0


@pytest.mark.by_turns(3)
def test_who_is_slow_to_ask_or_to_read_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.Patient, "head_seconds", 0.2)
    monkeypatch.setattr(patience.Patient, "read_seconds", 0.2)
    with served() as client:
        for head in (b"", b"GET /health HTTP/1.1\r\nhost: x\r\nx: "):
            with socket.create_connection(("127.0.0.1", client.port), timeout=10) as slow:
                slow.sendall(head)
                assert slow.recv(100) == b""
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in slow.recv(1000)
            try:
                slow.sendall(b"GET /heal")  # the second request counts anew
                while slow.recv(1000):
                    pass
            except ConnectionResetError:
                pass
        body = json.dumps({"tokens": [65] * 300_000}).encode()  # whose text is more than any buffer holds
        asked = (HEAD % (b"detokenize", len(body)) + body) * 40
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with pytest.raises((ConnectionError, TimeoutError)):
                for _ in range(200):
                    slow.sendall(asked)
        assert client.ask("/health").status == 200


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smelt.llm.serve.app._BODY_SECONDS", 0.1)
    with served() as client, socket.create_connection(("127.0.0.1", client.port), timeout=10) as slow:
        slow.sendall(HEAD % (b"tokenize", 9) + b"{")
        assert b" 408 " in slow.recv(1000)


def test_every_route_but_health_needs_the_key() -> None:
    with served(keys={"one": "sécret"}) as client:
        assert client.ask("/health").status == 200
        wrong = [
            {},
            {"authorization": "Bearer "},
            {"authorization": "Basic secret"},
            {"authorization": "Bearer secre\xe9t"},
        ]
        for path in [*ROUTES, "/", "/docs", "/openapi.json", "/health/", "//health", "/v1/../health", "/%68ealth/x"]:
            for headers in wrong:
                for body in (None, HELLO, b"x" * 100):
                    assert client.ask(path, body, headers).status == 401, (path, headers)
        right = {"authorization": "Bearer sécret".encode().decode("latin-1")}
        assert client.ask("/v1/models", headers=right).status == 200


HOSTILE: list[tuple[str, Any]] = [
    (CHAT, HELLO | {"max_tokens": 10**400}),
    (CHAT, HELLO | {"max_tokens": -1}),
    (CHAT, HELLO | {"seed": 2**70}),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}'),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "top_p": 1e999}'),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "seed": ' + b"1" * 5000 + b"}"),
    (CHAT, b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    (CHAT, b'\xff\xfe{"messages": []}'),
    (CHAT, HELLO | {"messages": [{"role": "user", "content": "x"}] * 1025}),
    (CHAT, HELLO | {"messages": [{"role": ["user"], "content": "x"}]}),
    (CHAT, HELLO | {"messages": [{"role": "user", "content": {"text": "x"}}]}),
    (CHAT, HELLO | {"messages": "Hello"}),
    (CHAT, HELLO | {"stop": ["x" * 257]}),
    (CHAT, HELLO | {"logit_bias": {"1" * 5000: 1}}),
    (CHAT, HELLO | {"logit_bias": {str(n): 1 for n in range(1025)}}),
    (CHAT, HELLO | {"logit_bias": {"-1": 1}}),
    (CHAT, HELLO | {"stream_options": 7}),
    (CHAT, HELLO | {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}}),
    (CHAT, HELLO | {"response_format": {"type": "json_schema", "json_schema": {"schema": {"pattern": "(" * 999}}}}),
    (TEXT, {"prompt": [2**70]}),
    (TEXT, {"prompt": [-1]}),
    (TEXT, {"prompt": [True]}),
    (TEXT, {"prompt": [1.5]}),
    (TEXT, {"prompt": [["x"]]}),
    (TEXT, {"prompt": ["x"] * 65}),
    (TEXT, {"prompt": "x" * 100_000}),
    (TEXT, {"prompt": "x", "n": 17}),
    (TEXT, {"prompt": "x", "logprobs": 10**9}),
    ("/v1/embeddings", {"input": [[2**70]]}),
    ("/v1/embeddings", {"input": ""}),
    ("/v1/embeddings", {"input": "x" * 100_000}),
    ("/detokenize", {"tokens": [2**70]}),
    ("/detokenize", {"tokens": [-1]}),
    ("/detokenize", {"tokens": [10_000]}),
    ("/tokenize", {"text": 7}),
    ("/tokenize", {}),
]


def test_hostile_requests_get_a_status_and_the_server_stays() -> None:
    pytest.importorskip("llguidance")
    with served() as client:
        before = client.ask(TEXT, {"prompt": "Once", "temperature": 0}).json["choices"]
        for path, body in HOSTILE:
            reply = client.ask(path, body)
            assert 400 <= reply.status < 500, (path, str(body)[:100], reply)
            assert reply.json["error"]["message"]
        for path, body in (
            (CHAT, HELLO | {"messages": [{"role": "user", "content": "\ud800 \0 \uffff"}]}),
            (CHAT, HELLO),
        ):
            assert client.ask(path, body).status == 200
        raw = [
            b"\x16\x03\x01\x02\x00\x01",  # TLS
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\nzz",
            b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        ]
        for data in raw:
            with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    said = connection.recv(100)
                except ConnectionError:
                    said = b""
                assert said == b"" or b" 400 " in said or b" 415 " in said or b" 404 " in said or b" 403 " in said
        assert client.ask(TEXT, {"prompt": "Once", "temperature": 0}).json["choices"] == before
        until(lambda: at_rest(client))


class HeldEmbeddings(History):
    """A model that makes an embedding when it is let go on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.go_on, self.began = threading.Semaphore(0), list[bytes]()

    def embed(self, tokens: Any) -> Any:
        self.began.append(bytes(tokens))
        self.go_on.acquire()
        return super().embed(tokens)


def test_embeddings_wait_in_a_bounded_queue_and_for_a_bounded_time() -> None:
    with served(made=HeldEmbeddings, queue=1) as small, ThreadPoolExecutor(1) as pool:
        held: Any = small.model.programs
        first = pool.submit(small.ask, "/v1/embeddings", {"input": "AAB"})
        try:
            until(lambda: held.began)
            reply = small.ask("/v1/embeddings", {"input": "AAB"})
        finally:
            held.go_on.release(9)
        assert (reply.status, reply.json["error"]["code"]) == (429, "queue_full")
        assert int(reply.headers["retry-after"]) >= 1
        assert first.result().status == 200
        assert small.ask("/v1/embeddings", {"input": "AAB"}).status == 200
    with served(limits=Limits(timeout=-1.0)) as late:
        assert late.ask("/v1/embeddings", {"input": "AAB"}).status == 504


def test_embeddings_of_a_client_that_goes_away_are_not_made() -> None:
    with served(made=HeldEmbeddings, queue=1) as client, ThreadPoolExecutor(1) as pool:
        held: Any = client.model.programs
        gone = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        asked = json.dumps({"input": ["AAB"] * 64})
        gone.request("POST", "/v1/embeddings", asked, {"content-type": "application/json"})
        try:
            until(lambda: held.began)
            gone.close()
            # There is room again while the first is still being made; the mistake in what is asked is told later.
            until(lambda: client.ask("/v1/embeddings", {"input": ""}).status == 400)
            other = pool.submit(client.ask, "/v1/embeddings", {"input": "AB"})
        finally:
            held.go_on.release(99)
        assert other.result().status == 200
        assert held.began == [b"AAB", b"AB"]


def test_a_deadline_frees_the_slot() -> None:
    with served(made=Held, limits=Limits(timeout=0.05)) as client:
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(client.ask, TEXT, {"prompt": "x", "max_tokens": 100})
            until(lambda: client.model.engine.running)
            began = time.monotonic()
            until(lambda: time.monotonic() - began > 0.06)
            client.model.programs.go_on.release(200)  # type: ignore[attr-defined]
            assert reply.result().status == 504
        until(lambda: at_rest(client))
