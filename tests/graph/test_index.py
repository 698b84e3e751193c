"""The index algebra against Python's own integers."""

from __future__ import annotations

import multiprocessing
import operator
import os
import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.errors import ArgumentError, InternalError
from smelt.graph.index import (
    Dim,
    Index,
    Variable,
    as_index,
    exact_quotient,
    less,
    maximum,
    minimum,
    nonnegative,
    product_of,
    size_of,
    upper,
    variable,
)
from tests.graph.index_cases import VARIABLES, assignment, case, check, check_many

N = Dim("n", 1, 100)
BIG = Dim("big", 1, 1 << 30)
M = Dim("m", 1, 50)
I = variable("i", 0, 31)  # noqa: E741
J = variable("j", 0, 7)
ROW = variable("row", 0, N - 1)

LONG_CHUNKS = 20
LONG_COUNT = 50_000  # per chunk: a million in all


def test_three_thousand_random_expressions() -> None:
    rng = random.Random(20_260_801)
    for _ in range(3_000):
        check(rng)


@given(st.integers(min_value=0))
def test_random_expressions_of_other_seeds(seed: int) -> None:
    check(random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(LONG_CHUNKS))
def test_a_million_random_expressions(chunk: int) -> None:
    workers = os.cpu_count() or 1
    share = LONG_COUNT // workers + 1
    seeds = [chunk * 1_000 + worker for worker in range(workers)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        assert sum(pool.map(check_many, seeds, [share] * workers)) >= LONG_COUNT


@given(st.integers(min_value=0), st.sampled_from(sorted(VARIABLES)))
def test_substitution_is_evaluation_in_two_steps(seed: int, name: str) -> None:
    rng = random.Random(seed)
    assignments = [assignment(rng)]
    index, _, text = case(rng, assignments)
    (names,) = assignments
    (replaced,) = VARIABLES[name].variables()
    value = random.Random(seed + 1).randint(replaced.low, replaced.high)
    after = index.substitute({replaced: value})
    assert replaced not in after.variables()
    assert after.evaluate(names) == index.evaluate(names | {name: value}), text


@given(st.integers(min_value=0))
def test_arrays_are_evaluated_elementwise(seed: int) -> None:
    rng = random.Random(seed)
    assignments = [assignment(rng) for _ in range(4)]
    index, values, _ = case(rng, assignments)
    arrays = {name: np.array([names[name] for names in assignments]) for name in VARIABLES}
    assert np.array_equal(np.broadcast_to(index.evaluate(arrays), 4), values)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (I + I, "2*i"),
        (I - I, "0"),
        ((I * 8 + J) // 8, "i"),
        ((I * 8 + J) % 8, "j"),
        ((I // 4) * 4 + I % 4, "i"),
        ((I // 4) // 2, "i // 8"),
        ((I * 32 + J) // 64, "i // 2"),
        ((I * 32 + J) % 64, "32*(i % 2) + j"),
        ((I * 12 + J) // 24 * 24 + (I * 12 + J) % 24, "12*i + j"),
        ((I // 24) * 24 + ((I // 8) % 3) * 8 + I % 8, "i"),
        ((I % 12) % 4, "i % 4"),
        ((I % 12) // 4, "(i // 4) % 3"),
        ((I * 4 + 3) // 8, "i // 2"),
        ((I * 2 + 1) // 6, "i // 3"),
        ((I * 2 + 1) % 6, "2*(i % 3) + 1"),
        ((I * 6) % 9, "3*((2*i) % 3)"),
        ((I * 6 + 5) % 9, "3*((2*i + 1) % 3) + 2"),
        ((I * 6 + 5) // 9, "(2*i + 1) // 3"),
        (-variable("k", 1, 7) % 16, "-k + 16"),
        (-variable("k", 1, 7) // 16, "-1"),
        (I // 32, "0"),
        (I % 32, "i"),
        ((I * N + ROW) // N, "i"),
        ((I * N + ROW) % N, "row"),
        ((N * M) // N, "m"),
        (ROW // N, "0"),
        (ROW % N, "row"),
        ((N * M) % M, "0"),
        ((I * N + ROW) // (N * M), "(i*n + row) // (m*n)"),
        (minimum(I, 31), "i"),
        (maximum(I, 31), "31"),
        (minimum(N, M), "min(m, n)"),
        (minimum(ROW, N), "row"),
        (-(I // 2), "-(i // 2)"),
        (N - I // 2, "-(i // 2) + n"),
        (N // 2 + (N + 1) // 2, "n"),
        (N - N // 2, "(n + 1) // 2"),
        (N // 2 + N // 2 + (N + 1) // 2, "n + n // 2"),
        (2 * N - (N + 1) // 2, "n + n // 2"),
        (N - 2 * (N // 2), "n - 2*(n // 2)"),
        (N // 3 + (N + 1) // 3 + (N + 2) // 3, "n"),
        (N - N // 3 - (N + 2) // 3, "(n + 1) // 3"),
        ((N + 1) // 4 + (N + 3) // 4, "(n + 1) // 2"),
        ((N + M) // 2 + (N + M + 1) // 2, "m + n"),
        ((3 * ((N + 2) // 3) - N) // 2 + (3 * ((N + 2) // 3) - N + 1) // 2, "3*((n + 2) // 3) - n"),
    ],
)
def test_what_is_simplified(expression: Index, text: str) -> None:
    assert str(expression) == text


shares = st.tuples(st.integers(1, 6), st.integers(2, 6), st.integers(0, 40), st.integers(-3, 3))


@given(shares, st.lists(st.integers(-2, 2), min_size=1, max_size=6), st.integers(0, 10**6))
def test_all_shares_are_the_whole(numbers: tuple[int, int, int, int], factors: list[int], n: int) -> None:
    """The sum of (a + k*m) // (c*m) for k from 0 to c - 1 is a // m, also as a part of any other sum."""
    m, c, more, factor = numbers
    a = Dim("big", 0, 10**6) + more
    parts = [(a + k * m) // (c * m) for k in range(c)]
    assert sum(parts, as_index(0)) == a // m
    for k, part in enumerate(parts):
        others = sum((other for at, other in enumerate(parts) if at != k), as_index(0))
        assert others + part == a // m
        assert c > 2 or a // m - part == others
    found = factor * (a // m)
    for weight, part in zip(factors, parts, strict=False):
        found = found + weight * part
    wanted = factor * ((n + more) // m)
    wanted += sum(w * ((n + more + k * m) // (c * m)) for k, w in zip(range(c), factors, strict=False))
    assert as_index(found).evaluate({"big": n}) == wanted


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20), st.integers(-3, 3))
def test_proofs_about_numbers_that_are_a_little_apart(m: int, t: int, apart: int, slack: int) -> None:
    """What is proven of a // m and (a + c) // (m * t) holds for all a."""
    a = Dim("a", 0, 100)
    for first, second in (((0, m), (apart, m * t)), ((apart, m), (0, m * t))):
        for sign in (1, -1):
            difference = sign * ((a + first[0]) // first[1] - t * ((a + second[0]) // second[1])) + slack
            if nonnegative(difference):
                assert all(difference.evaluate({"a": k}) >= 0 for k in range(101))


@pytest.mark.parametrize(
    "expression",
    [
        as_index(0),
        I,
        N - ROW - 1,
        N * M - ROW * M - M,
        N * M - (ROW * M + variable("c", 0, M - 1)) - 1,
        (N + 7) // 8 * 8 - N,
        N - N // 8 * 8,
        # Quotients of numbers that are a little apart.
        2 * ((N + 3) // 4) - (N + 1) // 2,
        (N + 1) // 2 + 1 - 2 * ((N + 3) // 4),
        (N + 5) // 8 - N // 8,
        (3 * ((N + 2) // 3) - N) // 2,
        minimum(N, M) - 1,
        maximum(N, M) - N,
        N - minimum(N, M),
        7 - I % 8,
        (N - 1) - variable("tile", 0, (N + 15) // 16 - 1) * 16 + 15,
        N - ROW % M - 1,
        ROW % M + (N - 1) - ROW,
        N - 1 - ROW // M,
        M * (ROW // M) - ROW + M - 1,
        ROW - M * (ROW // M),
        maximum(ROW, M) + minimum(ROW, M) - ROW,
        minimum(ROW, M - 1) * N + N - 1 - minimum(ROW, M - 1),
        variable("k", 0, N * M - 1) // M * -1 + N - 1,
        N * 8 - 7 - variable("k", 0, N - 1) * 8 // 8 * 8,
        variable("k", 1, N) // N * N + N - variable("k", 1, N) - 1,
        maximum(ROW, M) * -1 + N + M,
        maximum(variable("p", 0, 9), variable("q", 5, 9)) - 5,
        5 - minimum(variable("p", 0, 9), variable("q", 0, 5)),
        N * (M - variable("c", 0, M - 1)) - N,
        (N - 1) * (M - 1) - ROW * variable("c", 0, M - 1),
        N * 2 - I % (N + 1) * 2,
        (I % (N + 1)) * M + N - ROW - 1,
        variable("k", N - ROW + 4, 5) - 5,
        # Quotients of one number by divisors of which one divides the other.
        *(BIG // a - b // a * (BIG // b) for a, b in ((2, 128), (3, 12), (8, 16), (1, 7))),
        *(b // a * (BIG // b) + b // a - 1 - BIG // a for a, b in ((2, 128), (3, 12), (8, 16), (1, 7))),
        (3 * BIG * N + 1) // 2 - 8 * ((3 * BIG * N + 1) // 16),
        BIG // 2 - 1 - (variable("block", 0, BIG // 128 - 1) * 64 + variable("lane", 0, 63)),
        # Quotients of what is bounded by other numbers, as often as it may be.
        20 * ((N + 1) // 2) - 20 * (ROW // 2) - variable("p", 0, 19) - 1,
        (N + 1) // 2 * (20 * M - 20 * variable("c", 0, M - 1)) - 20 * (ROW // 2) - 20,
        M * (N // 2) - M * ((ROW + 1) // 2),
        5 * (N // 2) - 5 * ((2 * ROW + 1) // 4),
    ],
    ids=str,
)
def test_what_is_proven_nonnegative(expression: Index) -> None:
    assert nonnegative(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        *(as_index(-1), I - 1, N - M, ROW - N, N - 2, I * -1, N - ROW - 2, M * (ROW // M) - ROW + M - 2, 6 - I % 8),
        *(maximum(ROW, M) * -1 + N, minimum(N, M) - 2, N - 1 - N // M, (N - M) * (M - N), N * M - N * 2),
        *(I % 8 + N - ROW - 2, N * 2 - 1 - I % (N + 1) * 2),
        *(20 * ((N + 1) // 2) - 20 * (ROW // 2) - 21, M * (N // 2) - M * ((ROW + 2) // 2)),
        *(BIG // 2 - 64 * (BIG // 128) - 1, 64 * (BIG // 128) + 62 - BIG // 2, BIG // 3 - BIG // 2),
    ],
    ids=str,
)
def test_falsehoods_are_not_proven(expression: Index) -> None:
    assert nonnegative(expression) is False


def nested(step: Callable[[Index], Index], count: int) -> Index:
    """How far a variable lies below another one, between which there are more: each is at most a step from the last."""
    top = variable("v0", 0, 1 << 40)
    below = top
    for at in range(count):
        below = variable(f"v{at + 1}", 0, step(below))
    return top - below


@pytest.mark.parametrize(
    ("step", "depth"),
    [
        (lambda x: x, 24),
        (lambda x: x // M, 11),
        (lambda x: x // M * M, 12),
        (lambda x: x % M, 23),
        (lambda x: x // 3, 16),
        (lambda x: minimum(x, N * N), 23),
        (lambda x: maximum(x - M, 0), 12),
    ],
)
def test_proofs_are_so_deep_and_no_deeper(step: Callable[[Index], Index], depth: int) -> None:
    assert nonnegative(nested(step, depth)) is True
    assert nonnegative(nested(step, depth + 1)) is False


def test_bounds_of_a_product_of_differences() -> None:
    """Multiplied out, it is no smaller than where each size is at an end."""
    assert ((N - 1) * (M - 1)).low == 0
    assert ((N - 3) * (M - 1) * -2).high == 4 * 49
    assert (N * N - N).low <= 0
    assert I // ((N + 1) * (M + 1) - N - M) == I // (N * M + 1)


def choices(count: int) -> Index:
    """Every choice of one of two differences, each at least one, and a proof for each has as many steps again."""
    total = N - variable("below", 0, N) - count
    for at in range(count):
        total = total + minimum(N - variable(f"a{at}", 0, N - 1), M - variable(f"b{at}", 0, M - 1))
    return total


def test_proofs_are_so_long_and_no_longer() -> None:
    assert nonnegative(choices(5)) is True  # 223 steps
    assert nonnegative(choices(6)) is False


@pytest.mark.parametrize("choice", [minimum, maximum])
def test_proofs_give_up_in_time(choice: Callable[..., Index]) -> None:
    total = as_index(-(10**6))
    for at in range(60):
        total = total + choice(variable(f"a{at}", 0, 9), variable(f"b{at}", 0, 9))
    total = total + variable("large", 0, 10**7)
    assert not nonnegative(total)


def test_atoms_are_deeper_than_what_they_are_bounded_by_or_made_of() -> None:
    assert [x.depth for x in (as_index(3), N, ROW, N + I // 4, ROW % M, variable("k", ROW // 2, 99))] == [
        0,
        1,
        2,
        2,
        3,
        4,
    ]


def test_comparisons() -> None:
    assert less(ROW, N)
    assert not less(ROW, N - 1)
    assert N * 2 == N + N
    assert Dim("n", 1, 100) == N
    assert Dim("n", 1, 99) != N
    assert repr(Dim("n")) == "Dim('n', 1, 1048576)"
    assert as_index(5) == 5
    assert {as_index(5): "five"}[5] == "five"  # type: ignore[index]


def test_integers_of_numpy_are_integers() -> None:
    two = np.int64(2)
    assert (N + two, two + N, N - two, two - N) == (N + 2, 2 + N, N - 2, 2 - N)
    assert (N * two, N // two, N % two) == (N * 2, N // 2, N % 2)
    assert (two * N, two // N, two % N) == (2 * N, 2 // N, 2 % N)
    assert as_index(5) == np.int64(5)
    assert as_index(5) != np.int64(4)


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
def test_what_is_no_number_is_refused(operation: Callable[[Any, Any], Any]) -> None:
    for other in ([], None):
        with pytest.raises(TypeError):
            operation(N, other)
        with pytest.raises(TypeError):
            operation(other, N)
    assert as_index(5) != "5"


def test_variables_are_found_inside_operations() -> None:
    assert (minimum(N, M) + I // 5 * J).variables() == {x for y in (N, M, I, J) for x in y.variables()}
    assert (I % M).variables() == I.variables() | M.variables()
    (n,) = N.variables()
    assert (n == Variable("n", N.low, N.high)) is True
    assert n != Variable("n", 2, 100)
    assert n != "n"


def test_the_order_of_operands_does_not_matter() -> None:
    assert minimum(N, M) == minimum(M, N)
    assert maximum(N, M) == maximum(M, N)
    assert [str(x) for x in (minimum(N, M), maximum(N, M))] == ["min(m, n)", "max(m, n)"]
    assert N * M == M * N
    assert N + M == M + N


def test_bounds_of_products_and_sums() -> None:
    z = variable("z", -3, 2)
    for expression, low, high in (
        (z * z, -6, 9),
        (z * N * -2, -400, 600),
        (z * -1 + 5, 3, 8),
        (I * J - N, -100, 216),
        (as_index(4), 4, 4),
        (Dim("none", 0, 0) + 1, 1, 1),
    ):
        assert (expression.low, expression.high) == (low, high)


def test_sizes() -> None:
    assert size_of(N - N + 3) == 3
    assert isinstance(size_of(N - N + 3), int)
    assert product_of(()) == 1
    assert product_of((N, 2, M)) == N * M * 2
    assert upper(N * 2) == 200
    assert upper(7) == 7


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (N * 6, 3, N * 2),
        (N * M * 4, N * 2, M * 2),
        (N * 6, N * 2, 3),
        (N + 1, N + 1, 1),
        (N * 6 + 2, 4, None),
        (N + 1, N, None),
        (N, M, None),
        (N, 0, None),
        (as_index(0), N, 0),
    ],
)
def test_exact_quotient(a: Index, b: Index | int, quotient: Index | int | None) -> None:
    assert exact_quotient(a, as_index(b)) == quotient


def test_division_by_what_may_be_zero_is_a_bug() -> None:
    with pytest.raises(InternalError, match="less than one"):
        _ = N // variable("z", 0, 3)
    with pytest.raises(InternalError, match="less than one"):
        _ = N % variable("z", 0, 3)


@pytest.mark.parametrize(("name", "low", "high"), [("", 1, 2), ("n", -1, 2), ("n", 3, 2), ("n", 1, 2.5)])
def test_a_dim_needs_a_name_and_bounds(name: str, low: int, high: Any) -> None:
    with pytest.raises(ArgumentError):
        Dim(name, low, high)


def test_a_dim_says_what_it_is() -> None:
    assert repr(N) == "Dim('n', 1, 100)"
    assert (N + 1).variables() == {Variable("n", 1, 100)}
