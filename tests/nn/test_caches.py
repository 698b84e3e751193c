"""Layers that extend a text token by token give what they give for the whole of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, IndexRangeError, ShapeError
from tests.interpreted import interpreted, settled


def _pieces(layer: Any, x: Any, cache: Any, sizes: tuple[int, ...], axis: int, *memory: Any) -> Any:
    parts, at = [], 0
    for size in sizes:
        piece = x[(slice(None),) * axis + (slice(at, at + size),)]
        output, cache = layer.extend(piece, *memory, cache)
        parts.append(output)
        at += size
    return sm.concat(parts, axis=axis), cache


def _close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), *interpreted(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}, {"num_kv_heads": 1, "qk_norm": True, "bias": True}])
@pytest.mark.by_turns(3)
def test_attention(options: dict[str, Any]) -> None:
    layer = settled(sm.nn.Attention(32, 4, rope=sm.nn.RotaryEmbedding(8), **options))
    x = settled(sm.random.normal((2, 7, 32), key=sm.random.key(0)))
    got, cache = _pieces(layer, x, layer.init_cache(2, 16), (3, 1, 1, 2), 1)
    _close(got, layer(x))
    assert cache.length.item() == 7 and cache.room == 16
    row, _ = layer.extend(x[0], layer.init_cache(None, 7))
    _close(row, layer(x)[0])


def test_a_mask_over_the_room_hides_keys() -> None:
    layer = settled(sm.nn.Attention(16, 2))
    x = settled(sm.random.normal((1, 4, 16), key=sm.random.key(1)))
    hidden = sm.arange(6) != 1
    got, _ = layer.extend(x, layer.init_cache(1, 6), mask=hidden)
    _close(got, layer(x, mask=hidden[:4]))
    added = sm.where(hidden, 0.0, -sm.inf)
    _close(layer.extend(x, layer.init_cache(1, 6), mask=added)[0], got)
    with pytest.raises(ShapeError, match="a place for each of the 6 tokens"):
        layer.extend(x, layer.init_cache(1, 6), mask=hidden[:4])


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.by_turns(8)
def test_pytorchs_attention_and_layers(batch_first: bool, norm_first: bool) -> None:
    axis = 1 if batch_first else 0
    x, memory = (
        settled(sm.random.normal((3, n, 8) if batch_first else (n, 3, 8), key=sm.random.key(n))) for n in (5, 6)
    )
    attention = settled(sm.nn.MultiheadAttention(8, 2, batch_first=batch_first))
    _close(_pieces(attention, x, attention.init_cache(3, 5), (2, 3), axis)[0], attention(x, x, x, is_causal=True)[0])
    options: dict[str, Any] = {"dim_feedforward": 16, "batch_first": batch_first, "norm_first": norm_first}
    one, another = sm.nn.TransformerEncoderLayer(8, 2, **options), sm.nn.TransformerDecoderLayer(8, 2, **options)
    encoder = settled(sm.nn.TransformerEncoder(one, 2, sm.nn.LayerNorm(8))).eval()
    _close(_pieces(encoder, x, encoder.init_cache(3, 9), (4, 1), axis)[0], encoder(x, is_causal=True))
    decoder = settled(sm.nn.TransformerDecoder(another, 2)).eval()
    got, caches = _pieces(decoder, x, decoder.init_cache(3, 9), (1, 4), axis, memory)
    _close(got, decoder(x, memory, tgt_is_causal=True))
    assert [cache.length.item() for cache in caches] == [5, 5]


def test_a_text_is_one_compiled_scan() -> None:
    layer = settled(sm.nn.Attention(16, 2, rope=sm.nn.RotaryEmbedding(8)))
    x = settled(sm.random.normal((9, 2, 16), key=sm.random.key(2)))

    @sm.jit
    def run(layer: Any, x: Any) -> Any:
        def one(cache: Any, token: Any) -> Any:
            output, cache = layer.extend(token[:, None], cache)
            return cache, output[:, 0]

        return sm.scan(one, layer.init_cache(2, 9), x)

    cache, outputs = run(layer, x)
    _close(outputs.swapaxes(0, 1), layer(x.swapaxes(0, 1)))
    assert isinstance(cache, sm.nn.Cache) and cache.length.item() == 9


def test_mistakes() -> None:
    layer = sm.nn.Attention(16, 2)
    x = sm.ones((2, 5, 16))
    with pytest.raises(ShapeError, match="5 tokens, and room for 4"):
        layer.extend(x, layer.init_cache(2, 4))
    _, cache = layer.extend(x, layer.init_cache(2, 8))
    with pytest.raises(IndexRangeError):
        layer.extend(x, cache)[0].realize()
    with pytest.raises(ShapeError, match="only the number of tokens may differ"):
        layer.extend(x, layer.init_cache(3, 8))
    with pytest.raises(ArgumentError, match="Make one with init_cache"):
        layer.extend(x, None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="has no cache"):
        one = sm.nn.MultiheadAttention(16, 2, add_zero_attn=True, batch_first=True)
        one.extend(x, one.init_cache(2, 8))
    encoder = sm.nn.TransformerEncoder(sm.nn.TransformerEncoderLayer(16, 2, batch_first=True), 2)
    with pytest.raises(ArgumentError, match="1 caches for 2 layers"):
        encoder.extend(x, encoder.init_cache(2, 8)[:1])
