"""`smelt tune`: what is known to be faster than the default, and where that knowledge goes."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from smelt.cli import choices, options, selftest

_EXAMPLES: Final = """examples:
  smelt tune train.py                        run a script, find faster schedules for its kernels, and keep them
  smelt tune train.py --budget max --html tuned.html
  smelt tune train.py --only matmul -- --steps 10      words behind -- are the script's
  smelt tune train.py --record run.json      and --replay run.json later: the same search, without measuring
  smelt tune list                   the choices that were found here, and what they gain
  smelt tune list --only matmul     those with this in their region or schedule
  smelt tune show 3fa9              one of them: its region, schedule and figures
  smelt tune forget --last          undo the latest run
  smelt tune export tuned.log       for a machine of the same kind
  smelt tune import tuned.log       as hints, which are tried before anything else
  smelt tune check                  what still holds, after an update or an import
  smelt tune selftest               whether measurements on this machine can be trusted
"""
_CHECKS: Final = """Each answer races today's default for a second. What no longer holds gives way. What was
measured with other code, as after an update of smelt, or was imported, is verified, too,
and becomes an answer if it holds.

examples:
  smelt tune check                      everything that is known here
  smelt tune check --only matmul --json
"""
_COMMANDS: Final = ("script", "list", "show", "forget", "export", "import", "check", "selftest")
_JSON: Final[dict[str, Any]] = {"action": "store_true", "help": "print JSON instead of a table"}
_ONLY: Final[dict[str, Any]] = {"default": "", "metavar": "TEXT", "help": "what has this in its region or schedule"}


def parser() -> argparse.ArgumentParser:
    """The words of the command."""
    shown = argparse.RawDescriptionHelpFormatter
    description = "Choices that were measured to be faster than the default ones."
    top = options.Parser("smelt tune", description=description, epilog=_EXAMPLES, formatter_class=shown)
    top.set_defaults(run=lambda _: top.print_help())
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Any, text: str, epilog: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, epilog=epilog, formatter_class=shown)
        made.set_defaults(run=run)
        return made

    text = "run a script, find faster schedules for its kernels, and keep them"
    one = command("script", _script, text, "words behind -- are the script's: smelt tune train.py -- --steps 10")
    one.add_argument("script", type=Path)
    one.add_argument("--budget", default="quick", help="quick (10 s), max (10 min), or seconds, as in 90s")
    one.add_argument("--only", default="", metavar="TEXT", help="kernels with this in their names")
    one.add_argument("--seed", type=int, default=0, help="of what is drawn at random")
    one.add_argument("--json", metavar="FILE", help="write what was found as JSON; '-' prints it instead of the table")
    one.add_argument("--html", metavar="FILE", type=Path, help="write a page with all that was tried")
    facts = one.add_mutually_exclusive_group()
    facts.add_argument("--record", metavar="FILE", type=Path, help="write all that was measured, to be played back")
    facts.add_argument("--replay", metavar="FILE", type=Path, help="measure nothing: take what was recorded")
    one = command("list", choices.list_choices, "what is known, and what it gains")
    one.add_argument("--only", **_ONLY)
    one.add_argument("--json", **_JSON)
    one = command("show", choices.show, "all about one choice")
    one.add_argument("name", help="the beginning of its name, as `list` has it")
    one.add_argument("--json", **_JSON)
    one = command("forget", choices.forget, "let choices count no longer")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help="the beginnings of their names")
    which.add_argument("--last", action="store_true", help="all that the latest run or import has found")
    which.add_argument("--all", action="store_true", help="everything")
    one.add_argument("--json", **_JSON)
    one = command("export", choices.export, "write choices into a file")
    one.add_argument("file", type=Path)
    one.add_argument("--only", **_ONLY)
    one.add_argument("--json", **_JSON)
    one = command("import", choices.take, "take choices from a file: as hints, until they are confirmed here")
    one.add_argument("file", type=Path)
    one.add_argument("--trust", action="store_true", help="as they are, for machines that are equal")
    one.add_argument("--json", **_JSON)
    one = command("check", choices.check, "measure what is known once more, and confirm hints", _CHECKS)
    one.add_argument("--only", **_ONLY)
    one.add_argument("--budget", default="max", help="quick (10 s), max (10 min), or seconds, as in 90s")
    one.add_argument("--seed", type=int, default=0, help="of what is drawn at random")
    one.add_argument("--json", **_JSON)
    one = command(
        "selftest", selftest.main, "whether what searches and remembers keeps its promises here", selftest.EXAMPLES
    )
    selftest.add_arguments(one)
    return top


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say: a script may stand in the place of its name, with words of its own."""
    end = words.index("--") if "--" in words else len(words)
    own, given = list(words[:end]), list(words[end + 1 :])
    if own and own[0] not in _COMMANDS and any(word.endswith(".py") for word in own):
        own = ["script", *own]
    top = parser()
    found, more = top.parse_known_args(own)
    if more:
        hint = "; words for the script stand behind --" if found.run is _script else ""
        top.error(f"unrecognized arguments: {' '.join(more)}{hint}")
    found.words = given
    return found


def _script(arguments: argparse.Namespace) -> int:
    """The script's own output goes to stderr, once: stdout has the table."""
    import contextlib
    import io
    import runpy
    import sys

    from smelt.errors import ArgumentError
    from smelt.tuning import Budget, Progress, Recording, Replay, Watched, tune_programs, watching

    budget = Budget.of(arguments.budget)
    outside = Replay(arguments.replay) if arguments.replay else Recording() if arguments.record else None
    if not arguments.script.is_file():
        raise ArgumentError(f"smelt tune: there is no file {arguments.script}")
    for file in (arguments.html, arguments.json, arguments.record):  # not after minutes of tuning
        if file not in (None, "-") and not Path(file).resolve().parent.is_dir():
            raise ArgumentError(f"smelt tune: there is no folder for {file}")

    said: Iterator[TextIO] = itertools.chain([sys.stderr], iter(io.StringIO, None))

    def run(watched: Watched, until: Callable[[], bool]) -> None:
        given, sys.argv = sys.argv, [str(arguments.script), *arguments.words]
        try:
            while not until():
                with watching(watched), contextlib.redirect_stdout(next(said)), contextlib.suppress(SystemExit):
                    runpy.run_path(str(arguments.script), run_name="__main__")
        finally:
            sys.argv = given

    progress = Progress.on(sys.stderr)
    found = tune_programs(run, budget, arguments.seed, arguments.only, progress, outside=outside)
    if isinstance(outside, Recording):
        outside.save(arguments.record)
    if arguments.html:
        arguments.html.write_text(found.html(), encoding="utf-8")
    if arguments.json:
        text = json.dumps(found.json(), indent=2)
        print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    if arguments.json != "-":
        print(found)
    return 0
