"""Kernels, regions and schedules survive printing and parsing; broken text raises ParseError and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.dtypes import bool_, float16, float32, int16, int64
from smelt.errors import ParseError, SmeltError
from smelt.graph.index import of
from smelt.kernel import (
    lower,
    parse_action,
    parse_kernel,
    parse_region,
    parse_schedule,
    print_kernel,
    print_region,
    print_schedule,
)
from smelt.kernel.region import Expression
from tests.kernel import regions as r
from tests.kernel.random_schedules import random_schedule
from tests.kernel.regions import CASES

MATMUL = (
    "split m (3 reg) tail balance; split n (2 reg, 4 lane); split k (4 loop); order k.0 n.0 m.0 k.1;"
    "stage B at n.0 (k, n); stage A at k.0 (m, k); unroll k.1 4; stream"
)
FLASH = "split q (3 reg); split k (4 lane); online k; skip k q condition; bind h.0 q.0 grid"


@pytest.mark.parametrize("name", CASES)
def test_regions_round_trip(name: str) -> None:
    region = CASES[name]().region
    text = print_region(region)
    again = parse_region(text)
    assert print_region(again) == text
    assert print_kernel(lower(again)) == print_kernel(lower(region))


@pytest.mark.parametrize("name", CASES)
def test_kernels_round_trip(name: str) -> None:
    kernel = lower(CASES[name]().region)
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_scheduled_kernels_round_trip() -> None:
    for case, schedule in ((r.matmul(symbolic="m"), MATMUL), (r.matmul(), MATMUL), (r.attention(causal=True), FLASH)):
        text = print_kernel(lower(case.region, parse_schedule(schedule)))
        assert print_kernel(parse_kernel(text)) == text


def test_every_attribute_has_a_text() -> None:
    i = r.axis("i", 4)
    x = r.load(r.buffer("x", 4, dtype=float16), i)
    bits = Expression("bitcast", int16, (x,), (float16, int16))
    wide = Expression("cast", int64, (bits,))
    rounded = Expression("round16", float32, (Expression("cast", float32, (wide,)),), float16)
    flags = r.op("and", r.op("isnan", rounded), r.const(True, bool_))
    value = r.op("where", flags, r.op("mul", rounded, float("-inf")), r.const(-0.0))
    region = r.region(r.out(r.buffer("o", 4), [i], value), [i])
    assert print_region(parse_region(print_region(region))) == print_region(region)
    kernel = lower(region)
    assert parse_kernel(print_kernel(kernel)) == kernel
    assert " float16 int16" in print_kernel(kernel)


def test_names_from_users_are_quoted() -> None:
    n = r.parameter('rows "in" all\n', 0, 9)
    i = r.axis("i", of(n))
    region = r.region(r.out(r.buffer("o", of(n)), [i], r.load(r.buffer("x", of(n)), i)), [i], [n])
    text = print_kernel(lower(region))
    assert parse_kernel(text) == lower(region)
    assert print_region(parse_region(print_region(region))) == print_region(region)


@given(st.integers(0, 2**32))
def test_random_schedules_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    schedule = random_schedule(rng, rng.choice(list(CASES.values()))().region)
    assert parse_schedule(print_schedule(schedule)) == schedule
    assert all(parse_action(str(action)) == action for action in schedule)


@pytest.mark.parametrize(
    "text",
    [
        "split",
        "split c",
        "split c (4)",
        "split c (x reg)",
        "bind grid",
        "bind c.0 warp",
        "stage v",
        "melt c",
        "keep e",
        "sub y k",
    ],
)
def test_bad_actions_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_action(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("load A", "load Z"), "known buffer"),
        (("load A", "load A:float16"), "can be read as"),
        (("fma= v", "fma= w"), "known value"),
        (("float32", "float33"), "a dtype"),
        (("acc 0.0", "acc zero"), "a constant of float32"),
        (("kernel k", "kennel k"), "'kernel'"),
        (("loop i", "lop i"), "a statement"),
        (("  a", "      a"), "less indentation"),
        (("= exp", "= expo"), "an operation"),
        (("m.reg:3", "m.reg:0"), "an extent"),
        (("m.reg:3", "m.warp:3"), "a part of an axis"),
        (("m.reg:3", "m.thread:3"), "a part of an axis"),
    ],
)
def test_errors_say_what_was_expected(change: tuple[str, str], message: str) -> None:
    text = print_kernel(lower(r.matmul().region, parse_schedule("split m (3 reg)")))
    assert change[0] in text
    with pytest.raises(ParseError, match=message):
        parse_kernel(text.replace(*change))


@pytest.mark.parametrize(
    "change", [("= exp %12", "= exp %12 %12"), ("= sub %10 %11", "= sub %10"), ("= sub %10 %11", "= sub")]
)
def test_expressions_have_as_many_arguments_as_their_operation_takes(change: tuple[str, str]) -> None:
    text = print_region(r.attention(causal=True).region)
    assert change[0] in text
    with pytest.raises(ParseError, match="does not take or give these types"):
        parse_region(text.replace(*change))


def mutated(rng: random.Random, text: str) -> str:
    """Text with a few characters, words or lines changed, moved or lost."""
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(text)), rng.choice((1, 1, 3, 12))
        piece = rng.choice(("", " ", "(", "9", "%", "//", "<", "i0", "\n", "-", "min(", text[at : at + length] * 2))
        text = (text[:at] + piece + text[at + length :]) or "x"
    return text


@given(st.integers(0, 2**32))
def test_mutated_text_never_breaks_the_parsers(seed: int) -> None:
    rng = random.Random(seed)
    kernel = print_kernel(lower(r.matmul(symbolic="mk").region, parse_schedule(MATMUL)))
    region = print_region(r.attention(causal=True).region)
    for parse, text in ((parse_kernel, kernel), (parse_region, region), (parse_schedule, f"{MATMUL};{FLASH}")):
        try:
            parse(mutated(rng, text))
        except SmeltError:
            pass
