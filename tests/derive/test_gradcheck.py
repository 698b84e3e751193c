"""Derivatives of every public function against differences, in float64; compiled gradients against interpreted ones."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from tests.derive.checking import Subject, check, subject, values
from tests.op_table import FAMILIES
from tests.ops.spec import OpSpec

TEST_ALL = os.environ.get("SMELT_TEST_ALL") == "1"
CALLS = 6 if TEST_ALL else 2  # of each function that are checked

# Functions of floats that are not differentiated, and why.
EXCLUDED = {
    "nextafter": "made of bits: it moves by a unit in the last place",
    "from_numpy": "takes no tensors",
    "from_dlpack": "takes no tensors",
}
# Where a function has no derivative although it is flat nearby.
CORNERS = {"std": "the root of zero"}


def _subjects(spec: OpSpec) -> list[Subject]:
    found: list[Subject] = []
    for seed, sample in enumerate(spec.samples(dtypes.float64)):
        one = subject(spec, sample, seed)
        if one is not None and not (spec.name in CORNERS and _is_flat(one)):
            found.append(one)
        if len(found) == CALLS:
            break
    return found


def _is_flat(one: Subject) -> bool:
    return bool(values([one.call([sm.asarray(x) for x in one.arrays])])[0] == 0)


def _groups() -> list[Any]:
    chosen = [
        (family, [spec for spec in specs if dtypes.float64 in spec.dtypes and spec.name not in EXCLUDED])
        for family, specs in FAMILIES.items()
        if family != "random"
    ]
    return [
        pytest.param(specs[k : k + 12], id=f"{family}-{k // 12}")
        for family, specs in chosen
        for k in range(0, len(specs), 12)
    ]


@pytest.mark.parametrize("specs", _groups())
@pytest.mark.by_turns(8)
def test_derivatives_are_those_of_differences(specs: list[OpSpec]) -> None:
    for spec in specs:
        subjects = _subjects(spec)
        checked = [check(one, seed) for seed, one in enumerate(subjects)]
        assert not subjects or any(checked), f"no call of {spec.name} has a slope"


@pytest.mark.parametrize("specs", _groups())
@pytest.mark.by_turns(4)
def test_compiled_gradients_are_those_interpreted(specs: list[OpSpec]) -> None:
    for_each = _subjects if TEST_ALL else lambda spec: _subjects(spec)[:1]
    labels: list[str] = []
    tensors: list[sm.Tensor] = []
    for spec in specs:
        for one in for_each(spec):
            given = [sm.asarray(x) for x in one.arrays]
            gradients = sm.grad(one.call)(given)
            _, forward = sm.jvp(one.call, (given,), ([sm.asarray(np.ones_like(x)) for x in one.arrays],))
            tensors += [*gradients, forward]
            labels += [one.label] * (len(gradients) + 1)
    if not tensors:
        return
    expected = values(tensors)
    sm.realize(*tensors)
    for label, tensor, want in zip(labels, tensors, expected, strict=True):
        np.testing.assert_allclose(tensor.numpy(), want, rtol=1e-9, atol=1e-9, err_msg=label)
