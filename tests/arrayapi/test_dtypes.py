"""Dtypes: the standard's promotion tables for functions, operators and numbers, and the questions about dtypes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import DTypeError, SmeltError
from tests.arrayapi import standard
from tests.arrayapi.state import MISSING

NAMES = [name for kind in standard.DTYPES.values() for name in kind if name not in MISSING]
PAIRS = [(first, second, result) for (first, second), result in standard.PROMOTION.items()]
BINARY = [
    f
    for f in standard.FUNCTIONS.values()
    if f.name not in MISSING and f.category == "elementwise" and f.arrays == 2 and f.name != "clip"
]


def dtype(name: str) -> sm.DType:
    return getattr(sm, name)  # type: ignore[no-any-return]


def ones(name: str, *shape: int) -> sm.Tensor:
    return sm.ones(shape, dtype=dtype(name))


def pairs(function: standard.Function) -> list[tuple[str, str, str]]:
    return [p for p in PAIRS if p[0] in function.dtypes and p[1] in function.dtypes]


def test_there_is_a_row_for_every_pair_of_a_kind() -> None:
    integers = {(a, b) for a in standard.INTEGERS for b in standard.INTEGERS}
    unspecified = {(a, "uint64") for a in standard.DTYPES["signed"]}
    unspecified |= {(b, a) for a, b in unspecified}
    floats = {(a, b) for a in standard.DTYPES["float"] for b in standard.DTYPES["float"]}
    assert set(standard.PROMOTION) == integers - unspecified | floats | {("bool", "bool")}


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.name)
def test_functions_of_two_arrays_promote_by_the_tables(function: standard.Function) -> None:
    apply = getattr(sm, function.name)
    for first, second, promoted in pairs(function):
        expected = {"promoted": promoted, "bool": "bool"}[function.result]
        for shapes in (((2,), (2,)), ((), (2,)), ((3, 1), ()), ((), ())):  # also arrays of rank 0 have their dtype
            got = apply(ones(first, *shapes[0]), ones(second, *shapes[1]))
            assert got.dtype is dtype(expected), (first, second, shapes)


@pytest.mark.parametrize("name", [*standard.BINARY_OPERATORS, *standard.COMPARISONS])
def test_operators_promote_by_the_tables(name: str) -> None:
    function = standard.FUNCTIONS[(standard.BINARY_OPERATORS | standard.COMPARISONS)[name]]
    apply = getattr(operator, f"__{name}__")
    in_place = getattr(operator, f"__i{name}__", None)
    for first, second, promoted in pairs(function):
        x, y = ones(first, 2), ones(second, 2)
        expected = dtype(promoted if function.result == "promoted" else "bool")
        assert apply(x, y).dtype is expected, (first, second)
        if in_place is not None:  # `x += y` binds the name to a new tensor
            before = x
            assert in_place(x, y).dtype is expected and x is before


# For each kind of array, numbers of the kinds that it must take; the array's dtype comes out.
NUMBERS: dict[str, tuple[Any, ...]] = {"bool": (True,), "signed": (3,), "unsigned": (3,), "float": (3, 2.5)}
NUMBERS["complex"] = (*NUMBERS["float"], 1j)


@pytest.mark.parametrize("name", [*standard.BINARY_OPERATORS, *standard.COMPARISONS])
def test_numbers_take_the_dtype_of_the_array(name: str) -> None:
    function = standard.FUNCTIONS[(standard.BINARY_OPERATORS | standard.COMPARISONS)[name]]
    if name == "matmul":
        return  # takes no numbers
    apply = getattr(operator, f"__{name}__")
    for kind, numbers in NUMBERS.items():
        for accepted in set(standard.DTYPES[kind]) & set(function.dtypes):
            for number in numbers:
                x = ones(accepted, 2)
                expected = x.dtype if function.result == "promoted" else sm.bool
                both = getattr(sm, function.name)
                for got in (apply(x, number), apply(number, x), both(x, number), both(number, x)):
                    assert got.dtype is expected, (accepted, number)


@pytest.mark.parametrize(("first", "second", "expected"), PAIRS)
def test_result_type(first: str, second: str, expected: str) -> None:
    a, b, result = dtype(first), dtype(second), dtype(expected)
    assert sm.result_type(a, b) is result
    assert sm.result_type(ones(first, 2), b) is result and sm.result_type(a, ones(second)) is result
    assert sm.result_type(a, b, a, result) is result and sm.result_type(a) is a
    assert sm.where(sm.asarray([True, False]), ones(first, 2), ones(second, 2)).dtype is result
    assert sm.concat([ones(first, 2), ones(second, 3)]).dtype is result


@pytest.mark.parametrize("name", NAMES)
def test_result_type_with_numbers(name: str) -> None:
    kind = next(kind for kind, names in standard.DTYPES.items() if name in names)
    for number in NUMBERS[kind]:
        assert sm.result_type(dtype(name), number) is dtype(name)
        assert sm.result_type(number, ones(name, 2), number) is dtype(name)
        assert sm.where(sm.asarray([True, False]), ones(name, 2), number).dtype is dtype(name)


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("second", NAMES)
def test_can_cast_follows_promotion(first: str, second: str) -> None:
    answer = sm.can_cast(dtype(first), dtype(second))
    assert isinstance(answer, bool) and answer is sm.can_cast(ones(first, 2), dtype(second))
    if (first, second) in standard.PROMOTION:
        assert answer is (standard.PROMOTION[first, second] == second)
    try:
        assert answer is (sm.result_type(dtype(first), dtype(second)) is dtype(second))
    except DTypeError:
        assert not answer


@pytest.mark.parametrize("name", standard.DTYPES["float"])
def test_finfo(name: str) -> None:
    limits, expected = sm.finfo(dtype(name)), np.finfo(name)
    assert [getattr(limits, field) for field in standard.FINFO[:5]] == [
        float(getattr(expected, field)) for field in standard.FINFO[:5]
    ]
    assert type(limits.bits) is int and all(type(getattr(limits, f)) is float for f in standard.FINFO[1:5])
    assert limits.dtype is dtype(name) and sm.finfo(ones(name, 2)) == limits


@pytest.mark.parametrize("name", standard.INTEGERS)
def test_iinfo(name: str) -> None:
    limits, expected = sm.iinfo(dtype(name)), np.iinfo(name)
    assert [getattr(limits, f) for f in standard.IINFO[:3]] == [int(getattr(expected, f)) for f in standard.IINFO[:3]]
    assert limits.dtype is dtype(name) and sm.iinfo(ones(name)) == limits
    assert all(type(getattr(limits, field)) is int for field in standard.IINFO[:3])


@pytest.mark.parametrize("name", NAMES)
def test_isdtype(name: str) -> None:
    for kind, members in standard.DTYPE_KINDS.items():
        assert sm.isdtype(dtype(name), kind) is (name in members)
        assert sm.isdtype(dtype=dtype(name), kind=(kind, "bool")) is (name in members or name == "bool")
    for other in NAMES:
        assert sm.isdtype(dtype(name), dtype(other)) is (name == other)
        assert sm.isdtype(dtype(name), (dtype(other), "integral")) is (name == other or name in standard.INTEGERS)
    assert not sm.isdtype(dtype(name), ())


def test_dtypes_beyond_the_standard_belong_to_its_kinds() -> None:
    for extra in (sm.float16, sm.bfloat16):
        assert sm.isdtype(extra, "real floating") and sm.isdtype(extra, "numeric") and not sm.isdtype(extra, "integral")


def test_dtypes_are_equal_only_to_themselves() -> None:
    assert [a == b for a in map(dtype, NAMES) for b in map(dtype, NAMES)].count(True) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_values_become_python_numbers(name: str) -> None:
    one, zero = ones(name), sm.zeros((), dtype=dtype(name))
    if name in standard.DTYPES["complex"]:
        assert (bool(one), bool(zero), complex(one)) == (True, False, 1 + 0j)
        for convert in (int, float, operator.index):
            with pytest.raises(TypeError):
                convert(one)
        return
    assert (bool(one), bool(zero), int(one), float(one), complex(one)) == (True, False, 1, 1.0, 1 + 0j)
    assert [type(convert(one)) for convert in (bool, int, float, complex)] == [bool, int, float, complex]
    if name in standard.INTEGERS:
        assert operator.index(one) == 1 and ["a", "b"][one] == "b"
    else:
        with pytest.raises(TypeError, match="cannot be used as an index"):
            operator.index(one)


def test_special_values_become_python_numbers() -> None:
    nan, infinity, zero = (sm.asarray(value) for value in (np.nan, np.inf, -0.0))
    assert bool(nan) and bool(infinity) and bool(-infinity) and not bool(zero)
    with pytest.raises(ValueError, match="NaN"):
        int(nan)
    with pytest.raises(OverflowError):
        int(infinity)
    assert int(zero) == 0 and int(sm.asarray(-2.7)) == -2
    assert np.isnan(complex(nan).real) and np.isnan(complex(nan).imag)
    assert complex(-infinity) == complex(-np.inf, 0.0)


@pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index], ids=lambda f: f.__name__)
def test_only_single_elements_become_python_numbers(convert: Any) -> None:
    for shape in ((0,), (2,), (2, 2)):
        with pytest.raises(SmeltError, match="only a tensor with exactly one element"):
            convert(sm.ones(shape, dtype=sm.int32))
    with pytest.raises(ValueError, match="not known while the function is traced"):
        sm.jit(convert)(sm.asarray(1))
