"""One contender of the train suite: `python -m smelt.bench.train.contender LIBRARY CASE THREADS`.

It answers with the losses of its first steps, the seconds of the first and the memory that they took, then each number
with the seconds per step of so many.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

from smelt.bench.contest import pin, serve
from smelt.bench.cpu.memory import Resident
from smelt.bench.peak import marked
from smelt.bench.train.cases import CASES

LOSSES = 3  # that are compared


def main(words: list[str]) -> None:
    library, case, threads = words
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    pin(int(threads))
    resident = Resident()
    module = importlib.import_module(f"smelt.bench.train.in_{library.partition('.')[0].partition('-')[0]}")
    try:
        step: Callable[[], float] = module.training(library, case, int(threads))
        began = time.perf_counter()
        losses = [step()]
        first = time.perf_counter() - began
        losses += [step() for _ in range(LOSSES - 1)]
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}".partition("\n")[0]}), file=answers, flush=True)
        raise
    facts = {"losses": losses, "first": first, "memory": resident.most(), "nbytes": CASES[case].least_bytes()}
    mark = marked(int(threads)) if library == "smelt" else None
    sys.stdout = answers
    serve(step, facts, mark)


if __name__ == "__main__":
    main(sys.argv[1:])
