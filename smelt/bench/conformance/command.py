"""The words of `smelt bench conformance`, its progress, and its table."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from smelt.bench.conformance.files import Options, Result, group_of
from smelt.bench.conformance.pool import Lost, answers

KINDS: Final = ("pass", "mismatch", "refused", "crashed", "slow")
_DEFECTS: Final = frozenset({"mismatch", "crashed", "slow"})
_HARNESSES: Final = "tests.peers.stablehlo_harnesses"

_EXAMPLES: Final = """\
examples:
  smelt bench conformance stablehlo FOLDER                 all .mlir files of a folder and of those inside
  smelt bench conformance stablehlo FOLDER --as-args       inputs are arguments, of which only types are known
  smelt bench conformance stablehlo FOLDER --only add gather --details
  smelt bench conformance stablehlo FOLDER --dims          open sizes as dims: one compilation for all of them
  smelt bench conformance stablehlo FOLDER --jobs 2 --json > found.json
  smelt bench conformance jax-harnesses -- --shard 1/50    JAX's own test programs; needs a checkout, jax and absl-py

A file may have several parts between lines of `// -----`; each is a case. What a part asserts (`check.expect_eq` and
its like, as operations or custom calls) is compared; of programs that assert nothing, what is compiled and what the
reference interpreter gives. Mismatches, crashes and what is too slow are defects and end with status 1; what is
refused is a gap. python -m smelt.bench.conformance does the same.
"""


def main(words: Sequence[str], program: str = "smelt bench conformance") -> int:
    """Run a set: 0 when there is no defect, 1 when there is one, 2 for words that make no sense, 130 on Ctrl-C."""
    arguments = _parser(program).parse_args(words)
    try:
        status: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    return status


def _parser(program: str) -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=program,
        description="How much of what others test is computed as they expect.",
        epilog=_EXAMPLES,
        formatter_class=layout,
    )
    sets = parser.add_subparsers(title="sets", metavar="SET", required=True)
    one = sets.add_parser(
        "stablehlo", help="a folder of StableHLO test files", epilog=_EXAMPLES, formatter_class=layout
    )
    one.add_argument("folder", type=Path, metavar="DIR", help="where the .mlir files are, or one of them")
    one.add_argument("--as-args", action="store_true", help="what @inputs gives is arguments instead of constants")
    one.add_argument("--interpreted", action="store_true", help="by the reference interpreter, without a compiler")
    one.add_argument("--dims", action="store_true", help="compile programs with open sizes once for all sizes")
    one.add_argument("--xla", action="store_true", help="where authorities disagree, as XLA has it")
    one.add_argument("--only", nargs="+", metavar="GROUP", help="only files about these operations")
    one.add_argument("--jobs", type=_positive, default=2, metavar="N", help="processes (2)")
    one.add_argument("--seconds", type=_positive, default=60, metavar="S", help="the longest that a file may take (60)")
    one.add_argument("--memory", type=_positive, default=8, metavar="GIB", help="addresses that a process may have (8)")
    one.add_argument("--details", action="store_true", help="a line for each case that does not pass")
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    one.set_defaults(run=lambda given: _stablehlo(given, program))
    jax = sets.add_parser("jax-harnesses", help="JAX's own test programs", epilog=_EXAMPLES, formatter_class=layout)
    jax.add_argument("words", nargs="*", help="words of that command, behind --")
    jax.set_defaults(run=lambda given: _harnesses(given, program))
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 1 << 20):
        raise argparse.ArgumentTypeError(f"{text!r:.20} is no number from 1 on")
    return int(text)


def _harnesses(arguments: argparse.Namespace, program: str) -> int:
    found = [importlib.util.find_spec(name) for name in ("tests", "jax", "absl")]
    if None in found:
        print(f"{program}: this set needs jax and absl-py, and to be run in a checkout of smelt", file=sys.stderr)
        return 2
    return subprocess.run([sys.executable, "-m", _HARNESSES, *arguments.words], check=False).returncode


def _stablehlo(arguments: argparse.Namespace, program: str) -> int:
    folder: Path = arguments.folder
    paths = sorted(folder.rglob("*.mlir")) if folder.is_dir() else [folder]
    if arguments.only:
        paths = [path for path in paths if group_of(path) in arguments.only]
    if not paths or not all(path.is_file() for path in paths):
        print(f"{program}: there are no such .mlir files in {folder}", file=sys.stderr)
        return 2
    start = time.monotonic()
    results = _run(paths, arguments)
    seconds = time.monotonic() - start
    print(_json(results, seconds) if arguments.json else _table(results, seconds, arguments.details))
    return int(any(result.kind in _DEFECTS for result in results))


def _run(paths: Sequence[Path], arguments: argparse.Namespace) -> list[Result]:
    options = Options(arguments.as_args, arguments.interpreted, arguments.dims, arguments.xla)
    jobs = [{"path": str(path), "options": options._asdict()} for path in paths]

    def lost(job: dict[str, Any], error: Lost) -> list[Sequence[str]]:
        path = Path(job["path"])
        return [(path.stem, group_of(path), error.kind, str(error))]

    results: list[Result] = []
    counts: Counter[str] = Counter()
    memory = arguments.memory << 30
    for number, found in enumerate(answers(jobs, arguments.jobs, arguments.seconds, memory, lost), 1):
        results += [Result(*each) for each in found]
        counts.update(result[2] for result in found)
        if not number % 50 or number == len(jobs):
            told = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
            print(f"[{number}/{len(jobs)}] {told}", file=sys.stderr, flush=True)
    return sorted(results)


def _table(results: Sequence[Result], seconds: float, details: bool) -> str:
    groups: dict[str, Counter[str]] = {}
    for result in results:
        groups.setdefault(result.group, Counter())[result.kind] += 1
    width = max([24, *(len(group) + 2 for group in groups)])
    lines = [f"{'operation':{width}}" + "".join(f"{kind:>10}" for kind in KINDS)]
    lines += [_row(group, counts, width) for group, counts in sorted(groups.items())]
    total = sum(groups.values(), Counter[str]())
    share = 100 * total["pass"] / max(total.total(), 1)
    lines += [_row("all", total, width), f"{total['pass']} of {total.total()}: {share:.1f} %, in {seconds:.0f} s"]
    if details:
        lines += ["", *(f"{r.kind}: {r.name}: {r.why}".splitlines()[0] for r in results if r.kind != "pass")]
    return "\n".join(lines)


def _row(name: str, counts: Counter[str], width: int) -> str:
    return f"{name:{width}}" + "".join(f"{counts[kind] or '':>10}" for kind in KINDS)


def _json(results: Sequence[Result], seconds: float) -> str:
    counts = Counter(result.kind for result in results)
    found = {"counts": {kind: counts[kind] for kind in KINDS}, "seconds": round(seconds, 1)}
    return json.dumps(found | {"results": [result._asdict() for result in results]})
