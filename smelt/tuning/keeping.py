"""What tuning has found, as records of the user's log: also what lost, since that need not be tried again."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

from smelt.search.climb import Tried
from smelt.search.log import user_log
from smelt.search.place import Place
from smelt.search.record import Answer, Evidence, Question, Record, new_run

if TYPE_CHECKING:
    from smelt.tuning.report import Row, Tuning


def keep(tuning: Tuning) -> None:
    """Add everything to the log; a user without a home keeps nothing."""
    log = user_log()
    if log is None:
        for row in tuning.rows:
            row.stored = False
        return
    import smelt

    day, run = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"), new_run()
    log.add(record for row in tuning.rows for record in _records(row, tuning.seed, day, smelt.__version__, run))


def _records(row: Row, seed: int, day: str, version: str, run: str) -> Iterator[Record]:
    question, place = Question.of(row.question.text), Place.of(row.question.device)
    for one in row.found.tried:
        reason = one.outcome.reason.encode("ascii", "replace").decode().replace("\n", " ")[:200]
        adopted = row.stored and one is row.found.adopted
        state = "confirmed" if adopted else one.outcome.state
        yield Record(
            question, place, _answer(one), _evidence(row, one, adopted), state, reason, seed, day, version, run
        )


def _answer(one: Tried) -> Answer:
    bits = "same" if one.outcome.verdict is None else one.outcome.verdict.bits
    return Answer(one.contender.schedule, bits or "same", one.contender.digest)


def _evidence(row: Row, one: Tried, adopted: bool) -> Evidence:
    timed = row.found.confirmed if adopted else one.outcome.timed
    if timed is None:
        return Evidence()
    return Evidence(
        timed.ratio, timed.low, timed.seconds * timed.ratio, timed.seconds, timed.turns, 2 if adopted else 1
    )
