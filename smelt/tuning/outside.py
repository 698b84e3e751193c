"""What tuning learns from outside: clocks, races, dates, names. All of it may be recorded, and played back: then the
same program and seed give the same log, byte for byte, wherever the same kernels are compiled.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from smelt.errors import ArgumentError
from smelt.kernel import Region
from smelt.search import contender

T = TypeVar("T")
VERSION: Final = 1  # of the form of recordings
MOST_BYTES: Final = 256 << 20
_HINT: Final = "A recording is of one script, seed, budget and version of smelt."


class Outside(Protocol):
    """Where facts come from."""

    def take(self, what: str, make: Callable[[], T]) -> T:
        """A fact, as plain data: made now, or as it was."""
        ...


class Live:
    """Facts as they are."""

    def take(self, what: str, make: Callable[[], T]) -> T:
        """A fact that is made now."""
        return make()


class Recording:
    """Facts as they are, which are kept in a file."""

    def __init__(self) -> None:
        self.facts: list[list[Any]] = []

    def take(self, what: str, make: Callable[[], T]) -> T:
        """A fact that is made now, and noted."""
        value = make()
        self.facts.append([what, value])
        return value

    def save(self, path: Path) -> None:
        """Write all that was noted."""
        try:
            path.write_text(json.dumps({"version": VERSION, "facts": self.facts}), encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"{path}: {error.strerror or error}") from None


class Replay:
    """Facts as they were, one after the other."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                data = json.loads(file.read(MOST_BYTES))
            if data["version"] != VERSION:
                raise ValueError
            self._facts = [(str(what), value) for what, value in data["facts"]]
        except OSError as error:
            raise ArgumentError(f"{path}: {error.strerror or error}") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ArgumentError(f"{path} is no recording of smelt tune", hint=_HINT) from None
        self._path, self._next = path, 0

    def take(self, what: str, make: Callable[[], T]) -> T:
        """The next fact, which must be the one that is asked for."""
        fact: tuple[str, Any] = ("nothing more", None)
        if self._next < len(self._facts):
            fact = self._facts[self._next]
        said, value = fact
        if said != what:
            raise ArgumentError(f"{self._path} says {said}, where this run asks for {what}", hint=_HINT)
        self._next += 1
        found: T = value
        return found


class Told:
    """A `Measurer` whose races take place outside."""

    def __init__(self, outside: Outside, measurer: Callable[[], contender.Measurer]) -> None:
        self._outside, self._measurer = outside, measurer

    def race(
        self, region: Region, contenders: Sequence[contender.Contender], seconds: float
    ) -> list[contender.Outcome]:
        """What became of each contender. The first is the incumbent, the default."""
        told = self._outside.take(
            f"a race of {_named(contenders)}",
            lambda: [list(outcome) for outcome in self._measurer().race(region, contenders, seconds)],
        )
        return [_outcome(one) for one in told]

    def confirm(
        self, region: Region, best: contender.Contender, default: contender.Contender, seconds: float
    ) -> contender.Timed:
        """Both against each other in two fresh processes; the worse of the two results."""
        told: Sequence[Any] = self._outside.take(
            f"a duel of {_named([best, default])}", lambda: self._measurer().confirm(region, best, default, seconds)
        )
        return contender.Timed(*told)


def clock(outside: Outside) -> Callable[[], float]:
    """Seconds from some moment on."""
    return lambda: outside.take("the time", time.monotonic)


def _outcome(told: Sequence[Any]) -> contender.Outcome:
    """An outcome of plain data."""
    digest, state, reason, verdict, timed = told
    return contender.Outcome(
        digest,
        state,
        reason,
        None if verdict is None else contender.Verdict(*verdict),
        None if timed is None else contender.Timed(*timed),
    )


def _named(contenders: Sequence[contender.Contender]) -> str:
    return hashlib.sha256(" ".join(one.digest for one in contenders).encode()).hexdigest()[:16]
