"""The gradient of attention, written so that scores need never be stored.

What the forward pass leaves is one number per query, the logarithm of its sum of exponentials. From that, the weights
of any block of scores are computed again wherever they are needed: p = exp(s - log_sum). Then

    dv = p.T @ do        ds = p * (do @ v.T - sum(do * o))        dq = scale * ds @ k        dk = scale * ds.T @ q

and each of the three products is one kernel (`fuse.chains`). Everything is plain nodes, so that derivatives of these
follow by the ordinary rules; the logarithm of the sum is a composite only so that it shares the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from smelt.derive.moves import narrowed, wide
from smelt.dtypes import compute_dtype
from smelt.graph import Node, attention_scores
from smelt.graph import build as b


def attention_back(node: Node, ct: Node, wanted: Set[Node]) -> Iterator[tuple[Node, Node]]:
    """The cotangents of queries, keys, values and a float mask."""
    q, k, v, *mask = node.sources
    parameters = dict(node.attribute.parameters)
    dtype = compute_dtype(q.dtype)
    weights = _weights(q, k, mask, parameters)
    if v in wanted:
        yield v, b.cast(narrowed(b.matmul(_transposed(weights), wide(ct)), v.shape), v.dtype)
    if not any(source in wanted for source in (q, k, *mask)):
        return
    rows = b.reduce("add", b.mul(wide(ct), wide(node)), (node.rank - 1,), keep_axes=True)
    # Of the scores with their scale: the products are scaled instead, which have fewer elements.
    slope = b.mul(weights, b.sub(b.inner_products(ct, v, dtype), rows))
    if q in wanted:
        yield q, _scaled_back(b.matmul(slope, wide(k)), q, parameters["scale"])
    if k in wanted:
        yield k, _scaled_back(b.matmul(_transposed(slope), wide(q)), k, parameters["scale"])
    for m in mask:
        if m in wanted:
            yield m, b.cast(narrowed(slope, m.shape), m.dtype)


def _weights(q: Node, k: Node, mask: Sequence[Node], parameters: Mapping[str, Any]) -> Node:
    """The softmax of the scores, from one number per row."""
    scores = attention_scores(q, k, *mask, **parameters)
    below = b.sub(scores.bare, b.composite("attention_log_sums", q, k, *mask, **parameters))
    # Scores that are masked may be far above the others. The weights of these are infinite, which derivatives must not
    # see; the rules take the inner conditions out again where nothing but weights is asked for.
    for condition in scores.conditions:
        below = b.where(condition, below, b.const(0, below.dtype))
    weights = b.exp(below)
    # Written as a condition: what is zero throughout need not be computed.
    for condition in reversed(scores.conditions):
        weights = b.where(condition, weights, b.const(0, weights.dtype))
    return weights


def _transposed(x: Node) -> Node:
    return b.permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _scaled_back(ct: Node, x: Node, scale: float | None) -> Node:
    """The cotangent of queries or keys, from that of the scaled scores."""
    whole = narrowed(ct, x.shape)
    features = b.size_node(x.shape[-1], whole.dtype)
    return b.cast(b.mul(whole, b.rsqrt(features)) if scale is None else b.scale(whole, scale), x.dtype)
