"""`make tuned`: tunes the kernels of the cpu suite and writes what holds into the file that comes with smelt.

    python -m smelt.bench.shipping                          every case, a minute each, in two runs
    python -m smelt.bench.shipping --only matmul --budget 20
    python -m smelt.bench.shipping --write                  only write the file, of what the log has

What is written was confirmed in two runs, with a gain of 5 % in each.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from smelt import runtime
from smelt.bench.cpu.cases import CASES
from smelt.bench.cpu.in_smelt import OPERATIONS
from smelt.config import configure
from smelt.errors import ArgumentError
from smelt.runtime import device
from smelt.search import log, record, shipped
from smelt.tensor import asarray
from smelt.tuning import tune

FOLDER: Final = Path(__file__).resolve().parents[1] / "tuned"
_RUNS: Final = 2


def main() -> None:
    """Tune, and write the file for this family of processors."""
    parser = argparse.ArgumentParser(
        "python -m smelt.bench.shipping", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their names")
    parser.add_argument("--budget", default="60", help="seconds for each case and run, or quick, or max")
    parser.add_argument("--write", action="store_true", help="tune nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the file goes")
    given = parser.parse_args()
    found = log.user_log()
    if found is None:
        raise ArgumentError("there is no home directory", hint="SMELT_DATA_DIR can name a folder.")
    for name, case in CASES.items():
        if given.write or given.only not in name or case.operation not in OPERATIONS:
            continue
        for run in range(_RUNS):
            with configure(tuned="off"), runtime.using(runtime.Runtime()):
                inputs = [asarray(each, copy=True) for each in case.inputs(False)]
                print(name, repr(tune(OPERATIONS[case.operation], *inputs, budget=given.budget, seed=run)), flush=True)
    place = record.Place.of(device("cpu"))
    lines = list(worth_shipping(found.load().records, place))
    given.folder.mkdir(exist_ok=True)
    path = given.folder / f"{place.family}.log"
    path.write_bytes(b"".join(lines))
    print(f"{len(lines)} answers in {path}, {sum(map(len, lines))} bytes")


def worth_shipping(records: Iterable[record.Record], place: record.Place) -> Iterable[bytes]:
    """Lines of what was confirmed at a place in two runs with enough of a gain, as many as there is room for: the best
    first. Each says the smaller gain.
    """
    runs: dict[tuple[str, str], dict[str, record.Record]] = defaultdict(dict)
    for one in records:
        if one.place == place and one.state == "confirmed":
            runs[one.question.digest, one.answer.source][one.run] = one
        elif one.place == place and one.state == "forgotten":
            runs.pop((one.question.digest, one.answer.source), None)
    least = [min(found.values(), key=lambda one: one.evidence.ratio) for found in runs.values() if len(found) >= _RUNS]
    room = shipped.MOST_BYTES
    for one in sorted(least, key=lambda one: -one.evidence.ratio):
        line = record.write(one)
        if one.evidence.ratio >= shipped.GAIN and len(line) <= room:
            room -= len(line)
            yield line


if __name__ == "__main__":
    main()
