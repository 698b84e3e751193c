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

from tests.hunt.workers import outcomes


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
    start, done, wrong, ways = time.monotonic(), 0, [], dict[str, list[float]]()
    for outcome in outcomes(range(first, first + given.count), min(given.processes, given.count)):
        done += 1
        ways.setdefault(outcome.way, []).append(outcome.seconds)
        if outcome.fault:
            wrong.append(outcome)
            print(f"--- seed {outcome.seed}, {outcome.way}\n{outcome.fault}", file=sys.stderr, flush=True)
        seconds = time.monotonic() - start
        if done % 100 == 0:
            print(f"{done} programs, {len(wrong)} wrong, {seconds:.0f} s", file=sys.stderr, flush=True)
        if seconds > given.seconds:
            break
    report = {
        "first_seed": first,
        "programs": done,
        "wrong": [outcome._asdict() for outcome in wrong],
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(sum(map(sum, ways.values())), 1),
        "ways": {way: {"programs": len(times), "seconds": round(sum(times), 2)} for way, times in sorted(ways.items())},
    }
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        for way, row in report["ways"].items():
            print(f"{way:24} {row['programs']:6} programs {row['seconds'] / row['programs']:7.3f} s each")
        print(f"{done - len(wrong)} passed, {len(wrong)} failed, {report['seconds']} s, from seed {first}")
        for outcome in wrong[:20]:
            print(f"again: python -m tests.hunt --count 1 --seed {outcome.seed}")
    sys.stdout.flush()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
