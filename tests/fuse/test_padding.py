"""Padded operands of contractions: stored where vectors cannot be cut by a mask."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.fuse import build_region, contiguous, partition
from smelt.fuse.factors import PRODUCTS, stored_padding
from smelt.graph import Op, build
from tests.graph.random_graphs import leaf
from tests.profiles import AVX512, NEON


def _convolution(channels: int) -> sm.Tensor:
    return sm.conv2d(sm.ones((1, 16, 20, 20)), sm.ones((channels, 16, 3, 3)), padding=1)


@pytest.mark.parametrize(("channels", "stored"), [(PRODUCTS, True), (4, False)])
def test_padding_is_stored_beside_many_products(channels: int, stored: bool) -> None:
    found = stored_padding([_convolution(channels)._node], NEON)
    assert [node.op for node in found] == [Op.PAD] * stored


def test_padding_is_read_around_where_lanes_can_be_left_out() -> None:
    assert not stored_padding([_convolution(PRODUCTS)._node], AVX512)


def test_a_stored_padding_gives_the_same_convolution_and_gradients() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 5, 17, 6)), rng.standard_normal((70, 5, 3, 3))

    def loss(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
        return (sm.conv2d(x, w, padding=1) ** 2).sum()

    given = [sm.asarray(x), sm.asarray(w)]
    value, (dx, dw) = sm.jit(sm.value_and_grad(loss, argnums=(0, 1)))(*given)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    y = np.einsum("bchwij,ocij->bohw", windows, w)
    np.testing.assert_allclose(value.numpy(), (y**2).sum(), rtol=1e-10)
    np.testing.assert_allclose(dw.numpy(), np.einsum("bchwij,bohw->ocij", windows, 2 * y), rtol=1e-9)
    back = np.zeros_like(padded)
    for i in range(3):
        for j in range(3):
            back[:, :, i : i + 17, j : j + 6] += np.einsum("bohw,oc->bchw", 2 * y, w[:, :, i, j])
    np.testing.assert_allclose(dx.numpy(), back[:, :, 1:-1, 1:-1], rtol=1e-9, atol=1e-9)


def test_what_is_the_same_for_a_row_is_read_without_the_conditions_of_its_padding() -> None:
    x, scale = leaf(dtypes.float32, (3, 28)), leaf(dtypes.float32, (3, 1))
    scaled = build.mul(x, build.expand(build.rsqrt(scale), (3, 28)))
    padded = build.pad(build.exp(scaled), ((0, 0), (1, 1)), build.const(0.0, dtypes.float32))
    [group] = partition([padded]).groups
    region, _ = build_region(group, contiguous)
    masks = {e.attribute.buffer.shape: e.attribute.mask for e in region.order() if e.op == "load"}
    assert masks[3, 28] and not masks[3, 1]
