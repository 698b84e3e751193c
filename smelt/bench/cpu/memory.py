"""The resident memory of a forward pass against what has to be there: `python -m smelt.bench.cpu.memory` prints JSON.

What has to be there is computed from the sizes of the network alone: the weights, and the largest set of values that
are alive at the same time when nothing is held for longer than it is needed and attention keeps no scores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smelt.bench import models
from smelt.bench.models import Transformer
from smelt.bench.report import Row
from smelt.bench.timing import run_json

MOST = 1.15
_FLOAT = 4
_STATUS = Path("/proc/self/status")


def live_sets(size: Transformer) -> Iterator[int]:
    """Bytes alive while each step of `networks.gpt2` runs: what it reads, what it writes, and what waits for later."""
    x = _FLOAT * size.length * size.width
    given = x  # the vectors that the caller holds
    yield given + x
    for _ in range(size.layers):
        yield given + x + x + 3 * x  # x, normed, query with key and value
        yield given + x + 3 * x + x  # x, these, what attention saw
        yield given + x + x + x  # x, what attention saw, the sum
        yield given + x + x + 4 * x  # x, normed, hidden
        yield given + x + 4 * x + x  # x, hidden, the sum
    yield given + x + _FLOAT * size.length * size.vocabulary  # normed, logits


def weight_bytes(size: Transformer) -> int:
    width = size.width
    layer = 4 * width + 12 * width * width + 9 * width
    return _FLOAT * (size.vocabulary * width + size.length * width + size.layers * layer + 2 * width)


def memory_row(quick: bool) -> Row:
    """The ratio of the two, with a bar that is a ceiling."""
    name = "gpt2-memory"
    if not _STATUS.exists():
        return Row(name, 0.0, "×", detail="not measured: only Linux says how much memory was resident at most")
    found = run_json(["-m", "smelt.bench.cpu.memory", json.dumps({"quick": quick})])
    needed = found["weights"] + found["live"]
    detail = (
        f"{1e-6 * found['peak']:.0f} MB at most, {1e-6 * found['steady']:.0f} MB in later calls; weights "
        f"{1e-6 * found['weights']:.0f} MB and {1e-6 * found['live']:.0f} MB alive at the same time"
    )
    return Row(name, found["peak"] / needed, "×", None if quick else MOST, detail=detail)


def _status(field: str) -> int:
    """Bytes, from the kernel's account of this process."""
    [line] = [line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith(f"{field}:")]
    return 1024 * int(line.split()[1])


class Resident:
    """Watches this process from now on: how much more memory it had at most than at the beginning."""

    def __init__(self, base: int | None = None) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            self._base: int | None = _status("VmRSS") if base is None else base
        except OSError:
            self._base = None

    def most(self) -> int | None:
        """Bytes; unknown where the system does not say."""
        return None if self._base is None else max(0, _status("VmHWM") - self._base)


def measure(quick: bool) -> dict[str, Any]:
    """The most that was resident beyond what smelt takes after a first small call, compilation included."""
    import smelt as sm
    from smelt.bench.cpu.networks import GPT2

    size = models.TINY if quick else GPT2
    sm.realize(sm.jit(lambda x: sm.softmax(x @ x.mT))(sm.ones((64, 64))))
    baseline = _status("VmRSS")
    weights, x = _inputs(size)
    resident = Resident(baseline)
    function = sm.jit(lambda weights, x: models.forward(weights, x, size.layers, size.heads))
    sm.realize(function(weights, x))
    peak = resident.most() or 0
    resident = Resident(baseline)
    for _ in range(3):
        sm.realize(function(weights, x))
    steady = resident.most() or 0
    return {"peak": max(peak, steady), "steady": steady, "weights": weight_bytes(size), "live": max(live_sets(size))}


def _inputs(size: Transformer) -> tuple[Any, Any]:
    import smelt as sm

    arrays = models.parameters(size)
    x = sm.asarray(models.embed(arrays, size), copy=True)
    return {name: sm.from_numpy(array) for name, array in arrays.items()}, x


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
