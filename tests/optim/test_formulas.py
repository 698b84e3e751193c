"""Optimizers that PyTorch lacks, or computes otherwise, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm

RNG = np.random.default_rng(2)
SHAPES = [(), (1,), (7,), (4, 6), (6, 4), (2, 3, 5)]
START = [RNG.standard_normal(shape) for shape in SHAPES]
SLOPES = [[RNG.standard_normal(shape) for shape in SHAPES] for _ in range(10)]


class Lion:
    def __init__(self) -> None:
        self.mean = 0.0

    def __call__(self, p: Any, g: Any, t: int) -> Any:
        update = np.sign(0.9 * self.mean + 0.1 * g)
        self.mean = 0.98 * self.mean + 0.02 * g
        return p - 0.01 * (update + 0.3 * p)


class Lamb:
    def __init__(self) -> None:
        self.mean, self.square = 0.0, 0.0

    def __call__(self, p: Any, g: Any, t: int) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * g
        self.square = 0.99 * self.square + 0.01 * g * g
        update = self.mean / (1 - 0.9**t) / (np.sqrt(self.square / (1 - 0.99**t)) + 1e-6) + 0.1 * p
        return p - 0.02 * np.linalg.norm(p) / np.linalg.norm(update) * update


class AdamW:
    def __init__(self) -> None:
        self.mean, self.square = 0.0, 0.0

    def __call__(self, p: Any, g: Any, t: int) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * g
        self.square = 0.999 * self.square + 0.001 * g * g
        return p - 0.02 * (self.mean / (1 - 0.9**t) / (np.sqrt(self.square / (1 - 0.999**t)) + 1e-8) + 0.1 * p)


class Muon:
    """Matrices only; others are for `AdamW`."""

    def __init__(self) -> None:
        self.mean, self.other = 0.0, AdamW()

    def __call__(self, p: Any, g: Any, t: int) -> Any:
        if p.ndim != 2:
            return self.other(p, g, t)
        self.mean = 0.95 * self.mean + 0.05 * g
        x = 0.95 * self.mean + 0.05 * g
        x = x / np.linalg.norm(x)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return p - 0.02 * (max(1.0, p.shape[0] / p.shape[1]) ** 0.5 * x + 0.1 * p)


CASES: list[tuple[Any, Callable[[], Any]]] = [
    (sm.optim.Lion(lr=0.01, betas=(0.9, 0.98), weight_decay=0.3), Lion),
    (sm.optim.LAMB(lr=0.02, betas=(0.9, 0.99), weight_decay=0.1), Lamb),
    (sm.optim.AdamW(lr=0.02, weight_decay=0.1), AdamW),
    (sm.optim.Muon(lr=0.02), Muon),
]


@pytest.mark.parametrize(("optimizer", "formula"), CASES, ids=[formula.__name__ for _, formula in CASES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.by_turns(2)
def test_ten_steps(optimizer: Any, formula: Callable[[], Any], dtype: str) -> None:
    parameters = [sm.asarray(x.astype(dtype)) for x in START]
    state = optimizer.init(parameters)
    update = sm.jit(optimizer.update)
    expected, formulas = list(START), [formula() for _ in START]
    for t, slopes in enumerate(SLOPES, 1):
        parameters, state = update(parameters, [sm.asarray(g.astype(dtype)) for g in slopes], state)
        expected = [f(p, g, t) for f, p, g in zip(formulas, expected, slopes, strict=True)]
    tolerance = 2e-5 if dtype == "float32" else 1e-11
    for tensor, array in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(8, 8), (5, 16), (16, 5)])
def test_updates_of_muon_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    w = sm.zeros(shape, dtype=sm.float64)
    optimizer = sm.optim.Muon(lr=1.0, weight_decay=0.0)
    new, _ = optimizer.update({"w": w}, {"w": sm.asarray(RNG.standard_normal(shape))}, optimizer.init({"w": w}))
    values = np.linalg.svd(new["w"].numpy(), compute_uv=False) / max(1.0, shape[0] / shape[1]) ** 0.5
    assert values.min() > 0.6 and values.max() < 1.3


def test_muon_chooses_matrices() -> None:
    parameters = {"embedding": sm.ones(4, 3), "layer": {"weight": sm.ones(3, 3), "bias": sm.ones(3)}}
    optimizer = sm.optim.Muon(matrices="layer.*", others=sm.optim.SGD(lr=0.5))
    new, _ = optimizer.update(parameters, parameters, optimizer.init(parameters))
    assert new["embedding"].tolist() == [[0.5] * 3] * 4 and new["layer"]["bias"].tolist() == [0.5] * 3
    assert new["layer"]["weight"].numpy().min() > 0.9


def test_a_small_part_of_a_mean_is_exact() -> None:
    """1 - beta**count, where rounding would leave few digits of it."""
    optimizer = sm.optim.Adam(lr=1.0, betas=(0.9999, 0.99999), eps=0.0)
    x, _ = optimizer.update(sm.asarray([0.0]), sm.asarray([3.0]), optimizer.init(sm.asarray([0.0])))
    assert x.item() == pytest.approx(-1.0, abs=1e-6)
