"""Batching graphs: each op's rule against single elements, and what is not repeated."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from smelt.derive import batch as module
from smelt.derive.batch import batch, batch_dependent
from smelt.derive.custom import Call, Custom, Stopped
from smelt.dtypes import DType, bool_, float32, int64
from smelt.errors import InternalError
from smelt.graph import alias, build
from smelt.graph.index import Dim, IndexLike
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, Shape, topological
from smelt.graph.ops import CONTROL, SOURCES, Op
from tests.graph.random_graphs import leaf, random_program
from tests.property.indexing_steps import indexing_program
from tests.property.test_random_graphs import equal
from tests.turns import TEST_ALL

Array = NDArray[Any]
SIZE = 3
BATCH = Dim("batch", 0, 5)

rng = np.random.default_rng(11)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


class Inputs:
    """Leaves of a graph, mapped ones among them, with their values."""

    def __init__(self, size: IndexLike = SIZE) -> None:
        self.size = size
        self.batched: dict[Node, Node] = {}
        self.values: dict[Node, Array] = {}

    def shared(self, value: Array, dtype: DType = float32) -> Node:
        node = leaf(dtype, value.shape)
        self.values[node] = value
        return node

    def mapped(self, value: Array, dtype: DType = float32, shape: Shape | None = None) -> Node:
        """A stand-in; the value has the batch axis."""
        node = leaf(dtype, value.shape[1:] if shape is None else shape)
        self.batched[node] = leaf(dtype, (self.size, *node.shape))
        self.values[self.batched[node]] = value
        return node

    def batch(self, *roots: Node) -> list[Node]:
        return batch(roots, self.batched, self.size)

    def single(self, roots: list[Node], dims: dict[str, int], count: int = SIZE) -> list[Array]:
        """The roots of one element after the other."""
        rows = []
        for k in range(count):
            values = self.values | {one: self.values[whole][k] for one, whole in self.batched.items()}
            rows.append(interpret(roots, values, dims))
        return [np.stack(parts) for parts in zip(*rows, strict=True)]

    def check(self, *roots: Node) -> list[Node]:
        """Batched results are those of the single elements; the batched roots."""
        results = self.batch(*roots)
        got = interpret(results, self.values)
        for value, expected in zip(got, self.single(list(roots), {}), strict=True):
            assert equal(value, expected)
        return results


def ops(*roots: Node) -> set[Op]:
    return {node.op for node in topological(roots)}


# --- random graphs


def check_random(roots: list[Node], leaves: dict[Node, Array], dims: dict[str, int], chance: random.Random) -> None:
    """Some leaves of a graph become stand-ins, with other orders of their values for the elements of a batch."""
    size = chance.choice((1, SIZE, BATCH))
    count = size if isinstance(size, int) else 2
    inputs = Inputs(size)
    inputs.values |= leaves
    chosen = [node for node in leaves if chance.random() < 0.6] or list(leaves)[:1]
    for node in chosen:
        value = leaves[node]
        inputs.batched[node] = whole = leaf(node.dtype, (size, *node.shape))
        inputs.values[whole] = np.stack([np.roll(value.reshape(-1), k).reshape(value.shape) for k in range(count)])
    got = interpret(inputs.batch(*roots), inputs.values, dims | {BATCH.name: count})
    for root, value, expected in zip(roots, got, inputs.single(roots, dims, count), strict=True):
        assert equal(value, expected), root


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 16))
def test_random_graphs(seed: int, steps: int) -> None:
    program = random_program(seed, steps)
    check_random(program.roots, program.leaves, program.dims, random.Random(seed))


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 12))
def test_random_graphs_that_index_and_sort(seed: int, steps: int) -> None:
    program = indexing_program(seed, steps)
    roots = [tensor._node for tensor in program.tensors]
    order = topological(roots, through_leaves=True)
    assume(all(node.leaf is None for node in order))  # the interpreter would take the values of the first element
    check_random(roots, {n: n.attribute.numpy() for n in order if n.op is Op.LEAF}, {}, random.Random(seed))


# --- one op at a time


@pytest.mark.parametrize("mapped", ["x", "fill", "both"])
def test_padding_with_a_fill_of_each_element(mapped: str) -> None:
    inputs = Inputs()
    x = inputs.shared(floats(2, 4)) if mapped == "fill" else inputs.mapped(floats(SIZE, 2, 4))
    fill = inputs.shared(floats()) if mapped == "x" else inputs.mapped(floats(SIZE))
    (result,) = inputs.check(build.pad(x, ((1, 0), (0, 2)), fill))
    assert (Op.WHERE in ops(result)) == (mapped != "x")


@pytest.mark.parametrize("mapped", ["left", "right", "both"])
def test_an_operand_that_all_share_is_not_repeated_for_a_product(mapped: str) -> None:
    inputs = Inputs()
    a = inputs.shared(floats(4, 5)) if mapped == "right" else inputs.mapped(floats(SIZE, 4, 5))
    b = inputs.shared(floats(5, 6)) if mapped == "left" else inputs.mapped(floats(SIZE, 5, 6))
    results = inputs.batch(build.matmul(a, b))
    assert ops(*results) == {Op.LEAF, Op.CONTRACT}
    (got,), (expected,) = interpret(results, inputs.values), inputs.single([build.matmul(a, b)], {})
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def places(*shape: int) -> Array:
    return rng.integers(0, 4, shape)


@pytest.mark.parametrize("mapped", [("x",), ("row",), ("column",), ("x", "row"), ("x", "column"), ("row", "column")])
def test_gathers(mapped: tuple[str, ...]) -> None:
    inputs = Inputs()
    x = inputs.mapped(floats(SIZE, 4, 2, 4)) if "x" in mapped else inputs.shared(floats(4, 2, 4))
    row, column = (
        inputs.mapped(places(SIZE, 5, 2), int64) if name in mapped else inputs.shared(places(5, 2), int64)
        for name in ("row", "column")
    )
    (result,) = inputs.check(build.gather(x, [row, column], (-1, 1, -2)))
    assert result.op is Op.GATHER
    if "x" not in mapped:
        assert result.sources[0] is x, "a table that all elements share is not repeated"


@pytest.mark.parametrize("op", ["set", "add", "max"])
@pytest.mark.parametrize("mapped", [("target",), ("updates",), ("index",), ("target", "index"), ("updates", "index")])
def test_scatters(op: str, mapped: tuple[str, ...]) -> None:
    inputs = Inputs()
    whole = np.arange(300.0, dtype=np.float32).reshape(SIZE, 5, 20)  # sums of whole numbers are exact
    target = inputs.mapped(whole[:, :4, :2]) if "target" in mapped else inputs.shared(whole[0, :4, :2])
    updates = inputs.mapped(whole[:, :2].copy()) if "updates" in mapped else inputs.shared(whole[1, :2])
    at = rng.integers(-1, 5, (SIZE, 2, 20))  # some lie outside, many are equal
    index = inputs.mapped(at, int64) if "index" in mapped else inputs.shared(at[0], int64)
    inputs.check(build.scatter(op, target, updates, [index], (-1, 0)))


@pytest.mark.parametrize("wanted", [0, 2, 9])
def test_positions_of_true_elements(wanted: int) -> None:
    inputs = Inputs()
    mask = inputs.mapped(rng.random((SIZE, 6)) < 0.6, bool_)
    inputs.check(build.nonzero(mask, wanted))


def test_what_depends_on_no_stand_in_is_left_alone() -> None:
    inputs = Inputs()
    x, shared = inputs.mapped(floats(SIZE, 4)), inputs.shared(floats(4))
    rate = build.exp(build.sqrt(shared))
    result, alone = inputs.check(build.mul(x, rate), rate)
    order = topological([result, alone])
    assert rate in order
    assert [node.shape for node in order if node.op is Op.UNARY] == [(4,), (4,)]
    assert batch_dependent([rate, x], inputs.batched, SIZE) == [None, inputs.batched[x]]


def test_a_value_that_was_computed_for_one_element_is_not_used() -> None:
    inputs = Inputs()
    x = inputs.mapped(floats(SIZE, 4))
    doubled = build.add(x, x)
    doubled.leaf = inputs.shared(np.zeros(4, np.float32))
    (result,) = inputs.batch(build.exp(doubled))
    (got,) = interpret([result], inputs.values)
    np.testing.assert_allclose(got, np.exp(2 * inputs.values[inputs.batched[x]]), rtol=1e-6)


def test_long_chains_need_no_recursion() -> None:
    x = leaf(float32, ())
    node = x
    length = 100_000 if TEST_ALL else 20_000
    for _ in range(length):
        node = build.unary("sin", node)
    whole = leaf(float32, (2,))
    (result,) = batch([node], {x: whole}, 2)
    assert result.shape == (2,)
    assert len(topological([result])) == length + 1


def test_no_elements() -> None:
    inputs = Inputs(0)
    x = inputs.mapped(floats(0, 4))
    (result,) = inputs.batch(build.reduce("max", build.sort(x, 0), (0,)))
    assert interpret([result], inputs.values)[0].shape == (0,)


# --- aliases


class Named:
    """An attribute that only tells apart."""


def test_aliases() -> None:
    inputs = Inputs()
    x, other = inputs.mapped(floats(SIZE, 4)), inputs.shared(floats(2))
    custom = Custom(Call(lambda given: [None]), 0)
    plain, stopped, derived = inputs.check(alias(x, Named()), alias(x, Stopped()), alias(x, custom, other))
    assert plain is inputs.batched[x]
    assert isinstance(stopped.attribute, Stopped)
    assert isinstance(derived.attribute, Custom)
    assert [source.shape for source in derived.sources] == [(SIZE, 4), (SIZE, 2)]


def test_an_alias_of_what_all_share_beside_something_that_differs() -> None:
    inputs = Inputs()
    x, other = inputs.shared(floats(4)), inputs.mapped(floats(SIZE, 2))
    inputs.check(alias(x, Named(), other), alias(x, Stopped(), other))


# --- composites


def near(inputs: Inputs, root: Node) -> Node:
    (result,) = inputs.batch(root)
    (got,), (expected,) = interpret([result], inputs.values), inputs.single([root], {})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    return result


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("softmax", {"axis": 0}),
        ("softmax", {"axis": -1}),
        ("log_softmax", {"axis": 0}),
        ("gelu", {"approximate": "tanh"}),
        ("silu", {}),
        ("layer_norm", {"axes": 2}),
        ("rms_norm", {}),
    ],
)
def test_composites_of_one_tensor_stay_whole(name: str, parameters: dict[str, Any]) -> None:
    inputs = Inputs()
    result = near(inputs, build.composite(name, inputs.mapped(floats(SIZE, 4, 5)), **parameters))
    assert result.op is Op.COMPOSITE


@pytest.mark.parametrize(
    ("mapped", "whole"), [({0}, True), ({1}, False), ({0, 2}, False), ({0, 1, 2}, False)], ids=["x", "w", "xb", "xwb"]
)
def test_norms_stay_whole_while_their_weights_are_shared(mapped: set[int], whole: bool) -> None:
    inputs = Inputs()
    shapes = [(2, 5), (5,), (5,)]
    sources = [
        inputs.mapped(floats(SIZE, *shape)) if k in mapped else inputs.shared(floats(*shape))
        for k, shape in enumerate(shapes)
    ]
    result = near(inputs, build.composite("layer_norm", *sources))
    assert (result.op is Op.COMPOSITE) == whole


@pytest.mark.parametrize("mapped", [{0}, {1}, {2}, {3}, {0, 1, 2}, {0, 3}, {1, 2}, {0, 1, 2, 3}])
@pytest.mark.parametrize(
    "shapes",
    [
        [(4, 6), (5, 6), (5, 3), (4, 5)],
        [(2, 4, 6), (5, 6), (5, 3), (5,)],
        [(4, 6), (2, 5, 6), (7, 1, 5, 3), (7, 1, 4, 1)],
    ],
    ids=["equal ranks", "few keys", "many values"],
)
def test_attention_stays_whole(shapes: list[tuple[int, ...]], mapped: set[int]) -> None:
    inputs = Inputs()
    sources = [
        inputs.mapped(floats(SIZE, *shape)) if k in mapped else inputs.shared(floats(*shape))
        for k, shape in enumerate(shapes)
    ]
    result = near(inputs, build.composite("attention", *sources, causal=True))
    assert result.op is Op.COMPOSITE
    queries, keys, _, *mask = sources
    if not mapped.isdisjoint({0, 1, 3}):  # what the gradient reads of the forward pass
        sums = near(inputs, build.composite("attention_log_sums", queries, keys, *mask, causal=True))
        assert sums.op is Op.COMPOSITE


@pytest.mark.parametrize("mapped", [{0}, {1}, {0, 1}])
def test_cross_entropy_stays_whole(mapped: set[int]) -> None:
    inputs = Inputs()
    logits = inputs.mapped(floats(SIZE, 4, 5)) if 0 in mapped else inputs.shared(floats(4, 5))
    labels = inputs.mapped(places(SIZE, 4), int64) if 1 in mapped else inputs.shared(places(4), int64)
    assert near(inputs, build.composite("cross_entropy", logits, labels)).op is Op.COMPOSITE


# --- the table


def test_every_op_has_a_rule() -> None:
    # Loops and branches have several values, which are looked up one by one; of complex numbers, the parts are.
    assert set(module._RULES) | SOURCES | CONTROL | {Op.ITEM, Op.COMPLEX} == set(Op)


def test_an_op_without_a_rule_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(module._RULES, Op.UNARY)
    inputs = Inputs()
    with pytest.raises(InternalError, match="no rule that batches"):
        inputs.batch(build.exp(inputs.mapped(floats(SIZE, 2))))
