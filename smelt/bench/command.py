"""`smelt bench SUITE`: the words of the command line, and where results go."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smelt.bench import conformance
from smelt.bench.baseline import Baseline
from smelt.bench.cpu.library import KNOWN, installed, named
from smelt.bench.cpu.suite import cores
from smelt.bench.page import page
from smelt.bench.peak import marked
from smelt.bench.report import Report, Verdict, machine, machine_text, table, to_json
from smelt.bench.suites import Suite, suites
from smelt.config import configure
from smelt.errors import ArgumentError, SmeltError
from smelt.tuning import Budget

_CONFORMANCE = "conformance"
_EXAMPLES = """\
examples:
  smelt bench matmul -m 512 -n 512 -k 1024              one product against other libraries, with every column
  smelt bench matmul -m 64 --dtype bfloat16 --tune 20s --dump-schedule
  smelt bench suite --quick --html report.html          all rows against all peers, a rough look, as a page
  smelt bench suite --json new.json --baseline old.json what became slower since; exits with 1 if anything did
  smelt bench suite --tune 60 --peers torch,torch.compile,jax --only matmul-f32 rows
  smelt bench tuned --seed 7 --json tuned.json          what tuning gains for sixty kernels that are drawn
  smelt bench tuned --seed 7 --draw 12 --budget quick --only matmul
  smelt bench model gpt2                                a whole network: gpt2, gpt, mlp, lenet, resnet, decode-f32
  smelt bench algebra --contracts fast --peers jax      what equal programs gain, of all programs, against JAX
  smelt bench algebra --only lora --quick               one of them: a rough look
  smelt bench algebra --rules --contracts fast          which rule wins on which program: with it, and with all others
  smelt bench planning --nodes 5000                     how long the search for equal programs takes
  smelt bench compile                                   first calls and first losses, with cold and warm caches
  smelt bench core --only dispatch matmul --json -      two measures of the compiler itself, as JSON on stdout
  smelt bench coldpath                                  where the time of a first compilation goes
  smelt bench estimates                                 how good the cost model is: kernels in several forms
  smelt bench conformance stablehlo FOLDER --as-args    test files of others: which are computed as they expect
  smelt bench compare ../old --only ops mlp             another checkout and this one, in turn

smelt bench SUITE --help says what it measures. python -m smelt.bench does the same.
"""


def main(words: Sequence[str] | None = None, program: str = "smelt bench") -> int:
    """Run one suite: 0 when all is well, 1 when something failed or became slower, 130 on Ctrl-C."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] == _CONFORMANCE:  # it measures nothing, and has words of its own
        return conformance.main(words[1:], f"{program} {_CONFORMANCE}")
    known = suites()
    parser = _parser(program, known)
    arguments = parser.parse_args(words)
    try:
        _checked(arguments)
    except ArgumentError as error:
        parser.error(str(error))
    try:
        with _choices(arguments.tuned):
            return _run(arguments, known[arguments.suite])
    except SmeltError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser(program: str, known: dict[str, Suite]) -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=program, description="Measure smelt.", epilog=_EXAMPLES, formatter_class=layout
    )
    added = parser.add_subparsers(title="suites", dest="suite", metavar="SUITE", required=True)
    for name, suite in known.items():
        help = f"{suite.help[0].upper()}{suite.help[1:]}."
        one = added.add_parser(
            name,
            help=suite.help,
            description=suite.description or help,
            epilog="\n\n".join(filter(None, (suite.listed, _examples(name)))),
            formatter_class=layout,
        )
        for names, taken in suite.words:
            one.add_argument(*names, **taken)
        _common(one, suite)
    added.add_parser(_CONFORMANCE, help="how much of what others test is computed as they expect")
    return parser


def _examples(name: str) -> str:
    lines = [line for line in _EXAMPLES.splitlines() if line.startswith(f"  smelt bench {name} ")]
    return "\n".join(["examples:", *lines]) if lines else ""


def _common(one: argparse.ArgumentParser, suite: Suite) -> None:
    """The options that several suites have."""
    if suite.only is not None:
        choices = list(suite.only) or None
        one.add_argument("--only", nargs="+", choices=choices, default=None, metavar="NAME", help="only these")
    if suite.threads:
        told = f"{' and '.join(map(str, suite.threads))} unless given"
        counts: dict[str, Any] = {"choices": range(1, cores() + 1), "default": list(suite.threads)}
        one.add_argument("--threads", type=int, nargs="+", metavar="N", help=told, **counts)
    if suite.peers:
        told = f"only these, with commas between them: {', '.join(KNOWN)}; unless given: {', '.join(suite.peers)}"
        one.add_argument("--peers", "--against", nargs="+", metavar="PEER", help=told)
    if suite.quick:
        one.add_argument("--quick", action="store_true", help=suite.quick)
    if suite.strict:
        one.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
    one.add_argument("--tuned", action="store_true", help="with what `smelt tune` has stored, which is not used else")
    one.add_argument("--json", metavar="FILE", help="write JSON too; '-' prints it instead of the table")
    one.add_argument("--html", metavar="FILE", help="write a page with a roofline plot; it needs nothing else")
    one.add_argument("--baseline", metavar="FILE", help="an earlier --json: say what differs, exit with 1 if slower")
    one.add_argument("--anyway", action="store_true", help="compare even with figures of another machine")


def _checked(arguments: argparse.Namespace) -> None:
    """Words that argparse cannot judge, before anything is measured. Who is asked for and is not there is named."""
    for file in (arguments.json, arguments.html):
        if file not in (None, "-") and not Path(file).resolve().parent.is_dir():
            raise ArgumentError(f"bench: there is no folder for {file}")
    if getattr(arguments, "tune", ""):
        Budget.of(arguments.tune)
    if getattr(arguments, "peers", None) is None:
        return
    asked = [name for text in arguments.peers for name in named(text)]
    for name in (name for name in asked if not installed(name)):
        print(f"smelt bench: {name} is not installed here, and left out", file=sys.stderr)
    arguments.peers = [name for name in asked if installed(name)]


@contextmanager
def _choices(tuned: bool) -> Iterator[None]:
    """Measure defaults, here and in all children, whatever this user has tuned; unless that is what is asked for."""
    before = os.environ.get("SMELT_TUNED")
    wanted = "on" if tuned else "off"
    os.environ["SMELT_TUNED"] = wanted
    try:
        with configure(tuned=wanted):
            yield
    finally:
        os.environ.pop("SMELT_TUNED")
        if before is not None:
            os.environ["SMELT_TUNED"] = before


def _run(arguments: argparse.Namespace, suite: Suite) -> int:
    baseline = None if arguments.baseline is None else Baseline.read(Path(arguments.baseline))
    facts = machine() | {"quick": getattr(arguments, "quick", False), "tuned": arguments.tuned}
    if baseline is not None and not arguments.anyway:
        baseline.check(arguments.suite, facts)
    _progress(f"{arguments.suite}: first, how fast this machine is now")
    mark = marked()
    facts["mark"] = mark()
    report = suite.run(arguments, _progress)
    facts |= report.facts | {"mark": min(facts["mark"], mark())}
    difference = None if baseline is None else baseline.differences(facts, [row.json() for row in report.rows])
    if difference is not None:
        report.extra["differences"] = [change._asdict() for change in difference.changes]
    _write(arguments, report, facts, "" if difference is None else difference.text())
    verdicts = {row.verdict for row in report.rows}
    missed = getattr(arguments, "strict", False) and Verdict.MISS in verdicts
    failed = Verdict.FAILED in verdicts if report.failed is None else report.failed
    return int(failed or missed or (difference is not None and difference.is_worse))


def _progress(text: str) -> None:
    """Somebody who waits for minutes wants to know for what, also where both streams go to a file."""
    print(text, file=sys.stderr, flush=True)


def _write(arguments: argparse.Namespace, report: Report, facts: dict[str, Any], differences: str) -> None:
    """JSON and the page into their files, everything else to stdout."""
    parts = [machine_text(facts), table(report.rows), report.text, differences]
    if arguments.html is not None:
        Path(arguments.html).write_text(page(arguments.suite, report, facts, differences), encoding="utf-8")
    if arguments.json is not None:
        text = to_json(arguments.suite, report.rows, facts, report.extra)
        if arguments.json == "-":
            print(text)
            return
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    print("\n\n".join(filter(None, parts)))
