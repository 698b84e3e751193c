"""How the server ends: it says what it waits for, lets answers finish for a moment, and cuts the rest."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from smelt.llm.engine import Engine

__all__ = ["Ending"]


_LATE: Final = 5  # seconds after which connections are closed whose answers could not be cut


def _on_stderr(text: str) -> None:
    print(f"smelt: {text}", file=sys.stderr, flush=True)


class Ending(uvicorn.Server):  # type: ignore[misc]
    """uvicorn's server, whose first interrupt lets answers finish for some seconds, and whose second ends it at once.

    Neither becomes an exception, and no client hears less than why its answer ended: a cut stream says so.
    """

    seconds = 5.0  # that answers may take to finish
    should_exit: bool

    def __init__(self, config: Any, engine: Engine, tell: Callable[[str], None] = _on_stderr) -> None:
        config.timeout_graceful_shutdown = math.ceil(self.seconds) + _LATE
        super().__init__(config)
        self._engine, self._tell = engine, tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self.was_forced = False

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """An interrupt; what there is to say is said by the loop, since it may come in the middle of another line."""
        if self.should_exit:
            self.was_forced = self.force_exit = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._abort)
        self.should_exit = True

    async def shutdown(self, sockets: Any = None) -> None:
        """Take no more requests, and wait for those that are there."""
        # What uvicorn says of tasks that it cancels is known: they were told to end.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        count = len(self._engine.running) + len(self._engine.waiting)
        if count:
            self._tell(f"waiting for {_answers(count)}, {self.seconds:g} s at most; Ctrl-C once more ends at once")
        deadline = asyncio.get_running_loop().call_later(self.seconds, self._cut)
        try:
            await super().shutdown(sockets)
        finally:
            deadline.cancel()

    def _cut(self) -> None:
        count = self._engine.cancel()
        if count:
            self._tell(f"{_answers(count)} cut")

    def _abort(self) -> None:
        self._engine.cancel()
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} answers"
