"""The verifier: each malformed node breaks exactly one rule, its builder's or one of its own."""

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
from smelt.graph.node import Node, made, make, private_nodes
from smelt.graph.ops import Composition, Contraction, Op, Reduction, Span
from smelt.graph.verify import verify_graph, verify_node
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
    ("attribute is a NoneType", Op.IOTA, int32, (2,), (), 3),
    ("it is a vector", Op.IOTA, int32, (2, 2), (), None),
    ("bool cannot count", Op.IOTA, bool_, (2,), (), None),
    ("0 sources", Op.IOTA, int32, (2,), (X,), None),
    ("a constant is a scalar", Op.CONST, float32, (1,), (), b"\0\0\0\0"),
    ("one element", Op.CONST, float32, (), (), b"\0\0"),
    ("attribute is a bytes", Op.CONST, float32, (), (), 0.0),
    ("a bool is 0 or 1", Op.CONST, bool_, (), (), b"\2"),
    ("a leaf has a storage", Op.LEAF, float32, (1,), (), None),
    ("number of elements changes", Op.RESHAPE, float32, (7,), (X,), None),
    ("its builder gives <leaf", Op.RESHAPE, float32, (2, 3), (X,), None),
    (r"gives float32\[6\]", Op.RESHAPE, int32, (6,), (X,), None),
    ("1 sources", Op.RESHAPE, float32, (6,), (X, X), None),
    ("an axis appears twice", Op.PERMUTE, float32, (2, 2), (X,), (0, 0)),
    (r"gives float32\[3, 2\]", Op.PERMUTE, float32, (2, 3), (X,), (1, 0)),
    ("rank must stay the same", Op.EXPAND, float32, (1, 2, 3), (X,), None),
    ("only axes of size 1", Op.EXPAND, float32, (4, 3), (X,), None),
    ("must be a float32 scalar", Op.PAD, float32, (2, 3), (X, ONE), ((0, 0), (0, 0))),
    ("1 pairs of widths", Op.PAD, float32, (2, 3), (X, S), ((0, 0),)),
    ("a width is negative", Op.PAD, float32, (1, 3), (X, S), ((0, -1), (0, 0))),
    (r"gives float32\[3, 3\]", Op.PAD, float32, (2, 3), (X, S), ((0, 1), (0, 0))),
    ("1 spans for", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1),)),
    (r"gives float32\[2, 2\]", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(0, 2, 1))),
    ("the step of axis 1 is 0", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(0, 3, 0))),
    ("do not all lie in axis", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, 1), Span(1, 3, 1))),
    ("do not all lie in axis", Op.SLICE, float32, (2, 3), (X,), (Span(0, 2, -1), Span(0, 3, 1))),
    ("nothing to join", Op.CONCAT, float32, (2, 3), (), 0),
    ("axis 2 is out of range", Op.CONCAT, float32, (4, 3), (X, X), 2),
    ("dtypes differ", Op.CONCAT, float32, (4, 3), (X, I), 0),
    (r"gives float32\[2, 6\]", Op.CONCAT, float32, (3, 6), (X, X), 1),
    (r"gives float32\[4, 3\]", Op.CONCAT, float32, (5, 3), (X, X), 0),
    ("no elementwise function", Op.UNARY, float32, (2, 3), (X,), "add"),
    ("int32 is not supported", Op.UNARY, int32, (2, 3), (I,), "exp"),
    (r"gives bool\[2, 3\]", Op.UNARY, float32, (2, 3), (X,), "isnan"),
    (r"gives float32\[2, 3\]", Op.UNARY, float32, (6,), (X,), "exp"),
    ("2 sources", Op.BINARY, float32, (2, 3), (X,), "add"),
    ("dtypes differ", Op.BINARY, float32, (2, 3), (X, I), "add"),
    ("gives <binary .*<expand", Op.BINARY, float32, (2, 3), (X, ONE), "add"),
    ("the condition is int32", Op.WHERE, float32, (2, 3), (I, X, X), None),
    ("gives <where .*<expand", Op.WHERE, float32, (2, 3), (B, X, ONE), None),
    ("its builder gives <leaf", Op.CAST, float32, (2, 3), (X,), None),
    (r"gives int32\[2, 3\]", Op.CAST, int32, (6,), (X,), None),
    ("widths must be the same", Op.BITCAST, dtypes.int64, (2, 3), (X,), None),
    ("no reduction called", Op.REDUCE, float32, (2,), (X,), Reduction("mean", (1,))),
    ("attribute is a Reduction", Op.REDUCE, float32, (2,), (X,), ("add", (1,))),
    ("bool is not supported", Op.REDUCE, bool_, (2,), (B,), Reduction("add", (1,))),
    (r"gives <reduce .*axes=\(0, 1\)", Op.REDUCE, float32, (), (X,), Reduction("add", (1, 0))),
    ("its builder gives <leaf", Op.REDUCE, float32, (2, 3), (X,), Reduction("add", ())),
    (r"gives <reduce .*axes=\(1,\)", Op.REDUCE, float32, (2,), (X,), Reduction("add", (-1,))),
    (r"gives float32\[2\]", Op.REDUCE, float32, (2, 1), (X,), Reduction("add", (1,))),
    ("is a Contraction", Op.CONTRACT, float32, (2, 2), (X, X), ((0, 1), (2, 1), (0, 2))),
    ("dtypes differ", Op.CONTRACT, float32, (2, 2), (X, I), Contraction((0, 1), (2, 1), (0, 2))),
    ("cannot be summed as int32", Op.CONTRACT, int32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    (r"gives float32\[2, 2\]", Op.CONTRACT, float32, (2,), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    ("a label appears twice", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 0))),
    ("inner sizes differ", Op.CONTRACT, float32, (2, 3), (X, X), Contraction((0, 1), (1, 2), (0, 2))),
    ("belongs to no operand", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 1), (2, 1), (0, 3))),
    (r"gives float32\[2, 2\]", Op.CONTRACT, float32, (2, 3), (X, X), Contraction((0, 1), (2, 1), (0, 2))),
    ("gives <contract", Op.CONTRACT, float32, (2, 2), (X, X), Contraction((0, 2), (1, 2), (0, 1))),
    ("is a Composition", Op.COMPOSITE, float32, (2, 3), (X,), "softmax"),
    ("no composite called", Op.COMPOSITE, float32, (2, 3), (X,), Composition("nothing", ())),
    ("gives <composite", Op.COMPOSITE, float32, (2, 3), (X,), Composition("softmax", (("axis", -1),))),
    (r"gives float32\[2, 3\]", Op.COMPOSITE, float32, (3, 2), (X,), Composition("softmax", (("axis", 1),))),
    ("out of range", Op.COMPOSITE, float32, (2, 3), (X,), Composition("softmax", (("axis", 2),))),
]


@pytest.mark.parametrize(("rule", "op", "dtype", "shape", "sources", "attribute"), MALFORMED)
def test_malformed_nodes_are_found(
    rule: str, op: Op, dtype: DType, shape: tuple[Any, ...], sources: tuple[Node, ...], attribute: Any
) -> None:
    with pytest.raises(InternalError, match=rule), private_nodes():  # elsewhere an equal one may be well formed
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
