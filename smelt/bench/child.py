"""Tasks that need a process of their own: `python -m smelt.bench.child <task> <options as JSON>` prints JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt import runtime
from smelt.bench import models
from smelt.bench.compiling import planning, training
from smelt.bench.planning import plan_random, plan_training
from smelt.bench.timing import paired
from smelt.bench.tuning import compare_drawn, compare_sized, tune_drawn, tune_training
from smelt.compiler import trace
from smelt.tensor import node_of
from smelt.transform import examine

_SIZES = {"gpt2": models.GPT2, "tiny": models.TINY}


def gpt2(size: str, calls: int) -> dict[str, Any]:
    """The first and the median call of a forward pass, in a process that has compiled nothing yet."""
    sizes = _SIZES[size]
    arrays = models.parameters(sizes)
    embedded = models.embed(arrays, sizes)
    weights = {name: sm.from_numpy(array) for name, array in arrays.items()}
    x = sm.from_numpy(embedded)

    def forward(weights: dict[str, sm.Tensor], x: sm.Tensor) -> sm.Tensor:
        return models.forward(weights, x, sizes.layers, sizes.heads)

    function = sm.jit(forward)
    first, result = _timed(lambda: function(weights, x))
    others = [_timed(lambda: function(weights, x))[0] for _ in range(calls)]
    numpy, expected = _timed(lambda: models.reference(arrays, embedded, sizes.layers, sizes.heads))
    models.check_close(result.numpy(), expected)
    kernels = len(examine(function, weights, x).kernels)
    return {"first": first, "median": statistics.median(others), "numpy": numpy, "kernels": kernels}


def coldpath(size: str) -> dict[str, Any]:
    """Where the time of the first result goes, stage by stage, without `jit` around it."""
    sizes = _SIZES[size]
    arrays = models.parameters(sizes)
    embedded = models.embed(arrays, sizes)
    weights = {name: sm.from_numpy(array) for name, array in arrays.items()}
    x = sm.from_numpy(embedded)
    stages: dict[str, float] = {}
    stages["build nodes"], result = _timed(lambda: models.forward(weights, x, sizes.layers, sizes.heads))
    stages["trace"], traced = _timed(lambda: trace([node_of(result, "coldpath")]))
    whole, compiled = _timed(lambda: runtime.current().compiler.compile(traced.key, runtime.default_device()))
    stages |= compiled.seconds
    stages["other"] = whole - sum(compiled.seconds.values())
    # The kernels are known by now, so this finds them again, allocates, and runs.
    found, values = _timed(result.numpy)
    models.check_close(values, models.reference(arrays, embedded, sizes.layers, sizes.heads))
    return {
        "stages": stages,
        "nodes": len(traced.key[0]),
        "kernels": len(compiled.kernels),
        "distinct_kernels": len({record.name for record in compiled.kernels}),
        "source_lines": compiled.source.count("\n"),
        "run_seconds": found,
    }


def matmul(size: tuple[int, int, int], quick: bool) -> dict[str, Any]:
    """gelu(x @ w + b) against NumPy's x @ w into a buffer that is there already."""
    m, n, k = size
    generator = np.random.default_rng(0)
    x, w, b = (generator.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n), (n,)))
    x /= np.float32(k**0.5)
    tensors = [sm.from_numpy(array) for array in (x, w, b)]
    function = sm.jit(lambda x, w, b: sm.gelu(x @ w + b, approximate="tanh"))
    models.check_close(function(*tensors).numpy(), models.gelu_reference(x @ w + b))
    product = np.empty((m, n), np.float32)
    most = 5 if quick else 101
    # Processor time: equal to the wall's on a quiet machine, and work on further threads could not hide.
    result = paired(
        lambda: function(*tensors), lambda: np.matmul(x, w, out=product), least=5, most=most, clock=time.process_time
    )
    kernels = len(examine(function, *tensors).kernels)
    return {
        "ratio": result.ratio,
        "error": result.error,
        "smelt": result.first,
        "numpy": result.second,
        "rounds": result.rounds,
        "kernels": kernels,
    }


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


TASKS: dict[str, Callable[..., Any]] = {
    "gpt2": gpt2,
    "coldpath": coldpath,
    "matmul": matmul,
    "training": training,
    "planning": planning,
    "plan_training": plan_training,
    "plan_random": plan_random,
    "tune_training": tune_training,
    "tune_drawn": tune_drawn,
    "compare_drawn": compare_drawn,
    "compare_sized": compare_sized,
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
