"""Compiling gradients: a training step of a small transformer, and the gradient of a deep network of small ops."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import smelt as sm
from smelt import runtime
from smelt.bench import models
from smelt.bench.first_calls import child_task, first_calls
from smelt.bench.report import Row
from smelt.bench.timing import private_cache
from smelt.config import configure
from smelt.errors import InternalError
from smelt.transform import examine

COLD_SECONDS, WARM_SECONDS, PLAN_SECONDS = 6.0, 0.6, 1.0
PLANNED_NODES = 5000
SUMMARY = "what compiling a training step and planning 5,000 nodes costs"

Weights = Mapping[str, sm.Tensor]


@dataclass(frozen=True, slots=True)
class Training:
    """A transformer and a batch of sequences for it."""

    model: models.Transformer
    batch: int


SIZES = {
    "small": Training(models.Transformer(layers=12, width=384, heads=6, length=256, vocabulary=512), 8),
    "tiny": Training(models.TINY, 2),
}
DEPTHS = {"small": 120, "tiny": 12}


def measure_compile(quick: bool) -> list[Row]:
    """Rows for first calls and for planning, in fresh processes."""
    size = "tiny" if quick else "small"
    name = "training step (tiny, for a quick look)" if quick else "training step"
    found = first_calls("training", {"size": size, "calls": 3}, 1 if quick else 3)
    # A small model cannot miss a bar that was set for a large one.
    rows = found.rows(name, *((None, None) if quick else (COLD_SECONDS, WARM_SECONDS)))
    detail = f"{found.cold[0]['kernels']} launches of {found.cold[0]['distinct_kernels']} kernels"
    rows.append(Row(f"{name}: any other call", found.median("median"), "ms", detail=detail))
    with private_cache() as environment:
        plan = child_task("planning", {"depth": DEPTHS[size]}, environment)
    detail = (
        f"{plan['kernels']} launches of {plan['distinct_kernels']} kernels; {plan['schedule']:.3f} s to schedule those"
    )
    bar = PLAN_SECONDS if plan["nodes"] >= PLANNED_NODES else None
    rows.append(Row(f"planning of {plan['nodes']} nodes", plan["seconds"], "s", bar, detail=detail))
    return rows


# --- in a process of its own


def training(size: str, calls: int) -> dict[str, Any]:
    """The first and the median call of an Adam step, in a process that has compiled nothing like it yet."""
    sizes = SIZES[size]
    model = sizes.model
    arrays = models.parameters(model)
    tokens = np.random.default_rng(1).integers(0, model.vocabulary, (sizes.batch, model.length))
    following = np.roll(tokens, -1, 1)
    weights = {name: sm.asarray(array, copy=True) for name, array in arrays.items()}
    means = {name: sm.zeros(w.shape) for name, w in weights.items()}
    squares = {name: sm.zeros(w.shape) for name, w in weights.items()}
    steps = sm.zeros(())
    x, y = sm.asarray(tokens), sm.asarray(following)
    # Making the arguments is no part of the step.
    sm.realize(*weights.values(), *means.values(), *squares.values(), steps, x, y)
    function = sm.jit(adam_step(model), donate=(0, 1, 2))
    state: Any = (weights, means, squares, steps)
    seconds: list[float] = []
    losses: list[float] = []
    for _ in range(1 + calls):
        start = time.perf_counter()
        *state, loss = function(*state, x, y)
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
    models.check_close(np.asarray(losses[:1], np.float32), _reference(arrays, tokens, following, model))
    if losses[-1] >= losses[0]:
        raise InternalError(f"training made the loss worse: {losses}")
    kernels = examine(sm.jit(adam_step(model)), *state, x, y).kernels
    return {
        "first": seconds[0],
        "median": statistics.median(seconds[1:]),
        "kernels": len(kernels),
        "distinct_kernels": len({kernel.name for kernel in kernels}),
    }


def adam_step(model: models.Transformer) -> Callable[..., Any]:
    """Weights, means, squares and the number of the step after one step of Adam, and the loss before it."""

    def loss(weights: Weights, x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        logits = models.forward(weights, weights["tokens"][x], model.layers, model.heads)
        return sm.cross_entropy(logits.reshape((-1, model.vocabulary)), y.reshape((-1,)))

    def step(weights: Weights, means: Weights, squares: Weights, steps: sm.Tensor, x: sm.Tensor, y: sm.Tensor) -> Any:
        value, slopes = sm.value_and_grad(loss)(weights, x, y)
        steps = steps + 1
        means = {name: 0.9 * means[name] + 0.1 * slope for name, slope in slopes.items()}
        squares = {name: 0.999 * squares[name] + 0.001 * slope * slope for name, slope in slopes.items()}
        of_means, of_squares = 1 - 0.9**steps, 1 - 0.999**steps

        def moved(name: str) -> sm.Tensor:
            return weights[name] - 1e-3 * (means[name] / of_means) / ((squares[name] / of_squares).sqrt() + 1e-8)

        return {name: moved(name) for name in weights}, means, squares, steps, value

    return step


def _reference(arrays: Mapping[str, Any], tokens: Any, following: Any, model: models.Transformer) -> models.Array:
    """The loss, in NumPy."""
    logits = models.reference(arrays, arrays["tokens"][tokens], model.layers, model.heads)
    logits = logits - logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, following[..., None], -1)[..., 0]
    return np.asarray([(np.log(np.exp(logits).sum(-1)) - chosen).mean()], np.float32)


def planning(depth: int) -> dict[str, Any]:
    """Seconds from a call to a memory plan and a launch list, for the gradient of a deep network.

    What a C compiler would be busy with is known from a first time, so that it is not at work beside: all that
    is missing then are the schedules of the distinct kernels, which are taken from that time.
    """
    generator = np.random.default_rng(0)
    shapes = ((16, 16), (16,))
    layers = [[sm.asarray(generator.standard_normal(s, dtype=np.float32)) for s in shapes] for _ in range(depth)]
    x = sm.asarray(generator.standard_normal((8, 16), dtype=np.float32))
    function = sm.jit(_descent)
    key, device = function.graph_key(layers, x)
    seconds: list[float] = []
    with configure(disk_cache=False):
        compiled = runtime.current().compiler.compile(key, device)
        schedule = compiled.seconds.get("schedule", 0.0)
        for _ in range(5):
            start = time.perf_counter()
            runtime.current().compiler.compile(*function.graph_key(layers, x))
            seconds.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(seconds) + schedule,
        "schedule": schedule,
        "nodes": len(key[0]),
        "kernels": len(compiled.kernels),
        "distinct_kernels": len({kernel.name for kernel in compiled.kernels}),
    }


def _descent(layers: list[list[sm.Tensor]], x: sm.Tensor) -> Any:
    """A step of gradient descent of a residual network with gates."""

    def loss(layers: list[list[sm.Tensor]], x: sm.Tensor) -> sm.Tensor:
        for weight, bias in layers:
            hidden = sm.tanh(x @ weight + bias)
            x = x + 0.5 * hidden * sm.sigmoid(hidden)
        return (x * x).mean()

    value, slopes = sm.value_and_grad(loss)(layers, x)
    return value, [
        [w - 0.1 * slope for w, slope in zip(*pair, strict=True)] for pair in zip(layers, slopes, strict=True)
    ]
