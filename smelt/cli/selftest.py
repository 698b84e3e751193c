"""`smelt tune selftest`: whether what searches and remembers keeps its promises on this machine."""

from __future__ import annotations

import argparse
import functools
import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from smelt.cli.devices import print_table

if TYPE_CHECKING:
    from smelt.search.selftest import suite

EXAMPLES: Final = """examples:
  smelt tune selftest                       a little of everything, in about a minute
  smelt tune selftest --aa 300 --noise      the default against itself: is luck ever taken for speed?
  smelt tune selftest --planted 100         are 5 % seen, and seen the right way round?
  smelt tune selftest --mutants 40          is every kernel found that was broken on purpose?
  smelt tune selftest --kill 200 --writers 4 --fuzz 100000      does the database survive?
"""
_COUNTS: Final = {
    "aa": "races of the default against itself; at most one may be adopted",
    "planted": "races against what is 5 %% slower by the clock, and as many against what is 5 %% faster",
    "mutants": "kernels broken on purpose, at least; all must be found before they are timed",
    "kill": "times a tuner is killed at a random moment; the database must hold all that it promised",
    "writers": "tuners that share one database at the same time",
    "fuzz": "damaged or hostile lines in a database and in files to import",
}
_WIDTH: Final = 44  # of a column


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the command."""
    for name, text in _COUNTS.items():
        parser.add_argument(f"--{name}", type=_count, default=0, metavar="N", help=text)
    parser.add_argument("--noise", action="store_true", help="keep one core busy half of the time during --aa")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn at random")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON; '-' prints them instead of a table")


def _count(text: str) -> int:
    found = int(text)
    if found < 0:
        raise ValueError
    return found


def main(arguments: argparse.Namespace) -> int:
    """Run the self-tests that are asked for, or a few of each; 1 if one of them fails."""
    from smelt.device import HOST, open_device
    from smelt.search.selftest import suite

    counts = suite.Counts(*(getattr(arguments, name) for name in suite.Counts._fields))
    device = open_device(HOST, "smelt tune selftest")
    results = []
    for test in suite.tests(
        counts if any(counts) else suite.SMALL, device, arguments.noise or not any(counts), arguments.seed
    ):
        _progress(test, 0)
        results.append(suite.run(test, functools.partial(_progress, test)))
        print(f"\r{test.name}: {results[-1].seconds:.0f} s{'':20}", file=sys.stderr)
    rows = [result._asdict() for result in results]
    if arguments.json:
        text = json.dumps({"seed": arguments.seed, "tests": rows}, indent=2)
        print(text) if arguments.json == "-" else Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    if arguments.json != "-":
        _print(results)
    return 0 if all(result.holds for result in results) else 1


def _progress(test: suite.Test, step: int) -> None:
    """On a terminal one line that changes; elsewhere nothing between the beginning and the end."""
    if sys.stderr.isatty():
        print(f"\r{test.name}: {step} of {test.steps} ", end="", file=sys.stderr, flush=True)


def _print(results: list[suite.Result]) -> None:
    rows = [["test", "bar", "found", "verdict"]]
    for result in results:
        verdict = "holds" if result.holds else "FAILS"
        columns = [textwrap.wrap(text, _WIDTH) for text in (result.test, result.bar, result.found)]
        for line in range(max(map(len, columns))):
            row = [column[line] if line < len(column) else "" for column in columns]
            rows.append([*row, "" if line else verdict])
    print_table(rows)
    for result in results:
        for detail in result.details:
            print(f"{result.test}: {detail}")
