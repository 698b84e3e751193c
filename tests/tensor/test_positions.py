"""argmax and argmin of long axes, which are searched in blocks."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1 << 18,), None), ((3, 1 << 17), -1), ((3, 1 << 17), None), ((262147,), 0), ((64, 4096), 1), ((2, 3, 98304), 2)],
)
@pytest.mark.by_turns(3)
def test_the_first_of_equal_values_is_found(name: str, shape: tuple[int, ...], axis: int | None) -> None:
    x = RNG.integers(-3, 4, shape).astype(np.float32)
    for values in (x, x.astype(np.int8), _with_nan(x)):
        for keepdims in (False, True):
            got = getattr(sm, name)(sm.from_numpy(values), axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(got.numpy(), getattr(np, name)(values, axis=axis, keepdims=keepdims))


def _with_nan(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flat[RNG.integers(0, x.size, 5)] = np.nan
    return x
