"""Guesses of what comes next, which a model checks several at once: one step of a few rows costs little more than one.

A guess changes no token. Each row of a step sees what a row alone would see and gives the same bits, what is drawn for
it depends on seed and position alone, and the tokens behind the first wrong guess are thrown away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from smelt.llm.pages import common

__all__ = ["MOST", "MOST_DRAFTED", "Draft", "Guesser", "Least", "Lookup", "Pace"]

MOST: Final = 7  # tokens guessed at once: with the one that is known, 8 rows
MOST_DRAFTED: Final = 4  # by another model, which takes a step for each
_LENGTHS: Final = (4, 3)  # of what must have occurred before
_REST: Final = 16  # steps without guesses after guesses that did not pay; twice as many each time
_LONGEST_REST: Final = 512
_FORGETS: Final = 0.8
_DEBT: Final = -0.3  # steps that guesses may cost before they rest


class Guesser(Protocol):
    """Who guesses how one text goes on."""

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """At most so many tokens behind all those so far, of which nothing but the end is new since the last call."""

    def close(self) -> None:
        """The text has ended."""


class Lookup:
    """Guesses that a text goes on as it did where its last tokens occurred before (prompt lookup).

    >>> lookup = Lookup()
    >>> lookup.guess([1, 2, 3, 4, 5, 1, 2, 3], 2), lookup.guess([1, 2, 3, 4, 5, 1, 2, 3, 9], 2)
    ([4, 5], [])
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # where each run of tokens ended last
        self._known = 0  # tokens whose runs have been noted

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        for end in range(self._known + 1, len(tokens)):
            self._note(tokens, end)
        runs = (tuple(tokens[-n:]) for n in _LENGTHS if len(tokens) >= n)
        found = next((self._ends[run] for run in runs if run in self._ends), None)
        self._known = len(tokens)
        self._note(tokens, len(tokens))
        return [] if found is None else list(tokens[found : found + most])

    def _note(self, tokens: Sequence[int], end: int) -> None:
        for n in _LENGTHS:
            if end >= n:
                self._ends[tuple(tokens[end - n : end])] = end

    def close(self) -> None:
        """Nothing is held."""


class Draft:
    """Guesses by a smaller model of the same tokens, its most likely ones, for as many texts at once as it has slots.

    Models pad their vocabularies differently: both have the tokens up to `limit`.
    """

    def __init__(self, programs: Any, limit: int) -> None:
        self.programs, self.limit = programs, limit
        self._free = list(range(programs.slots))

    def begin(self) -> Guesser:
        """Who guesses for one more text."""
        return _Drafted(self, self._free)


class _Drafted:
    """The most likely tokens behind a text, by a model that reads it along in a slot of its own."""

    def __init__(self, draft: Draft, free: list[int]) -> None:
        self._draft, self._free, self._slot = draft, free, free.pop()
        self._read: list[int] = []  # tokens in the slot; those that were not taken are written over

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """None while it still reads: a chunk at a time, so that nobody waits for a prompt twice."""
        programs, limit = self._draft.programs, self._draft.limit
        pages = programs.own(self._slot)
        start = min(common(self._read, tokens), len(tokens) - 1)
        if len(tokens) + most > programs.context or max(tokens[start:]) >= limit:
            return []  # there is no room, or the text has a token that only the other model has
        unread = tokens[start : start + programs.chunks[0]]
        one = len(unread) == 1
        logits = programs.extend([(pages, start, unread[0])]) if one else programs.read(pages, start, unread)
        self._read = list(tokens[: start + len(unread)])
        if len(self._read) < len(tokens):
            return []
        found = [_likeliest(logits, limit)]
        while len(found) < most:
            logits = programs.extend([(pages, len(self._read), found[-1])])
            self._read.append(found[-1])
            found.append(_likeliest(logits, limit))
        return found

    def close(self) -> None:
        """Another text may have the slot."""
        self._free.append(self._slot)


def _likeliest(logits: Any, limit: int) -> int:
    return int(np.argmax(logits.numpy()[0, :limit]))


class Least(dict[int, float]):
    """The least seconds of work on so many rows, which forget: what disturbs one is not counted, and the first, which
    may have to be compiled, says nothing.
    """

    def note(self, count: int, seconds: float) -> None:
        """That work on so many took so long."""
        self[count] = min(seconds, 1.05 * self[count]) if count in self else math.inf


class Pace:
    """How many tokens to guess: more while they are right, and none for a while where that does not pay."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self._count, self._pause, self._rest, self._gain = most, min(3, most), 0, _REST, -_DEBT

    def ask(self) -> int:
        """How many to guess now."""
        if self._pause:
            self._pause -= 1
            return 0
        return self._count

    def told(self, guessed: int, right: int, cost: float) -> None:
        """That so many were guessed and right, in a step that took `cost` times as long as one without guesses."""
        self._gain = self._gain * _FORGETS + right + 1 - cost
        if self._gain < _DEBT:
            self._pause, self._rest, self._gain, self._count = self._rest, min(2 * self._rest, _LONGEST_REST), 0.0, 1
        elif right == guessed:
            self._count, self._rest = min(2 * self._count + 1, self.most), _REST
        elif 2 * right < guessed:
            self._count = max(self._count // 2, 1)
