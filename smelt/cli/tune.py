"""`smelt tune`: what is known to be faster than the default, and where that knowledge goes."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from smelt.cli.devices import print_table

# What needs the compiler is loaded when a command runs: help is instant.
if TYPE_CHECKING:
    from smelt.search import exchange, log, record

_EXAMPLES: Final = """examples:
  smelt tune train.py                        run a script, find faster schedules for its kernels, and keep them
  smelt tune train.py --budget max --html tuned.html
  smelt tune train.py --only matmul -- --steps 10      words behind -- are the script's
  smelt tune list                   the choices that were found here, and what they gain
  smelt tune list --only matmul     those with this in their region or schedule
  smelt tune show 3fa9              one of them: its region, schedule and figures
  smelt tune forget --last          undo the latest run
  smelt tune export tuned.log       for a machine of the same kind
  smelt tune import tuned.log       as hints, which are tried before anything else
"""
_JSON: Final[dict[str, Any]] = {"action": "store_true", "help": "print JSON instead of a table"}
_ONLY: Final[dict[str, Any]] = {"default": "", "metavar": "TEXT", "help": "what has this in its region or schedule"}
_COLUMNS: Final = ("name", "kernel", "where", "state", "gain", "at least", "before", "after", "bits", "date")


def parser() -> argparse.ArgumentParser:
    """The words of the command."""
    shown = argparse.RawDescriptionHelpFormatter
    description = "Choices that were measured to be faster than the default ones."
    top = argparse.ArgumentParser("smelt tune", description=description, epilog=_EXAMPLES, formatter_class=shown)
    top.set_defaults(run=lambda _: top.print_help())
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    one = command("script", _script, "run a script, find faster schedules for its kernels, and keep them")
    one.add_argument("script", type=Path)
    one.add_argument("--budget", default="quick", help="quick (10 s), max (10 min), or seconds, as in 90s")
    one.add_argument("--only", default="", metavar="TEXT", help="kernels with this in their names")
    one.add_argument("--seed", type=int, default=0, help="of what is drawn at random")
    one.add_argument("--json", metavar="FILE", help="write what was found as JSON; '-' prints it instead of the table")
    one.add_argument("--html", metavar="FILE", type=Path, help="write a page with all that was tried")
    one = command("list", _list, "what is known, and what it gains")
    one.add_argument("--only", **_ONLY)
    one.add_argument("--json", **_JSON)
    one = command("show", _show, "all about one choice")
    one.add_argument("name", help="the beginning of its name, as `list` has it")
    one.add_argument("--json", **_JSON)
    one = command("forget", _forget, "let choices count no longer")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help="the beginnings of their names")
    which.add_argument("--last", action="store_true", help="all that the latest run or import has found")
    which.add_argument("--all", action="store_true", help="everything")
    one = command("export", _export, "write choices into a file")
    one.add_argument("file", type=Path)
    one.add_argument("--only", **_ONLY)
    one = command("import", _import, "take choices from a file: as hints, until they are confirmed here")
    one.add_argument("file", type=Path)
    one.add_argument("--trust", action="store_true", help="as they are, for machines that are equal")
    return top


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say: a script may stand in the place of its name, with words of its own."""
    own, given = list(words), []
    if own and own[0].endswith(".py"):
        end = own.index("--") if "--" in own else len(own)
        own, given = ["script", *own[:end]], own[end + 1 :]
    found = parser().parse_args(own)
    found.words = given
    return found


def _script(arguments: argparse.Namespace) -> int:
    """The script's own output goes to stderr, once: stdout has the table."""
    import contextlib
    import io
    import runpy
    import sys

    from smelt.errors import ArgumentError
    from smelt.tuning import Budget, Progress, Watched, tune_programs, watching

    budget = Budget.of(arguments.budget)
    if not arguments.script.is_file():
        raise ArgumentError(f"smelt tune: there is no file {arguments.script}")

    said: Iterator[TextIO] = itertools.chain([sys.stderr], iter(io.StringIO, None))

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        given, sys.argv = sys.argv, [str(arguments.script), *arguments.words]
        try:
            while not until():
                with watching(watched), contextlib.redirect_stdout(next(said)), contextlib.suppress(SystemExit):
                    runpy.run_path(str(arguments.script), run_name="__main__")
        finally:
            sys.argv = given

    found = tune_programs(run, budget, arguments.seed, arguments.only, Progress.on(sys.stderr))
    if arguments.html:
        arguments.html.write_text(found.html(), encoding="utf-8")
    if arguments.json:
        text = json.dumps(found.json(), indent=2)
        print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    if arguments.json != "-":
        print(found)
    return 0


def _log() -> log.Log:
    from smelt.errors import ArgumentError
    from smelt.search import log

    found = log.user_log()
    if found is None:
        raise ArgumentError("there is no home directory", hint="SMELT_DATA_DIR can name a folder.")
    return found


def _list(arguments: argparse.Namespace) -> int:
    from smelt.search import exchange

    log = _log()
    records, skipped = log.load()
    found = exchange.known(records, arguments.only)
    if arguments.json:
        entries = [_facts(one) for one in found]
        print(json.dumps({"file": str(log.path), "choices": entries, "skipped": dict(skipped)}, indent=2))
        return 0
    if found:
        print_table([list(_COLUMNS), *(_row(_facts(one)) for one in found)])
    print(f"{len(found)} choices from {len(records)} records in {log.path}; lines skipped: {_counted(skipped)}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from smelt.search import exchange

    everything = exchange.known(_log().load().records)
    found = [one for one in everything if one.record.question.digest.startswith(arguments.name)]
    _expect(found, arguments.name)
    if arguments.json:
        print(json.dumps([_facts(one) for one in found], indent=2))
        return 0
    for one in found:
        facts = _facts(one)
        region, schedule = facts.pop("region"), facts.pop("schedule")
        for name, value in facts.items():
            print(f"{name:<18}{_counted(value) if isinstance(value, dict) else value}")
        print(f"\nschedule\n{schedule or '(none)'}\n\n{region}")
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    from smelt.search import exchange

    log = _log()
    gone = exchange.counting(log.load().records)
    if arguments.last:
        gone = [record for record in gone if record.run == gone[-1].run]
    elif not arguments.all:
        gone = [record for record in gone if record.question.digest.startswith(tuple(arguments.names))]
        _expect(gone, " ".join(arguments.names))
    print(f"forgot {exchange.forget(log, gone)} records of {len({record.question.digest for record in gone})} choices")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from smelt.search import exchange

    found = [one.record for one in exchange.known(_log().load().records, arguments.only)]
    count = exchange.export([record for record in found if record.state == "confirmed"], arguments.file)
    print(f"wrote {count} choices to {arguments.file}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from smelt.search import exchange, record

    counts = exchange.take(_log(), arguments.file, record.new_run(), arguments.trust)
    how = "as they are" if arguments.trust else "as hints"
    print(f"took {counts.pop('taken')} choices {how}; left out: {_counted(counts)} (undo: smelt tune forget --last)")
    return 0


def _expect(found: list[Any], name: str) -> None:
    if not found:
        from smelt.errors import ArgumentError

        raise ArgumentError(f"nothing is known as {name}", hint="smelt tune list has the names.")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "none"


def _facts(one: exchange.Known) -> dict[str, Any]:
    """All about a choice, ready for JSON."""
    record = one.record
    return {
        "name": record.question.digest,
        "kernel": _title(record.question.text),
        "where": _where(record.place),
        "state": record.state,
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
    times = [f"{1e3 * facts[name]:.3g} ms" for name in ("default_seconds", "chosen_seconds")]
    gains = [f"{facts[name]:.2f}" for name in ("ratio", "low")]
    short = [facts[name] for name in ("kernel", "where", "state")]
    return [facts["name"][:12], *short, *gains, *times, facts["bits"], facts["date"]]


def _where(its: record.Place) -> str:
    """Whether a record is of this machine, as it is used now."""
    here = _here(its.device)
    if here is None:
        return "elsewhere"
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


def _title(region: str) -> str:
    """A region in a few words: its results, and what is computed for them."""
    results = re.findall(r"^output \S+ (\S+ \[[^\]]*\])", region, re.MULTILINE)
    operations = dict.fromkeys(re.findall(r"^%\d+: \S+ = (?!load|const|index)(\w+)", region, re.MULTILINE))
    return f"{', '.join(results)}: {' '.join(list(operations)[:4])}"[:48]
