"""A program that ends with a first loss: `python -m smelt.bench.train.first_losses LIBRARY THREADS CASE...`.

It prints the losses, the seconds and the processor's seconds that they took, and its memory.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time


def main(words: list[str]) -> None:
    library, threads, *cases = words
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    began, before = time.perf_counter(), 0.0 if library == "smelt" else _processor()
    module = importlib.import_module(f"smelt.bench.train.in_{library.partition('.')[0]}")
    losses = [module.training(library, case, int(threads))() for case in cases]
    seconds, processor = time.perf_counter() - began, _processor() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    print(json.dumps({"losses": losses, "seconds": seconds, "processor": processor, "peak": peak}), file=answers)


def _processor() -> float:
    """Seconds of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main(sys.argv[1:])
