"""Functions: the dtypes that they take and give, shapes, and values against NumPy, which follows the same standard."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm
from smelt.errors import DTypeError
from tests.arrayapi import calls, special, standard
from tests.arrayapi.state import MISSING
from tests.ops.samples import Sample
from tests.turns import TEST_ALL, TURN, one_in

FUNCTIONS = [f for f in standard.FUNCTIONS.values() if f.name not in MISSING | dict.fromkeys(calls.without_calls(), "")]
TAKING = [f for f in FUNCTIONS if f.dtypes]
DTYPES = standard.KINDS["any"]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def called(function: standard.Function, sample: Sample) -> list[Any]:
    """What smelt gives: a list also of one tensor."""
    foreign = function.name in ("asarray", "from_dlpack")
    args = sample.args if foreign else calls.tensors(sample.args)
    return listed(getattr(sm, function.name)(*args, **{k: calls.tensors(v) for k, v in sample.kwargs.items()}))


def result(function: standard.Function, dtype: str) -> str | None:
    """The dtype that the standard wants, if it says."""
    if function.result == "sum":
        return dtype if dtype in standard.DTYPES["float"] else "uint64" if dtype[0] == "u" else "int64"
    return {"same": dtype, "promoted": dtype, "bool": "bool", "index": "int64", "given": None}[function.result]


@pytest.mark.parametrize("function", TAKING, ids=lambda f: f.name)
@pytest.mark.by_turns(3)
def test_every_accepted_dtype_gives_the_right_one(function: standard.Function) -> None:
    computes = function.category == "set"  # how many elements come out is known only then
    for dtype in one_in(4, function.dtypes) if computes else function.dtypes:
        expected = result(function, dtype)
        for sample in calls.calls(function, dtype):
            for tensor in called(function, sample):
                assert isinstance(tensor, sm.Tensor) and tensor.device == "cpu"
                assert expected is None or tensor.dtype is getattr(sm, expected), dtype


@pytest.mark.parametrize("function", TAKING, ids=lambda f: f.name)
def test_other_dtypes_are_refused_or_documented_extensions(function: standard.Function) -> None:
    """A function may take more than it must, but nothing fails in another way than by a typed error at the call."""
    for dtype in set(DTYPES) - set(function.dtypes):
        sample = calls.calls(function, dtype)[0]
        try:
            tensors = called(function, sample)
        except DTypeError as error:
            assert f"{function.name}: " in str(error) and "test_functions.py" in str(error)
        else:
            assert all(isinstance(tensor, sm.Tensor) for tensor in tensors)


REFUSED = {
    "bool": ("add", "subtract", "multiply", "negative", "abs", "sign", "square", "floor_divide", "remainder", "pow"),
    "float32": ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift"),
}


@pytest.mark.parametrize(("dtype", "name"), [(d, name) for d, names in REFUSED.items() for name in names])
def test_dtypes_without_a_meaning_are_refused(dtype: str, name: str) -> None:
    function = standard.FUNCTIONS[name]
    with pytest.raises(DTypeError, match=f"{name}: .*{dtype}"):
        called(function, calls.calls(function, dtype)[0])


class Case(NamedTuple):
    label: str
    tensor: sm.Tensor
    expected: Any


def cases(functions: list[standard.Function]) -> Iterator[Case]:
    """Every call; in sampled runs some of them, with one dtype of each kind, not the same for all functions."""
    for number, function in enumerate(functions):
        kinds = [[d for d in kind if d in function.dtypes] for kind in standard.DTYPES.values()]
        chosen = [k[(number + TURN) % len(k)] for k in kinds if k]
        for turn, dtype in enumerate((function.dtypes if TEST_ALL else chosen) or ("float32",)):
            samples = calls.calls(function, dtype)
            for sample in one_in(12, samples, number + turn):
                with np.errstate(all="ignore"):
                    expected = listed(calls.reference(function.name)(*sample.args, **sample.kwargs))
                got = called(function, sample)
                assert len(got) == len(expected), (function.name, sample)
                for tensor, array in zip(got, expected, strict=True):
                    yield Case(f"{function.name} {dtype} {sample}", tensor, array)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, about empty means
@pytest.mark.parametrize("category", sorted({f.category for f in FUNCTIONS}))
def test_values_are_those_of_numpy(category: str) -> None:
    found = list(cases([f for f in FUNCTIONS if f.category == category]))
    sm.realize(*(case.tensor for case in found))
    for case in found:
        got, expected = case.tensor.numpy(), np.asarray(case.expected)
        assert got.shape == expected.shape, case.label
        if got.dtype.kind != "f":
            assert np.array_equal(got, expected), case.label
            continue
        epsilon = 16 * float(np.finfo(got.dtype).eps)
        assert np.allclose(got, expected, rtol=epsilon, atol=epsilon, equal_nan=True), case.label


def test_there_is_a_call_for_every_function() -> None:
    named = {f.name for f in standard.FUNCTIONS.values() if f.category != "elementwise"}
    assert named - set(calls.CALLS) <= calls.without_calls()


SPECIAL = [case for case in special.CASES if case.function not in MISSING]


def test_special_cases() -> None:
    tensors = [case.call(sm) for case in SPECIAL]
    sm.realize(*tensors)
    for case, tensor in zip(SPECIAL, tensors, strict=True):
        expected = np.asarray(case.expected)
        assert tensor.shape == expected.shape, case.rule
        assert np.array_equal(tensor.numpy(), expected, equal_nan=expected.dtype.kind == "f"), case.rule


@pytest.mark.parametrize("case", [c for c in special.REFUSED if c.function not in MISSING], ids=lambda c: c.rule)
def test_what_must_be_refused(case: special.Refusal) -> None:
    with pytest.raises(case.error) as caught:
        case.call(sm)
    assert isinstance(caught.value, sm.errors.SmeltError) and "special.py" in str(caught.value)


SHAPES = [(), (1,), (3,), (0,), (2, 1), (1, 3), (2, 3), (5, 2, 1), (4, 0, 3)]


@pytest.mark.parametrize(("first", "second"), list(itertools.product(SHAPES, SHAPES)), ids=str)
def test_shapes_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    x, y = sm.ones(first), sm.ones(second)
    try:
        expected = np.broadcast_shapes(first, second)
    except ValueError:
        for apply in (sm.add, sm.less, sm.broadcast_arrays):
            with pytest.raises(sm.errors.ShapeError, match="do not broadcast"):
                apply(x, y)
        return
    assert (x + y).shape == (x < y).shape == sm.where(x > 0, x, y).shape == expected
    assert [z.shape for z in sm.broadcast_arrays(x, y)] == [expected] * 2


def test_a_program_written_for_any_namespace() -> None:
    def standardized(x: Any) -> Any:
        xp = x.__array_namespace__()
        centered = x - xp.mean(x, axis=0)
        return centered / xp.maximum(xp.std(x, axis=0, correction=1), xp.finfo(x.dtype).eps)

    data = np.random.default_rng(0).normal(size=(7, 3))
    assert np.allclose(standardized(sm.asarray(data)).numpy(), standardized(data))
