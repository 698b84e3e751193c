"""Graphs as text, both ways."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt import dtypes
from smelt.errors import ParseError, ShapeError
from smelt.graph import build
from smelt.graph.index import Dim
from smelt.graph.node import Node, make
from smelt.graph.ops import Op
from smelt.graph.text import parse_graph, print_graph
from tests.graph.random_graphs import leaf, random_program
from tests.turns import TEST_ALL

EXAMPLE = """\
graph leaves(2) dims(n 1 4096)
%0 = leaf 0 : float32[4, n]
%1 = const 0x1.8000000000000p+0 : float32[]
%2 = reshape %1 : float32[1, 1]
%3 = expand %2 : float32[4, n]
%4 = binary mul %0 %3 : float32[4, n]
%5 = leaf 1 : float32[n, 8]
%6 = contract %4 %5 (0, 1) (1, 2) (0, 2) : float32[4, 8]
%7 = composite softmax %6 {axis=1} : float32[4, 8]
%8 = slice %4 (3:4:-1, 0:n:1) : float32[4, n]
%9 = reduce max %8 (0) : float32[n]
return %7 %9
"""


def example() -> list[Node]:
    n = Dim("n", 1, 4096)
    x, w = leaf(dtypes.float32, (4, n)), leaf(dtypes.float32, (n, 8))
    y = build.scale(x, 1.5)
    return [
        build.composite("softmax", build.matmul(y, w)),
        build.reduce("max", build.slice_(y, [(3, 4, -1), (0, n, 1)]), [0]),
    ]


def test_a_graph_prints() -> None:
    assert print_graph(example()) == EXAMPLE


def test_a_graph_parses() -> None:
    softmax, largest = parse_graph(EXAMPLE)
    assert softmax.op is Op.COMPOSITE
    assert largest.shape == (Dim("n", 1, 4096),)
    assert largest.sources[0].sources[0].sources[0].attribute == "leaf 0"
    assert print_graph([softmax, largest]) == EXAMPLE


def test_with_its_leaves_the_same_nodes_come_back() -> None:
    roots = example()
    x, w = roots[0].sources[0].sources[0].sources[0], roots[0].sources[0].sources[1]
    back = parse_graph(print_graph(roots), [x, w])
    assert back[0] is roots[0]
    assert back[1] is roots[1]


@given(st.integers(min_value=0))
def test_random_graphs_come_back(seed: int) -> None:
    roots, given, _ = random_program(seed)
    text = print_graph(roots)
    assert print_graph(parse_graph(text)) == text
    order = [node for node in _leaves_in_order(roots) if node in given]
    assert all(a is b for a, b in zip(parse_graph(text, order), roots, strict=True))


def _leaves_in_order(roots: list[Node]) -> list[Node]:
    from smelt.graph.node import topological

    return [node for node in topological(roots) if node.op is Op.LEAF]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_constants_keep_their_bits(dtype: dtypes.DType) -> None:
    rng = random.Random(5)
    patterns = [bytes(rng.randrange(256) for _ in range(dtype.itemsize)) for _ in range(200)]
    patterns += [b"\0" * dtype.itemsize, b"\xff" * dtype.itemsize]
    if dtype.is_bool:
        patterns = [b"\0", b"\1"]
    if dtype.is_float:
        specials = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, 1e300], np.float64)
        with np.errstate(all="ignore"):
            patterns += [value.tobytes() for value in specials.astype(dtype.numpy)]
    roots = [make(Op.CONST, dtype, (), (), pattern) for pattern in patterns]
    assert [node.attribute for node in parse_graph(print_graph(roots))] == patterns


@pytest.mark.parametrize(
    "name", ["two words", 'a "quoted" one', "line\nbreak\u2028", "größe", "]: int8[", "\\", "a" * 10_000]
)
def test_any_dim_name(name: str) -> None:
    root = build.iota(Dim(name, 0, 3) * 2 + 1, dtypes.int32)
    assert parse_graph(print_graph([root])) == [root]


def test_a_computed_value_prints_as_its_leaf() -> None:
    x = leaf(dtypes.float32, (3,))
    y = build.exp(x)
    z = build.neg(y)
    y.leaf = leaf(dtypes.float32, (3,))
    assert print_graph([z, y]) == (
        "graph leaves(1) dims()\n%0 = leaf 0 : float32[3]\n%1 = unary neg %0 : float32[3]\nreturn %1 %0\n"
    )


def test_two_dims_of_one_name_do_not_print() -> None:
    with pytest.raises(ShapeError, match="two dims are called 'n'"):
        print_graph([build.iota(Dim("n", 1, 2), dtypes.int32), build.iota(Dim("n", 1, 3), dtypes.int32)])


def test_a_long_chain() -> None:
    x = leaf(dtypes.float32, (3,))
    node = x
    for _ in range(20_000 if TEST_ALL else 5_000):
        node = build.neg(node)
    text = print_graph([node])
    assert parse_graph(text, [x]) == [node]


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ("", "no return line"),
        ("%0 = iota : int32[3]", "line 1"),
        (EXAMPLE.replace("return %7 %9", "return %10"), "line 12"),
        (EXAMPLE.replace("return %7 %9\n", ""), "no return line"),
        (EXAMPLE + "%10 = iota : int32[3]", "line 13"),
        (EXAMPLE.replace("binary mul", "binary nul"), "line 6"),
        (EXAMPLE.replace("%4 = binary mul %0 %3", "%4 = binary mul %0"), "line 6"),
        (EXAMPLE.replace("%4 = binary", "%5 = binary"), "line 6"),
        (EXAMPLE.replace("float32[4, 8]", "float32[4, 9]", 1), "line 8"),
        (EXAMPLE.replace("float32[1, 1]", "float33[1, 1]"), "line 4"),
        (EXAMPLE.replace("p+0", "p+0000000000000000000009999999"), "line 3"),
        (EXAMPLE.replace("0x1.8000000000000p+0", "0x1.8000000000001p+0"), "line 3"),
        (EXAMPLE.replace("0x1.8000000000000p+0", "3"), "line 3"),
        (EXAMPLE.replace("0x1.8000000000000p+0", "nan 1"), "line 3"),
        (EXAMPLE.replace("leaf 1", "leaf 2"), "line 7"),
        (EXAMPLE.replace("leaf 1", "leaf 0"), "line 7"),
        (EXAMPLE.replace("n 1 4096", "n 9 1"), "line 1"),
        (EXAMPLE.replace("softmax", "softmin"), "line 9"),
        (EXAMPLE.replace("axis=1", "axis=7"), "line 9"),
        (EXAMPLE.replace("(3:4:-1", "(2:4:-1"), "line 10"),
        (EXAMPLE.replace("(0, 1) (1, 2)", "(0, 1) (7, 2)"), "line 8"),
        (EXAMPLE.replace("reduce max %8 (0)", "reduce max %8 ()"), "line 11"),
    ],
)
def test_bad_text_is_refused_with_its_line(bad: str, line: str) -> None:
    with pytest.raises(ParseError, match=line):
        parse_graph(bad)


@given(st.integers(min_value=0), st.randoms(use_true_random=False), st.integers(1, 4))
def test_damaged_text_is_read_or_refused(seed: int, rng: random.Random, wounds: int) -> None:
    text = print_graph(random_program(seed, steps=8).roots)
    for _ in range(wounds):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                text = text[:at] + text[at + rng.randint(1, 9) :]
            case 1:
                text = text[:at] + rng.choice('%()[]{}:,=-+*/0123456789nxp"\\ \n\x00é') + text[at:]
            case 2:
                lines = text.splitlines()
                rng.shuffle(lines)
                text = "\n".join(lines)
            case _:
                other = rng.randrange(len(text) + 1)
                text = text[:at] + text[other : other + 6] + text[at:]
    with contextlib.suppress(ParseError):
        roots = parse_graph(text)
        assert print_graph(parse_graph(print_graph(roots))) == print_graph(roots)


def test_the_example_of_the_design_page_parses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "graph.md").read_text(encoding="utf-8")
    (example,) = [block for block in page.split("```") if block.strip().startswith("graph leaves")]
    assert print_graph(parse_graph(example)) == example.lstrip()
