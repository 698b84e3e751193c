"""Networks over graphs: nodes take messages from their neighbors along edges.

Edges are integers of shape (2, edges): from the nodes of the first row to those of the second, as in PyTorch Geometric,
whose names and formulas these layers have. Shapes never depend on values: what an edge does not count for is
multiplied by zero, so everything compiles.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.dropout import Dropout
from smelt.nn.inputs import floats, integers, shaped
from smelt.nn.linear import Linear
from smelt.nn.module import Module
from smelt.nn.segments import segment_max, segment_mean, segment_min, segment_softmax, segment_sum
from smelt.nn.sizes import count
from smelt.tensor import Tensor, arange, concat, flag, full, ones, random, real_number, stack, vector_norm, where, zeros

__all__ = [
    "GATConv",
    "GCNConv",
    "MessagePassing",
    "SAGEConv",
    "global_add_pool",
    "global_max_pool",
    "global_mean_pool",
]

_AGGREGATIONS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "sum": segment_sum,
    "add": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
    "min": segment_min,
}


class MessagePassing(Module):
    """The base of layers over graphs. `propagate` makes messages, puts them together at the nodes that they go to
    (`aggr`: sum, mean, max or min), and updates the nodes.

    Subclasses define `message`, whose arguments are named: `x_j` is what the node that an edge comes from has of what
    `propagate` was given as `x`, `x_i` that of the node that it goes to; other names are given per edge.

    >>> import smelt as sm
    >>> class Weighted(sm.nn.MessagePassing):
    ...     def __call__(self, x, edge_index, weight):
    ...         return self.propagate(edge_index, x=x, weight=weight)
    ...
    ...     def message(self, x_j, weight):
    ...         return x_j * weight.reshape(-1, 1)
    >>> edges = sm.asarray([[0, 1], [2, 2]])
    >>> Weighted()(sm.asarray([[1.0], [2.0], [0.0]]), edges, sm.asarray([10.0, 1.0])).tolist()
    [[0.0], [0.0], [12.0]]
    """

    def __init__(self, aggr: str = "sum", flow: str = "source_to_target") -> None:
        name = type(self).__name__
        for value, what, choices in (
            (aggr, "aggr", tuple(_AGGREGATIONS)),
            (flow, "flow", ("source_to_target", "target_to_source")),
        ):
            if not isinstance(value, str) or value not in choices:
                raise ArgumentError(f"{name}: {what} is {value!r:.80}", rule=f"it must be one of {', '.join(choices)}.")
        self.aggr, self.flow = aggr, flow

    def propagate(self, edge_index: Tensor, *, num_nodes: int | None = None, **given: Any) -> Tensor:
        """Messages along all edges, put together and updated.

        `num_nodes` is as many as the first tensor of nodes has rows, unless given.
        """
        name = type(self).__name__
        source, target = self._ends(edge_index)
        arguments: dict[str, Any] = {}
        for wanted in _names(type(self).message):
            node = wanted[:-2]
            if wanted in given:
                arguments[wanted] = given[wanted]
            elif wanted[-2:] in ("_i", "_j") and node in given:
                if given[node] is not None:
                    num_nodes = given[node].shape[0] if num_nodes is None else num_nodes
                    arguments[wanted] = given[node][target if wanted.endswith("_i") else source]
                else:
                    arguments[wanted] = None
            else:
                raise ArgumentError(
                    f"{name}: message takes {wanted!r}", rule=f"propagate was given: {', '.join(given) or 'nothing'}."
                )
        if num_nodes is None:
            raise ArgumentError(f"{name}: the number of nodes is not known", hint="Give propagate num_nodes=.")
        messages = self.message(**arguments)
        return self.update(self.aggregate(messages, target, num_nodes))

    def message(self, x_j: Tensor) -> Tensor:
        """What an edge carries: the features of the node that it comes from."""
        return x_j

    def aggregate(self, messages: Tensor, index: Tensor, num_nodes: int) -> Tensor:
        """The messages to each node as one."""
        return _AGGREGATIONS[self.aggr](messages, index, num_nodes)

    def update(self, x: Tensor) -> Tensor:
        """What becomes of the messages to a node."""
        return x

    def _ends(self, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes that edges come from, and those that they go to."""
        edges = _checked(edge_index, type(self).__name__)
        return (edges[0], edges[1]) if self.flow == "source_to_target" else (edges[1], edges[0])


@functools.lru_cache
def _names(message: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a message."""
    return tuple(inspect.signature(message).parameters)[1:]


def _checked(edge_index: Any, name: str) -> Tensor:
    integers(edge_index, name, "edge_index", rank=2)
    if edge_index.shape[0] != 2:
        raise ShapeError(
            f"{name}: edge_index has shape {shape_text(edge_index.shape)}",
            rule="it must be (2, edges): where edges come from, and where they go.",
            hint="Should it be transposed?" if edge_index.shape[1] == 2 else "",
        )
    return edge_index  # type: ignore[no-any-return]


def _with_loops(edge_index: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Edges with one from each node to itself at the end, and which edges were loops before (none of the new ones)."""
    own = arange(nodes, dtype=edge_index.dtype, device=edge_index.device)
    return concat([edge_index, stack([own, own])], axis=1), edge_index[0] == edge_index[1]


def _glorot(layer: Linear) -> Linear:
    layer.weight = random.xavier_uniform(layer.weight.shape)
    return layer


class GCNConv(MessagePassing):
    """Graph convolution: the sum over neighbors, and the node itself, weighted by 1 / sqrt(degree * degree).

    >>> import smelt as sm
    >>> layer = sm.nn.GCNConv(3, 5)
    >>> layer(sm.ones(4, 3), sm.asarray([[0, 1, 2], [1, 2, 3]])).shape
    (4, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__("sum")
        self.in_channels = count(in_channels, "GCNConv", "in_channels", least=1)
        self.out_channels = count(out_channels, "GCNConv", "out_channels", least=1)
        self.improved, self.normalize = flag(improved, "GCNConv", "improved"), flag(normalize, "GCNConv", "normalize")
        self.add_self_loops = normalize if add_self_loops is None else flag(add_self_loops, "GCNConv", "add_self_loops")
        if self.add_self_loops and not normalize:
            raise ArgumentError("GCNConv: add_self_loops is True without normalize", rule="loops come with it.")
        self.lin = _glorot(Linear(in_channels, out_channels, bias=False))
        self.bias = zeros(out_channels) if flag(bias, "GCNConv", "bias") else None

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        floats(x, "GCNConv", "x", (2,), self.in_channels)
        _checked(edge_index, "GCNConv")
        if edge_weight is None:
            edge_weight = ones(edge_index.shape[1], dtype=x.dtype, device=x.device)
        shaped(floats(edge_weight, "GCNConv", "edge_weight", (1,)), "GCNConv", "edge_weight", (edge_index.shape[1],))
        if self.normalize:
            edge_index, edge_weight = self._normalized(edge_index, edge_weight, x.shape[0])
        x = self.propagate(edge_index, x=self.lin(x), weight=edge_weight)
        return x if self.bias is None else x + self.bias

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        return x_j * weight.reshape(-1, 1)

    def _normalized(self, edge_index: Tensor, weight: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
        """Edges and weights with loops, the weights divided by the roots of the degrees at both ends."""
        if self.add_self_loops:
            # A loop that is there keeps its weight, but moves to the place of the new one.
            ends, (edge_index, loops) = edge_index[0], _with_loops(edge_index, nodes)
            fill = full((nodes + 1,), 2.0 if self.improved else 1.0, weight.dtype, device=weight.device)
            kept = fill.at[where(loops, ends, nodes)].set(weight)[:nodes]
            weight = concat([where(loops, 0, weight), kept])
        source, target = self._ends(edge_index)
        degree = segment_sum(weight, target, nodes)
        roots = where(degree > 0, where(degree > 0, degree, 1).rsqrt(), 0)
        return edge_index, roots[source] * weight * roots[target]


class GATConv(MessagePassing):
    """Graph attention: the sum over neighbors, and the node itself, weighted by a softmax over a node's edges.

    Gives `heads * out_channels` features, or with `concat=False` the mean of the heads.

    >>> import smelt as sm
    >>> layer = sm.nn.GATConv(3, 5, heads=2)
    >>> layer(sm.ones(4, 3), sm.asarray([[0, 1, 2], [1, 2, 3]])).shape
    (4, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | str = "mean",
        bias: bool = True,
    ) -> None:
        super().__init__("sum")
        self.in_channels = count(in_channels, "GATConv", "in_channels", least=1)
        self.out_channels = count(out_channels, "GATConv", "out_channels", least=1)
        self.heads = count(heads, "GATConv", "heads", least=1)
        self.concat = flag(concat, "GATConv", "concat")
        self.negative_slope = real_number(negative_slope, "GATConv", "negative_slope")
        self.dropout = Dropout(dropout).p
        self.add_self_loops = flag(add_self_loops, "GATConv", "add_self_loops")
        self.edge_dim = None if edge_dim is None else count(edge_dim, "GATConv", "edge_dim", least=1)
        self.fill_value = fill_value if fill_value == "mean" else real_number(fill_value, "GATConv", "fill_value")
        self.lin = _glorot(Linear(in_channels, heads * out_channels, bias=False))
        self.att_src = random.xavier_uniform((1, heads, out_channels))
        self.att_dst = random.xavier_uniform((1, heads, out_channels))
        if edge_dim is not None:
            self.lin_edge = _glorot(Linear(edge_dim, heads * out_channels, bias=False))
            self.att_edge = random.xavier_uniform((1, heads, out_channels))
        size = heads * out_channels if concat else out_channels
        self.bias = zeros(size) if flag(bias, "GATConv", "bias") else None

    def __call__(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        floats(x, "GATConv", "x", (2,), self.in_channels)
        edges, nodes = _checked(edge_index, "GATConv").shape[1], x.shape[0]
        loops = None
        if self.add_self_loops:
            edge_index, loops = _with_loops(edge_index, nodes)
        given = self.lin(x).reshape(nodes, self.heads, self.out_channels)
        source, target = self._ends(edge_index)
        scores = (given * self.att_src).sum(-1)[source] + (given * self.att_dst).sum(-1)[target]
        if edge_attr is not None:
            scores = scores + self._edge_scores(edge_attr, edges, target, loops, nodes)
        scores = scores.leaky_relu(self.negative_slope)
        if loops is not None:  # what was a loop before is replaced by the new one
            before = where(loops.reshape(-1, 1), -float("inf"), scores[:edges])
            scores = concat([before, scores[edges:]])
        weights = segment_softmax(scores, target, nodes)
        if self.training and self.dropout:
            weights = Dropout(self.dropout)(weights)
        x = self.propagate(edge_index, x=given, weight=weights)
        x = x.flatten(-2) if self.concat else x.mean(1)
        return x if self.bias is None else x + self.bias

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        return x_j * weight.expand_dims(-1)

    def _edge_scores(self, edge_attr: Tensor, edges: int, target: Tensor, loops: Tensor | None, nodes: int) -> Tensor:
        """What features of edges add to the scores; new loops get the mean of the edges to their node, or a number."""
        if self.edge_dim is None:
            raise ArgumentError("GATConv: there are edge_attr", rule="the layer was made without edge_dim.")
        floats(edge_attr, "GATConv", "edge_attr", (2,), self.edge_dim)
        shaped(edge_attr, "GATConv", "edge_attr", (edges, self.edge_dim))
        if loops is not None:
            if isinstance(self.fill_value, str):
                counted = where(loops, 0, ones(edges, dtype=edge_attr.dtype)).reshape(-1, 1)
                total = segment_sum(edge_attr * counted, target[:edges], nodes)
                new = total / segment_sum(counted, target[:edges], nodes).maximum(1)
            else:
                new = full((nodes, self.edge_dim), self.fill_value, edge_attr.dtype)
            edge_attr = concat([edge_attr, new])
        features = self.lin_edge(edge_attr).reshape(-1, self.heads, self.out_channels)
        return (features * self.att_edge).sum(-1)


class SAGEConv(MessagePassing):
    """GraphSAGE: a product of the neighbors put together (their mean), plus one of the node itself.

    >>> import smelt as sm
    >>> layer = sm.nn.SAGEConv(3, 5)
    >>> layer(sm.ones(4, 3), sm.asarray([[0, 1, 2], [1, 2, 3]])).shape
    (4, 5)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggr: str = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(aggr)
        self.in_channels = count(in_channels, "SAGEConv", "in_channels", least=1)
        self.out_channels = count(out_channels, "SAGEConv", "out_channels", least=1)
        self.normalize = flag(normalize, "SAGEConv", "normalize")
        self.lin = Linear(in_channels, in_channels) if flag(project, "SAGEConv", "project") else None
        self.lin_l = Linear(in_channels, out_channels, flag(bias, "SAGEConv", "bias"))
        self.lin_r = (
            Linear(in_channels, out_channels, bias=False) if flag(root_weight, "SAGEConv", "root_weight") else None
        )

    def __call__(self, x: Tensor, edge_index: Tensor) -> Tensor:
        floats(x, "SAGEConv", "x", (2,), self.in_channels)
        shown = x if self.lin is None else self.lin(x).relu()
        y = self.lin_l(self.propagate(edge_index, x=shown))
        if self.lin_r is not None:
            y = y + self.lin_r(x)
        return y / vector_norm(y, axis=-1, keepdims=True).maximum(1e-12) if self.normalize else y


# --- one vector for each graph


def global_add_pool(x: Tensor, batch: Tensor | None, size: int | None = None) -> Tensor:
    """The sums over the nodes of each graph; `batch` says to which graph each node belongs, None that there is one.

    Without `size`, the number of graphs, the numbers are looked at, which `jit` refuses.

    >>> import smelt as sm
    >>> sm.nn.global_add_pool(sm.asarray([[1.0], [2.0], [4.0]]), sm.asarray([0, 0, 1]), size=2).tolist()
    [[3.0], [4.0]]
    """
    return _pooled(x, batch, size, segment_sum, "global_add_pool")


def global_mean_pool(x: Tensor, batch: Tensor | None, size: int | None = None) -> Tensor:
    """The means over the nodes of each graph; see `global_add_pool`."""
    return _pooled(x, batch, size, segment_mean, "global_mean_pool")


def global_max_pool(x: Tensor, batch: Tensor | None, size: int | None = None) -> Tensor:
    """The largest elements over the nodes of each graph; see `global_add_pool`."""
    return _pooled(x, batch, size, segment_max, "global_max_pool")


def _pooled(
    x: Tensor, batch: Tensor | None, size: int | None, put: Callable[[Tensor, Tensor, int], Tensor], name: str
) -> Tensor:
    floats(x, name, "x", (2, 3))
    if batch is None:
        batch, size = zeros(x.shape[0], dtype=arange(1).dtype, device=x.device), 1
    shaped(integers(batch, name, "batch", rank=1), name, "batch", (x.shape[0],))
    graphs = int(batch.max().item()) + 1 if size is None else count(size, name, "size")
    return put(x, batch, graphs)
