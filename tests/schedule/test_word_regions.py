"""A region with its contraction in words computes what the region says, whatever its signs, layouts and sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import smelt as sm
from smelt.kernel import Region
from smelt.kernel.instructions import INSTRUCTIONS, Instruction
from smelt.schedule.facts import contraction_of
from smelt.schedule.words import Words, in_words
from tests.kernel.regions import Case
from tests.kernel.runners import evaluate_region
from tests.schedule.test_default import regions

OPERANDS: dict[str, Callable[[sm.Tensor], sm.Tensor]] = {
    "plain": lambda x: x,
    "computed": lambda x: x + 1,
    "padded": lambda x: sm.pad(x[:, 1:-1], ((0, 0), (1, 1))) if x.shape[1] > 2 else x,
    "padded by words": lambda x: sm.pad(x[:, 4:-4], ((0, 0), (4, 4))) if x.shape[1] > 8 else x,
    "chosen": lambda x: sm.where(sm.arange(x.shape[1]) % 3 == 1, x, sm.zeros_like(x)),
    "reversed": lambda x: x[:, ::-1],
    "of every other": lambda x: sm.concat([x, x], axis=1)[:, ::2],
}
AFTER: list[Callable[[sm.Tensor], sm.Tensor]] = [lambda y: y, lambda y: y * 2 + 1, lambda y: y.astype(sm.float32) / 3]
DTYPES = [
    (sm.int8, sm.int8),
    (sm.uint8, sm.uint8),
    (sm.int8, sm.uint8),
    (sm.uint8, sm.int8),
    (sm.int8, sm.int16),
    (sm.int16, sm.int16),
    (sm.bfloat16, sm.bfloat16),
]


def operand(dtype: sm.DType, rows: int, depth: int, transposed: bool, kind: str) -> sm.Tensor:
    """A matrix that is summed along its last axis."""
    x = sm.from_numpy(np.zeros((depth, rows) if transposed else (rows, depth), dtype.numpy))
    made = OPERANDS[kind](x.T if transposed else x)
    return made.astype(dtype).astype(sm.float32 if dtype is sm.bfloat16 else sm.int32)


def values(region: Region, of: Region) -> np.ndarray[Any, Any]:
    """What a region computes, from random values of the buffers of another one that reads the same."""
    arrays = Case(of).arrays(seed=3)
    for name, array in arrays.items():
        if array.dtype.itemsize == 1:
            arrays[name] = np.random.default_rng(len(name)).integers(-128, 128, array.shape).astype(array.dtype)
    evaluate_region(region, arrays, {})
    return arrays[region.outputs[0].buffer.name].astype(np.float64)


def words_of(region: Region, rows: Sequence[Instruction]) -> Words | None:
    """What comes of the first row which the operands fit."""
    contraction = contraction_of(region)
    if contraction is None:
        return None
    found = (in_words(contraction, row) for row in rows)
    return next((words for words in found if words is not None), None)


# No matrix instruction takes integers of 16 bits.
KINDS = [
    *(pytest.param(False, kinds, id=f"vectors-{kinds}") for kinds in DTYPES),
    *(pytest.param(True, kinds, id=f"matrices-{kinds}") for kinds in DTYPES if sm.int16 not in kinds),
]


@given(seed=st.integers(0, 10**9))
@pytest.mark.parametrize(("matrix", "dtypes"), KINDS)
def test_words_compute_what_the_region_says(dtypes: tuple[sm.DType, sm.DType], matrix: bool, seed: int) -> None:
    rng = random.Random(seed)
    rows, columns, depth = rng.randint(1, 5), rng.randint(9, 18), rng.randint(2, 70)
    a = operand(dtypes[0], rows, depth, rng.choice([True, False]), rng.choice(list(OPERANDS)))
    b = operand(dtypes[1], columns, depth, rng.choice([True, False]), rng.choice(list(OPERANDS)))
    region = regions(rng.choice(AFTER)(a @ b.T)._node)[-1]
    known = [row for row in INSTRUCTIONS if row.takes_tiles is matrix and row.numbers > 1]
    words = words_of(region, rng.sample(known, len(known)))
    assume(words is not None)
    expected = values(region, region)
    np.testing.assert_allclose(values(words.contraction.region, region), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "word"), [(sm.int8, 4), (sm.uint8, 4), (sm.int8, 2), (sm.int16, 2), (sm.bfloat16, 2)], ids=str
)
@pytest.mark.parametrize("kind", ["plain", "computed", "padded", "padded by words", "chosen", "reversed"])
def test_sums_of_a_word_and_more_are_in_words(dtype: sm.DType, word: int, kind: str) -> None:
    known = [row for row in INSTRUCTIONS if not row.takes_tiles and row.numbers == word]

    def is_in_words(depth: int) -> bool:
        a, b = operand(dtype, 16, depth, False, kind), operand(dtype, 32, depth, False, "plain")
        return words_of(regions((a @ b.T)._node)[-1], known) is not None

    assert [is_in_words(depth) for depth in (word - 1, word, word + 1, 5 * word)] == [False, True, True, True]
