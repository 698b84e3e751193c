"""Every elementwise function, for every dtype, scalar and vector, against NumPy; edges included."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType, cast_array, compute_dtype
from smelt.graph.ops import BINARY, UNARY
from tests.render.accuracy import ABSOLUTE, WIDE, identical, units_off, widen
from tests.render.support import Compiled, elementwise
from tests.turns import one_in

pytestmark = pytest.mark.xdist_group("elementwise")  # compiled once

LANES = (1, 16)
COUNT = 149  # a prime: the last vector is always masked

MATH = tuple(WIDE)


def edges(dtype: DType) -> NDArray[Any]:
    """Values at which functions change their mind."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        near = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, high, high - 1, low, low + 1]
        return np.array(near + ([-1, -2, -3, -7, -dtype.bits] if dtype.is_signed else []), dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    tiny, small, big = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    positive = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 7.0, 100.0, tiny, small, big, np.inf, np.nan]
    return np.array([sign * x for x in positive for sign in (1, -1)], dtype.numpy)


def pairs(dtype: DType) -> list[NDArray[Any]]:
    """Two arrays of COUNT elements: edges against edges as far as they fit, then random values."""
    rng = np.random.default_rng(dtype.bits)
    first, second = (np.array(column) for column in zip(*itertools.product(edges(dtype), repeat=2), strict=True))
    chosen = rng.permutation(len(first))[: COUNT - 20]
    return [np.concatenate([edge[chosen], random_values(dtype, rng, COUNT)])[:COUNT] for edge in (first, second)]


def random_values(dtype: DType, rng: np.random.Generator, count: int) -> NDArray[Any]:
    if dtype.is_float:
        return (rng.standard_normal(count) * 4).astype(dtype.numpy)
    return (
        rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
        if not dtype.is_bool
        else (rng.integers(0, 2, count).astype(bool))
    )


def reference(op: str, arguments: list[NDArray[Any]], dtype: DType) -> NDArray[Any]:
    """What NumPy gives, with the rules that it lacks. Math functions come one precision wider."""
    with np.errstate(all="ignore"):
        if dtype.is_float:
            return _float_reference(op, [a.astype(compute_dtype(dtype).numpy) for a in arguments])
        if op in INTEGER_RULES:
            return np.array([INTEGER_RULES[op](*map(int, row), dtype) for row in zip(*arguments, strict=True)])
        return np.asarray(NUMPY[op](*arguments))


def _wrap(value: int, dtype: DType) -> Any:
    if dtype.is_bool:
        return dtype.numpy.type(value)
    return np.array([value & ((1 << dtype.bits) - 1)], np.uint64).astype(f"u{dtype.itemsize}").view(dtype.numpy)[0]


def _power(a: int, b: int, dtype: DType) -> Any:
    if b < 0:
        return _wrap(1 if a == 1 else (-1) ** (b & 1) if a == -1 else 0, dtype)
    return _wrap(pow(a, b, 1 << dtype.bits), dtype)


def _floor_divide(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    endless = np.isinf(a) | np.isinf(b) if a.dtype.kind == "f" else False
    return np.where(endless, np.floor(a / b), np.floor_divide(a, b))


INTEGER_RULES: dict[str, Any] = {
    "floordiv": lambda a, b, d: _wrap(a // b if b else 0, d),
    "mod": lambda a, b, d: _wrap(a % b if b else 0, d),
    "pow": _power,
    "shl": lambda a, b, d: _wrap(a << b if 0 <= b < d.bits else 0, d),
    "shr": lambda a, b, d: _wrap(a >> b if 0 <= b < d.bits else 0, d),
}


def _bytes(words: NDArray[Any], kind: str) -> NDArray[Any]:
    return np.ascontiguousarray(words)[:, None].view(kind).astype(np.int32)


def _shifted_bytes(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    places = np.arange(0, 32, 8)
    return ((_bytes(a, "u1") >> (b & 7)[:, None]).astype(np.int64) << places).sum(-1).astype(np.int32)


def _dot_of_bytes(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return (_bytes(a, "i1") * _bytes(b, "i1")).sum(-1, dtype=np.int32)


def _dot_of_unsigned(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return (_bytes(a, "u1") * _bytes(b, "i1")).sum(-1, dtype=np.int32)


NUMPY: dict[str, Any] = {
    **{"neg": np.negative, "abs": np.abs, "sign": np.sign, "not": np.invert, "isnan": np.isnan},
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide},
    **{"floordiv": _floor_divide, "mod": np.mod, "max": np.maximum, "min": np.minimum},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round},
    **{"shr_bytes": _shifted_bytes, "dot4_ss": _dot_of_bytes, "dot4": _dot_of_unsigned},
}


def _float_reference(op: str, arguments: list[NDArray[Any]]) -> NDArray[Any]:
    if op not in MATH:
        return np.asarray(NUMPY[op](*arguments))
    return np.asarray(WIDE[op](*[widen(a) for a in arguments]))


def _cases() -> list[tuple[str, str, DType, int]]:
    cases = []
    for number, (op, function) in enumerate((UNARY | BINARY).items()):
        kinds = [dtype for dtype in dtypes.ALL if function.takes(dtype)]
        every = [(dtype, n) for dtype in kinds for n in LANES]
        chosen = every if op in ("max", "min") else one_in(9, every, number)  # of those, zeros and NaN are tested below
        cases += [(f"k_{op}_{dtype.name}_{n}", op, dtype, n) for dtype, n in chosen]
    return cases


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    kernels = []
    for name, op, dtype, lanes in _cases():
        result = dtypes.bool_ if (UNARY | BINARY)[op].boolean else dtype
        kernels.append(elementwise(name, op, [dtype] * (1 if op in UNARY else 2), result, COUNT, lanes))
    return Compiled(kernels, tmp_path_factory.mktemp("elementwise"), flags="-march=native -O1")


@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_function_equals_numpy(op: str, compiled: Compiled) -> None:
    for name, _, dtype, lanes in [case for case in _cases() if case[1] == op]:
        arguments = pairs(dtype)[: 1 if op in UNARY else 2]
        result = dtypes.bool_ if (UNARY | BINARY)[op].boolean else dtype
        out = np.ones(COUNT, result.numpy)
        compiled.run(name, [out, *arguments])
        wanted = reference(op, arguments, dtype)
        if op in MATH and dtype.is_float:
            off = units_off(out, wanted, dtype, ABSOLUTE.get(op, 0.0) if dtype is dtypes.float64 else 0.0)
            worst = int(np.argmax(off))
            assert off[worst] <= 4, (name, lanes, [a[worst] for a in arguments], out[worst], wanted[worst])
            continue
        wanted = cast_array(wanted, result) if result.is_float else wanted.astype(result.numpy)
        if not result.is_float:
            same = out == wanted
        elif op in ("max", "min"):  # NumPy may choose either zero
            same = identical(out + 0, wanted + 0)
        else:
            same = identical(out, wanted)
        assert same.all(), (name, [a[~same][:5] for a in arguments], out[~same][:5], wanted[~same][:5])


@pytest.mark.parametrize("lanes", [1, 16])
def test_maximum_of_zeros_and_nan(lanes: int, compiled: Compiled) -> None:
    for dtype in (dtypes.float32, dtypes.float64):
        a = np.resize(np.array([0.0, -0.0, np.nan, 1.0, -0.0, np.inf], dtype.numpy), COUNT)
        b = np.resize(np.array([-0.0, 0.0, 1.0, np.nan, -0.0, np.nan], dtype.numpy), COUNT)
        out = np.ones(COUNT, dtype.numpy)
        compiled.run(f"k_max_{dtype.name}_{lanes}", [out, a, b])
        assert np.isnan(out[[2, 3, 5]]).all()
        assert np.signbit(out[[0, 1, 4]]).tolist() == [False, False, True]
        compiled.run(f"k_min_{dtype.name}_{lanes}", [out, a, b])
        assert np.isnan(out[[2, 3, 5]]).all()
        assert np.signbit(out[[0, 1, 4]]).tolist() == [True, True, True]
