"""The end of the server: what it says, how long it waits, and what clients hear."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from smelt.llm.language import LanguageModel
from smelt.llm.serve import application
from smelt.llm.serve.app import configured
from tests.llm.test_serve import TEXT, Client, Held
from tests.llm.test_serve_load import until
from tests.llm.tiny import Bytes, Lines

ending = pytest.importorskip("smelt.llm.serve.ending", exc_type=ImportError)
LONG = {"prompt": "x", "max_tokens": 60, "stream": True, "logit_bias": {"65": 100}}


class Serving:
    """A server on a thread, one client in the middle of a stream, and what the server says."""

    def __init__(self, client: Client, server: Any, thread: threading.Thread, said: list[str]) -> None:
        self.client, self.server, self.thread, self.said = client, server, thread, said
        self.held: Any = client.model.programs

        self.open = contextlib.ExitStack()  # what the client has open

    def interrupt(self) -> None:
        self.server.handle_exit(signal.SIGINT, None)

    def stream(self) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=30)
        connection.request("POST", TEXT, json.dumps(LONG), {"content-type": "application/json"})
        self.held.go_on.release(3)
        self.open.callback(connection.close)
        return self.open.enter_context(connection.getresponse())


@contextlib.contextmanager
def serving() -> Iterator[Serving]:
    model = LanguageModel("tiny", Bytes(), Lines(), Held(slots=3, context=128, vocabulary=129))
    listener = socket.create_server(("127.0.0.1", 0))
    said: list[str] = []
    server = ending.Ending(configured(application(model)), model.engine, said.append)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    client = Client(listener.getsockname()[1], model)
    thread.start()
    try:
        until(lambda: server.started)
        at = Serving(client, server, thread, said)
        at.held.go_on.release(1000)
        assert client.ask(TEXT, LONG).status == 200  # so that nothing is compiled while somebody waits
        while at.held.go_on.acquire(blocking=False):
            pass
        with at.open:
            yield at
    finally:
        model.programs.go_on.release(10_000)  # type: ignore[attr-defined]
        server.should_exit = True
        thread.join(30)
        model.close()
        listener.close()


def test_a_server_without_requests_ends_at_once_and_says_nothing() -> None:
    with serving() as at:
        at.interrupt()
        at.thread.join(30)
        assert not at.thread.is_alive()
        assert at.said == []
        assert not at.server.was_forced


def test_answers_may_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending.Ending, "seconds", 30)
    with serving() as at:
        response = at.stream()
        at.interrupt()
        until(lambda: at.said)
        assert at.said == ["waiting for 1 answer, 30 s at most; Ctrl-C once more ends at once"]
        at.held.go_on.release(10_000)
        assert response.read().endswith(b"data: [DONE]\n\n")
        at.thread.join(30)
        assert not at.thread.is_alive()
        assert len(at.said) == 1


def test_after_the_deadline_they_are_cut_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending.Ending, "seconds", 0.05)
    with serving() as at:
        response = at.stream()
        at.interrupt()
        until(lambda: len(at.said) == 2)
        at.held.go_on.release(10_000)
        body = response.read()
        assert b"not finished: cancelled" in body
        assert b"[DONE]" not in body
        at.thread.join(30)
        assert not at.thread.is_alive()
        assert at.said[1] == "1 answer cut"
        assert not at.server.was_forced


def test_the_second_interrupt_ends_at_once() -> None:
    with serving() as at:
        response = at.stream()
        at.interrupt()
        until(lambda: at.said)
        at.interrupt()
        at.thread.join(30)
        assert not at.thread.is_alive()
        assert at.server.was_forced
        with contextlib.suppress(ConnectionError, http.client.IncompleteRead):
            response.read()


@pytest.mark.slow
@pytest.mark.parametrize(("interrupts", "status"), [(1, 0), (2, 130)])
def test_the_command_has_a_status_and_no_traceback(interrupts: int, status: int) -> None:
    command = [sys.executable, "-m", "smelt", "serve", "--random", "tiny", "--port", "0", "--slots", "1", "-q"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"SMELT_API_KEY": ""}) as server,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(server.kill)  # what fails here does not wait for it
        assert server.stderr is not None
        line = server.stderr.readline()
        assert "Ctrl-C ends" in line, line
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        asked = {"prompt": "x", "max_tokens": 2000, "stream": True, "logit_bias": {"256": -100}}
        connection.request("POST", TEXT, json.dumps(asked), {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.readline().startswith(b"data:")
        server.send_signal(signal.SIGINT)
        told = server.stderr.readline()
        assert "waiting for 1 answer" in told
        for _ in range(interrupts - 1):
            server.send_signal(signal.SIGINT)
        with contextlib.suppress(ConnectionError, http.client.IncompleteRead):
            response.read()  # a server waits for whoever does not read
        rest = server.stderr.read()
        assert server.wait(60) == status
        assert "Traceback" not in rest
        connection.close()
