"""`python -m tests.hunt`: random whole programs against NumPy, until something is wrong or the count is reached.

python -m tests.hunt --count 20000              # new ones at every run
python -m tests.hunt --seed 417 --count 1       # one again, with what it is
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.hunt.programs import made
from tests.hunt.ways import WAYS, difference, reduced


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many programs")
    parser.add_argument("--seed", type=int, help="of the first one; otherwise drawn")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 40) if given.seed is None else given.seed
    print(f"{given.count} programs from seed {first}", flush=True)
    start, failed, done = time.monotonic(), 0, 0
    for seed in range(first, first + given.count):
        if time.monotonic() - start > given.seconds:
            break
        program, way = made(seed), list(WAYS)[seed % len(WAYS)]
        fault = difference(program, way)
        done += 1
        if fault is not None:
            failed += 1
            shorter = reduced(program, way)
            print(f"--- seed {seed}, {way}\n{shorter}\n{difference(shorter, way)}", flush=True)
        if done % 100 == 0:
            print(f"{done} programs, {failed} wrong, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{done - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
