"""Tokens in, text out, as soon as it is certain."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Final

from smelt.errors import ArgumentError
from smelt.llm.tokens.tokenizer import Tokenizer

_MOST_STOPS: Final = 64


class TextStream:
    """The text of an answer while its tokens come.

    Characters come out whole, though tokens are parts of them. What could be the beginning of a stop string is held
    back until it is certain. After one was met, `stopped` says which, `rest` is what stood behind it, and nothing more
    comes. All that `feed` and `close` return is the text before the stop string. Of control tokens those that are
    `shown` are text.

    >>> stream = TextStream(tokenizer, stops=["User:"])           # doctest: +SKIP
    >>> for token in answer: print(stream.feed(token), end="")    # doctest: +SKIP
    """

    def __init__(self, tokenizer: Tokenizer, stops: Iterable[str] = (), shown: Iterable[int] = ()) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if len(self._stops) > _MOST_STOPS or not all(isinstance(stop, str) and stop for stop in self._stops):
            raise ArgumentError(f"Stop strings are at most {_MOST_STOPS} texts, none of them empty.")
        self._tokenizer, self._shown = tokenizer, frozenset(shown)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped: str | None = None
        self.rest = ""

    def feed(self, token: int) -> str:
        """The text that is certain now that `token` came; control tokens have none."""
        if self.stopped is not None or (self._tokenizer.is_control(token) and token not in self._shown):
            return ""
        return self._advance(self._decoder.decode(self._tokenizer.piece(token)))

    def close(self) -> str:
        """What was held back, when no more tokens come."""
        if self.stopped is not None:
            return ""
        text = self._advance(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text if self.stopped is not None else text + held

    def _advance(self, text: str) -> str:
        text = self._held + text
        # The one that begins first ends the answer; of several that begin there, the longest.
        found = [(text.find(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if found:
            place, _, self.stopped = min(found)
            self.rest, self._held = text[place + len(self.stopped) :], ""
            return text[:place]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    return next((count for count in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:count])), 0)
