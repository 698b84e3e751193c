"""What tuning has found, as records of the user's log: also what lost, since that need not be tried again."""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.compiler import graph_text, question_of
from smelt.config import VERSION
from smelt.errors import ParseError
from smelt.kernel import Action, parse_schedule
from smelt.schedule import Candidate, chosen, named
from smelt.search import climb, exchange, file, log, record, transfer

if TYPE_CHECKING:
    from smelt.device import Device
    from smelt.tuning.outside import Outside
    from smelt.tuning.programs import Question
    from smelt.tuning.report import Row
    from smelt.tuning.sites import Found

SEEDS: Final = 4  # schedules that are tried again
LOSES: Final = 0.99  # times as fast: what was slower is not tried again
_KNOWN: Final = "known"  # a form, of schedules of which the template is not known
_WORTH: Final = ("timed", "imported", "confirmed")
_REASON: Final = 200  # characters


class Keeper:
    """Adds records to the log of this user, all under the name of one run; a user without a home keeps nothing."""

    def __init__(self, seed: int, outside: Outside) -> None:
        self._log, self._seed, self._outside = log.user_log(), seed, outside
        self._run = outside.take("the run", record.new_run)
        self.is_open = self._log is not None
        self._shipped = list(exchange.shipped())
        self._said: dict[str, list[record.Record]] = {}  # by the text of a region

    @functools.cached_property
    def _records(self) -> list[record.Record]:
        """What the log held when the run began, and what came with smelt."""
        return [*self._shipped, *([] if self._log is None else self._log.load().records)]

    def _known(self, question: Question) -> list[record.Record]:
        """What is known of a region, and of those that differ in sizes only."""
        if question.text not in self._said:
            form = record.Question.of(question.text).form
            concerned = (one for one in self._records if one.question.form == form)
            lines = self._outside.take("what is known", lambda: [record.write(one).decode() for one in concerned])
            records = [record.read(line.strip().encode()) for line in lines]
            self._said[question.text] = [one for one in records if isinstance(one, record.Record)]
        return self._said[question.text]

    def _place(self, device: Device) -> record.Place:
        place: Sequence[Any] = self._outside.take("the place", lambda: record.Place.of(device))
        return record.Place(*place)

    def seeds(self, question: Question) -> Iterator[Candidate]:
        """What is worth trying first: schedules that were faster before, also on other machines, and what was faster
        for regions that differ in sizes only.
        """
        everything = self._known(question)
        known = [one for one in everything if one.question.text == question.text and one.state in _WORTH]
        faster = sorted((one for one in known if one.evidence.ratio > 1), key=lambda one: -one.evidence.ratio)
        distinct = {one.answer.schedule: one for one in reversed(faster)}
        profile = question.device.profile
        for one in list(reversed(distinct.values()))[:SEEDS]:
            again = named(question.region, profile, one.answer.knobs) if one.answer.knobs else None
            yield again or chosen(_KNOWN, question.region, _parsed(one.answer.schedule), profile)
        asked, where = record.Question.of(question.text), self._place(question.device)
        for near in transfer.near(asked, where, everything):
            yield from transfer.carried(near, question.region, profile)

    def losers(self, question: Question) -> dict[str, float]:
        """Contenders that were no faster here, or not right, with the logarithms of their speeds."""
        where, found = self._place(question.device), dict[str, float]()
        for one in self._known(question):
            if one.question.text == question.text and one.place == where and one.evidence.method == file.METHOD:
                ratio, identity = one.evidence.ratio, f"{one.answer.schedule}\n{one.answer.source}"
                if one.state in ("wrong", "hung", "crashed", "refused"):
                    found[identity] = climb.HOPELESS
                elif one.state == "timed" and 0 < ratio < LOSES:
                    found[identity] = math.log(ratio)
        return found

    def keep_fusion(self, found: Found) -> None:
        """A way to cut a program into kernels that was raced, and whether it is to be used from now on."""
        if self._log is None:
            return
        text, words = graph_text(found.program.key), plain(found.reason or f"fusion: {found.site}")
        answer = record.Answer(str(found.choices), found.bits, found.measured)
        after = found.seconds / (found.ratio or 1.0)
        evidence = record.Evidence(found.ratio, found.low, found.seconds, after, len(found.ratios), 1)
        question, where = record.Question(question_of(text), text, "", ()), self._place(found.program.device)
        origin = self._seed, self._day(), VERSION, self._run
        self._log.add([record.Record(question, where, answer, evidence, found.state, words, *origin)])

    def keep(self, row: Row) -> None:
        """What was tried for a kernel, and what of that is to be used from now on."""
        if self._log is None:
            return
        question, where, day = record.Question.of(row.question.text), self._place(row.question.device), self._day()
        adopted = row.found.adopted if row.stored else None
        found = []
        for one in [adopted] if adopted else row.found.tried:
            state, reason = "confirmed" if adopted else one.outcome.state, plain(one.outcome.reason)
            if state == "timed" and self._is_worse(question.digest, one):
                state, reason = "refused", "it comes with smelt, and is no faster here"
            evidence, origin = _evidence(row, one, adopted is not None), (self._seed, day, VERSION, self._run)
            found.append(record.Record(question, where, _answer(one), evidence, state, reason, *origin))
        self._log.add(found)

    def _day(self) -> str:
        return self._outside.take("today", today)

    def _is_worse(self, question: str, one: climb.Tried) -> bool:
        """Whether a contender that is used without having been asked for is no faster than the default."""
        known = {(each.question.digest, each.answer.source) for each in self._shipped}
        timed = one.outcome.timed
        return (question, one.contender.digest) in known and timed is not None and timed.ratio < 1


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
    knobs = "" if one.label == _KNOWN else one.label
    return record.Answer(one.contender.schedule, bits or "same", one.contender.digest, knobs)


def _evidence(row: Row, one: climb.Tried, adopted: bool) -> record.Evidence:
    timed = row.found.confirmed if adopted else one.outcome.timed
    if timed is None:
        return record.Evidence()
    return record.Evidence(
        timed.ratio, timed.low, timed.seconds * timed.ratio, timed.seconds, timed.turns, 2 if adopted else 1
    )
