"""The core suite: what a call, a node, an import, a first compilation and a fused matmul cost, each with its bar.

A measure is a function that gives rows; `MEASURES` names them all. What needs a process of its own is a task in
`smelt.bench.child`.
"""

from __future__ import annotations

import compileall
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import smelt as sm
from smelt.bench.first_calls import child_task, first_calls
from smelt.bench.models import check_close
from smelt.bench.report import Row
from smelt.bench.timing import Clock, best_of, private_cache, processes_in_turn, run_process
from smelt.transform import examine

DISPATCH_SECONDS, LEAF_SECONDS = 15e-6, 0.3e-6
KERNEL_SECONDS = 1e-6
NODE_SECONDS, BROADCAST_SECONDS = 10e-6, 25e-6
IMPORT_SECONDS, START_SECONDS = 0.1, 0.6
COLD_SECONDS, WARM_SECONDS = 4.0, 0.4
MATMUL_RATIO = 0.95

MATMUL_SIZES = ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (333, 555, 777))

# One thread each, whatever BLAS NumPy was built with.
ONE_THREAD = {name: "1" for name in ("SMELT_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}

_IMPORT_NUMPY = "import numpy"
_IMPORT_SMELT = "import smelt"
_FIRST_RESULT = """\
import numpy as np
import smelt as sm
x, w, b = (sm.asarray(np.ones(shape, np.float32)) for shape in ((32, 64), (64, 16), (16,)))
assert (sm.relu(x @ w + b).numpy() == 65).all()
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """`run(quick)` gives the rows; quick means fewer rounds, and smaller inputs where the rows say so."""

    summary: str
    run: Callable[[bool], list[Row]]


# --- in this process


def dispatch(quick: bool) -> list[Row]:
    """A replayed call of a one-kernel function, by how many tensors it is given."""
    rows = []
    for leaves in (1, 10, 100):
        tensors = [sm.asarray(np.full(3, k, np.float32)) for k in range(leaves)]
        for kind, argument in (("tuple", tuple(tensors)), ("dict", {f"leaf{k}": t for k, t in enumerate(tensors)})):
            function = sm.jit(_total)
            check_close(function(argument).numpy(), np.full(3, 0.5 + sum(range(leaves)), np.float32))
            kernels = len(examine(function, argument).kernels)
            call = partial(function, argument)
            seconds = _best(call, quick)
            processor = _best(call, quick, time.process_time)
            detail = f"{_count(kernels, 'kernel')}; processor time {1e6 * processor:.1f} µs"
            bar = DISPATCH_SECONDS + leaves * LEAF_SECONDS
            rows.append(Row(f"dispatch: {kind} of {leaves}", seconds, "µs", bar, detail=detail))
    return rows


def _best(function: Callable[[], object], quick: bool, clock: Clock = time.perf_counter) -> float:
    return best_of(function, rounds=_rounds(quick), pause=0.0 if quick else 0.3, clock=clock)


def _total(tensors: Any) -> sm.Tensor:
    result = sm.asarray(0.5)
    for tensor in tensors.values() if isinstance(tensors, dict) else tensors:
        result = result + tensor
    return result


def replay(quick: bool) -> list[Row]:
    """What each further kernel adds to a replayed call: a chain of small matmuls, which no one kernel can hold."""
    start = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    turn = np.roll(np.eye(4, dtype=np.float32), 1, axis=0)  # keeps every value
    x, w = sm.asarray(start), sm.asarray(turn)
    found: list[tuple[int, float]] = []
    for length in (1, 100):
        function = sm.jit(partial(_chain, length))
        check_close(function(x, w).numpy(), start @ np.linalg.matrix_power(turn, length))
        kernels = len(examine(function, x, w).kernels)
        found.append((kernels, _best(partial(function, x, w), quick)))
    (few, short), (many, long) = found
    detail = f"{_count(few, 'kernel')} {1e6 * short:.1f} µs, {_count(many, 'kernel')} {1e6 * long:.1f} µs"
    each = (long - short) / (many - few) if many > few else None
    return [Row("replay: each further kernel", each, "µs", KERNEL_SECONDS, detail=detail)]


def _chain(length: int, x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    for _ in range(length):
        x = x @ w
    return x


def node(quick: bool) -> list[Row]:
    """What one call of a public function costs while nothing is computed."""
    x, row, column = (sm.asarray(np.ones(shape, np.float32)) for shape in ((7, 11), (11,), (7, 1)))
    same: dict[str, Callable[[sm.Tensor], sm.Tensor]] = {
        "y + x": lambda y: y + x,
        "y * x": lambda y: y * x,
        "maximum(y, x)": lambda y: sm.maximum(y, x),
        "where(y < x, y, x)": lambda y: sm.where(y < x, y, x),
        "tanh(y)": sm.tanh,
    }
    broadcast: dict[str, Callable[[sm.Tensor], sm.Tensor]] = {
        "y + row": lambda y: y + row,
        "y * column": lambda y: y * column,
        "y * 1.5": lambda y: y * 1.5,
        "y.relu()": lambda y: y.relu(),  # broadcasts its 0
    }
    # `where(y < x, ...)` is two calls.
    calls = {"where(y < x, y, x)": 2}
    rows = []
    for name, functions, bar in (("same shape", same, NODE_SECONDS), ("broadcasting", broadcast, BROADCAST_SECONDS)):
        times = {text: _growth(step, x, quick) / calls.get(text, 1) for text, step in functions.items()}
        slowest = max(times, key=lambda text: times[text])
        detail = f"the slowest is {slowest}; " + ", ".join(
            f"{text} {1e6 * seconds:.1f}" for text, seconds in times.items() if text != slowest
        )
        rows.append(Row(f"node: {name}", times[slowest], "µs", bar, detail=detail))
    return rows


_CHAIN = 500  # calls in a row: each makes a new node, as nodes that exist are found again


def _growth(step: Callable[[sm.Tensor], sm.Tensor], x: sm.Tensor, quick: bool) -> float:
    """Seconds that one more step takes, on a graph that keeps growing."""

    def grow() -> None:
        y = x
        for _ in range(_CHAIN):
            y = step(y)

    return _best(grow, quick) / _CHAIN


# --- in fresh processes


def imports(quick: bool) -> list[Row]:
    """`import smelt` beyond `import numpy`."""
    _compile_package()
    numpy, smelt = processes_in_turn([_process(_IMPORT_NUMPY), _process(_IMPORT_SMELT)], 3 if quick else 11)
    return [_beyond("import: smelt, beyond numpy", numpy, smelt, IMPORT_SECONDS)]


def start(quick: bool) -> list[Row]:
    """A process that computes `relu(x @ w + b)` with cold caches, beyond one that imports numpy."""
    _compile_package()

    def cold() -> float:
        with private_cache() as environment:
            return run_process(["-c", _FIRST_RESULT], environment)[0]

    numpy, smelt = processes_in_turn([_process(_IMPORT_NUMPY), cold], 2 if quick else 7)
    return [_beyond("start: relu(x @ w + b), cold, beyond import numpy", numpy, smelt, START_SECONDS)]


def _compile_package() -> None:
    """Bytecode for all of smelt, as an installed package has it."""
    compileall.compile_dir(Path(sm.__file__).parent, quiet=2)


def _process(code: str) -> Callable[[], float]:
    return lambda: run_process(["-c", code])[0]


def _beyond(name: str, base: Sequence[float], whole: Sequence[float], bar: float) -> Row:
    """The best of one against the best of the other, which ran in turn; the median of the pairs beside it."""
    pairs = statistics.median(b - a for a, b in zip(base, whole, strict=True))
    detail = f"best {min(whole):.3f} s against {min(base):.3f} s; median of {len(base)} pairs {pairs:.3f} s"
    return Row(name, min(whole) - min(base), "s", bar, detail=detail)


def gpt2(quick: bool) -> list[Row]:
    """A GPT-2-sized forward pass: what the first call costs beyond any other, with a cold and a warm disk cache."""
    found = first_calls("gpt2", {"size": "tiny" if quick else "gpt2", "calls": 5}, 1 if quick else 3)
    name = "gpt2 (tiny, for a quick look)" if quick else "gpt2"
    # A small model cannot miss a bar that was set for a large one.
    rows = found.rows(name, *((None, None) if quick else (COLD_SECONDS, WARM_SECONDS)))
    detail = f"{found.cold[0]['kernels']} kernels; NumPy {1e3 * found.median('numpy'):.1f} ms"
    return [*rows, Row(f"{name}: any other call", found.median("median"), "ms", detail=detail)]


def matmul(quick: bool) -> list[Row]:
    """gelu(x @ w + b) in smelt against x @ w alone in NumPy, both on one thread."""
    rows = []
    for size in MATMUL_SIZES:
        m, n, k = size
        found = child_task("matmul", {"size": size, "quick": quick}, ONE_THREAD)
        speeds = [2e-9 * m * n * k / found[key] for key in ("smelt", "numpy")]
        detail = (
            f"{speeds[0]:.0f} against {speeds[1]:.0f} GFLOP/s; {_count(found['kernels'], 'kernel')}; "
            f"±{100 * found['error']:.1f} % after {found['rounds']} rounds"
        )
        name = f"matmul: {m}×{n}×{k} + bias, gelu"
        rows.append(Row(name, found["ratio"], "×", MATMUL_RATIO, at_least=True, detail=detail))
    return rows


def _rounds(quick: bool) -> int:
    return 3 if quick else 5


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


MEASURES = {
    "dispatch": Measure("a replayed call of a one-kernel function on tiny tensors", dispatch),
    "replay": Measure("what each further kernel adds to a replayed call", replay),
    "node": Measure("what a public function costs while nothing is computed", node),
    "import": Measure("`import smelt` beyond `import numpy`", imports),
    "start": Measure("process start to a first result with cold caches", start),
    "gpt2": Measure("the first call of a 12-layer GPT-2-sized forward pass", gpt2),
    "matmul": Measure("matmul with bias and gelu against NumPy's plain matmul, one thread", matmul),
}
