"""Index expressions read back from text."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ParseError
from smelt.graph.index import Dim, Index, maximum, minimum, variable
from smelt.graph.index_text import parse_index
from tests.graph.index_cases import VARIABLES, assignment, case

N = Dim("n", 1, 100)
I = variable("i.reg0", 0, 31)  # noqa: E741
NAMES = {"n": N, "i.reg0": I}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-7", -7),
        ("n", N),
        ("-n + 3", 3 - N),
        ("2*n - (i.reg0 // 4)", N * 2 - I // 4),
        ("-(n % 3)", -(N % 3)),
        ("min(i.reg0, n) + max(3, n)", minimum(I, N) + maximum(3, N)),
        ("(n + 7) // 8 * 8", (N + 7) // 8 * 8),
        ("n*n*i.reg0", N * N * I),
        ("  n  ", N),
    ],
)
def test_examples(text: str, expected: Index | int) -> None:
    assert parse_index(text, NAMES) == expected


@pytest.mark.parametrize(
    "name", ["min", "max", "two words", 'quo"te\\', "line\nbreak", "größe", "1st", "\udc80", "a" * 500]
)
def test_any_name_can_be_printed_and_read(name: str) -> None:
    dim = Dim(name, 1, 9)
    expression = dim * 3 + minimum(dim, N) - dim // 2
    assert parse_index(str(expression), {name: dim, "n": N}) == expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n +",
        "+n",
        "n n",
        "3n",
        "n // 0",
        "n % (n - 1)",
        "x",
        "min(n)",
        "min(n, n",
        "(n",
        "n)",
        '"n',
        "n / 2",
        "n ** 2",
        ".",
    ],
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_index(text, NAMES)


@pytest.mark.parametrize(
    "text",
    ["(" * 5_000 + "n" + ")" * 5_000, "9" * 100_000, "*".join(["(n + i.reg0 + 1)"] * 5_000)],
    ids=["deep", "long", "wide"],
)
def test_monstrous_text_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_index(text, NAMES)


@given(st.integers(min_value=0), st.data())
def test_damaged_text_is_read_or_refused(seed: int, data: st.DataObject) -> None:
    rng = random.Random(seed)
    text = str(case(rng, [assignment(rng)]).index)
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at]
        + data.draw(st.text('()+-*/%,min0123456789x "\\', max_size=3))
        + text[at + data.draw(st.integers(0, 2)) :]
    )
    with contextlib.suppress(ParseError):
        assert isinstance(parse_index(damaged, VARIABLES), Index)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert isinstance(parse_index(text, VARIABLES), Index)
