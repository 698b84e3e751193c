"""The larger blocks of smelt.nn have PyTorch's names, values and gradients; those it has not, the ones of formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm

# PyTorch warns where it could be faster.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore::UserWarning")]

torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed (make test-peers installs it)")

from tests.peers import blocks_in_torch  # noqa: E402

TOLERANCE = {"float32": 2e-4, "float64": 1e-9}


class Row(NamedTuple):
    """A module by name and arguments, and what it is called with: arrays by position and by name."""

    kind: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    inputs: tuple[Any, ...]
    named: dict[str, Any] = {}  # noqa: RUF012


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape)


def hidden(*shape: int) -> Any:
    """A mask that hides some keys, but never the first."""
    mask = np.random.default_rng(7).random(shape) < 0.4
    mask[..., 0] = False
    return mask


SEQUENCE, QUERY, KEY = numbers(6, 2, 3), numbers(5, 2, 8), numbers(7, 2, 8, seed=1)
LATER = np.triu(np.ones((5, 5), bool), 1)
EDGES = np.array(
    [[0, 1, 2, 3, 3, 1, 4, 2], [1, 2, 0, 1, 3, 3, 0, 3]]
)  # 3 has a loop, 4 nothing that comes in, 5 nothing
NODES = numbers(6, 3)


def states(rows: int, *sizes: int) -> Any:
    found = tuple(numbers(rows, 2, size, seed=k) for k, size in enumerate(sizes))
    return found if len(found) > 1 else found[0]


def recurrent() -> Iterator[Row]:
    for kind, options in [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]:
        pair = (5, 5) if kind == "LSTM" else (5,)
        yield Row(kind, (3, 5), options, (SEQUENCE, states(1, *pair)))
        yield Row(kind, (3, 5), options | {"bias": False}, (SEQUENCE[:, 0],))
        both = options | {"num_layers": 2, "bidirectional": True, "batch_first": True}
        yield Row(kind, (3, 5), both, (SEQUENCE.swapaxes(0, 1), states(4, *pair)))
        batch = numbers(4, 3)
        yield Row(
            f"{kind}Cell",
            (3, 5),
            options,
            (batch, tuple(numbers(4, n) for n in pair) if len(pair) > 1 else numbers(4, 5)),
        )
        yield Row(f"{kind}Cell", (3, 5), options | {"bias": False}, (batch[0],))
    yield Row("LSTM", (3, 5), {"num_layers": 2, "proj_size": 2, "bidirectional": True}, (SEQUENCE, states(4, 2, 5)))


def attention() -> Iterator[Row]:
    kind, same, cross = "MultiheadAttention", (QUERY, QUERY, QUERY), (QUERY, KEY, KEY)
    yield Row(kind, (8, 2), {}, same)
    yield Row(kind, (8, 2), {}, cross, {"average_attn_weights": False, "attn_mask": hidden(5, 7)})
    yield Row(kind, (8, 2), {"bias": False}, cross, {"key_padding_mask": hidden(2, 7), "need_weights": False})
    yield Row(kind, (8, 2), {"batch_first": True}, [x.swapaxes(0, 1) for x in cross], {"attn_mask": numbers(4, 5, 7)})
    yield Row(kind, (8, 4), {}, cross, {"attn_mask": hidden(8, 5, 7), "key_padding_mask": numbers(2, 7)})
    yield Row(kind, (8, 2), {}, same, {"attn_mask": LATER, "is_causal": True, "need_weights": False})
    yield Row(kind, (8, 2), {}, [x[:, 0] for x in cross], {"attn_mask": hidden(2, 5, 7), "key_padding_mask": hidden(7)})
    yield Row(kind, (8, 2), {"kdim": 3, "vdim": 6}, (QUERY, numbers(7, 2, 3), numbers(7, 2, 6)))
    yield Row(kind, (8, 2), {"add_bias_kv": True, "add_zero_attn": True}, same, {"attn_mask": LATER, "is_causal": True})
    x = numbers(2, 5, 8)
    yield Row("Attention", (8, 4), {}, (x,))
    yield Row("Attention", (8, 4, 2), {"rope": (10000.0, False), "qk_norm": True}, (x,))
    yield Row("Attention", (8, 4, 1), {"rope": (100.0, True), "head_dim": 6, "bias": True}, (x,))
    yield Row("Attention", (8, 4, 2), {"causal": False}, (x[0],), {"mask": ~hidden(5, 5)})


def transformers() -> Iterator[Row]:
    small, batch = {"dim_feedforward": 12, "dropout": 0.0}, {"batch_first": True}
    masks = {"src_mask": LATER, "src_key_padding_mask": hidden(2, 5)}
    yield Row("TransformerEncoderLayer", (8, 2), small, (QUERY,), masks)
    options = small | batch | {"norm_first": True, "activation": "gelu"}
    yield Row("TransformerEncoderLayer", (8, 2), options, (QUERY.swapaxes(0, 1),))
    yield Row("TransformerEncoderLayer", (8, 2), small | {"bias": False}, (QUERY[:, 0],))
    yield Row("TransformerDecoderLayer", (8, 2), small, (QUERY, KEY), {"tgt_mask": LATER, "memory_mask": hidden(5, 7)})
    named = {"tgt_key_padding_mask": hidden(2, 5), "memory_key_padding_mask": hidden(2, 7)}
    both = (QUERY.swapaxes(0, 1), KEY.swapaxes(0, 1))
    yield Row("TransformerDecoderLayer", (8, 2), options, both, named)
    yield Row("TransformerEncoder", (2,), small, (QUERY,), {"mask": LATER})
    yield Row("TransformerDecoder", (2,), small, (QUERY, KEY), {"tgt_mask": LATER})
    yield Row("Transformer", (8, 2, 1, 2), small | batch, both[::-1], {"tgt_mask": LATER})


def positions() -> Iterator[Row]:
    x = numbers(2, 3, 5, 8)
    yield Row("RotaryEmbedding", (8,), {}, (x,))
    yield Row("RotaryEmbedding", (6,), {"interleaved": True, "base": 500.0}, (x,))
    yield Row("SinusoidalPositions", (8,), {}, (x[0],))
    yield Row("SinusoidalPositions", (3,), {}, (NODES,))
    yield Row("LearnedPositions", (9, 8), {}, (x[0],))


def graphs() -> Iterator[Row]:
    weights = np.abs(numbers(8)) + 0.1
    yield Row("GCNConv", (3, 5), {}, (NODES, EDGES))
    yield Row("GCNConv", (3, 5), {"improved": True, "bias": False}, (NODES, EDGES, weights))
    yield Row("GCNConv", (3, 5), {"add_self_loops": False}, (NODES, EDGES, weights))
    yield Row("GCNConv", (3, 5), {"normalize": False}, (NODES, EDGES))
    yield Row("GATConv", (3, 5), {}, (NODES, EDGES))
    yield Row("GATConv", (3, 5), {"heads": 2, "add_self_loops": False, "negative_slope": 0.1}, (NODES, EDGES))
    yield Row("GATConv", (3, 5), {"heads": 3, "concat": False, "edge_dim": 4}, (NODES, EDGES, numbers(8, 4)))
    yield Row("GATConv", (3, 5), {"edge_dim": 4, "fill_value": 0.5, "bias": False}, (NODES, EDGES, numbers(8, 4)))
    yield Row("SAGEConv", (3, 5), {}, (NODES, EDGES))
    yield Row("SAGEConv", (3, 5), {"aggr": "max", "project": True, "root_weight": False}, (NODES, EDGES))
    yield Row("SAGEConv", (3, 5), {"aggr": "sum", "normalize": True, "bias": False}, (NODES, EDGES))


def made_in_smelt(row: Row) -> Any:
    options = dict(row.options)
    if "rope" in options:
        size = options.get("head_dim", row.arguments[0] // row.arguments[1])
        options["rope"] = sm.nn.RotaryEmbedding(size, *options["rope"])
    if row.kind in ("TransformerEncoder", "TransformerDecoder"):
        return getattr(sm.nn, row.kind)(getattr(sm.nn, f"{row.kind}Layer")(8, 2, **options), *row.arguments)
    return getattr(sm.nn, row.kind)(*row.arguments, **options)


def made_in_torch(row: Row) -> Any:
    if row.kind in ("TransformerEncoder", "TransformerDecoder"):
        return getattr(torch.nn, row.kind)(getattr(torch.nn, f"{row.kind}Layer")(8, 2, **row.options), *row.arguments)
    return getattr(blocks_in_torch if hasattr(blocks_in_torch, row.kind) else torch.nn, row.kind)(
        *row.arguments, **row.options
    )


def mapped(value: Any, change: Any) -> Any:
    """A value with arrays, also those in tuples and dictionaries, changed; floats get their type from `change`."""
    if isinstance(value, tuple | list):
        return tuple(mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value) if isinstance(value, np.ndarray) else value


def flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in flat(item)]
    return [] if result is None else [result]


def directions(result: Any) -> list[Any]:
    """For each tensor of a result the slope that its elements get."""
    return [np.cos(np.arange(x.numel() if hasattr(x, "numel") else x.size)).reshape(x.shape) for x in result]


ROWS = [*recurrent(), *attention(), *transformers(), *positions(), *graphs()]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{'-'.join(map(str, row.options))}")
def test_values_and_gradients(row: Row, dtype: str) -> None:
    tolerance: Any = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    theirs, first = made_in_torch(row).to(getattr(torch, dtype)), made_in_smelt(row)
    theirs.load_state_dict({name: torch.tensor(tensor.numpy()) for name, tensor in first.state_dict().items()})
    random = np.random.default_rng(3)
    for parameter in theirs.parameters():  # so that none is zero or one
        parameter.data += torch.from_numpy(0.3 * random.normal(size=parameter.shape)).to(parameter.dtype)
    ours = first.astype(getattr(sm, dtype))
    ours.load_state_dict({name: tensor.numpy() for name, tensor in theirs.state_dict().items()})

    def fitting(array: Any) -> Any:
        return array.astype(dtype) if array.dtype == np.float64 else array

    def parameter_of(array: Any) -> Any:
        return torch.from_numpy(fitting(array).copy()).requires_grad_(array.dtype == np.float64)

    theirs_in = mapped((row.inputs, row.named), parameter_of)
    expected = flat(theirs(*theirs_in[0], **theirs_in[1]))
    slopes = [fitting(slope) for slope in directions(expected)]
    sum((x * torch.from_numpy(s)).sum() for x, s in zip(expected, slopes, strict=True)).backward()

    constant = mapped((row.inputs, row.named), lambda array: sm.asarray(fitting(array)))
    floats = [
        x for x in flat([constant[0], list(constant[1].values())]) if isinstance(x, sm.Tensor) and x.dtype.is_float
    ]

    @sm.jit
    def run(module: Any, floats: list[Any]) -> Any:
        def total(module: Any, floats: list[Any]) -> Any:
            found = iter(floats)
            inputs, named = mapped(
                (row.inputs, row.named), lambda x: next(found) if x.dtype == np.float64 else sm.asarray(x)
            )
            results = flat(module(*inputs, **named))
            return sum((x * sm.asarray(s)).sum() for x, s in zip(results, slopes, strict=True)), results

        return sm.value_and_grad(total, argnums=(0, 1), has_aux=True)(module, floats)

    (_, got), (by_module, by_inputs) = run(ours, floats)
    for number, (mine, peer) in enumerate(zip(got, expected, strict=True)):
        assert str(mine.dtype) == dtype
        np.testing.assert_allclose(mine.numpy(), peer.detach().numpy(), err_msg=f"result {number}", **tolerance)
    by_name = by_module.state_dict()
    assert by_name.keys() == dict(theirs.named_parameters()).keys()
    for name, peer in theirs.named_parameters():
        np.testing.assert_allclose(by_name[name].numpy(), peer.grad.numpy(), err_msg=name, **tolerance)
    leaves = [x for x in flat([theirs_in[0], list(theirs_in[1].values())]) if getattr(x, "requires_grad", False)]
    for number, (mine, peer) in enumerate(zip(by_inputs, leaves, strict=True)):
        slope = torch.zeros_like(peer) if peer.grad is None else peer.grad
        np.testing.assert_allclose(mine.numpy(), slope.numpy(), err_msg=f"input {number}", **tolerance)
