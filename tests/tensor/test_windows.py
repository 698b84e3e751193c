"""Convolution and pooling beyond single calls: compiled as one kernel, in jit, with symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.fuse import partition, storable
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.rewrite import rewrite
from tests.ops import window_references as reference

rng = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def stored(*tensors: sm.Tensor) -> list[Node]:
    """What the kernels of a program store."""
    roots = [storable(node) for node in rewrite([tensor._node for tensor in tensors])]
    return [group.sink for group in partition(roots).groups]


def test_a_convolution_with_its_bias_and_activation_is_one_kernel() -> None:
    x, w, b = sm.asarray(floats(2, 4, 12, 12)), sm.asarray(floats(6, 4, 3, 3)), sm.asarray(floats(6))
    y = sm.conv2d(x, w, b, padding=1).relu()
    assert len(stored(y)) == 1
    assert len(stored(sm.conv2d(x, w[:, :2], b, padding=1, groups=2))) == 1
    assert Op.WINDOW in {node.op for node in topological([y._node])}


def test_windows_are_never_stored() -> None:
    x, w = sm.asarray(floats(2, 4, 9, 9)), sm.asarray(floats(5, 4, 3, 3))
    results = (
        sm.conv2d(x, w, stride=2, padding=1),
        sm.max_pool2d(x, 3, 2, 1),
        sm.conv_transpose2d(x, w.permute(1, 0, 2, 3)),
    )
    assert all(node.op is not Op.WINDOW for node in stored(*results))


def test_pooling_takes_a_function_of_ones_own() -> None:
    x = floats(3, 10)
    got = sm.pool(sm.asarray(x), lambda windows, axes: windows.max(axes) - windows.min(axes), 4, stride=2)
    expected = np.ptp(np.lib.stride_tricks.sliding_window_view(x, 4, 1)[:, ::2], axis=-1)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("batch", [1, 3])
def test_one_compilation_serves_every_batch(batch: int) -> None:
    n = sm.Dim("n", 1, 64)
    w = floats(4, 3, 3, 3)

    def network(x: sm.Tensor) -> sm.Tensor:
        return sm.max_pool2d(sm.conv2d(x, w, padding=1).relu(), 2)

    x = floats(batch, 3, 8, 8)
    got = sm.jit(network, shapes=[(n, 3, 8, 8)])(sm.asarray(x)).numpy()
    expected = reference.max_pool(2)(np.maximum(reference.conv(x, w, padding=1), 0), 2)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_images_of_symbolic_size() -> None:
    width = sm.Dim("width", 4, 40)
    w = floats(4, 3, 3)
    f = sm.jit(lambda x: sm.conv1d(x, w, padding=1), shapes=[(2, 3, width)])
    for size in (4, 17, 40):
        x = floats(2, 3, size)
        np.testing.assert_allclose(f(sm.asarray(x)).numpy(), reference.conv(x, w, padding=1), rtol=1e-5, atol=1e-5)


def test_fractional_pooling_by_key_is_reproducible() -> None:
    x, key = sm.asarray(floats(2, 3, 11, 11)), sm.random.key(5)
    a, b = (sm.fractional_max_pool2d(x, 2, output_ratio=0.6, key=key) for _ in range(2))
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert a.shape == (2, 3, 6, 6)


def test_a_result_that_is_reshaped_is_stored_once() -> None:
    x, w = sm.asarray(floats(6, 8)), sm.asarray(floats(8, 12))
    y = (x @ w + 1).reshape(2, 3, 3, 4)
    assert len(stored(y)) == 1
    np.testing.assert_allclose(y.numpy(), (x.numpy() @ w.numpy() + 1).reshape(2, 3, 3, 4), rtol=1e-5, atol=1e-5)


def test_fold_undoes_unfold_up_to_how_often_windows_cover_an_element() -> None:
    x = np.arange(2 * 3 * 6 * 7, dtype=np.float32).reshape(2, 3, 6, 7)
    columns = sm.unfold(sm.asarray(x), (2, 3), stride=2, padding=1)
    ones = sm.unfold(sm.ones(2, 3, 6, 7), (2, 3), stride=2, padding=1)
    back, count = (sm.fold(c, (6, 7), (2, 3), padding=1, stride=2).numpy() for c in (columns, ones))
    np.testing.assert_array_equal(back, x * count)
