"""What objects show of themselves, at a prompt or in a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm


def cube(x: sm.Tensor) -> sm.Tensor:
    return x**3


SHOWN: dict[str, Any] = {
    "grad(cube)": sm.grad(cube),
    "grad(grad(cube))": sm.grad(sm.grad(cube)),
    "value_and_grad(jit(cube, traces=0))": sm.value_and_grad(sm.jit(cube)),
    "vmap(cube, in_axes=1, out_axes=0)": sm.vmap(cube, in_axes=1),
    "jacobian(cube)": sm.jacobian(cube),
    "checkpoint(cube)": sm.checkpoint(cube),
    "custom_vjp(cube)": sm.custom_vjp(cube),
    "ClipNorm(largest=1.0)": sm.optim.ClipNorm(1.0),
    "Accumulate(optimizer=SGD(lr=0.1), every=4)": sm.optim.Accumulate(sm.optim.SGD(lr=0.1), 4),
    "EMA(decay=0.9, warmup=False)": sm.optim.EMA(0.9),
    "ArrayDataset of 3 items: float64(2,), int64()": sm.data.ArrayDataset(np.ones((3, 2)), np.arange(3)),
    "Subset: 1 of ArrayDataset of 3 items: int64()": sm.data.Subset(sm.data.ArrayDataset(np.arange(3)), [2]),
    "MapDataset(dataset=range(0, 3), function=<built-in function abs>)": sm.data.MapDataset(range(3), abs),
    "Vocabulary(characters=('a', 'b'))": sm.data.Vocabulary("ab"),
    "Progress('epoch 0', 0 of 3)": sm.train.Progress(total=3, label="epoch 0"),
    "Sequential(\n  (0): Linear(in_features=2, out_features=3)\n  (1): relu\n)": sm.nn.Sequential(
        sm.nn.Linear(2, 3), sm.relu
    ),
}


@pytest.mark.parametrize("text", SHOWN, ids=range(len(SHOWN)))
def test_objects_show_what_they_were_made_with(text: str) -> None:
    assert repr(SHOWN[text]) == text


def test_schedules_are_named() -> None:
    assert "cosine(0.1, T_max=100)" in repr(sm.optim.schedules.cosine(0.1, T_max=100))
    assert repr(sm.optim.ReduceOnPlateau(0.5)).startswith("ReduceOnPlateau(lr=0.5, mode='min'")


def test_what_writes_files_shows_where(tmp_path: Path) -> None:
    with sm.train.JSONLogger(tmp_path / "log.jsonl") as log:
        assert repr(log) == f"JSONLogger({str(tmp_path / 'log.jsonl')!r})"
    assert str(tmp_path) in repr(sm.train.Checkpoint(tmp_path))
