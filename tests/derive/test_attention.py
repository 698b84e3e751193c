"""The gradient of attention: what its expansion has, computed without a buffer as large as the scores."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.bench.models import Transformer, embed, forward, parameters
from smelt.graph import build
from smelt.graph.composites import expand
from smelt.graph.node import Node
from smelt.graph.ops import Op
from smelt.tensor.handle import wrap
from smelt.transform.explain import Explanation, examine
from tests.derive.checking import Subject, check_here, values

Array = Any
Loss = Callable[..., sm.Tensor]


@dataclass(frozen=True)
class Case:
    """An attention: the shapes of queries, keys and values, and what is masked."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    causal: bool = False
    mask: tuple[int, ...] | None = None
    float_mask: bool = False
    scale: float | None = None

    def arrays(self, seed: int = 0) -> list[Array]:
        """Queries, keys, values, and a float mask; then a bool mask, which has no gradient."""
        rng = np.random.default_rng(seed)
        found = [rng.standard_normal(shape) for shape in (self.q, self.k, self.v)]
        if self.mask is not None and self.float_mask:
            found.append(rng.standard_normal(self.mask))
        if self.mask is not None and not self.float_mask:
            allowed = rng.random(self.mask) < 0.7
            allowed[..., 0] = True  # no row is masked out altogether
            found.append(allowed)
        return found

    def loss(self, written_out: bool) -> Loss:
        """Results weighed by numbers that differ, added up."""

        def weighed(*tensors: sm.Tensor) -> sm.Tensor:
            seen = sm.attention(*tensors, causal=self.causal, scale=self.scale)
            if written_out:
                seen = wrap(without_composite(seen._node))
            factors = np.cos(0.7 * np.arange(int(np.prod(seen.shape)))).reshape(seen.shape)
            return (seen * sm.asarray(factors).astype(seen.dtype)).sum()

        return weighed


def without_composite(node: Node) -> Node:
    """The attention written out; grouped heads are reshaped behind it."""
    if node.op is Op.COMPOSITE:
        return expand(node)
    return build.reshape(without_composite(node.sources[0]), node.shape)


def square(length: int, features: int, *batch: int, **options: Any) -> Case:
    shape = (*batch, length, features)
    return Case(shape, shape, shape, **options)


CASES = {
    "plain": square(40, 16, 2, 3),
    "causal": square(70, 16, 2, causal=True),
    "bool mask": square(33, 8, 2, mask=(33, 33)),
    "bool mask, causal": square(41, 8, 2, 2, causal=True, mask=(2, 1, 41, 41)),
    "float mask": square(24, 8, 2, mask=(24, 24), float_mask=True),
    "float mask of one row, causal": square(24, 8, 2, causal=True, mask=(1, 24), float_mask=True),
    "grouped heads": Case((2, 6, 37, 8), (2, 2, 37, 8), (2, 2, 37, 8), causal=True),
    "broadcasting keys": Case((2, 3, 20, 8), (1, 20, 8), (3, 20, 8)),
    "values of more batches": Case((20, 8), (20, 8), (4, 20, 12)),
    "fewer queries": Case((3, 11, 16), (3, 50, 16), (3, 50, 24)),
    "more queries, causal": Case((3, 50, 16), (3, 11, 16), (3, 11, 8), causal=True),
    "primes": square(83, 13, 2, causal=True),
    "no batch": square(150, 8, causal=True),
    "one query": Case((2, 1, 8), (2, 9, 8), (2, 9, 8)),
    "length one": square(1, 8, 2, causal=True),
    "one feature": square(17, 1, 2, causal=True),
    "head of 64": square(75, 64, 2, causal=True),
    "head of 80": square(66, 80, 2),
    "a scale": square(19, 8, 2, scale=-0.3),
}


def gradients(case: Case, dtype: sm.DType, written_out: bool = False) -> list[Array]:
    """By every float argument: of the expansion as the reference computes it, else compiled."""
    arrays = case.arrays()
    tensors = [sm.asarray(x) if x.dtype == np.bool_ else sm.asarray(x).astype(dtype) for x in arrays]
    floats = tuple(k for k, x in enumerate(arrays) if x.dtype != np.bool_)
    slopes = sm.grad(case.loss(written_out), argnums=floats)
    if written_out:
        return values(slopes(*tensors))
    return [slope.astype(sm.float64).numpy() for slope in sm.jit(slopes)(*tensors)]


TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.1}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [sm.float64, sm.float32], ids=str)
@pytest.mark.by_turns(32)
def test_gradients_are_those_of_the_expansion(name: str, dtype: sm.DType) -> None:
    expected = gradients(CASES[name], sm.float64, written_out=True)
    for got, wanted in zip(gradients(CASES[name], dtype), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=TOLERANCES[str(dtype)] * (1 + np.abs(wanted).max()))


@pytest.mark.parametrize("name", ["causal", "grouped heads", "head of 64", "float mask of one row, causal"])
@pytest.mark.by_turns(4)
def test_narrow_types(name: str) -> None:
    expected = gradients(CASES[name], sm.float64, written_out=True)
    for got, wanted in zip(gradients(CASES[name], sm.bfloat16), expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=TOLERANCES["bfloat16"] * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["plain", "causal", "bool mask", "float mask"])
def test_derivatives_of_first_and_second_order_against_differences(name: str) -> None:
    case = CASES[name]
    small = Case(
        *[(2, *shape[-2:-1], 3) for shape in ((5, 3), (6, 3), (6, 3))],  # type: ignore[arg-type]
        causal=case.causal,
        mask=None if case.mask is None else (5, 6),
        float_mask=case.float_mask,
    )
    arrays = small.arrays()
    masks = [sm.asarray(x) for x in arrays if x.dtype == np.bool_]
    floats = [x for x in arrays if x.dtype != np.bool_]
    assert check_here(Subject(name, lambda tensors: small.loss(False)(*tensors, *masks), floats), seed=3)


@pytest.mark.parametrize("causal", [True, False])
def test_masked_scores_far_above_the_others_leave_second_derivatives_alone(causal: bool) -> None:
    x = sm.asarray(np.array([[1.0, 2.0], [30.0, 10.0], [900.0, 400.0]]))  # later rows score 1e6
    mask = None if causal else sm.asarray(np.tril(np.ones((3, 3), np.bool_)))

    def slopes(x: sm.Tensor) -> sm.Tensor:
        def loss(x: sm.Tensor) -> sm.Tensor:
            return sm.scaled_dot_product_attention(x, x, x, attn_mask=mask, is_causal=causal)[0].sum()

        return (sm.grad(loss)(x) * sm.arange(1.0, 7.0).reshape(3, 2)).sum()

    assert sm.grad(slopes)(x).tolist() == [[0, 0], [0, 0], [0, 0]]  # the first row sees itself alone


@pytest.mark.by_turns(3)
def test_lengths_may_be_symbolic() -> None:
    n = sm.Dim("n", 1, 128)
    slopes = sm.grad(lambda q, k, v: (sm.attention(q, k, v, causal=True) ** 2).sum(), argnums=(0, 1, 2))
    by_length = sm.jit(slopes, shapes=[(3, n, 8)] * 3)
    for length in (7, 64, 77):
        arrays = square(length, 8, 3).arrays()
        expected = values(slopes(*[sm.asarray(x) for x in arrays]))
        for got, wanted in zip(by_length(*[sm.asarray(x).astype(sm.float32) for x in arrays]), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, atol=1e-4)


def test_features_may_be_symbolic() -> None:
    n = sm.Dim("n", 1, 64)
    slopes = sm.grad(lambda q, k, v: (sm.attention(q, k, v) ** 2).sum(), argnums=(0, 1, 2))
    arrays = square(20, 12, 3).arrays()
    expected = values(slopes(*[sm.asarray(x) for x in arrays]))
    tensors = [sm.asarray(x).astype(sm.float32) for x in arrays]
    for got, wanted in zip(sm.jit(slopes, shapes=[(3, 20, n)] * 3)(*tensors), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-4)


# --- what is stored


def stored_shapes(explanation: Explanation) -> list[tuple[int, ...]]:
    """The shapes of all intermediates."""
    found = [re.search(r"\[([\d, ]*)\]>$", placed.text) for placed in explanation.memory]
    return [tuple(int(size) for size in match[1].split(", ") if size) for match in found if match is not None]


@pytest.mark.parametrize("name", ["causal", "grouped heads", "head of 64", "bool mask, causal", "no batch"])
@pytest.mark.by_turns(10)
def test_no_scores_are_stored(name: str) -> None:
    case = CASES[name]
    tensors = [sm.asarray(x).astype(sm.float32) if x.dtype != np.bool_ else sm.asarray(x) for x in case.arrays()]
    shapes = stored_shapes(examine(sm.value_and_grad(case.loss(False), argnums=(0, 1, 2)), *tensors))
    assert shapes
    length = case.q[-2]
    assert not [shape for shape in shapes if shape.count(length) > 1 or length * length in shape]


@pytest.mark.by_turns(3)
def test_a_transformer_is_trained_without_stored_scores() -> None:
    size = Transformer(layers=2, width=48, heads=3, length=128, vocabulary=101)
    arrays = parameters(size)
    weights = {name: sm.from_numpy(x) for name, x in arrays.items()}
    labels = sm.asarray(np.random.default_rng(0).integers(0, 101, (1, 128)))

    def loss(weights: dict[str, sm.Tensor], x: sm.Tensor) -> sm.Tensor:
        return sm.cross_entropy(forward(weights, x, size.layers, size.heads), labels, axis=-1)

    explanation = examine(sm.value_and_grad(loss), weights, sm.from_numpy(embed(arrays, size)))
    shapes = stored_shapes(explanation)
    assert len(shapes) > 20
    assert not [shape for shape in shapes if shape.count(128) > 1 or 128 * 128 in shape]
    # In each layer: the forward pass, the gradient by queries, and those by keys and values.
    assert sum("exp" in record.nodes and record.nodes.count("contract") > 1 for record in explanation.kernels) == 6


def test_scores_that_somebody_else_reads_are_stored_once() -> None:
    case = square(40, 8, 3)
    tensors = [sm.asarray(x).astype(sm.float32) for x in case.arrays()]

    def loss(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
        weights = sm.softmax(q @ k.mT, -1)
        return (weights @ v).sum() + (weights**2).sum()

    got = sm.jit(sm.grad(loss, argnums=(0, 1, 2)))(*tensors)
    expected = values(sm.grad(loss, argnums=(0, 1, 2))(*[sm.asarray(x) for x in case.arrays()]))
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-4 * (1 + np.abs(b).max()))
