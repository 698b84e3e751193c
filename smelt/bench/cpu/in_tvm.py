"""TVM, whose MetaSchedule would be given as much time as our search: as far as its wheel can search at all.

Wheels differ in what they were built with, and some end the process that asks them, so a process of its own finds out.
What is missing is said in the results, and the bar against it is void. Until a wheel can search, no operations are
written for it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from smelt.bench.cpu.library import Library
from smelt.errors import SmeltError

_SECONDS = 60.0
# The way to a search: a target by LLVM, and a context for one small product.
_STEPS = {
    "is not installed": "import tvm",
    "has no LLVM": "target = tvm.target.Target({'kind': 'llvm', 'num-cores': 2})",
    "has no MetaSchedule": "from tvm.s_tir import meta_schedule",
    "cannot describe a product": """
from tvm import te
a, b, k = te.placeholder((64, 64)), te.placeholder((64, 64)), te.reduce_axis((0, 64))
c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
module = tvm.IRModule({'main': te.create_prim_func([a, b, c])})
""",
    "cannot begin a search": "meta_schedule.TuneContext(module, target=target, space_generator='post-order-apply')",
}


def why_not() -> str:
    """What keeps TVM from searching here; empty if nothing does."""
    program = "\n".join(f"print({reason!r}, flush=True)\n{step}" for reason, step in _STEPS.items())
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"{program}\nprint('')"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"TVM did not begin a search within {_SECONDS:.0f} s"
    reached = done.stdout.splitlines()[-1:] or ["cannot be asked"]
    if not reached[0]:
        return ""
    status = done.returncode
    ended = f"ended by {signal.Signals(-status).name}" if status < 0 else (done.stderr.splitlines() or [""])[-1]
    return f"the wheel of TVM {reached[0]} ({ended})"


def library(name: str, threads: int) -> Library:
    """Its functions say why they cannot be compiled."""

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        raise SmeltError(f"{why_not() or 'no operations are written for TVM yet'}: this bar is void")

    return Library(lambda array: array, compiled, lambda found: found, _Any())


class _Any(dict[str, Callable[..., Any]]):
    def __missing__(self, operation: str) -> Callable[..., Any]:
        return lambda *inputs: inputs
