"""What smelt.nn has and PyTorch has not, written in PyTorch from the formulas, with the same names of parameters.

Graph layers are written with dense adjacency matrices.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.parameter import Parameter


def linear(inputs: int, outputs: int, bias: bool = False) -> torch.nn.Linear:
    return torch.nn.Linear(inputs, outputs, bias=bias)


def rotated(x: Any, base: float, interleaved: bool) -> Any:
    """Each pair as a complex number, turned by its position."""
    half = x.shape[-1] // 2
    pairs = torch.complex(*((x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])))
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = pairs * torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)
    if interleaved:
        return torch.view_as_real(turned).flatten(-2)
    return torch.cat([turned.real, turned.imag], -1)


class Attention(torch.nn.Module):
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        *,
        head_dim: int | None = None,
        causal: bool = True,
        bias: bool = False,
        rope: Any = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        size, shared = head_dim or embed_dim // num_heads, num_kv_heads or num_heads
        self.q_proj, self.k_proj = linear(embed_dim, num_heads * size, bias), linear(embed_dim, shared * size, bias)
        self.v_proj, self.o_proj = linear(embed_dim, shared * size, bias), linear(num_heads * size, embed_dim, bias)
        if qk_norm:
            self.q_norm, self.k_norm = torch.nn.RMSNorm(size, eps=1e-6), torch.nn.RMSNorm(size, eps=1e-6)
        self.size, self.causal, self.rope, self.qk_norm = size, causal, rope, qk_norm

    def forward(self, x: Any, mask: Any = None) -> Any:
        q, k, v = (
            p(x).unflatten(-1, (-1, self.size)).transpose(-3, -2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope:
            q, k = rotated(q, *self.rope), rotated(k, *self.rope)
        k, v = (each.repeat_interleave(q.shape[-3] // each.shape[-3], -3) for each in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        return self.o_proj(y.transpose(-3, -2).flatten(-2))


class RotaryEmbedding(torch.nn.Module):
    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        self.dim, self.base, self.interleaved = dim, base, interleaved

    def forward(self, x: Any) -> Any:
        return torch.cat([rotated(x[..., : self.dim], self.base, self.interleaved), x[..., self.dim :]], -1)


class SinusoidalPositions(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        table = torch.zeros(x.shape[-2], self.dim, dtype=torch.float64)
        steps = torch.exp(torch.arange(0, self.dim, 2, dtype=torch.float64) * (-math.log(10000.0) / self.dim))
        table[:, 0::2] = torch.sin(torch.arange(x.shape[-2])[:, None] * steps)
        table[:, 1::2] = torch.cos(torch.arange(x.shape[-2])[:, None] * steps)[:, : self.dim // 2]
        return x + table.to(x.dtype)


class LearnedPositions(torch.nn.Module):
    def __init__(self, max_length: int, dim: int) -> None:
        super().__init__()
        self.weight = Parameter(torch.zeros(max_length, dim))

    def forward(self, x: Any) -> Any:
        return x + self.weight[: x.shape[-2]]


# --- graphs


def adjacency(edge_index: Any, weight: Any, nodes: int) -> Any:
    """At [i, j] what goes from j to i."""
    result = torch.zeros(nodes, nodes, dtype=weight.dtype)
    return result.index_put((edge_index[1], edge_index[0]), weight, accumulate=True)


class GCNConv(torch.nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.lin, self.bias = linear(in_channels, out_channels), Parameter(torch.zeros(out_channels)) if bias else None
        self.loop, self.normalize = 2.0 if improved else 1.0, normalize
        self.loops = normalize if add_self_loops is None else add_self_loops

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        weight = torch.ones(edge_index.shape[1], dtype=x.dtype) if edge_weight is None else edge_weight
        a = adjacency(edge_index, weight, len(x))
        if self.loops:  # the diagonal is filled where it is empty
            there = adjacency(edge_index, torch.ones_like(weight), len(x)).diagonal() > 0
            a = a + torch.diag(torch.where(there, 0.0, self.loop).to(x.dtype))
        if self.normalize:
            degree = a.sum(1)
            scale = torch.where(degree > 0, degree.clamp(min=1e-30) ** -0.5, 0.0)
            a = scale[:, None] * a * scale
        y = a @ self.lin(x)
        return y if self.bias is None else y + self.bias


class GATConv(torch.nn.Module):
    """Without multiple edges."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        fill_value: float | str = "mean",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.channels, self.concat, self.slope = heads, out_channels, concat, negative_slope
        self.loops, self.fill = add_self_loops, fill_value
        self.lin = linear(in_channels, heads * out_channels)
        self.att_src = Parameter(torch.zeros(1, heads, out_channels))
        self.att_dst = Parameter(torch.zeros(1, heads, out_channels))
        if edge_dim:
            self.lin_edge = linear(edge_dim, heads * out_channels)
            self.att_edge = Parameter(torch.zeros(1, heads, out_channels))
        self.bias = Parameter(torch.zeros(heads * out_channels if concat else out_channels)) if bias else None

    def forward(self, x: Any, edge_index: Any, edge_attr: Any = None) -> Any:
        n = len(x)
        there = adjacency(edge_index, torch.ones(edge_index.shape[1]), n) > 0
        own = torch.eye(n, dtype=torch.bool)
        h = self.lin(x).reshape(n, self.heads, self.channels)
        scores = (h * self.att_dst).sum(-1)[:, None] + (h * self.att_src).sum(-1)[None]
        if edge_attr is not None:
            dense = torch.zeros(n, n, edge_attr.shape[-1], dtype=x.dtype)
            dense = dense.index_put((edge_index[1], edge_index[0]), edge_attr)
            if self.loops:
                others = (there & ~own)[..., None]
                mean = (dense * others).sum(1) / others.sum(1).clamp(min=1)
                fill = mean if self.fill == "mean" else torch.full_like(mean, self.fill)  # type: ignore[arg-type]
                dense = torch.where(own[..., None], fill[:, None], dense)
            features = self.lin_edge(dense).reshape(n, n, self.heads, self.channels)
            scores = scores + (features * self.att_edge).sum(-1)
        there = there | own if self.loops else there
        scores = functional.leaky_relu(scores, self.slope).masked_fill(~there[..., None], -1e30)
        weights = torch.softmax(scores, 1) * there[..., None]
        y = torch.einsum("ijh,jhc->ihc", weights, h)
        y = y.flatten(1) if self.concat else y.mean(1)
        return y if self.bias is None else y + self.bias


class SAGEConv(torch.nn.Module):
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
        super().__init__()
        self.lin = linear(in_channels, in_channels, True) if project else None
        self.lin_l = linear(in_channels, out_channels, bias)
        self.lin_r = linear(in_channels, out_channels) if root_weight else None
        self.aggr, self.normalize = aggr, normalize

    def forward(self, x: Any, edge_index: Any) -> Any:
        shown = x if self.lin is None else self.lin(x).relu()
        a = adjacency(edge_index, torch.ones(edge_index.shape[1], dtype=x.dtype), len(x))
        if self.aggr == "max":
            there = (a > 0)[..., None]
            near = shown[None].expand(len(x), *shown.shape).masked_fill(~there, -torch.inf).amax(1)
            taken = torch.where(there.any(1), near, 0.0)
        else:
            taken = a @ shown / (a.sum(1, keepdim=True).clamp(min=1) if self.aggr == "mean" else 1)
        y = self.lin_l(taken) + (0 if self.lin_r is None else self.lin_r(x))
        return functional.normalize(y, dim=-1) if self.normalize else y
