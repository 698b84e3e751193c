"""Random programs give the same results compiled as interpreted: any rank, size, dtype, strides and odd values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.config import configure
from tests.devices import DEVICES
from tests.property.programs import Array, Program, random_program

# How far results of smooth programs may be apart: rounding differs where 16-bit values are kept wide between steps.
SMOOTH = {"float16": 0.06, "bfloat16": 0.4, "float32": 2e-4, "float64": 1e-10}

# Several programs are computed by each call of `realize`, so that they share a translation unit.
seeds = st.lists(st.tuples(st.integers(0, 2**32), st.integers(1, 12)), min_size=1, max_size=5)


def equal(got: Array, expected: Array) -> bool:
    """Whether two results are the same, NaN for NaN."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    wide = (got, expected) if got.dtype.kind in "biu" else (got.astype(np.float64), expected.astype(np.float64))
    return bool(np.array_equal(*wide, equal_nan=got.dtype.kind not in "biu"))


def near(got: Array, expected: Array) -> bool:
    """Whether two results differ by no more than rounding can explain."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if got.dtype.kind in "biu":
        return equal(got, expected)
    tolerance = SMOOTH[got.dtype.name]
    return bool(np.allclose(got.astype(np.float64), expected.astype(np.float64), tolerance, tolerance, equal_nan=True))


def check(programs: list[Program]) -> None:
    roots = [(program, at) for program in programs for at in range(len(program.tensors))]
    # All results are asked for, or only the last one, so that the others may be fused away.
    roots = [(p, at) for p, at in roots if p.rng.random() < 0.3 or at == len(p.tensors) - 1]
    sm.realize(*(program.tensors[at] for program, at in roots))
    for program, at in roots:
        got, expected = program.tensors[at].numpy(), program.expected[at]
        same = equal if program.exact else near
        history = "\n".join(program.steps[: at + 1])
        assert same(got, expected), f"{history}\ngave\n{got}\ninstead of\n{expected}"


@pytest.mark.parametrize("device", DEVICES)
@given(chosen=seeds)
def test_exact_programs(device: str, chosen: list[tuple[int, int]]) -> None:
    with configure(device=device):
        check([random_program(seed, steps, exact=True) for seed, steps in chosen])


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("device", DEVICES)
@given(chosen=seeds)
def test_smooth_programs(device: str, chosen: list[tuple[int, int]]) -> None:
    with configure(device=device):
        check([random_program(seed, steps, exact=False) for seed, steps in chosen])
