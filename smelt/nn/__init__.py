"""Neural networks: modules, layers and losses."""

from smelt.nn.attention import Attention, MultiheadAttention
from smelt.nn.cells import GRUCell, LSTMCell, RNNCell
from smelt.nn.containers import ModuleDict, ModuleList, Sequential
from smelt.nn.dropout import Dropout
from smelt.nn.graphs import (
    GATConv,
    GCNConv,
    MessagePassing,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from smelt.nn.linear import Linear
from smelt.nn.module import Module
from smelt.nn.normalization import LayerNorm, RMSNorm
from smelt.nn.positions import ALiBi, LearnedPositions, SinusoidalPositions, alibi_slopes, sinusoidal_positions
from smelt.nn.recurrent import GRU, LSTM, RNN
from smelt.nn.rotary import RotaryEmbedding
from smelt.nn.segments import segment_max, segment_mean, segment_min, segment_softmax, segment_sum
from smelt.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "Attention",
    "MultiheadAttention",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "ModuleDict",
    "ModuleList",
    "Sequential",
    "Dropout",
    "GATConv",
    "GCNConv",
    "MessagePassing",
    "SAGEConv",
    "global_add_pool",
    "global_max_pool",
    "global_mean_pool",
    "Linear",
    "Module",
    "LayerNorm",
    "RMSNorm",
    "ALiBi",
    "LearnedPositions",
    "SinusoidalPositions",
    "alibi_slopes",
    "sinusoidal_positions",
    "GRU",
    "LSTM",
    "RNN",
    "RotaryEmbedding",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_softmax",
    "segment_sum",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
