"""Random programs: reverse and forward mode agree, second derivatives are symmetric, batches are loops, in the
reference interpreter.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import smelt as sm
from tests.derive.checking import values
from tests.peers.programs import Program, random_program

COUNT = 120 if os.environ.get("SMELT_TEST_ALL") == "1" else 15
FIRST = 1000  # other programs than those that JAX is asked about


def _total(program: Program, inputs: list[sm.Tensor]) -> sm.Tensor:
    total: sm.Tensor = program.total(sm, *inputs)
    return total


def _inner(a: list[sm.Tensor], b: list[sm.Tensor]) -> sm.Tensor:
    result = sm.asarray(0.0, dtype=sm.float64)
    for x, y in zip(a, b, strict=True):
        result = result + (x * y).sum()
    return result


def _directions(program: Program, seed: int) -> list[sm.Tensor]:
    rng = np.random.default_rng(seed)
    return [sm.asarray(rng.standard_normal(x.shape)) for x in program.inputs]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_both_modes_agree(seed: int) -> None:
    program = random_program(seed)
    inputs = [sm.asarray(x) for x in program.inputs]
    along, other = _directions(program, seed), _directions(program, seed + 1)

    def function(inputs: list[sm.Tensor]) -> sm.Tensor:
        return _total(program, inputs)

    _, pushed = sm.jvp(function, (inputs,), (along,))
    gradient = sm.grad(function)
    _, curved = sm.jvp(gradient, (inputs,), (along,))
    _, curved_other = sm.jvp(gradient, (inputs,), (other,))
    again = sm.grad(lambda inputs: _inner(gradient(inputs), along))(inputs)
    found = [pushed, _inner(gradient(inputs), along)]
    found += [_inner(curved, other), _inner(curved_other, along), _inner(again, other)]
    forward, reverse, *second = (float(x) for x in values(found))
    assert abs(forward - reverse) <= 1e-8 * (1 + abs(forward)), str(program)
    assert max(second) - min(second) <= 1e-6 * (1 + abs(second[0])), str(program)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_batches_of_gradients_are_loops(seed: int) -> None:
    program = random_program(seed)
    stacks = [sm.asarray(np.stack([x, 0.5 * x, 0.9 * x])) for x in program.inputs]
    gradient = sm.grad(lambda inputs: _total(program, inputs))
    batched = values(sm.vmap(gradient)(stacks))
    for k in range(3):
        single = values(gradient([stack[k] for stack in stacks]))
        for got, expected in zip(batched, single, strict=True):
            np.testing.assert_allclose(got[k], expected, rtol=1e-8, atol=1e-9, err_msg=str(program))
