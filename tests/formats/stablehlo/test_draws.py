"""Random bits: those that XLA gives for the same states, and numbers that are drawn anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import UnsupportedOp
from tests.interpreted import interpreted

NAMES = {"ui32": np.uint32, "ui64": np.uint64, "ui16": np.uint16, "i8": np.int8, "f32": np.float32}


def bits(algorithm: str, state: list[int], shape: tuple[int, ...], element: str = "ui32") -> tuple[list[int], Any]:
    kind = f"tensor<{'x'.join(map(str, (*shape, element)))}>"
    key = f"tensor<{len(state)}xui64>"
    program = sm.stablehlo.load(f"""func.func @main(%s: {key}) -> ({key}, {kind}) {{
      %0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : ({key}) -> ({key}, {kind})
      return %0, %1 : {key}, {kind} }}""")
    after, found = interpreted(program(np.array(state, np.uint64)))
    assert found.shape == shape and found.dtype == NAMES[element]
    return after.tolist(), found


def test_three_fry() -> None:
    # From jax.lax.rng_bit_generator on a CPU.
    after, found = bits("THREE_FRY", [1, 2], (3,))
    assert (after, found.tolist()) == ([1, 4], [43444564, 2150618427, 3979645651])


@pytest.mark.parametrize("algorithm", ["PHILOX", "DEFAULT"])
def test_philox(algorithm: str) -> None:
    after, found = bits(algorithm, [1, 2], (3,))
    assert (after, found.tolist()) == ([1, 3], [2100602697, 2847456232, 2074354647])


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_the_counter_says_where_the_numbers_begin(algorithm: str) -> None:
    _, whole = bits(algorithm, [7, 10], (8,), "ui64")
    after, first = bits(algorithm, [7, 10], (4,), "ui64")
    _, rest = bits(algorithm, after, (4,), "ui64")
    assert [*first.tolist(), *rest.tolist()] == whole.tolist()


def test_a_counter_of_128_bits_carries() -> None:
    low = 2**64 - 1
    _, whole = bits("PHILOX", [7, low, 5], (4,), "ui64")
    after, first = bits("PHILOX", [7, low, 5], (2,), "ui64")
    assert after == [7, 0, 6]
    assert whole.tolist() == [*first.tolist(), *bits("PHILOX", [7, 0, 6], (2,), "ui64")[1].tolist()]


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("element", ["ui16", "ui32", "ui64", "i8", "f32"])
def test_narrow_numbers_are_the_low_bits(algorithm: str, shape: tuple[int, ...], element: str) -> None:
    _, found = bits(algorithm, [3, 9], shape, element)
    if element != "ui64":
        _, words = bits(algorithm, [3, 9], shape)
        assert found.tobytes() == words.astype(f"u{found.itemsize}").tobytes()


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match=r"line 2, .* THREE_FRY with a state of 3 words"):
        bits("THREE_FRY", [1, 2, 3], (3,))


def drawn(distribution: str, element: str) -> sm.stablehlo.Imported:
    kind = f"tensor<1000x{element}>"
    return sm.stablehlo.load(f"""func.func @main(%a: tensor<{element}>, %b: tensor<{element}>) -> {kind} {{
      %n = stablehlo.constant dense<[1000]> : tensor<1xi64>
      %0 = stablehlo.rng %a, %b, %n, distribution = {distribution} :
        (tensor<{element}>, tensor<{element}>, tensor<1xi64>) -> {kind}
      return %0 : {kind} }}""")


def test_numbers_between_limits_are_drawn_anew() -> None:
    sm.random.seed(0)
    program = drawn("UNIFORM", "f32")
    x, y = (program(np.float32(2), np.float32(3)).numpy() for _ in range(2))
    assert ((x >= 2) & (x < 3)).all() and abs(x.mean() - 2.5) < 0.1
    assert (x != y).any()
    whole = drawn("UNIFORM", "i32")(np.int32(-3), np.int32(2)).numpy()
    assert set(whole.tolist()) == {-3, -2, -1, 0, 1}


def test_normal_numbers() -> None:
    sm.random.seed(0)
    x = drawn("NORMAL", "f32")(np.float32(5), np.float32(2)).numpy()
    assert abs(x.mean() - 5) < 0.3 and abs(x.std() - 2) < 0.3
