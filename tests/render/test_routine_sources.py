"""Routines declare all that they use: older compilers let a missing declaration pass, newer ones refuse it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt.device.discovery import compiler
from smelt.transform.explain import examine

LONG, SHORT = (1 << 17,), (3, 100)
FUNCTIONS: dict[str, Callable[[sm.Tensor], object]] = {
    "sort": sm.sort,
    "argsort": sm.argsort,
    "topk": lambda x: sm.topk(x, 3)[0],
    "nonzero": lambda x: sm.nonzero(x, size=5),
    "scatter": lambda x: x.at[sm.asarray([0, 1, 0])].add(1),
}
BEGINNING = "typedef float f32;"  # of every translation unit


@pytest.mark.parametrize("machine", ["", "-march=native"])
@pytest.mark.parametrize("shape", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.by_turns(8)
def test_nothing_is_used_before_it_is_declared(name: str, shape: tuple[int, ...], machine: str, tmp_path: Path) -> None:
    for dtype in (np.float32, np.int64):
        text = examine(sm.jit(FUNCTIONS[name]), sm.from_numpy(np.ones(shape, dtype))).source
        for unit in text.split(BEGINNING)[1:]:
            path = tmp_path / "unit.c"
            path.write_text(BEGINNING + unit)
            words = [*compiler().command, "-fsyntax-only", "-Werror=implicit-function-declaration", "-Wno-psabi"]
            done = subprocess.run([*words, *machine.split(), str(path)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[:2000]
