"""The extensions `linalg` and `fft`: names, signatures; of the first dtypes and named tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.arrayapi import standard
from tests.arrayapi.test_functions import result
from tests.arrayapi.test_namespace import problems

FUNCTIONS = standard.EXTENSION_FUNCTIONS["linalg"]


def arguments(function: standard.Function, dtype: str) -> list[Any]:
    """A matrix that every function takes, or vectors of three elements."""
    vector = sm.asarray(np.array([1, 0, 1]), dtype=dtype)
    if function.name in ("cross", "outer", "vecdot"):
        return [vector, vector]
    matrix = sm.asarray(np.array([[1, 1, 0], [1, 3, 0], [0, 0, 2]]), dtype=dtype)
    others: dict[str, list[Any]] = {"matrix_power": [2], "solve": [vector], "matmul": [matrix], "tensordot": [matrix]}
    return [matrix, *others.get(function.name, [])]


def test_there_are_23_functions() -> None:
    assert len(FUNCTIONS) == 23 and {f.name for f in FUNCTIONS} <= set(sm.linalg.__all__)


@pytest.mark.parametrize(
    ("extension", "function"), [(key, f) for key, rows in standard.EXTENSION_FUNCTIONS.items() for f in rows], ids=str
)
def test_signatures_allow_every_call_of_the_standard(extension: str, function: standard.Function) -> None:
    assert problems(function.parameters, getattr(getattr(sm, extension), function.name)) == []


def test_fft_has_what_the_standard_names() -> None:
    assert [f.name for f in standard.EXTENSION_FUNCTIONS["fft"]] != []
    assert {f.name for f in standard.EXTENSION_FUNCTIONS["fft"]} == set(sm.fft.__all__)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_dtypes(function: standard.Function) -> None:
    for dtype in function.dtypes:
        found = getattr(sm.linalg, function.name)(*arguments(function, dtype))
        for tensor in found if isinstance(found, tuple) else (found,):
            assert tensor.dtype is getattr(sm, str(result(function, dtype))), (function.name, dtype)


@pytest.mark.parametrize("name", standard.PARTS)
def test_named_tuples(name: str) -> None:
    found = getattr(sm.linalg, name)(sm.eye(3))
    assert found._fields == standard.PARTS[name] and isinstance(found, tuple)


def test_a_program_for_any_namespace_uses_the_extension() -> None:
    def whitened(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.linalg.solve(xp.linalg.cholesky(x), xp.ones((3,), dtype=x.dtype))

    x = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_allclose(whitened(sm.asarray(x)).numpy(), whitened(x))
