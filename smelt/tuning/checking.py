"""`smelt tune check`: whether the answers of the user's log still hold on this machine, and which hints do.

An answer whose kernel is rendered to the code that was measured only races today's default once more. One whose code is
another by now, or that comes from elsewhere, is verified first, as any contender is. What holds becomes an answer; what
does not says so in the log, and gives way to what was confirmed before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from smelt import schedule
from smelt.config import VERSION
from smelt.device import Device
from smelt.errors import SmeltError
from smelt.kernel import Illegal, parse_region, parse_schedule
from smelt.search import contender, exchange, inputs, log, measure, race, record
from smelt.tuning.keeping import plain, today

SECONDS: Final = 0.3  # of the races of one answer
HINTS: Final = 2  # of a region that are tried, the most promising first
MOST_BYTES: Final = 4 << 30  # of buffers of a region that is raced at all
_TOO_FEW: Final = "too few turns counted: the machine is busy"


class Checked(NamedTuple):
    """What became of an answer or a hint: it "holds", is "refused", or is "unsure", with a reason; and its figures."""

    record: record.Record
    was: str  # "answer", "stale" (its code has changed) or "hint"
    verdict: str
    reason: str
    timed: contender.Timed | None
    written: record.Record | None = None  # what the log is to say from now on

    def json(self) -> dict[str, Any]:
        """As plain data."""
        figures = self.timed or measure.NOTHING
        return {
            "name": self.record.question.digest,
            "was": self.was,
            "verdict": self.verdict,
            "reason": self.reason,
            "ratio": figures.ratio,
            "low": figures.low,
            "seconds": figures.seconds,
            "before": self.record.evidence.ratio,
            "schedule": self.record.answer.schedule,
        }


def check(
    device: Device,
    records: Sequence[record.Record],
    seconds: float,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
    measurer: contender.Measurer | None = None,
) -> Iterator[Checked]:
    """Measure what a log says about a device, within so many seconds: first what is not used although it might be, then
    the answers in force. What the log is to say of each is for the caller to add.
    """
    until, run, own = time.monotonic() + seconds, record.new_run(), measure.Racer(device, seed=seed)
    racer = measurer or own
    questions = list(_questions(device, records))
    done = 0
    try:
        for asked in _ordered(questions, device, until):
            if time.monotonic() > until:
                break
            done += 1
            say(f"{done} of {len(questions)}")
            yield from _in_turn(asked, lambda one: _checked(one, device, racer, seed, run))
    finally:
        own.close()
    if done < len(questions):
        say(f"time is up: {len(questions) - done} of {len(questions)} regions were not measured")


def _ordered(questions: Sequence[list[record.Record]], device: Device, until: float) -> Iterator[list[_Asked]]:
    """What is known of each region: what is used already comes last."""
    later = []
    for known in questions:
        if time.monotonic() > until:
            return
        asked = [_asked(one, device) for one in known]
        if asked[0].was == "answer":
            later.append(asked)
        else:
            yield asked
    yield from later


def _in_turn(asked: Sequence[_Asked], checked: Callable[[_Asked], Checked]) -> Iterator[Checked]:
    """What becomes of all that is known of one region, while it may be asked for. What is confirmed last counts, so no
    hint is tried once something holds, or is used and may hold.
    """
    held = False
    for one in asked:
        if held and one.was != "answer":
            continue
        found = checked(one)
        yield found
        held = held or found.verdict == "holds" or (one.was == "answer" and found.verdict == "unsure")
        if found.verdict == "holds" and (found.written or found.record).answer.bits == "same":
            return


class _Asked(NamedTuple):
    """Something to check, with its contender and the default, if they can still be made."""

    record: record.Record
    was: str
    default: contender.Contender | None
    chosen: contender.Contender | None
    problem: str = ""


def _questions(device: Device, records: Sequence[record.Record]) -> Iterator[list[record.Record]]:
    """For each region what is confirmed here, the latest first, and what was imported and may hold here."""
    here, answers, hints = record.Place.of(device), dict[str, list[record.Record]](), dict[str, list[record.Record]]()
    said_here: dict[str, set[str]] = {}
    for (place, question), said in log.standing(enumerate(records)).items():
        if place.device != here.device:
            continue
        # Only searches have whole programs, and several sizes.
        if any(one.question.is_graph or "parameter" in one.question.text for _, one in said.values()):
            continue
        for _, one in reversed(said.values()):
            if place == here and one.state == "confirmed":
                answers.setdefault(question, []).append(one)
            elif one.state == "imported":
                hints.setdefault(question, []).append(one)
            if place == here and one.state != "imported":
                said_here.setdefault(question, set()).add(one.answer.schedule)
    for question in {**answers, **hints}:
        new = [one for one in hints.get(question, ()) if one.answer.schedule not in said_here.get(question, ())]
        best = sorted(new, key=lambda one: -one.evidence.ratio)[:HINTS]
        if found := [*answers.get(question, ()), *best]:
            yield found


def _asked(one: record.Record, device: Device) -> _Asked:
    was = "answer" if one.state == "confirmed" else "hint"
    try:
        region = parse_region(one.question.text)
        default = contender.Contender.default(region, device)
        actions = parse_schedule(one.answer.schedule)
        chosen = contender.Contender.of(schedule.chosen("known", region, actions, device.profile), region, device)
    except (SmeltError, Illegal) as error:
        return _Asked(one, was, None, None, f"the schedule does not fit: {str(error).splitlines()[0]}")
    if was == "answer" and (chosen.digest != one.answer.source or one.evidence.method != record.Evidence().method):
        was = "stale"
    return _Asked(one, was, default, chosen)


def _checked(asked: _Asked, device: Device, racer: contender.Measurer, seed: int, run: str) -> Checked:
    """What becomes of one answer or hint."""
    one, was, default, chosen, problem = asked
    if default is None or chosen is None:
        state = "refused"
    elif chosen.identity == default.identity:
        state, problem = "refused", "it is the default by now"
    elif _bytes(one.question.text) > MOST_BYTES:
        return Checked(one, was, "unsure", "its buffers are too large to be raced here", None)
    else:
        try:
            return _measured(asked, default, chosen, device, racer, seed, run)
        except SmeltError as error:  # there is no memory for it, say
            return Checked(one, was, "unsure", str(error).splitlines()[0], None)
    return Checked(one, was, state, problem, None, _written(asked, device, state, problem, None, seed, run))


def _measured(
    asked: _Asked,
    default: contender.Contender,
    chosen: contender.Contender,
    device: Device,
    racer: contender.Measurer,
    seed: int,
    run: str,
) -> Checked:
    one, was, region = asked.record, asked.was, parse_region(asked.record.question.text)
    bits = one.answer.bits
    if was != "answer":  # another code than the one that was verified
        first, second = racer.race(region, [default, chosen], SECONDS / 2)
        if first.state != "timed":
            return Checked(one, was, "unsure", f"the default is {first.state}: {first.reason}", None)
        if second.state not in record.STATES:
            return Checked(one, was, "unsure", second.reason, None)
        if second.state != "timed" or second.verdict is None:
            written = _written(asked, device, second.state, second.reason, None, seed, run)
            return Checked(one, was, "refused", f"{second.state}: {second.reason}", None, written)
        bits = second.verdict.bits
    timed = racer.confirm(region, chosen, default, SECONDS)
    if race.is_adopted(timed):
        # What was an answer stays the one that it was, so that forgetting this check takes nothing away.
        answer = record.Answer(one.answer.schedule, bits, chosen.digest, one.answer.knobs)
        new = None if was == "answer" else _written(asked, device, "confirmed", "", timed, seed, run, answer)
        return Checked(one, was, "holds", "", timed, new)
    if timed.turns < race.LEAST_TURNS and timed.high >= race.LOST:
        return Checked(one, was, "unsure", _TOO_FEW, timed)
    if timed.high >= race.ADOPTED:
        return Checked(one, was, "unsure", f"between {timed.low:.3f} and {timed.high:.3f} times as fast", timed)
    reason = f"{timed.ratio:.3f} times as fast as the default"
    return Checked(one, was, "refused", reason, timed, _written(asked, device, "refused", reason, timed, seed, run))


def _written(
    asked: _Asked,
    device: Device,
    state: str,
    reason: str,
    timed: contender.Timed | None,
    seed: int,
    run: str,
    answer: record.Answer | None = None,
) -> record.Record:
    """A record of what was found out here and now."""
    figures = record.Evidence()
    if timed is not None:
        figures = record.Evidence(timed.ratio, timed.low, timed.seconds * timed.ratio, timed.seconds, timed.turns, 2)
    one = asked.record
    return record.Record(
        *(record.Question.of(one.question.text), record.Place.of(device), answer or one.answer, figures, state),
        *(plain(reason), seed, today(), VERSION, run),
    )


def _bytes(text: str) -> int:
    """Of all buffers of a region, at its usual sizes."""
    region = parse_region(text)
    sizes = inputs.usual_sizes(region)
    return sum(inputs.length(buffer, sizes) * buffer.dtype.itemsize for buffer in region.buffers())


def keep(found: Iterable[Checked], into: log.Log) -> Iterator[Checked]:
    """Add to the log what each check has found, as soon as it is known."""
    for one in found:
        if one.written is not None:
            exchange.add(into, [one.written])
        yield one
