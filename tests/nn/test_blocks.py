"""Recurrent networks, attention, transformers, positions and graph layers, without a peer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.graph.node import Node
from tests.interpreted import interpreted, settled
from tests.turns import one_in

# Most tests are about what is computed; compiled results are compared with PyTorch's.

EDGES = sm.asarray([[0, 1, 2, 3, 3, 1], [1, 2, 0, 1, 3, 3]])


RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    sm.random.seed(0)


def normal(*shape: int) -> sm.Tensor:
    return sm.asarray(RNG.standard_normal(shape).astype(np.float32))


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    (wanted,) = interpreted(expected) if isinstance(expected, sm.Tensor) else (np.asarray(expected),)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=tolerance, atol=tolerance)


# --- all of them

SEQUENCES = {
    "RNN": lambda: sm.nn.RNN(4, 4, 2, nonlinearity="relu"),
    "LSTM": lambda: sm.nn.LSTM(4, 4, 2, bidirectional=True),
    "GRU": lambda: sm.nn.GRU(4, 4),
    "MultiheadAttention": lambda: sm.nn.MultiheadAttention(4, 2),
    "Attention": lambda: sm.nn.Attention(4, 2, 1, rope=sm.nn.RotaryEmbedding(2), qk_norm=True),
    "TransformerEncoderLayer": lambda: sm.nn.TransformerEncoderLayer(4, 2, 8),
    "SinusoidalPositions": lambda: sm.nn.SinusoidalPositions(4),
    "LearnedPositions": lambda: sm.nn.LearnedPositions(9, 4),
    "RotaryEmbedding": lambda: sm.nn.RotaryEmbedding(4),
    "GCNConv": lambda: sm.nn.GCNConv(4, 4),
    "GATConv": lambda: sm.nn.GATConv(4, 4, heads=2),
    "SAGEConv": lambda: sm.nn.SAGEConv(4, 4, aggr="max"),
}


def result(module: Any, x: sm.Tensor) -> sm.Tensor:
    """What a module gives for a sequence, or for the nodes of a graph."""
    if isinstance(module, sm.nn.MultiheadAttention):
        return module(x, x, x)[0]
    given = module(x, EDGES) if isinstance(module, sm.nn.MessagePassing) else module(x)
    first: sm.Tensor = given[0] if isinstance(given, tuple) else given
    return first


def test_all_are_compiled() -> None:
    chosen = one_in(3, list(SEQUENCES))
    modules, x = {name: settled(SEQUENCES[name]()).eval() for name in chosen}, normal(5, 4)

    @sm.jit
    def run(modules: dict[str, Any], x: sm.Tensor) -> dict[str, sm.Tensor]:
        return {name: result(module, x) for name, module in modules.items()}

    for name, got in run(modules, x).items():
        close(got, result(modules[name], x))


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.by_turns(6)
def test_all_take_batches(name: str) -> None:
    module, x = settled(SEQUENCES[name]()).eval(), normal(3, 5, 4)
    batch = sm.vmap(lambda x: result(module, x))(x)
    for k in range(3):
        close(batch[k], result(module, x[k]))


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.by_turns(6)
def test_types(name: str) -> None:
    module, x = settled(SEQUENCES[name]()).eval(), normal(5, 4)
    expected = result(module, x)
    narrow = result(module.astype(sm.bfloat16), x.astype(sm.bfloat16))
    assert narrow.dtype is sm.bfloat16
    close(narrow.astype(sm.float32), expected, 0.1)
    wide = result(module, x.astype(sm.float64))
    assert wide.dtype is sm.float64
    close(wide, expected)


# --- recurrent networks


def nodes_of(*tensors: sm.Tensor) -> set[Node]:
    seen: set[Node] = set()
    todo = [tensor._node for tensor in tensors]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += node.sources
    return seen


def test_a_long_sequence_is_one_loop() -> None:
    def size(steps: int) -> int:
        lstm = sm.nn.LSTM(4, 8, num_layers=2)
        gradient = sm.grad(lambda m: m(sm.ones(steps, 2, 4))[0].sum())(lstm)
        return len(nodes_of(*gradient.parameters()))

    assert size(100) <= size(10)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.by_turns(3)
def test_cells_do_the_steps_of_sequences(kind: str) -> None:
    whole, cell = settled(getattr(sm.nn, kind)(3, 5)), getattr(sm.nn, f"{kind}Cell")(3, 5)
    cell.load_state_dict({name.removesuffix("_l0"): tensor for name, tensor in whole.state_dict().items()})
    x = normal(4, 2, 3)
    state: Any = None
    outputs = []
    for k in range(4):
        state = cell(x[k], state)
        outputs.append(state[0] if kind == "LSTM" else state)
    output, last = whole(x)
    close(output, sm.stack(outputs))
    close(last[0][0] if kind == "LSTM" else last[0], outputs[-1])


def test_states_go_on_where_a_sequence_stopped() -> None:
    lstm, x = settled(sm.nn.LSTM(3, 5, num_layers=2)), normal(6, 2, 3)
    whole, _ = lstm(x)
    begun, state = lstm(x[:2])
    ended, _ = lstm(x[2:], state)
    close(sm.concat([begun, ended]), whole)


def test_dropout_between_layers_in_training_only() -> None:
    gru, x = settled(sm.nn.GRU(3, 12, num_layers=2, dropout=0.5)), sm.ones(4, 2, 3)
    assert not np.array_equal(gru(x)[0].numpy(), gru(x)[0].numpy())
    assert np.array_equal(gru.eval()(x)[0].numpy(), gru(x)[0].numpy())
    single = sm.nn.GRU(3, 5, dropout=0.5)
    assert np.array_equal(single(x)[0].numpy(), single(x)[0].numpy())


def test_a_recurrent_network_learns() -> None:
    """Whether the first of a row of numbers was positive."""

    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.gru, self.last = sm.nn.GRU(1, 8, batch_first=True), sm.nn.Linear(8, 1)

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return self.last(self.gru(x)[0][:, -1])[:, 0]

    x = normal(64, 6, 1)
    wanted = sm.where(x[:, 0, 0] > 0, 1.0, -1.0)
    net, optimizer = settled(Net()), sm.optim.Adam(lr=0.03)
    state = optimizer.init(net)

    @sm.jit
    def step(net: Net, state: Any) -> Any:
        loss, gradient = sm.value_and_grad(lambda net: (net(x) - wanted).square().mean())(net)
        return *optimizer.update(net, gradient, state), loss

    for _ in range(100):
        net, state, loss = step(net, state)
    assert float(loss) < 0.1


def test_symbolic_lengths_and_batches() -> None:
    n = sm.Dim("n", 1, 40)
    cases = ((settled(sm.nn.LSTM(3, 5, bidirectional=True)), (n, 2, 3)), (settled(sm.nn.GRU(3, 5)), (4, n, 3)))
    for module, shape in one_in(2, cases):
        run = sm.jit(lambda x, module=module: module(x)[0], shapes=[shape])
        for size in (1, 7):
            x = normal(*(size if d is n else d for d in shape))
            close(run(x), module(x)[0])


# --- attention


def test_causal_attention_sees_nothing_that_comes_later() -> None:
    module = settled(sm.nn.Attention(8, 4, 2, rope=sm.nn.RotaryEmbedding(2)))
    x = normal(2, 6, 8)
    changed = x.at[:, 4:].add(1.0)
    close(module(x)[:, :4], module(changed)[:, :4])
    assert not np.allclose(module(x)[:, 4:].numpy(), module(changed)[:, 4:].numpy())


def test_is_causal_needs_no_mask() -> None:
    x = normal(5, 2, 8)
    for options in one_in(2, ({}, {"add_bias_kv": True})):
        module = settled(sm.nn.MultiheadAttention(8, 2, **options))
        hidden = sm.triu(sm.ones(5, 5), 1).astype(sm.bool)
        for got, expected in zip(module(x, x, x, is_causal=True), module(x, x, x, attn_mask=hidden), strict=True):
            close(got, expected)


def test_weights_are_those_that_were_used() -> None:
    module = settled(sm.nn.MultiheadAttention(8, 1, batch_first=True))
    x = normal(2, 5, 8)
    output, weights = module(x, x, x)
    assert weights is not None
    close(weights.sum(-1), np.ones((2, 5)))
    assert module.in_proj_bias is not None
    value = x @ module.in_proj_weight[16:].T + module.in_proj_bias[16:]
    close(output, module.out_proj(weights @ value))
    assert module(x, x, x, need_weights=False)[1] is None


def test_dropout_of_attention_keeps_the_mean() -> None:
    x = normal(1, 5, 8) + sm.zeros((300, 5, 8))
    several = settled(sm.nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True))
    single = settled(sm.nn.Attention(8, 4, 2, dropout=0.3))
    for module, run in ((several, lambda: several(x, x, x)[0].mean(0)), (single, lambda: single(x).mean(0))):
        dropped = run()
        assert not np.array_equal(dropped.numpy(), run().numpy())
        module.eval()
        close(dropped, run(), 0.15)


def test_groups_of_heads_share_keys_and_values() -> None:
    shared, full = sm.nn.Attention(8, 4, 2), sm.nn.Attention(8, 4)
    tensors = shared.state_dict()
    for name in ("k_proj.weight", "v_proj.weight"):
        tensors[name] = tensors[name].reshape(2, 2, 8).repeat(2, axis=0).reshape(8, 8)
    full.load_state_dict(tensors)
    x = normal(2, 5, 8)
    close(shared(x), full(x))


# --- transformers


def test_layers_of_a_stack_are_not_tied() -> None:
    encoder = sm.nn.TransformerEncoder(settled(sm.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)), num_layers=2)
    one, two = encoder.layers
    assert np.array_equal(one.linear1.weight.numpy(), two.linear1.weight.numpy())
    assert len(encoder.parameters()) == 2 * len(one.parameters())
    x = normal(5, 2, 8)
    slope = sm.grad(lambda m: m(x).square().sum() + m(x).sum())(encoder)
    assert not np.allclose(slope.layers[0].linear1.weight.numpy(), slope.layers[1].linear1.weight.numpy())


def test_a_transformer_begins_with_different_layers() -> None:
    net = sm.nn.Transformer(8, 2, 2, 2, 16)
    layers = [*net.encoder.layers, *net.decoder.layers]
    assert len({layer.linear1.weight.numpy().tobytes() for layer in layers}) == 4
    bound = math.sqrt(6 / (8 + 16))
    assert all(abs(layer.linear1.weight.numpy()).max() <= bound for layer in layers)
    assert net.encoder.norm.weight is not net.decoder.norm.weight


def test_training_and_evaluation_of_layers() -> None:
    layer, x = settled(sm.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)), normal(5, 2, 8)
    assert not np.array_equal(layer(x).numpy(), layer(x).numpy())
    assert np.array_equal(layer.eval()(x).numpy(), layer(x).numpy())
    assert sm.nn.TransformerEncoderLayer(8, 2, 16, activation=sm.silu)(x).shape == x.shape


# --- positions


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotated_products_depend_on_the_distance_alone(interleaved: bool) -> None:
    rope = sm.nn.RotaryEmbedding(8, interleaved=interleaved)
    q, k = normal(8), normal(8)

    def product(i: int, j: int) -> float:
        turned = [rope(x.reshape(1, 8), sm.asarray([at])) for x, at in ((q, i), (k, j))]
        return float((turned[0] * turned[1]).sum())

    assert product(7, 3) == pytest.approx(product(104, 100), rel=1e-3, abs=1e-4)
    assert product(7, 3) != pytest.approx(product(7, 4), rel=1e-3)


def test_positions_of_each_element_of_a_batch() -> None:
    rope, x = sm.nn.RotaryEmbedding(4), normal(2, 3, 5, 4)
    starts = sm.asarray([[0], [10]]) + sm.arange(5)
    turned = rope(x, starts)
    for k in range(2):
        close(turned[k], rope(x[k], starts[k]))
    learned = settled(sm.nn.LearnedPositions(20, 4))
    close(learned(x[:, 0], starts)[1], x[1, 0] + learned.weight[10:15])
    waves = sm.nn.SinusoidalPositions(4)
    close(waves(x[:, 0], starts)[1], x[1, 0] + sm.nn.sinusoidal_positions(15, 4)[10:])


def frequencies(scaling: Any, dim: int = 64, base: float = 500000.0) -> Any:
    """The angles of one step, from what a rotation does to the first of each pair."""
    rope = sm.nn.RotaryEmbedding(dim, base, scaling=scaling)
    cos, sin = rope.tables(sm.asarray([1]), sm.zeros(1, dtype=sm.float64))
    return np.arctan2(sin.numpy(), cos.numpy())[0]


def test_scaled_rotations() -> None:
    plain = frequencies(None)
    close(frequencies({"rope_type": "linear", "factor": 4}), plain / 4)
    slowed = frequencies({"rope_type": "ntk", "factor": 4}) / plain
    close([slowed[0], slowed[-1]], [1, 0.25])
    known = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    lengths = 2 * math.pi / plain
    share = (8192 / lengths - 1) / 3
    between = (1 - share) * plain / 8 + share * plain
    expected = np.where(lengths > 8192, plain / 8, np.where(lengths < 8192 / 4, plain, between))
    close(frequencies({"rope_type": "llama3", **known}), expected)
    yarn = frequencies({"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8192})
    close([yarn[0], yarn[-1]], [plain[0], plain[-1] / 8])
    assert np.all(np.diff(yarn / plain) <= 1e-12)
    stretched = sm.nn.RotaryEmbedding(4, scaling={"type": "yarn", "factor": 8, "original_max_position_embeddings": 64})
    close(stretched(sm.ones(1, 4)), np.full((1, 4), 0.1 * math.log(8) + 1))
    assert sm.nn.RotaryEmbedding(4, scaling={"rope_type": "default"}).scaling is None
    own = sm.nn.RotaryEmbedding(4, factors=[1.0, 2.0]).tables(sm.asarray([1]), sm.zeros(1, dtype=sm.float64))
    close(np.arctan2(own[1].numpy(), own[0].numpy())[0], [1.0, 0.01 / 2])


def test_slopes_of_alibi() -> None:
    close(sm.nn.alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    close(sm.nn.alibi_slopes(12), [*2.0 ** -np.arange(1, 9), *2.0 ** -np.arange(0.5, 4.5)])
    close(sm.nn.ALiBi(1)(1, 3), [[[-2 / 256, -1 / 256, 0]]])
    module, x = sm.nn.Attention(8, 2), normal(5, 8)
    assert module(x, mask=sm.nn.ALiBi(2)(5)).shape == (5, 8)


# --- graphs


def test_segments() -> None:
    x, index = np.random.default_rng(0).normal(size=(7, 3)), np.array([4, 0, 0, 2, 4, 4, 0])
    for name, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min)):
        got = getattr(sm.nn, f"segment_{name}")(sm.asarray(x), sm.asarray(index), 6)
        rows = [function(x[index == k], axis=0) if (index == k).any() else np.zeros(3) for k in range(6)]
        close(got, rows)
    shares = sm.nn.segment_softmax(sm.asarray(x) * 1000, sm.asarray(index), 6)
    close(sm.nn.segment_sum(shares, sm.asarray(index), 6)[:, 0], [1, 0, 1, 0, 1, 0])


def test_the_gradient_of_the_largest_goes_to_the_largest() -> None:
    x, index = sm.asarray([1.0, 3.0, 2.0, 2.0]), sm.asarray([0, 0, 2, 2])
    slope = sm.grad(lambda x: (sm.nn.segment_max(x, index, 4) * sm.asarray([1.0, 2.0, 4.0, 8.0])).sum())(x)
    assert slope.tolist() == [0.0, 1.0, 2.0, 2.0]


def test_a_graph_without_edges() -> None:
    x, none = sm.ones(3, 4), sm.zeros((2, 0), dtype=sm.int64)
    assert sm.nn.SAGEConv(4, 2)(x, none).shape == (3, 2)
    layer = sm.nn.GCNConv(4, 2)
    close(layer(x, none), layer.lin(x))
    layer = sm.nn.GATConv(4, 2)
    close(layer(x, none), layer.lin(x))


def test_messages_by_name() -> None:
    class Difference(sm.nn.MessagePassing):
        def __init__(self) -> None:
            super().__init__("max", flow="target_to_source")

        def __call__(self, x: sm.Tensor, edges: sm.Tensor) -> sm.Tensor:
            return self.propagate(edges, x=x, scale=2.0)

        def message(self, x_i: sm.Tensor, x_j: sm.Tensor, scale: float) -> sm.Tensor:  # type: ignore[override]
            return (x_j - x_i) * scale

        def update(self, x: sm.Tensor) -> sm.Tensor:
            return x + 1

    x = sm.asarray([[1.0], [5.0], [9.0]])
    assert Difference()(x, sm.asarray([[0, 0, 1], [1, 2, 2]])).tolist() == [[17.0], [9.0], [1.0]]


def test_pooling_by_graph() -> None:
    x, batch = sm.asarray([[1.0, 2.0], [3.0, 0.0], [5.0, 5.0]]), sm.asarray([0, 0, 1])
    assert sm.nn.global_add_pool(x, batch).tolist() == [[4.0, 2.0], [5.0, 5.0]]
    assert sm.nn.global_mean_pool(x, batch, 3).tolist() == [[2.0, 1.0], [5.0, 5.0], [0.0, 0.0]]
    assert sm.nn.global_max_pool(x, batch).tolist() == [[3.0, 2.0], [5.0, 5.0]]
    assert sm.nn.global_max_pool(x, None).tolist() == [[5.0, 5.0]]
    assert sm.jit(lambda x, batch: sm.nn.global_add_pool(x, batch, 2))(x, batch).shape == (2, 2)
    with pytest.raises(sm.errors.TraceError):
        sm.jit(sm.nn.global_add_pool)(x, batch)


def test_a_graph_network_learns() -> None:
    """Two circles of nodes, told apart by one node of each."""
    n = 6
    ring = np.arange(n)
    source = np.concatenate([ring, ring + n])
    target = np.concatenate([(ring + 1) % n, (ring + 1) % n + n])
    edges = sm.asarray(np.stack([np.concatenate([source, target]), np.concatenate([target, source])]))
    x = sm.zeros((2 * n, 2)).at[0, 0].set(1.0).at[n, 1].set(1.0)
    labels = sm.asarray(np.repeat([0, 1], n))

    class Net(sm.nn.Module):
        def __init__(self) -> None:
            self.layers = [sm.nn.GCNConv(2, 8), sm.nn.GATConv(8, 8), sm.nn.SAGEConv(8, 2)]

        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            x = self.layers[0](x, edges).relu()
            return self.layers[2](self.layers[1](x, edges).relu(), edges)

    net, optimizer = settled(Net()), sm.optim.Adam(lr=0.03)
    state = optimizer.init(net)

    @sm.jit
    def step(net: Net, state: Any) -> Any:
        loss, gradient = sm.value_and_grad(lambda net: sm.cross_entropy(net(x), labels))(net)
        return *optimizer.update(net, gradient, state), loss

    for _ in range(60):
        net, state, loss = step(net, state)
    assert float(loss) < 0.2


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "softmax"])
def test_segments_without_a_number_are_refused(name: str) -> None:
    """-1 is what other libraries call a missing one."""
    function = getattr(sm.nn, f"segment_{name}")
    with pytest.raises(sm.errors.IndexRangeError):
        function(sm.ones(3), sm.asarray([0, 1, -1]), 2).numpy()
