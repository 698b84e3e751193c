"""`smelt tune list`, `show`, `check`, `forget`, `export`, `import`: what people do with the choices that were found."""

from __future__ import annotations

import argparse
import datetime
import difflib
import functools
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.cli.devices import print_table
from smelt.errors import ArgumentError

# What needs the compiler is loaded when a command runs: help is instant.
if TYPE_CHECKING:
    from smelt.search import exchange, log, record
    from smelt.tuning import checking

_COLUMNS: Final = ("name", "gain", "at least", "kernel", "before", "after", "bits", "age", "state")
_CHECKED: Final = ("name", "kernel", "was", "gain then", "now", "at least", "verdict")
_STATES: Final = {"confirmed": "used", "imported": "hint: imported", "timed": "hint: timed once"}
_WIDTH: Final = 48  # of a kernel in words
_LOOKED: Final = 100  # choices at most of which it is looked whether they still mean the same code
_NAME: Final = 12  # digits of a name that are shown
_SECONDS: Final = {"s": 1.0, "ms": 1e-3}
_UNITS: Final = ((86400 * 365, "years"), (86400, "days"), (3600, "hours"), (60, "minutes"))  # dates have no seconds


def list_choices(arguments: argparse.Namespace) -> int:
    """What is known, and what it gains."""
    from smelt.search import exchange

    log = _log()
    records, skipped = log.load()
    found = exchange.known(records, arguments.only)
    entries = [_facts(one, len(found) <= _LOOKED) for one in found]
    if arguments.json:
        _print_json({"file": str(log.path), "choices": entries, "skipped": dict(skipped)})
        return 0
    if found:
        print_table([list(_COLUMNS), *map(_row, entries)])
    used = sum(one["counts_as"] == "used" for one in entries)
    damage = f"; lines skipped: {_counted(skipped)}" if skipped else ""
    print(f"{len(found)} choices, {used} of them used here, from {len(records)} records in {log.path}{damage}")
    if not records:
        print("nothing was tuned yet: smelt tune SCRIPT.py, or sm.tune(f, *arguments)")
    elif arguments.only and not found:
        print(f"none has {arguments.only!r} in its region, schedule or name")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """All about choices, by the beginnings of their names."""
    from smelt.search import exchange

    found = _named(exchange.known(_log().load().records), [arguments.name])
    if arguments.json:
        _print_json([_facts(one) | _today(one.record) for one in found])
        return 0
    for one in found:
        facts = _facts(one)
        region, schedule = facts.pop("region"), facts.pop("schedule")
        for name, value in (facts | _today(one.record)).items():
            if name not in ("changes", "run", "seed", "is_same"):
                print(f"{name:<18}{_counted(value) if isinstance(value, dict) else _text(name, value)}")
        print(f"\nschedule\n{_indented(schedule or '(the default)')}")
        changes = _today(one.record)["changes"]
        print(f"\ncompared with today's default\n{_indented(chr(10).join(changes))}" if changes else "")
        print(f"\nregion\n{_indented(region)}")
    return 0


def forget(arguments: argparse.Namespace) -> int:
    """Let choices count no longer."""
    from smelt.search import exchange

    log = _log()
    known, gone = exchange.known(log.load().records), exchange.counting(log.load().records)
    if arguments.last:
        gone = [record for record in gone if record.run == gone[-1].run]
    elif not arguments.all:
        named = {one.record.question.digest for one in _named(known, arguments.names)}
        gone = [record for record in gone if record.question.digest in named]
    count = exchange.forget(log, gone)
    names = list(dict.fromkeys(record.question.digest for record in gone))
    if arguments.json:
        _print_json({"records": count, "choices": names})
    else:
        print(f"forgot {count} records of {len(names)} choices" if names else "there is nothing to forget")
        titles = {record.question.digest: record for record in (*gone, *(one.record for one in known))}
        for name in names[:_NAME]:
            print(f"  {name[:_NAME]}  {_title(titles[name])}")
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write choices into a file."""
    from smelt.search import exchange

    found = [one.record for one in exchange.known(_log().load().records, arguments.only)]
    count = exchange.export([record for record in found if record.state == "confirmed"], arguments.file)
    if arguments.json:
        _print_json({"file": str(arguments.file), "choices": count})
    else:
        print(f"wrote {count} choices to {arguments.file}")
    return 0


def take(arguments: argparse.Namespace) -> int:
    """Take choices from a file."""
    from smelt.search import exchange, record

    counts = exchange.take(_log(), arguments.file, record.new_run(), arguments.trust)
    taken, how = counts.pop("taken"), "as they are" if arguments.trust else "as hints"
    if set(counts) == {"damaged"} and not taken:
        raise ArgumentError(
            f"{arguments.file} has no choices in it", hint="Files of choices are written by smelt tune export."
        )
    if arguments.json:
        _print_json({"file": str(arguments.file), "taken": taken, "trusted": arguments.trust, "left_out": dict(counts)})
        return 0
    left = f"; left out: {_counted(counts)}" if counts else ""
    print(f"took {taken} choices {how}{left}" + (" (undo: smelt tune forget --last)" if taken else ""))
    if taken and not arguments.trust:
        print("they are tried by the next search; smelt tune check confirms them now")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Measure what is known once more."""
    from smelt.device import HOST, open_device
    from smelt.search import exchange
    from smelt.tuning import Budget, checking

    log, budget = _log(), Budget.of(arguments.budget)
    device = open_device(HOST, "smelt tune check")
    records = [one for one in log.load().records if exchange.concerns(one, arguments.only)]
    asked = checking.check(device, records, budget.seconds, arguments.seed, _progress)
    found = list(checking.keep(asked, log))
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    if arguments.json:
        _print_json([one.json() for one in found])
        return 0
    if found:
        print_table([list(_CHECKED), *map(_checked_row, found)])
    verdicts = {name: sum(one.verdict == name for one in found) for name in ("holds", "refused", "unsure")}
    new = sum(one.written is not None and one.written.state == "confirmed" for one in found)
    holds, refused, unsure = verdicts.values()
    print(f"{holds} hold, {new} of them as new answers; {refused} do not, and give way; {unsure} unsure")
    return 0


def counts(log: log.Log) -> dict[str, int]:
    """How many answers of a log are for this machine, and for others, and how many hints there are."""
    from smelt.search import exchange

    states = [_state(one.record) for one in exchange.known(log.load().records)]
    hints, elsewhere = (sum(state.startswith(word) for state in states) for word in ("hint", "of "))
    return {"answers_here": states.count("used"), "answers_elsewhere": elsewhere, "hints": hints}


def _checked_row(one: checking.Checked) -> list[str]:
    from smelt.search import exchange

    now = (
        [f"{one.timed.ratio:.2f}", f"{one.timed.low:.2f}"] if one.timed is not None and one.timed.turns else ["-", "-"]
    )
    told = f"{one.verdict}: {one.reason}" if one.reason else one.verdict
    name, title = one.record.question.digest[:_NAME], exchange.title_of(one.record.question.text)
    return [name, title, one.was, f"{one.record.evidence.ratio:.2f}", *now, told]


def _progress(text: str) -> None:
    """On a terminal a line that changes; elsewhere only what is more than a count."""
    if not text[0].isdigit():
        print(text, file=sys.stderr)
    elif sys.stderr.isatty():
        print(f"\r{text} ", end="", file=sys.stderr, flush=True)


def _log() -> log.Log:
    from smelt.errors import ArgumentError
    from smelt.search import log

    found = log.user_log()
    if found is None:
        raise ArgumentError("there is no home directory", hint="SMELT_DATA_DIR can name a folder.")
    return found


def _named(known: Iterable[exchange.Known], names: Sequence[str]) -> list[exchange.Known]:
    """The choices whose names begin like this: each must be that of one at least."""
    from smelt.errors import ArgumentError

    found: dict[int, exchange.Known] = {}
    everything = list(known)
    for name in names:
        if not re.fullmatch("[0-9a-f]+", name):
            raise ArgumentError(f"{name!r} is no name of a choice", hint="smelt tune list has the names.")
        own = {at: one for at, one in enumerate(everything) if one.record.question.digest.startswith(name)}
        if not own:
            raise ArgumentError(f"nothing is known as {name}", hint="smelt tune list has the names.")
        found |= own
    return list(found.values())


def _facts(one: exchange.Known, is_looked_at: bool = True) -> dict[str, Any]:
    """All about a choice, ready for JSON."""
    record = one.record
    return {
        "name": record.question.digest,
        "kernel": _title(record),
        "where": _where(record.place),
        "state": record.state,
        "counts_as": _state(record, is_looked_at),
        **record.evidence._asdict(),
        "bits": record.answer.bits,
        "date": record.date,
        "smelt": record.smelt,
        "seed": record.seed,
        "run": record.run,
        "others": dict(one.others),
        "schedule": record.answer.schedule,
        "region": record.question.text,
    }


def _row(facts: dict[str, Any]) -> list[str]:
    gains = [f"{facts[name]:.2f}" for name in ("ratio", "low")]
    times = [_text(name, facts[name]) for name in ("default_seconds", "chosen_seconds")]
    words = facts["kernel"] if len(facts["kernel"]) <= _WIDTH else facts["kernel"][: _WIDTH - 1] + "…"
    return [facts["name"][:_NAME], *gains, words, *times, facts["bits"], _age(facts["date"]), facts["counts_as"]]


def _state(record: record.Record, is_looked_at: bool = False) -> str:
    """What a record counts as, in words: only what was confirmed here is used, and only as the code that was measured,
    which takes some milliseconds to find out.
    """
    where = _where(record.place)
    if where == "here" and record.state == "confirmed" and is_looked_at and not _today(record)["is_same"]:
        return "hint: other code"
    if where == "here" and record.state == "timed" and record.evidence.ratio <= 1:
        return "not used: no faster"
    return _STATES.get(record.state, record.state) if where == "here" else f"of {where}"


def _today(record: record.Record) -> dict[str, Any]:
    """What a choice means with the code of today, if its device is here."""
    from smelt.device import open_device
    from smelt.errors import SmeltError
    from smelt.kernel import Illegal, parse_region, parse_schedule
    from smelt.schedule import chosen as chosen_for
    from smelt.search import contender

    if record.question.is_graph:
        return {"is_same": True, "today": "taken if it gives the kernels that were measured", "changes": []}
    try:
        device, region = open_device(record.place.device, "smelt tune show"), parse_region(record.question.text)
        default = contender.Contender.default(region, device)
        actions = parse_schedule(record.answer.schedule)
        chosen = contender.Contender.of(chosen_for("known", region, actions, device.profile), region, device)
    except (SmeltError, Illegal) as error:
        return {"is_same": False, "today": f"it does not fit: {str(error).splitlines()[0]}", "changes": []}
    is_same = chosen.digest == record.answer.source
    told = "the code that was measured" if is_same else "another code: the default is used until smelt tune check"
    lines = difflib.ndiff(default.schedule.splitlines(), chosen.schedule.splitlines())
    return {"is_same": is_same, "today": told, "changes": [line for line in lines if line[0] in "+-"]}


def _where(its: record.Place) -> str:
    """Whether a record is of this machine, as it is used now."""
    here = _here(its.device)
    if here is None:
        return f"another device, {its.device}"
    differs = [name for name, mine in here._asdict().items() if mine != getattr(its, name)]
    return f"other {', '.join(differs)}" if differs else "here"


@functools.cache
def _here(device: str) -> record.Place | None:
    from smelt.device import open_device
    from smelt.errors import SmeltError
    from smelt.search import record

    try:
        return record.Place.of(open_device(device, "smelt tune"))
    except SmeltError:
        return None


def _title(one: record.Record) -> str:
    """A kernel in a few words, or the cut that was chosen for a graph."""
    from smelt.search import exchange

    return one.reason if one.question.is_graph else exchange.title_of(one.question.text)


def _age(date: str) -> str:
    """How long ago something was found."""
    try:
        then = datetime.datetime.fromisoformat(date)
    except ValueError:
        return date
    passed = (datetime.datetime.now(datetime.UTC) - then.replace(tzinfo=datetime.UTC)).total_seconds()
    for seconds, unit in _UNITS:
        if passed >= 2 * seconds:
            return f"{passed / seconds:.0f} {unit}"
    return "now"


def _text(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("_seconds"):
        unit, scale = next(
            ((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e-3)) if value >= scale), ("us", 1e-6)
        )
        return f"{value / scale:.3g} {unit}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))
