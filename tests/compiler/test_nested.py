"""Branches inside of branches are simplified once each, not once for each level around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.compiler import simplifying


def nested(depth: int) -> Any:
    """Branches in one another; those at the same depth differ."""

    def go(level: int, x: sm.Tensor) -> sm.Tensor:
        if level == 0:
            return sm.sin(x)
        return sm.cond(x.sum() > level, lambda x: go(level - 1, x * 1.5), lambda x: x - level, x)

    return lambda x: go(depth, x)


def test_simplifying_takes_time_by_the_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites = 0
    rewrite = simplifying.rewrite

    def counted(roots: Any) -> Any:
        nonlocal rewrites
        rewrites += 1
        return rewrite(roots)

    monkeypatch.setattr(simplifying, "rewrite", counted)
    taken = []
    for depth in (4, 8):
        roots = sm.jit(nested(depth)).graph(sm.ones(3)).roots
        rewrites = 0
        simplifying.simplify(roots)
        taken.append(rewrites)
    assert taken[0] > 0 and taken[1] <= 3 * taken[0]


@pytest.mark.parametrize("start", [-1.0, 1.0, 4.0])
def test_what_is_simplified_once_is_still_right(start: float) -> None:
    x = np.linspace(start, start + 0.5, 5, dtype=np.float32)
    wanted = x
    for level in range(5, 0, -1):
        if wanted.sum() <= level:
            wanted = wanted - level
            break
        wanted = wanted * np.float32(1.5)
    else:
        wanted = np.sin(wanted)
    np.testing.assert_allclose(nested(5)(sm.asarray(x)).numpy(), wanted, rtol=1e-4, atol=1e-4)
