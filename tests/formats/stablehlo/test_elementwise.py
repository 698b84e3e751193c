"""Corners of elementwise functions, as the specification has them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import smelt as sm
from tests.interpreted import interpreted


def apply(name: str, *operands: object, dtype: type = np.int32, gives: str = "") -> list[object]:
    """An operation of equal operands, by the reference interpreter."""
    arrays = [np.asarray(x, dtype) for x in operands]
    element = {"int32": "i32", "uint32": "ui32", "float32": "f32", "int8": "i8", "bool": "i1"}[arrays[0].dtype.name]
    kind = f"tensor<{arrays[0].size}x{element}>"
    result = gives or kind
    names = [f"%{k}" for k in "abc"[: len(arrays)]]
    text = f"""func.func @main({", ".join(f"{name}: {kind}" for name in names)}) -> {result} {{
        %0 = "stablehlo.{name.split(" ", maxsplit=1)[0]}"({", ".join(names)}) {name.partition(" ")[2]} :
          ({", ".join([kind] * len(arrays))}) -> {result}
        return %0 : {result} }}"""
    [found] = interpreted(sm.stablehlo.load(text)(*arrays))
    return found.tolist()


LEAST = -(2**31)


@pytest.mark.parametrize(
    ("name", "a", "b", "wanted"),
    [
        ("divide", [7, -7, 7, -7, 5, LEAST], [2, 2, -2, -2, 0, -1], [3, -3, -3, 3, -1, LEAST]),
        ("remainder", [7, -7, 7, -7, 5, LEAST], [2, 2, -2, -2, 0, -1], [1, -1, 1, -1, 5, 0]),
        ("shift_left", [1, 1, 1, 1], [4, 31, 32, -1], [16, LEAST, 0, 0]),
        ("shift_right_arithmetic", [-8, -8, 8, -8], [1, 40, 40, -1], [-4, -1, 0, -1]),
        ("shift_right_logical", [-8, -8, 8, -8], [1, 40, 1, -1], [2**31 - 4, 0, 4, 0]),
        ("power", [2, 2, 1, -1, -1, 0], [10, -1, -5, -5, -4, 0], [1024, 0, 1, -1, 1, 1]),
    ],
)
def test_integers(name: str, a: list[int], b: list[int], wanted: list[int]) -> None:
    assert apply(name, a, b) == wanted


def test_unsigned_integers() -> None:
    assert apply("divide", [7, 7], [2, 0], dtype=np.uint32) == [3, 2**32 - 1]
    assert apply("remainder", [7, 7], [2, 0], dtype=np.uint32) == [1, 7]


def test_bits_are_counted() -> None:
    assert apply("popcnt", [0, 1, -1, 10]) == [0, 1, 32, 2]
    assert apply("count_leading_zeros", [0, 1, -1, 10]) == [32, 31, 0, 28]
    assert apply("count_leading_zeros", [0, 1, -1], dtype=np.int8) == [8, 7, 0]


def test_bools_are_added_and_multiplied() -> None:
    a, b = [True, True, False], [True, False, False]
    assert apply("add", a, b, dtype=np.bool_) == [True, True, False]
    assert apply("multiply", a, b, dtype=np.bool_) == [True, False, False]


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "x", "wanted"),
    [
        ("sign", [-2.0, -0.0, 0.0, 3.0, INF], [-1.0, -0.0, 0.0, 1.0, 1.0]),
        ("round_nearest_afz", [0.5, -0.5, 1.5, 2.5, 0.49999997, -0.2], [1.0, -1.0, 2.0, 3.0, 0.0, -0.0]),
        ("round_nearest_even", [0.5, -0.5, 1.5, 2.5], [0.0, -0.0, 2.0, 2.0]),
    ],
)
def test_floats(name: str, x: list[float], wanted: list[float]) -> None:
    found = apply(name, x, dtype=np.float32)
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()  # zeros have signs


def test_the_remainder_of_floats_has_the_sign_of_the_dividend() -> None:
    found = apply("remainder", [5.5, -5.5, 5.5, 1.0, INF, 0.0], [2.0, 2.0, INF, 0.0, 2.0, 5.0], dtype=np.float32)
    np.testing.assert_array_equal(found, [1.5, -1.5, 5.5, NAN, NAN, 0.0])


def test_nan_wins() -> None:
    np.testing.assert_array_equal(apply("maximum", [NAN, 1.0], [1.0, NAN], dtype=np.float32), [NAN, NAN])


@pytest.mark.parametrize(
    ("direction", "wanted"), [("LT", [True, False, False, True, False]), ("EQ", [False, True, False, False, True])]
)
def test_the_total_order(direction: str, wanted: list[bool]) -> None:
    a, b = [-0.0, 1.0, NAN, -NAN, NAN], [0.0, 1.0, INF, -INF, NAN]
    names = f"comparison_direction {direction}", "comparison_type TOTALORDER"
    attributes = "<{{comparison_direction = #stablehlo<{}>, compare_type = #stablehlo<{}>}}>".format(*names)
    arrays = np.copysign(np.float32(a), [-1, 1, 1, -1, 1]), np.float32(b)
    assert apply(f"compare {attributes}", *arrays, dtype=np.float32, gives="tensor<5xi1>") == wanted


@pytest.mark.parametrize(
    ("exponent", "mantissa", "x", "wanted"),
    [
        (5, 10, [1.0009765, 65519.0, 65520.0, 1e-8], [1.0009766, 65504.0, INF, 0.0]),
        (8, 7, [1.00390625, 1.01171875, 3.4e38], [1.0, 1.015625, INF]),
    ],
)
def test_precision_is_reduced(exponent: int, mantissa: int, x: list[float], wanted: list[float]) -> None:
    attributes = f"<{{exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32}}>"
    assert apply(f"reduce_precision {attributes}", x, dtype=np.float32) == np.float32(wanted).tolist()


def test_bits_change_their_width() -> None:
    assert apply("bitcast_convert", [0x04030201, -1], gives="tensor<2x4xi8>") == [[1, 2, 3, 4], [-1, -1, -1, -1]]
    assert apply("bitcast_convert", [1, 2, 3, 4], dtype=np.int8, gives="tensor<i32>") == 0x04030201


def test_floats_become_integers_and_bools() -> None:
    assert apply("convert", [NAN, INF, -3e9, 1.9, -1.9], dtype=np.float32, gives="tensor<5xi32>") == [
        *(0, 2**31 - 1, LEAST, 1, -1)
    ]
    assert apply("convert", [NAN, 0.0, -0.0, 0.5], dtype=np.float32, gives="tensor<4xi1>") == [True, False, False, True]


@pytest.mark.parametrize(
    ("order", "wanted"),  # scipy.special.zeta(order, x); NaN where both sides of a pole have different signs
    [
        (2, [9.379246644989, 15.03134603195, 9.859703491995, 1e40, np.inf, 0.644934066848]),
        (3, [0.1181020258209, -34.41761682892, 4.90136013136e-5, -1e60, np.nan, 0.202056903160]),
        (2.5, [np.nan, np.nan, np.nan, np.nan, np.nan, 0.341487257250]),
    ],
)
def test_zeta_of_numbers_below_0(order: float, wanted: list[float]) -> None:
    f = sm.stablehlo.load(f"""func.func @main(%q: tensor<6xf64>) -> tensor<6xf64> {{
      %x = stablehlo.constant dense<{order:.1f}> : tensor<6xf64>
      %r = chlo.zeta %x, %q : tensor<6xf64>, tensor<6xf64> -> tensor<6xf64>
      return %r : tensor<6xf64> }}""")
    found = f(np.array([-1.5, -20.3, -100.5, -1e-20, -3.0, 2.0])).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
