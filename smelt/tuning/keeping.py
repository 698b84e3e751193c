"""What tuning has found, as records of the user's log: also what lost, since that need not be tried again."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.config import VERSION
from smelt.errors import ParseError
from smelt.kernel import Action, Region, parse_schedule
from smelt.schedule import Candidate
from smelt.search import climb, log, record

if TYPE_CHECKING:
    from smelt.tuning.outside import Outside
    from smelt.tuning.report import Row

SEEDS: Final = 4  # schedules that are tried again
_WORTH: Final = ("timed", "imported", "confirmed")
_REASON: Final = 200  # characters


class Keeper:
    """Adds records to the log of this user, all under the name of one run; a user without a home keeps nothing."""

    def __init__(self, seed: int, outside: Outside) -> None:
        self._log, self._seed, self._outside = log.user_log(), seed, outside
        self._run = outside.take("the run", record.new_run)
        self.is_open = self._log is not None

    def seeds(self, text: str, region: Region) -> list[Candidate]:
        """Schedules that were faster before, also on other machines: worth trying again."""
        schedules = self._outside.take("what was faster before", lambda: self._faster(text))
        return [Candidate("known", region, actions) for actions in map(_parsed, schedules[:SEEDS]) if actions]

    def _faster(self, text: str) -> list[str]:
        """The schedules of a region that were faster than the default, the best first."""
        if self._log is None:
            return []
        known = [one for one in self._log.load().records if one.question.text == text and one.state in _WORTH]
        faster = sorted((one for one in known if one.evidence.ratio > 1), key=lambda one: -one.evidence.ratio)
        return list(dict.fromkeys(one.answer.schedule for one in faster))

    def keep(self, row: Row) -> None:
        """What was tried for a kernel, and what of that is to be used from now on."""
        if self._log is None:
            return
        day, device = self._outside.take("today", today), row.question.device
        question = record.Question.of(row.question.text)
        place: Sequence[Any] = self._outside.take("the place", lambda: record.Place.of(device))
        where = record.Place(*place)
        adopted = row.found.adopted if row.stored else None
        found = []
        for one in [adopted] if adopted else row.found.tried:
            state, reason = "confirmed" if adopted else one.outcome.state, plain(one.outcome.reason)
            evidence, origin = _evidence(row, one, adopted is not None), (self._seed, day, VERSION, self._run)
            found.append(record.Record(question, where, _answer(one), evidence, state, reason, *origin))
        self._log.add(found)


def _parsed(schedule: str) -> tuple[Action, ...]:
    with contextlib.suppress(ParseError):
        return parse_schedule(schedule)
    return ()


def today() -> str:
    """The date of a record."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")


def plain(reason: str) -> str:
    """A reason as a record may hold it."""
    return reason.encode("ascii", "replace").decode().replace("\n", " ")[:_REASON]


def _answer(one: climb.Tried) -> record.Answer:
    bits = "same" if one.outcome.verdict is None else one.outcome.verdict.bits
    return record.Answer(one.contender.schedule, bits or "same", one.contender.digest)


def _evidence(row: Row, one: climb.Tried, adopted: bool) -> record.Evidence:
    timed = row.found.confirmed if adopted else one.outcome.timed
    if timed is None:
        return record.Evidence()
    return record.Evidence(
        timed.ratio, timed.low, timed.seconds * timed.ratio, timed.seconds, timed.turns, 2 if adopted else 1
    )
