"""The rules of regions: one case for each, and broken texts, which are refused or can be lowered."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ParseError
from smelt.kernel import Illegal, lower, parse_region, print_region, verify_region
from tests.kernel.regions import CASES

TEXT = """region
parameter n in 0 .. 100
axis i in 0 .. n - 1
axis k in 0 .. 7
buffer x float32 [n, 8] strides [8, 1] offset 0
buffer b int64 [n] strides [1] offset 0
%0: int64 = load b[i]
%1: float32 = load %0 as h in 0 .. n - 1 of x[h, k]
%2: float32 = reduce %1 add over k
%3: float32 = exp %2
output o float32 [n] strides [1] offset 0
store o[i] = %3
"""
BAD = [
    ("axis i in 0", "axis i in 1", "the axis i does not run from 0"),
    ("axis k in 0 .. 7", "axis k in 0 .. i", "the axis k does not run from 0"),
    ("axis k in 0 .. 7", "axis k in 0 .. -9", "the axis k does not run from 0"),
    ("axis k in 0 .. 7", "axis i in 0 .. 7\naxis k in 0 .. 7", "given twice"),
    ("[n, 8] strides [8, 1]", "[n, i] strides [8, 1]", "the sizes of x"),
    ("%1: float32", "%1: float64", "line 8: load does not take or give these types"),
    ("%0: int64 = load b[i]", "%0: float32 = const 1.0", "line 8: load does not take or give these types"),
    ("exp %2", "exp %0", "line 10: exp does not take or give these types"),
    ("exp %2", "not %2", "line 10: not does not take or give these types"),
    ("exp %2", "add %2", "line 10: add does not take or give these types"),
    ("exp %2", "round16 %2 int8", "line 10: round16 does not take or give these types"),
    ("exp %2", "bitcast %2 float16 int16", "line 10: bitcast does not take or give these types"),
    ("%2: float32 = reduce", "%2: float64 = reduce", "line 9: reduce does not take or give these types"),
    ("over k", "over k, k", "a reduce takes axes of the region, each once"),
    ("over k", "over n", "a reduce takes axes of the region, each once"),
    ("over k", "over h", "an axis|takes axes of the region"),
    ("h in 0 .. n - 1", "h in 0 .. i", "what stands for an index"),
    ("o[i]", "o[k]", "along i"),
    ("over k", "over i", "along k"),
    ("output o float32", "output o int32", "o holds another type"),
    ("store o[i]", "store q[i]", "a known buffer"),
    ("reduce %1 add over k", "scan %1 add over k", "over one of its axes|along k"),
]


def test_the_region_of_these_cases_is_sound() -> None:
    lower(parse_region(TEXT))


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_broken_rules_are_found(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ParseError, match=message):
        parse_region(TEXT.replace(old, new))


@pytest.mark.parametrize("name", CASES)
def test_regions_of_the_tests_keep_the_rules(name: str) -> None:
    verify_region(CASES[name]().region)


def with_other_words(rng: random.Random, text: str) -> str:
    """Text in which some words or numbers are others of the same text."""
    words = re.split(r"(\w+|\W)", text)
    places = [at for at, word in enumerate(words) if word.isalnum()]
    for _ in range(rng.randint(1, 3)):
        words[rng.choice(places)] = words[rng.choice(places)]
    return "".join(words)


@given(st.sampled_from([print_region(make().region) for make in CASES.values()]), st.integers(0, 2**32))
def test_mutated_regions_are_refused_or_can_be_lowered(text: str, seed: int) -> None:
    try:
        lower(parse_region(with_other_words(random.Random(seed), text)))
    except (ParseError, Illegal):
        pass
