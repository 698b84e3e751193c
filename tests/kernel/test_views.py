"""Memory seen as elements of another type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from smelt.dtypes import DType, bfloat16, float32, int8, int32, uint16
from smelt.errors import InternalError
from smelt.graph.index import of, variable
from smelt.kernel import interpret, lower, parse_kernel, print_kernel, verify
from smelt.kernel.region import Buffer
from tests.kernel import regions as r
from tests.kernel.runners import evaluate_region

ROWS = Buffer("x", int8, (5, 8), (12, 1), 4)


def test_words_along_unit_stride() -> None:
    assert ROWS.viewed(int32) == Buffer("x", int32, (5, 2), (3, 1), 1)
    assert ROWS.viewed(int8) == ROWS
    assert replace(ROWS, dtype=bfloat16).viewed(uint16) == replace(ROWS, dtype=uint16)
    columns = replace(ROWS, shape=(8, 5), strides=(1, 12))
    assert columns.viewed(int32) == Buffer("x", int32, (2, 5), (1, 3), 1)


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({"offset": 3}, int32),
        ({"strides": (10, 1)}, int32),
        ({"shape": (5, 7)}, int32),
        ({"strides": (12, 2)}, int32),  # no neighbors
        ({"strides": (1, 1)}, int32),
        ({"strides": (of(variable("s", 0, 90)), 1)}, int32),
        ({"dtype": float32}, int8),  # pieces of an element
    ],
)
def test_rows_consist_of_whole_words(changes: dict[str, object], dtype: DType) -> None:
    assert replace(ROWS, **changes).viewed(dtype) is None  # type: ignore[arg-type]


def test_a_row_count_may_be_symbolic() -> None:
    n = of(variable("n", 0, 90))
    assert replace(ROWS, shape=(n, 8)).viewed(int32) == Buffer("x", int32, (n, 2), (3, 1), 1)


def test_views_are_printed_read_and_run() -> None:
    case = r.pairs()
    kernel = lower(case.region)
    text = print_kernel(kernel)
    assert "load A:int32[" in text and "load A[" in text
    assert parse_kernel(text) == kernel
    verify(kernel)
    arrays, expected = case.arrays(), case.arrays()
    interpret(kernel, arrays, {})
    evaluate_region(case.region, expected, {})
    np.testing.assert_allclose(arrays["o"], expected["o"], rtol=1e-5)


def test_the_verifier_knows_what_a_view_looks_like() -> None:
    text = print_kernel(lower(r.pairs().region))
    good = parse_kernel(text)
    shifted = tuple(replace(b, offset=1, shape=(b.shape[0], 12)) if b.name == "A" else b for b in good.buffers)
    with pytest.raises(InternalError, match="another form"):
        verify(replace(good, buffers=shifted))
