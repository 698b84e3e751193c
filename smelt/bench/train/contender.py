"""One contender of the train suite: `python -m smelt.bench.train.contender LIBRARY CASE THREADS`.

It answers with the losses of its first steps and the seconds of the first, then each number with the seconds per step
of so many.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable

from smelt.bench.contest import serve
from smelt.bench.cpu.contender import pin

LOSSES = 3  # that are compared

_MODULES = {"torch.compile": "in_torch", "smelt-plain": "in_smelt"}


def main(words: list[str]) -> None:
    library, case, threads = words
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    pin(int(threads))
    module = importlib.import_module(f"smelt.bench.train.{_MODULES.get(library, f'in_{library}')}")
    try:
        step: Callable[[], float] = module.training(library, case, int(threads))
        began = time.perf_counter()
        losses = [step()]
        first = time.perf_counter() - began
        losses += [step() for _ in range(LOSSES - 1)]
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}".partition("\n")[0]}), file=answers, flush=True)
        raise
    sys.stdout = answers
    serve(step, {"losses": losses, "first": first})


if __name__ == "__main__":
    main(sys.argv[1:])
