"""Damaged texts of MLIR by the thousand: `python -m tests.fuzz.mlir --n 100000`.

Each is read and checked as a program. It has to be read, or refused by a typed error with line and column, within
seconds and a bounded memory; anything else is printed with the number that makes it again.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from smelt.errors import SmeltError
from smelt.formats import stablehlo
from tests.fuzz.damage import damaged

MEMORY: Final = 1 << 30  # bytes more than a process has to begin with
_PART = 500  # texts a process
_PLACE: Final = re.compile(r"line [0-9]+, column [0-9]+: ")
_PAGE: Final = resource.getpagesize()


class Outcome(NamedTuple):
    """What became of a text: read, refused, or what must not be."""

    number: int
    kind: str
    why: str = ""

    @property
    def is_wrong(self) -> bool:
        return self.kind not in ("read", "refused")


def tried(text: str, number: int = 0, seconds: float = 2.0) -> Outcome:
    """What becomes of a text, in so many seconds of the processor."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        program = stablehlo.load(text)
        shapes = [tuple(3 if n is None else n for n in argument.shape) for argument in program.signature.arguments]
        for mistake in program.mistakes(*shapes):  # the first one counts
            raise mistake
    except SmeltError as error:
        told = str(error)
        return Outcome(
            number, "refused" if _PLACE.match(told) else "without a place", f"{type(error).__name__}: {told}"
        )
    except TimeoutError:
        return Outcome(number, "slow", f"more than {seconds:g} s")
    except RecursionError:
        return Outcome(number, "crashed", "RecursionError")
    except Exception as error:
        return Outcome(number, "crashed", f"{type(error).__name__}: {error}"[:300])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return Outcome(number, "read")


def some(first: int, count: int, seconds: float) -> list[Outcome]:
    """What becomes of so many damaged texts, in this process."""
    return [tried(damaged(number), number, seconds) for number in range(first, first + count)]


def limited() -> None:
    """Take no more memory than allowed from now on."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * _PAGE + MEMORY, resource.RLIM_INFINITY))


def _in_process(first: int, count: int, seconds: float) -> list[Outcome]:
    command = [sys.executable, "-m", "tests.fuzz.mlir", "--part", str(first), str(count), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return [Outcome(first, "crashed", f"one of {count} texts ended the process with {done.returncode}")]
    return [Outcome(*each) for each in json.loads(done.stdout)]


def _all(arguments: argparse.Namespace) -> Iterator[list[Outcome]]:
    parts = [
        (first, min(_PART, arguments.first + arguments.n - first), arguments.seconds)
        for first in range(arguments.first, arguments.first + arguments.n, _PART)
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        yield from pool.map(lambda part: _in_process(*part), parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="how many texts")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest that one may take")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print a text, and what becomes of it")
    parser.add_argument("--part", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.show is not None:
        text = damaged(arguments.show)
        print(text, tried(text, arguments.show, arguments.seconds), sep="\n")
        return 0
    if arguments.part is not None:
        limited()
        print(json.dumps(some(*arguments.part, arguments.seconds)))
        return 0
    return _summed(arguments)


def _summed(arguments: argparse.Namespace) -> int:
    start, counts, kinds = time.monotonic(), Counter[str](), Counter[str]()
    for found in _all(arguments):
        counts.update(outcome.kind for outcome in found)
        kinds.update(outcome.why.partition(":")[0] for outcome in found if outcome.kind == "refused")
        for outcome in found:
            if outcome.is_wrong:
                print(f"{outcome.number}: {outcome.kind}: {outcome.why.splitlines()[0]}", flush=True)
        if not counts.total() % (20 * _PART):
            print(f"[{counts.total()}/{arguments.n}] {dict(counts)}", file=sys.stderr, flush=True)
    told: dict[str, Any] = {**counts, "of these": dict(kinds), "seconds": round(time.monotonic() - start)}
    print(json.dumps(told))
    return int(any(kind not in ("read", "refused") for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
