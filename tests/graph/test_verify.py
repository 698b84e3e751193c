"""The verifier: each malformed node breaks exactly one rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt import dtypes
from smelt.config import configure
from smelt.dtypes import DType, bool_, float32, int32
from smelt.errors import InternalError, ShapeError
from smelt.graph import build
from smelt.graph.index import Dim
from smelt.graph.node import Node, make
from smelt.graph.ops import Composition, Contraction, Op, Reduction, Span
from smelt.graph.verify import made, verify_graph, verify_node
from tests.graph.random_graphs import leaf, random_program

N = Dim("n", 1, 9)
X = leaf(float32, (2, 3))
I = leaf(int32, (2, 3))  # noqa: E741
B = leaf(bool_, (2, 3))
ONE = leaf(float32, (1, 3))
S = build.const(0, float32)

MALFORMED: list[tuple[str, Op, DType, tuple[Any, ...], tuple[Node, ...], Any]] = [
    ("sizes are not negative", Op.IOTA, int32, (-1,), (), None),
    ("sizes are not negative", Op.IOTA, int32, (N - 2,), (), None),
    ("sizes are integers", Op.IOTA, int32, (2.0,), (), None),
    ("sizes are integers", Op.IOTA, int32, (N - N,), (), None),
    ("no attribute", Op.IOTA, int32, (2,), (), 3),
    ("iota is a vector", Op.IOTA, int32, (2, 2), (), None),
    ("iota is a vector", Op.IOTA, bool_, (2,), (), None),
    ("0 sources", Op.IOTA, int32, (2,), (X,), None),
    ("a constant is a scalar", Op.CONST, float32, (1,), (), b"\0\0\0\0"),
    ("one element", Op.CONST, float32, (), (), b"\0\0"),
    ("one element", Op.CONST, float32, (), (), 0.0),
    ("a bool is 0 or 1", Op.CONST, bool_, (), (), b"\2"),
    ("a leaf has a storage", Op.LEAF, float32, (1,), (), None),
    ("as many elements", Op.RESHAPE, float32, (7,), (X,), None),
    ("as many elements", Op.RESHAPE, float32, (2, 3), (X,), None),
    ("the dtype stays", Op.RESHAPE, int32, (6,), (X,), None),
    ("1 sources", Op.RESHAPE, float32, (6,), (X, X), None),
    ("a permutation", Op.PERMUTE, float32, (2, 2), (X,), (0, 0)),
    ("shape is permuted", Op.PERMUTE, float32, (2, 3), (X,), (1, 0)),
    ("the rank stays", Op.EXPAND, float32, (1, 2, 3), (X,), None),
    ("only axes of size 1", Op.EXPAND, float32, (4, 3), (X,), None),
    ("fill is a scalar", Op.PAD, float32, (2, 3), (X, ONE), ((0, 0), (0, 0))),
    ("widths for each axis", Op.PAD, float32, (2, 3), (X, S), ((0, 0),)),
    ("widths are not negative", Op.PAD, float32, (1, 3), (X, S), ((0, -1), (0, 0))),
    ("sizes grow", Op.PAD, float32, (2, 3), (X, S), ((0, 1), (0, 0))),
    ("a span for each axis", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1),)),
    ("spans give the sizes", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(0, 2, 1))),
    ("spans give the sizes", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(0, 3, 0))),
    ("spans lie inside", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(1, 3, 1))),
    ("spans lie inside", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, -1), Span(0, 3, 1))),
    ("something to join", Op.CONCAT, float32, (2, 3), (), 0),
    ("something to join", Op.CONCAT, float32, (4, 3), (X, X), 2),
    ("dtypes and ranks agree", Op.CONCAT, float32, (4, 3), (X, I), 0),
    ("other sizes agree", Op.CONCAT, float32, (3, 6), (X, X), 1),
    ("sizes add up", Op.CONCAT, float32, (5, 3), (X, X), 0),
    ("function is known", Op.UNARY, float32, (2, 3), (X,), "add"),
    ("takes the dtype", Op.UNARY, int32, (2, 3), (I,), "exp"),
    ("dtype is the function's", Op.UNARY, float32, (2, 3), (X,), "isnan"),
    ("shapes are equal", Op.UNARY, float32, (6,), (X,), "exp"),
    ("2 sources", Op.BINARY, float32, (2, 3), (X,), "add"),
    ("sources have one dtype", Op.BINARY, float32, (2, 3), (X, I), "add"),
    ("shapes are equal", Op.BINARY, float32, (2, 3), (X, ONE), "add"),
    ("a bool chooses", Op.WHERE, float32, (2, 3), (I, X, X), None),
    ("shapes are equal", Op.WHERE, float32, (2, 3), (B, X, ONE), None),
    ("only the dtype changes", Op.CAST, float32, (2, 3), (X,), None),
    ("only the dtype changes", Op.CAST, int32, (6,), (X,), None),
    ("the width stays", Op.BITCAST, dtypes.int64, (2, 3), (X,), None),
    ("reduction is known", Op.REDUCE, float32, (2,), (X,), Reduction("mean", (1,))),
    ("reduction is known", Op.REDUCE, float32, (2,), (X,), ("add", (1,))),
    ("bools are not added", Op.REDUCE, bool_, (2,), (B,), Reduction("add", (1,))),
    ("distinct and ascending", Op.REDUCE, float32, (), (X,), Reduction("add", (1, 0))),
    ("distinct and ascending", Op.REDUCE, float32, (2, 3), (X,), Reduction("add", ())),
    ("distinct and ascending", Op.REDUCE, float32, (2,), (X,), Reduction("add", (-1,))),
    ("axes disappear", Op.REDUCE, float32, (2, 1), (X,), Reduction("add", (1,))),
    ("is a Contraction", Op.CONTRACT, float32, (2, 2), (X, X), ((0, 1), (2, 1), (0, 2))),
    ("numbers of one dtype", Op.CONTRACT, float32, (2, 2), (X, I), Contraction((0, 1), (2, 1), (0, 2))),
    ("summed as floats", Op.CONTRACT, int32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    ("each axis has a label", Op.CONTRACT, float32, (2,), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    ("labels are distinct", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 0))),
    ("shared sizes agree", Op.CONTRACT, float32, (2, 3), (X, X), Contraction((0, 1), (1, 2), (0, 2))),
    ("come from an operand", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 3))),
    ("follows the labels", Op.CONTRACT, float32, (2, 3), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    ("labels count up", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 2), (1, 2), (0, 1))),
    ("is a Composition", Op.COMPOSITE, float32, (2, 3), (X,), "softmax"),
    ("no composite called", Op.COMPOSITE, float32, (2, 3), (X,), Composition("nothing", ())),
    ("are those inferred", Op.COMPOSITE, float32, (2, 3), (X,), Composition("softmax", (("axis", -1),))),
    ("are those inferred", Op.COMPOSITE, float32, (3, 2), (X,), Composition("softmax", (("axis", 1),))),
    ("out of range", Op.COMPOSITE, float32, (2, 3), (X,), Composition("softmax", (("axis", 2),))),
]


@pytest.mark.parametrize(("rule", "op", "dtype", "shape", "sources", "attribute"), MALFORMED)
def test_malformed_nodes_are_found(
    rule: str, op: Op, dtype: DType, shape: tuple[Any, ...], sources: tuple[Node, ...], attribute: Any
) -> None:
    with pytest.raises(InternalError, match=rule):
        verify_node(make(op, dtype, shape, sources, attribute))


@given(st.integers(min_value=0))
def test_what_builders_make_is_well_formed(seed: int) -> None:
    verify_graph(random_program(seed).roots)


def test_a_leaf_must_fit_the_node_whose_value_it_holds() -> None:
    x = build.exp(leaf(float32, (3,)))
    x.leaf = leaf(float32, (4,))
    with pytest.raises(InternalError, match="the leaf fits"):
        verify_node(x)


def test_one_name_is_one_dim() -> None:
    roots = [build.iota(Dim("n", 1, 2), int32), build.iota(Dim("n", 1, 3), int32)]
    with pytest.raises(ShapeError, match="two dims are called 'n'"):
        verify_graph(roots)


def test_builders_verify_only_when_asked() -> None:
    with configure(verify=False):
        made(Op.IOTA, bool_, (2,))
    with configure(verify=True), pytest.raises(InternalError):
        made(Op.IOTA, bool_, (2,))
