"""A few whole programs in every way that users run them, and the hunt itself; `make hunt` looks for new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from tests.hunt.programs import Program, Step, Value, disagreement, native
from tests.hunt.slopes import wrong_slopes
from tests.hunt.spaces import SMELT
from tests.hunt.ways import ALL, difference, program_for
from tests.turns import one_in


@pytest.mark.parametrize("way", ALL)
@pytest.mark.by_turns(2)
def test_programs_give_what_numpy_gives(way: str) -> None:
    for turn in one_in(3, range(3)):
        program, chosen = program_for(ALL.index(way) + turn * len(ALL))
        assert chosen == way
        assert difference(program, way) is None, str(program)


def test_a_wrong_answer_is_noticed() -> None:
    exact = Value("float32", np.array([1.0, np.nan, np.inf, 0.0]))
    assert disagreement(np.array([1, np.nan, np.inf, -0.0], np.float32), exact) is None
    for wrong in ([1.0000001, np.nan, np.inf, 0], [1, 0, np.inf, 0], [1, np.nan, -np.inf, 0]):
        assert disagreement(np.array(wrong, np.float32), exact) is not None
    assert disagreement(np.array([1.0, np.nan, np.inf, 0.0]), exact) == "dtype float64, expected float32"
    rounded = Value("float32", np.array([1.0]), np.array([1e-6]))
    assert disagreement(np.array([1.000001], np.float32), rounded) is None
    assert disagreement(np.array([1.0001], np.float32), rounded) is not None


def test_bounds_of_errors_are_those_of_the_dtype() -> None:
    steps = (Step("exp", (0,), {}), Step("sum", (1,), {"axis": None, "keepdims": False}))
    for dtype, bound in (("float64", 1e-13), ("float32", 1e-4), ("bfloat16", 2.0)):
        program = Program(0, ((dtype, (7,), "whole"),), steps)
        (value,) = program.expected([Value(dtype, np.arange(7.0) - 3)])
        assert value.dtype == dtype
        assert 0 < np.max(value.error) < bound
    program = Program(0, (("bfloat16", (300,), "whole"),), (Step("sum", (0,), {"axis": None, "keepdims": False}),))
    (value,) = program.expected([Value("bfloat16", np.ones(300))])
    assert value.exact
    assert value.array == 300.0  # summed in wider floats, and rounded once


def test_what_comes_of_exponentials_is_not_known_exactly() -> None:
    program = Program(0, (("float64", (2, 2), "whole"),), (Step("attention", (0,), {"causal": True}),))
    *_, result = program.trail([Value("float64", np.array([[0.0, 0.0], [6.0, 4.0]]))])  # weights of 1e-16 and 1
    assert result.array.tolist() == [[0.0, 0.0], [6.0, 4.0]]
    assert disagreement(np.array([[0.0, 0.0], [5.9999999999999982, 4.0]]), result) is None
    assert disagreement(np.array([[0.0, 0.0], [5.999, 4.0]]), result) is not None


def test_zero_times_infinity_is_nan_for_judge_and_tensors() -> None:
    program = Program(0, (("float32", (3,), "special"), ("float32", (), "special")), (Step("inner", (0, 1), {}),))
    values = [Value("float32", np.array([1.0, np.inf, np.nan])), Value("float32", np.array(0.0))]
    (expected,) = program.expected(values)
    assert np.array_equal(np.isnan(expected.array), [False, True, True])
    (found,) = program.results(SMELT, [sm.asarray(native(value)) for value in values])
    assert disagreement(found.numpy(), expected) is None


def test_a_wrong_slope_is_noticed() -> None:
    program = Program(0, (("float64", (3,), "real"),), (Step("square", (0,), {}),), slopes=True)
    inputs, weights = program.values(0), np.cos(np.arange(3) * 0.7)
    right = 2 * inputs[0].array * weights
    assert wrong_slopes(program, inputs, [right]) is None
    assert wrong_slopes(program, inputs, [right + np.array([0, 0, 1e-2])]) is not None
    assert wrong_slopes(program, inputs, [right.astype(np.float32)]) is not None


@pytest.mark.slow
def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hunt", "--seed", "1", "--count", "2", "--processes", "2", "--json"]
    environment = os.environ | {"SMELT_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=300)
    report = json.loads(found.stdout)
    assert report["programs"] == 2
    assert report["wrong"] == []
    assert "2 programs from seed 1" in found.stderr
