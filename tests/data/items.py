"""Datasets and functions that worker processes can import."""

from __future__ import annotations

from typing import Any

import numpy as np


class Squares:
    """Items that are made one by one; one of them cannot be."""

    def __init__(self, length: int, bad: int = -1) -> None:
        self.length, self.bad = length, bad

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise KeyError(f"item {index} is broken")
        return {"x": np.full(3, index, np.float32), "y": index * index}


def noisy(batch: Any, generator: np.random.Generator) -> Any:
    return {**batch, "noise": generator.normal(size=len(batch["y"])).astype(np.float32)}


def doubled(batch: Any) -> Any:
    return {**batch, "x": batch["x"] * 2}
