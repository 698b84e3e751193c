"""Layers of codes in blocks: every format of GGUF, as exact as it is, whatever the number of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import ArgumentError, ShapeError
from smelt.formats.blocks import BLOCKS, Codes, Packed
from smelt.nn import quantized

FORMATS = [name for name, block in BLOCKS.items() if block.dtype is None]
_HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "IQ4_XS": (0,), "IQ4_NL": (0,)}  # where scales of formats lie


def _blocks(name: str, rows: int, columns: int, seed: int) -> tuple[Codes, NDArray[np.float32]]:
    """Random codes of a format, and the weights that they stand for."""
    rng, block = np.random.default_rng(seed), BLOCKS[name]
    if block.fit is not None:
        raw = block.quantize(rng.standard_normal((rows, columns)).astype(np.float32))
    else:
        raw = rng.integers(0, 256, (rows, columns // block.size, block.nbytes), dtype=np.uint8)
        for at in _HALVES[name]:
            raw[..., at : at + 2] = np.array([0.01], np.float16).view(np.uint8)
    return block.apart(raw.reshape(rows, -1)), block.dequantize(raw)


def _layer(name: str, rows: int, columns: int, seed: int = 0) -> tuple[sm.nn.QuantizedLinear, NDArray[np.float32]]:
    codes, weights = _blocks(name, rows, columns, seed)
    return sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(*codes)), weights


@pytest.mark.parametrize("name", FORMATS)
def test_weights_are_those_of_the_file(name: str) -> None:
    layer, weights = _layer(name, 19, 256)
    np.testing.assert_array_equal(layer.weight.numbers().numpy(), weights)
    picked = sm.nn.QuantizedEmbedding(layer.weight)(sm.asarray([[3, 18], [0, 3]]))
    np.testing.assert_array_equal(picked.numpy(), weights[[[3, 18], [0, 3]]])


@pytest.mark.parametrize("name", FORMATS)
def test_products_are_close_and_exact_ones_closer(name: str) -> None:
    layer, weights = _layer(name, 33, 512)
    x = np.random.default_rng(1).standard_normal((5, 512)).astype(np.float32)
    wanted = x.astype(np.float64) @ weights.T.astype(np.float64)
    size = np.linalg.norm(x, axis=-1, keepdims=True) * np.linalg.norm(weights, axis=-1)
    assert (np.abs(layer(sm.asarray(x)).numpy() - wanted) / size).max() < 4e-3
    layer.exact = True
    assert (np.abs(layer(sm.asarray(x)).numpy() - wanted) / size).max() < 1e-6


def test_rounded_inputs_are_the_only_error() -> None:
    """Whole numbers with a step of 1 are rounded to themselves, so that sums of whole products are exact."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 16, (40, 64), dtype=np.uint8)
    layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(codes, 8, np.ones((40, 2), np.float32)))
    x = rng.integers(-127, 128, (3, 64)).astype(np.float32)
    x[:, ::32] = 127
    np.testing.assert_array_equal(layer(sm.asarray(x)).numpy(), x @ (codes.astype(np.float32) - 8).T)


@pytest.mark.parametrize("name", ["Q4_1", "Q8_0", "Q6_K"])
def test_a_row_has_the_same_bits_alone_and_among_others(name: str) -> None:
    layer, _ = _layer(name, 50, 512)
    x = np.random.default_rng(3).standard_normal((37, 512)).astype(np.float32)
    alone = np.concatenate([layer(sm.asarray(row[None])).numpy() for row in x[:6]])
    for rows in (3, 8, 37):
        np.testing.assert_array_equal(layer(sm.asarray(x[:rows])).numpy()[:6], alone[:rows])


def test_blocks_of_zeros_and_of_what_is_not_finite() -> None:
    layer, _ = _layer("Q4_1", 16, 64)
    assert (layer(sm.zeros(1, 64)).numpy() == 0).all()
    x = np.ones((2, 64), np.float32)
    x[1, 5] = np.nan
    found = layer(sm.asarray(x)).numpy()
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(FORMATS), st.integers(1, 20), st.integers(1, 6), st.integers(0, 1000))
def test_any_sizes(name: str, outputs: int, rows: int, seed: int) -> None:
    layer, weights = _layer(name, outputs, 256, seed)
    x = np.random.default_rng(seed).standard_normal((rows, 256)).astype(np.float32)
    wanted = x.astype(np.float64) @ weights.T.astype(np.float64)
    size = np.linalg.norm(x, axis=-1, keepdims=True) * np.linalg.norm(weights, axis=-1)
    assert (np.abs(layer(sm.asarray(x)).numpy() - wanted) <= 5e-3 * size).all()


def test_a_bias_and_leading_axes() -> None:
    codes, weights = _blocks("Q5_0", 7, 32, 0)
    layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(*codes), sm.arange(7.0), exact=True)
    x = np.random.default_rng(4).standard_normal((2, 3, 32)).astype(np.float32)
    np.testing.assert_allclose(layer(sm.asarray(x)).numpy(), x @ weights.T + np.arange(7), rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="40 inputs"):
        sm.nn.QuantizedWeight(np.zeros((4, 40), np.uint8), 8, np.ones((4, 1), np.float32))
    with pytest.raises(ArgumentError, match="8 bits"):
        sm.nn.QuantizedWeight(np.full((4, 32), 200, np.uint8), 8, np.ones((4, 1), np.float32))


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_a_file_are_laid_out_as_their_codes_are(name: str) -> None:
    """Piece by piece, and codes of 4 bits as they lie: the same planes."""
    block = BLOCKS[name]
    raw = np.random.default_rng(3).integers(0, 256, (1111, 1024 // block.size * block.nbytes), dtype=np.uint8)
    packed = Packed(block, raw)
    assert packed.shape == (1111, 1024)
    found = sm.nn.QuantizedWeight(packed, packed.zero, *packed.scales())
    wanted = sm.nn.QuantizedWeight(*block.apart(raw))
    for plane in ("words", "high", "scale", "minimum"):
        one, other = getattr(found, plane), getattr(wanted, plane)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_rounded_inputs_of_any_size() -> None:
    rows = np.zeros((6, 64), np.float32)
    rows[1] = np.linspace(-1, 1, 64) * 2**-130  # whose step has no finite inverse
    rows[2] = np.linspace(-1, 1, 64) * 1e38
    rows[3, 5], rows[4, 7], rows[4, 40], rows[5, 3] = 2**-126, np.inf, 1, np.nan
    words, step, sums = (part.numpy() for part in quantized.rounded(sm.from_numpy(rows)))
    octets = words.view(np.int8).reshape(6, 2, 2, 4, 4).transpose(0, 1, 2, 4, 3).reshape(6, 2, 32)
    np.testing.assert_array_equal(octets.reshape(6, 2, 2, 16).sum(-1)[:4], sums[:4])
    finite = np.isfinite(step)
    assert finite.tolist() == [[True] * 2] * 4 + [[False, True]] * 2
    found = octets[finite] * step[finite][:, None].astype(np.float64)
    error = np.abs(found - rows.reshape(6, 2, 32)[finite])
    assert (error <= 0.51 * step[finite][:, None] + 2.0**-119).all()  # no step is divided by that is below 2^-126
