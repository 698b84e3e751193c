"""`python -m tests.hunt`: random whole programs against NumPy and torch, until the count is reached.

python -m tests.hunt --count 20000              # new ones at every run
python -m tests.hunt --seed 417 --count 1       # one again, with what it is
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from typing import Any

from tests.hunt.workers import Outcome, outcomes


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hunt", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="how many programs")
    parser.add_argument("--seed", type=int, help="of the first one; otherwise drawn")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at the same time")
    parser.add_argument("--json", action="store_true", help="the summary as JSON on standard output")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 40) if given.seed is None else given.seed
    if given.count == 1:
        from tests.hunt.ways import program_for

        program, way = program_for(first)
        print(f"{way}:\n{program}", file=sys.stderr)
    print(f"{given.count} programs from seed {first}", file=sys.stderr, flush=True)
    start, all_of_them, wrong = time.monotonic(), list[Outcome](), list[Outcome]()
    for outcome in outcomes(range(first, first + given.count), min(given.processes, given.count)):
        all_of_them.append(outcome)
        if outcome.fault:
            wrong.append(outcome)
            print(f"--- seed {outcome.seed}, {outcome.way}\n{outcome.fault}", file=sys.stderr, flush=True)
        done, seconds = len(all_of_them), time.monotonic() - start
        if done % 100 == 0:
            print(f"{done} programs, {len(wrong)} wrong, {seconds:.0f} s", file=sys.stderr, flush=True)
        if seconds > given.seconds:
            break
    ways: dict[str, list[float]] = {}
    for outcome in all_of_them:
        ways.setdefault(outcome.way, []).append(outcome.seconds)
    report = {
        "first_seed": first,
        "programs": len(all_of_them),
        "wrong": [outcome._asdict() for outcome in wrong],
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(sum(outcome.seconds for outcome in all_of_them), 1),
        "ways": {way: {"programs": len(times), "seconds": round(sum(times), 2)} for way, times in sorted(ways.items())},
        "slowest": {outcome.seed: round(outcome.seconds, 1) for outcome in sorted(all_of_them, key=_seconds)[:-4:-1]},
    }
    print(json.dumps(report, indent=1) if given.json else _text(report), flush=True)
    return int(bool(wrong))


def _seconds(outcome: Outcome) -> float:
    return outcome.seconds


def _text(report: dict[str, Any]) -> str:
    lines = [
        f"{way:24} {row['programs']:6} programs {row['seconds'] / row['programs']:7.3f} s of processor time each"
        for way, row in report["ways"].items()
    ]
    lines += [f"seed {seed} took {seconds} s" for seed, seconds in report["slowest"].items()]
    lines += [f"again: python -m tests.hunt --count 1 --seed {outcome['seed']}" for outcome in report["wrong"]]
    passed, failed = report["programs"] - len(report["wrong"]), len(report["wrong"])
    return "\n".join([*lines, f"{passed} passed, {failed} failed, {report['seconds']} s"])


if __name__ == "__main__":
    sys.exit(main())
