"""Connections of bounded patience: a client that sends or reads too slowly holds no place for long.

uvicorn waits forever for the head of a request, and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Patient"]


class Patient(H11Protocol):  # type: ignore[misc]
    """HTTP/1.1 as uvicorn speaks it, with two more deadlines."""

    head_seconds = 30.0  # from the first byte of a request, or from connecting, to the end of its head
    read_seconds = 30.0  # that a client may read nothing, while there is something to read

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        """Somebody is there."""
        super().connection_made(transport)
        self._start("head", self.head_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop("head")
        elif not self.transport.is_closing():
            self._start("head", self.head_seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        self._start("read", self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        self._stop("read")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone, or was sent away."""
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def _start(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
