"""What the table of operations does not ask of `einsum`."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm


@pytest.mark.parametrize("dtype", [sm.bfloat16, sm.float16])
def test_a_sum_over_one_operand_is_not_rounded_on_the_way(dtype: sm.DType) -> None:
    x = sm.asarray(np.random.default_rng(3).normal(size=(4, 17, 7)), dtype=dtype)
    exact = np.einsum("abc,ayc->ba", x.numpy().astype(np.float64), x.numpy().astype(np.float64))
    result = sm.einsum("abc,ayc->ba", x, x)
    assert result.dtype is dtype
    np.testing.assert_array_equal(result.numpy(), sm.asarray(exact, dtype=sm.float64).astype(dtype).numpy())


@pytest.mark.parametrize("subscripts", [",yx->", "a,yx->a", "y,yx->x"])
def test_a_sum_of_no_products_is_zero(subscripts: str) -> None:
    first, _, _ = subscripts.partition(",")
    shape = {"": (), "a": (3,), "y": (0,)}[first]
    result = sm.einsum(subscripts, sm.full(shape, float("nan")), sm.zeros((0, 2)))
    expected = np.einsum(subscripts, np.full(shape, np.nan), np.zeros((0, 2)))
    assert result.tolist() == expected.tolist() and not np.isnan(expected).any()


def test_products_on_the_way_are_not_rounded() -> None:
    h, c = sm.full((300,), 300.0, dtype=sm.float16), sm.asarray(1e-4, dtype=sm.float16)
    assert sm.einsum("i,i,->", h, h, c).item() == sm.einsum("i,i,,k->", h, h, c, sm.ones(1, dtype=sm.float16)).item()
    assert 2690 < sm.einsum("i,i,->", h, h, c).item() < 2710


def test_types_that_are_only_stored_are_refused() -> None:
    x = sm.ones((2, 2)).astype(sm.float8_e4m3fn)
    for subscripts in ("ij,k->k", "ij,jk->ik", "ij->j"):
        with pytest.raises(sm.errors.DTypeError):
            sm.einsum(subscripts, *[x[0] if part == "k" else x for part in subscripts.partition("->")[0].split(",")])
