"""The feel suite: what a user waits for — one op and its value, a draw, a layer, a program's first loss.

A measure is a function that gives rows; `MEASURES` names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np

import smelt as sm
from smelt.bench.core import Measure
from smelt.bench.report import Row
from smelt.bench.starts import measure_starts
from smelt.bench.timing import best_of

OP_SECONDS: Final = 100e-6
DRAW_SECONDS: Final = 100e-6
LAYER_SECONDS: Final = 100e-6  # a draw for the weight, and one for the bias

Case = Callable[[], object]


def _rows(cases: dict[str, Case], bar: float | None, quick: bool, detail: str = "") -> list[Row]:
    rounds, pause = (5, 0.0) if quick else (40, 0.05)
    return [
        Row(name, best_of(case, rounds=rounds, pause=pause), "µs", bar, detail=detail) for name, case in cases.items()
    ]


def _read(x: sm.Tensor) -> object:
    return x.numpy()


def eager_ops(quick: bool) -> list[Row]:
    """One op and its value: a graph that has been met before, with other numbers."""
    x, ids = sm.asarray(np.arange(64, dtype=np.float32)), sm.asarray(np.arange(64))
    floats, integers = count(0.5), count(2)
    cases: dict[str, Case] = {
        "op: (x * x).numpy()": lambda: _read(x * x),
        "op: (x + 1.5).numpy(), another number each time": lambda: _read(x + next(floats)),
        "op: (ids < 7).numpy(), another number each time": lambda: _read(ids < next(integers)),
        "op: float(x.sum())": lambda: float(x.sum()),
        "op: x.softmax(-1).numpy()": lambda: _read(x.softmax(-1)),
    }
    return _rows(cases, OP_SECONDS, quick, "64 elements")


def draws(quick: bool) -> list[Row]:
    """A draw that is not yet computed, and one that is read; a key for each."""
    seeds = count(2)
    made: dict[str, Case] = {
        "draw: normal((64,))": lambda: sm.random.normal((64,)),
        "draw: uniform((64,), -1.0, 1.0)": lambda: sm.random.uniform((64,), -1.0, 1.0),
    }
    read: dict[str, Case] = {
        "draw: normal((64,)).numpy()": lambda: sm.random.normal((64,)).numpy(),
        "draw: randint(0, 10, (64,)).numpy()": lambda: sm.random.randint(0, 10, (64,)).numpy(),
        "draw: normal((64,), key=key(k)).numpy()": lambda: sm.random.normal(
            (64,), key=sm.random.key(next(seeds))
        ).numpy(),
    }
    return _rows(made, DRAW_SECONDS, quick, "nothing is computed") + _rows(read, None, quick, "computed and read")


def layers(quick: bool) -> list[Row]:
    """Making a layer with its weights, which are computed when they are first used."""
    cases: dict[str, Case] = {
        "layer: Linear(64, 64)": lambda: sm.nn.Linear(64, 64),
        "layer: Conv2d(8, 8, 3)": lambda: sm.nn.Conv2d(8, 8, 3),
        "layer: LayerNorm(64)": lambda: sm.nn.LayerNorm(64),
    }
    return _rows(cases, LAYER_SECONDS, quick, "nothing is computed")


MEASURES: Final[dict[str, Measure]] = {
    "op": Measure("one op and its value, outside of jit", eager_ops),
    "draw": Measure("random numbers, outside of jit", draws),
    "layer": Measure("making a layer", layers),
    "start": Measure("from the start of a program to its first loss, against JAX and torch.compile", measure_starts),
}
