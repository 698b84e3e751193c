"""Random index expressions with their values, computed side by side by plain Python integers."""

from __future__ import annotations

import random
from typing import NamedTuple

from smelt.graph.index import Dim, Index, as_index, maximum, minimum, nonnegative, variable
from smelt.graph.index_text import parse_index

N = Dim("n", 1, 40)
M = Dim("m", 0, 9)
K = Dim("k", 1, 7)
LANE = variable("i.lane", 0, 15)
SIGNED = variable("signed", -5, 6)
ROW = variable("row", 0, N - 1)
COLUMN = variable("column", 0, M)
TILE = variable("tile", 0, (N + 7) // 8 - 1)

VARIABLES = {str(v): v for v in (N, M, K, LANE, SIGNED, ROW, COLUMN, TILE)}
SAMPLES = 3


class Case(NamedTuple):
    """An expression, its values for each assignment, and the expression as plain text for messages."""

    index: Index
    values: tuple[int, ...]
    text: str


def assignment(rng: random.Random) -> dict[str, int]:
    """Values for all variables; ends of ranges are likely."""

    def pick(low: int, high: int) -> int:
        return rng.choice((low, high, rng.randint(low, high)))

    n, m = pick(1, 40), pick(0, 9)
    return {
        "n": n,
        "m": m,
        "k": pick(1, 7),
        "i.lane": pick(0, 15),
        "signed": pick(-5, 6),
        "row": pick(0, n - 1),
        "column": pick(0, m),
        "tile": pick(0, (n + 7) // 8 - 1),
    }


def _leaf(rng: random.Random, assignments: list[dict[str, int]]) -> Case:
    if rng.random() < 0.3:
        value = rng.choice((0, 1, 2, 3, 4, 7, 8, 16, -1, -3, 12, 100))
        return Case(as_index(value), (value,) * len(assignments), str(value))
    name = rng.choice(tuple(VARIABLES))
    return Case(VARIABLES[name], tuple(values[name] for values in assignments), name)


def _combined(rng: random.Random, a: Case, b: Case, assignments: list[dict[str, int]]) -> Case:
    if b.index.low >= 1 and rng.random() < 0.15:  # what flattening a shape gives: (a*b + c) // b
        c = _leaf(rng, assignments)
        flat = a.index * b.index + c.index
        values = tuple(x * y + z for x, y, z in zip(a.values, b.values, c.values, strict=True))
        a = Case(flat, values, f"({a.text} * {b.text} + {c.text})")
        if rng.random() < 0.5:
            quotients = tuple(x // y for x, y in zip(values, b.values, strict=True))
            return Case(a.index // b.index, quotients, f"({a.text} // {b.text})")
        remainders = tuple(x % y for x, y in zip(values, b.values, strict=True))
        return Case(a.index % b.index, remainders, f"({a.text} % {b.text})")
    symbol = rng.choice(("+", "+", "-", "*", "//", "%", "//", "%", "min", "max"))
    if symbol in ("//", "%") and (b.index.low < 1 or rng.random() < 0.6):
        divisor = rng.choice((1, 2, 3, 4, 8, 5, 12, 16))
        b = Case(as_index(divisor), (divisor,) * len(a.values), str(divisor))
    if symbol == "*" and max(abs(a.index.low), abs(a.index.high)) > 10**6:
        symbol = "+"
    pairs = list(zip(a.values, b.values, strict=True))
    match symbol:
        case "+":
            index, values = a.index + b.index, [x + y for x, y in pairs]
        case "-":
            index, values = a.index - b.index, [x - y for x, y in pairs]
        case "*":
            index, values = a.index * b.index, [x * y for x, y in pairs]
        case "//":
            index, values = a.index // b.index, [x // y for x, y in pairs]
        case "%":
            index, values = a.index % b.index, [x % y for x, y in pairs]
        case "min":
            index, values = minimum(a.index, b.index), [min(x, y) for x, y in pairs]
        case _:
            index, values = maximum(a.index, b.index), [max(x, y) for x, y in pairs]
    return Case(index, tuple(values), f"({a.text} {symbol} {b.text})")


def case(rng: random.Random, assignments: list[dict[str, int]]) -> Case:
    """An expression of up to eight operations."""
    pool = [_leaf(rng, assignments) for _ in range(3)]
    for _ in range(rng.randint(1, 8)):
        a, b = rng.choice(pool), rng.choice(pool)
        pool[rng.randrange(3)] = _combined(rng, a, b, assignments)
        if rng.random() < 0.3:
            pool[rng.randrange(3)] = _leaf(rng, assignments)
    return max(pool, key=lambda case: len(case.text))


def check(rng: random.Random) -> None:
    """Make one random expression and check everything that is promised about it."""
    assignments = [assignment(rng) for _ in range(SAMPLES)]
    index, values, text = case(rng, assignments)
    for expected, names in zip(values, assignments, strict=True):
        assert index.evaluate(names) == expected, f"{text} became {index}, wrong for {names}"
        assert index.low <= expected <= index.high, f"bounds of {text}, which became {index}, wrong for {names}"
    smallest, largest = min(values), max(values)
    assert not nonnegative(index - smallest - 1), f"{text} >= {smallest + 1} proven, wrong for one of {assignments}"
    assert not nonnegative(largest - 1 - index), f"{text} < {largest} proven, wrong for one of {assignments}"
    again = parse_index(str(index), VARIABLES)
    assert again == index, f"{index} from {text} is read back as {again}"
    assert hash(again) == hash(index)


def check_many(seed: int, count: int) -> int:
    """A worker of the long test."""
    rng = random.Random(seed)
    for _ in range(count):
        check(rng)
    return count
