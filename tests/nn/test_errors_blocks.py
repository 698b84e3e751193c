"""Mistakes with the larger blocks of smelt.nn: each has a typed error that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

nn = sm.nn
EDGES = sm.asarray([[0, 1], [1, 2]])
LONG = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}


def x(*shape: int) -> sm.Tensor:
    return sm.ones(shape)


def whole(*shape: int) -> sm.Tensor:
    return sm.ones(shape, dtype=sm.int64)


Mistake = tuple[Callable[[], Any], type[Exception], str]

RECURRENT: list[Mistake] = [
    (lambda: nn.RNN(3, 0), ArgumentError, "hidden_size is 0"),
    (lambda: nn.RNN(-1, 5), ArgumentError, "input_size is -1"),
    (lambda: nn.RNN(3, 5, nonlinearity="sigmoid"), ArgumentError, "tanh, relu"),
    (lambda: nn.RNN(3, 5, nonlinearity=["tanh"]), ArgumentError, "nonlinearity"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 5, num_layers=0), ArgumentError, "num_layers is 0"),
    (lambda: nn.LSTM(3, 5, dropout=1.5), ArgumentError, "1.5"),
    (lambda: nn.LSTM(3, 5, bidirectional=2), ArgumentError, "bidirectional"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 5, proj_size=5), ArgumentError, "less than 5"),
    (lambda: nn.GRU(3, 5, batch_first="yes"), ArgumentError, "batch_first"),  # type: ignore[arg-type]
    (lambda: nn.GRU(3, 5.0), ArgumentError, "hidden_size is 5.0"),  # type: ignore[arg-type]
    (lambda: nn.RNN(3, 5)(x(7, 2, 4)), ShapeError, "3 features, not 4"),
    (lambda: nn.LSTM(3, 5)(x(3)), ShapeError, "2 or 3 axes, not 1"),
    (lambda: nn.GRU(3, 5)(whole(7, 2, 3)), DTypeError, "it must be a float"),
    (lambda: nn.GRU(3, 5)([1.0]), ArgumentError, "type list"),  # type: ignore[arg-type]
    (lambda: nn.GRU(3, 5)(x(7, 2, 3), x(2, 2, 5)), ShapeError, "(1, 2, 5)"),
    (lambda: nn.GRU(3, 5)(x(7, 2, 3), x(2, 5)), ShapeError, "3 axes, not 2"),
    (lambda: nn.LSTM(3, 5)(x(7, 2, 3), x(1, 2, 5)), ArgumentError, "a pair (h, c)"),  # type: ignore[arg-type]
    (lambda: nn.LSTM(3, 5)(x(7, 2, 3), (x(1, 2, 5), x(1, 2, 4))), ShapeError, "the state c"),
    (lambda: nn.RNNCell(3, 5)(x(2, 4)), ShapeError, "3 features, not 4"),
    (lambda: nn.RNNCell(3, 5, nonlinearity=""), ArgumentError, "nonlinearity is ''"),
    (lambda: nn.RNNCell(3, 5)(x(7, 2, 3)), ShapeError, "1 or 2 axes, not 3"),
    (lambda: nn.LSTMCell(3, 0), ArgumentError, "hidden_size is 0"),
    (lambda: nn.LSTMCell(3, 5)(x(2, 3), (x(2, 5),)), ArgumentError, "a pair"),  # type: ignore[arg-type]
    (lambda: nn.GRUCell(3, 5)(x(2, 3), x(3, 5)), ShapeError, "(2, 5)"),
    (lambda: nn.GRUCell(3, 5, bias=0), ArgumentError, "bias"),  # type: ignore[arg-type]
]


def several(**options: Any) -> Any:
    return nn.MultiheadAttention(8, 2, **options)(x(5, 2, 8), x(7, 2, 8), x(7, 2, 8))


def masked(**masks: Any) -> Any:
    return nn.MultiheadAttention(8, 2)(x(5, 2, 8), x(7, 2, 8), x(7, 2, 8), **masks)


ATTENTION: list[Mistake] = [
    (lambda: nn.MultiheadAttention(8, 3), ArgumentError, "must be a multiple"),
    (lambda: nn.MultiheadAttention(8, 0), ArgumentError, "num_heads is 0"),
    (lambda: nn.MultiheadAttention(8, 2, dropout=-1), ArgumentError, "-1"),
    (lambda: nn.MultiheadAttention(8, 2, kdim=0), ArgumentError, "kdim is 0"),
    (lambda: several(kdim=3), ShapeError, "the key"),
    (lambda: several(vdim=3), ShapeError, "the value"),
    (lambda: several(batch_first=True), ShapeError, "axis 0 of both is the batch"),
    (lambda: nn.MultiheadAttention(8, 2)(x(5, 8), x(5, 2, 8), x(5, 2, 8)), ShapeError, "the key"),
    (lambda: nn.MultiheadAttention(8, 2)(x(5, 8), x(5, 8), x(4, 8)), ShapeError, "the value"),
    (lambda: masked(attn_mask=x(5, 6)), ShapeError, "attn_mask"),
    (lambda: masked(attn_mask=whole(5, 7)), DTypeError, "True hides"),
    (lambda: masked(key_padding_mask=x(7, 2)), ShapeError, "it must be (2, 7)"),
    (lambda: masked(key_padding_mask=[True]), ArgumentError, "type list"),
    (lambda: masked(is_causal=1), ArgumentError, "is_causal"),
    (lambda: nn.Attention(8, 3), ArgumentError, "must be a multiple"),
    (lambda: nn.Attention(8, 4, 3), ArgumentError, "num_kv_heads is 3"),
    (lambda: nn.Attention(8, 4, 0), ArgumentError, "num_kv_heads is 0"),
    (lambda: nn.Attention(8, 4, rope=True), ArgumentError, "a RotaryEmbedding"),  # type: ignore[arg-type]
    (lambda: nn.Attention(8, 4, rope=nn.RotaryEmbedding(8)), ArgumentError, "a head has 2"),
    (lambda: nn.Attention(8, 4)(x(2, 5, 7)), ShapeError, "8 features, not 7"),
    (lambda: nn.Attention(8, 4)(x(2, 5, 8), mask=x(4, 5)), ShapeError, "attention"),
]

TRANSFORMERS: list[Mistake] = [
    (lambda: nn.TransformerEncoderLayer(8, 3), ArgumentError, "must be a multiple"),
    (lambda: nn.TransformerEncoderLayer(0, 2), ArgumentError, "d_model is 0"),
    (lambda: nn.TransformerEncoderLayer(8, 2, 0), ArgumentError, "dim_feedforward is 0"),
    (lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"), ArgumentError, "relu or gelu"),
    (lambda: nn.TransformerEncoderLayer(8, 2, activation=3), ArgumentError, "activation is 3"),  # type: ignore[arg-type]
    (lambda: nn.TransformerEncoderLayer(8, 2)(x(5, 2, 7)), ShapeError, "src"),
    (lambda: nn.TransformerDecoderLayer(8, 2, norm_first=None), ArgumentError, "norm_first"),  # type: ignore[arg-type]
    (lambda: nn.TransformerDecoderLayer(8, 2)(x(5, 2, 8), x(5, 2, 7)), ShapeError, "memory"),
    (lambda: nn.TransformerDecoderLayer(8, 2)(x(5, 2, 8), x(5, 3, 8)), ShapeError, "is the batch"),
    (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer, 2), ArgumentError, "a module"),  # type: ignore[arg-type]
    (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0), ArgumentError, "num_layers is 0"),
    (lambda: nn.TransformerDecoder(None, 2), ArgumentError, "NoneType"),  # type: ignore[arg-type]
    (lambda: nn.Transformer(8, 3), ArgumentError, "must be a multiple"),
    (lambda: nn.Transformer(8, 2, 1, 1, 8)(x(5, 2, 8), x(5, 3, 8)), ShapeError, "axis 1 of both is the batch"),
    (lambda: nn.Transformer(8, 2, 1, 1, 8)(x(5, 2, 8), x(5, 8)), ShapeError, "tgt"),
]

POSITIONS: list[Mistake] = [
    (lambda: nn.RotaryEmbedding(3), ArgumentError, "must be even"),
    (lambda: nn.RotaryEmbedding(0), ArgumentError, "dim is 0"),
    (lambda: nn.RotaryEmbedding(4, base=0), ArgumentError, "base is 0"),
    (lambda: nn.RotaryEmbedding(4, base=float("inf")), ArgumentError, "base is inf"),
    (lambda: nn.RotaryEmbedding(4, factors=[1.0]), ArgumentError, "each of the 2 pairs"),
    (lambda: nn.RotaryEmbedding(4, factors=[1.0, 0.0]), ArgumentError, "the least 0"),
    (lambda: nn.RotaryEmbedding(4, factors=[1.0, float("nan")]), ArgumentError, "positive number"),
    (lambda: nn.RotaryEmbedding(4, scaling=2.0), ArgumentError, "a dictionary"),  # type: ignore[arg-type]
    (lambda: nn.RotaryEmbedding(4, scaling={"factor": 2}), ArgumentError, "rope_type is None"),
    (lambda: nn.RotaryEmbedding(4, scaling={"rope_type": "linear"}), ArgumentError, "no factor"),
    (lambda: nn.RotaryEmbedding(4, scaling={"rope_type": "ntk", "factor": -1}), ArgumentError, "positive"),
    (lambda: nn.RotaryEmbedding(4, scaling={"rope_type": "ntk", "factor": 2, "x": 1}), ArgumentError, "has x"),
    (lambda: nn.RotaryEmbedding(4, scaling=LONG), ArgumentError, "original_max_position_embeddings"),
    (
        lambda: nn.RotaryEmbedding(4, scaling=LONG | {"original_max_position_embeddings": 8192}),
        ArgumentError,
        "bound a range",
    ),
    (lambda: nn.RotaryEmbedding(4)(x(5, 3)), ShapeError, "at least 4 features"),
    (lambda: nn.RotaryEmbedding(4)(x(4)), ShapeError, "axes, not 1"),
    (lambda: nn.RotaryEmbedding(4)(x(5, 4), x(5)), DTypeError, "positions"),
    (lambda: nn.RotaryEmbedding(4)(x(5, 4), whole(6)), ShapeError, "one position for each row"),
    (lambda: nn.SinusoidalPositions(0), ArgumentError, "dim is 0"),
    (lambda: nn.SinusoidalPositions(4, base=-1), ArgumentError, "positive"),
    (lambda: nn.SinusoidalPositions(4)(x(2, 5, 3)), ShapeError, "4 features, not 3"),
    (lambda: nn.sinusoidal_positions(x(3), 4), DTypeError, "positions"),
    (lambda: nn.LearnedPositions(0, 4), ArgumentError, "max_length is 0"),
    (lambda: nn.LearnedPositions(4, 3)(x(2, 5, 3)), ShapeError, "at most 4"),
    (lambda: nn.LearnedPositions(4, 3)(x(2, 4, 2)), ShapeError, "3 features, not 2"),
    (lambda: nn.LearnedPositions(4, 3)(x(2, 4, 3), whole(2)), ShapeError, "one position"),
    (lambda: nn.SinusoidalPositions(3)(x(2, 4, 3), x(4)), DTypeError, "positions"),
    (lambda: nn.alibi_slopes(0), ArgumentError, "num_heads is 0"),
    (lambda: nn.ALiBi(2.0), ArgumentError, "num_heads is 2.0"),  # type: ignore[arg-type]
]


class Wrong(nn.MessagePassing):
    def __call__(self, edges: sm.Tensor, **given: Any) -> sm.Tensor:
        return self.propagate(edges, **given)


GRAPHS: list[Mistake] = [
    (lambda: nn.MessagePassing("median"), ArgumentError, "sum, add, mean, max, min"),
    (lambda: nn.MessagePassing(["sum"]), ArgumentError, "aggr"),  # type: ignore[arg-type]
    (lambda: nn.MessagePassing(flow="both"), ArgumentError, "source_to_target"),
    (lambda: Wrong()(EDGES, y=x(3, 4)), ArgumentError, "message takes 'x_j'"),
    (lambda: Wrong()(EDGES, x_j=x(2, 4)), ArgumentError, "num_nodes="),
    (lambda: nn.GCNConv(0, 5), ArgumentError, "in_channels is 0"),
    (lambda: nn.GCNConv(4, 5, normalize=False, add_self_loops=True), ArgumentError, "without normalize"),
    (lambda: nn.GCNConv(4, 5)(x(3, 3), EDGES), ShapeError, "4 features, not 3"),
    (lambda: nn.GCNConv(4, 5)(x(3, 4), whole(3, 4)), ShapeError, "(2, edges)"),
    (lambda: nn.GCNConv(4, 5)(x(3, 4), whole(5, 2)), ShapeError, "transposed"),
    (lambda: nn.GCNConv(4, 5)(x(3, 4), x(2, 5)), DTypeError, "edge_index"),
    (lambda: nn.GCNConv(4, 5)(x(3, 4), EDGES, x(3)), ShapeError, "edge_weight"),
    (lambda: nn.GCNConv(4, 5)(x(3, 4), EDGES + 1).numpy(), IndexRangeError, "3"),
    (lambda: nn.GATConv(4, 5, heads=0), ArgumentError, "heads is 0"),
    (lambda: nn.GATConv(4, 5, fill_value="max"), ArgumentError, "fill_value"),
    (lambda: nn.GATConv(4, 5, dropout=2), ArgumentError, "2"),
    (lambda: nn.GATConv(4, 5)(x(3, 4), EDGES, x(2, 6)), ArgumentError, "without edge_dim"),
    (lambda: nn.GATConv(4, 5, edge_dim=6)(x(3, 4), EDGES, x(3, 6)), ShapeError, "edge_attr"),
    (lambda: nn.GATConv(4, 5)(x(4), EDGES), ShapeError, "2 axes, not 1"),
    (lambda: nn.SAGEConv(4, 5, aggr="all"), ArgumentError, "aggr is 'all'"),
    (lambda: nn.SAGEConv(4, 5, project=1), ArgumentError, "project"),  # type: ignore[arg-type]
    (lambda: nn.SAGEConv(4, 5)(whole(3, 4), EDGES), DTypeError, "a float"),
    (lambda: nn.SAGEConv(4, 5)(x(3, 4), [[0], [1]]), ArgumentError, "type list"),  # type: ignore[arg-type]
    (lambda: nn.global_add_pool(x(3, 4), whole(2), 1), ShapeError, "it must be (3,)"),
    (lambda: nn.global_mean_pool(x(3, 4), x(3), 1), DTypeError, "batch"),
    (lambda: nn.global_max_pool(x(3, 4), whole(3), -1), ArgumentError, "size is -1"),
    (lambda: nn.segment_sum(x(3), whole(4), 5), ShapeError, "one number for each row"),
    (lambda: nn.segment_mean(whole(3), whole(3), 5), ArgumentError, "floats"),
    (lambda: nn.segment_max(x(3), x(3), 5), DTypeError, "index"),
    (lambda: nn.segment_min(x(3), whole(3, 1), 5), ShapeError, "1 axes"),
    (lambda: nn.segment_softmax(x(3), whole(2), 5), ShapeError, "one number"),
]


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [*RECURRENT, *ATTENTION, *TRANSFORMERS, *POSITIONS, *GRAPHS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes(call: Callable[[], Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert word in str(caught.value)
