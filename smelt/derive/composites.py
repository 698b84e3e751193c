"""Derivatives of composites, where there is a shorter way than through their expansion.

Formulas are computed in the wider type of 16-bit floats, from the operands: what the forward pass has computed is
found again as the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final

from smelt.derive.moves import Parts, Rule, broadcast_back, narrowed, total, wide, zeros
from smelt.dtypes import compute_dtype, int64
from smelt.graph import Node, attention_scores, mean, normalized
from smelt.graph import build as b


def _parameters(node: Node) -> dict[str, Any]:
    return dict(node.attribute.parameters)


# --- softmax and cross entropy


def _softmax(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x, axis = node.sources[0], _parameters(node)["axis"]
    y, t = b.composite("softmax", wide(x), axis=axis), wide(ct)
    inner = b.reduce("add", b.mul(t, y), (axis,), keep_axes=True)
    return [(x, b.cast(b.mul(y, b.sub(t, inner)), x.dtype))]


def _log_softmax(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    x, axis = node.sources[0], _parameters(node)["axis"]
    y, t = b.composite("softmax", wide(x), axis=axis), wide(ct)
    return [(x, b.cast(b.sub(t, b.mul(y, b.reduce("add", t, (axis,), keep_axes=True))), x.dtype))]


def _cross_entropy(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    """Probabilities minus one at the label. Labels that are no class have no loss, and no cotangent."""
    logits, labels = node.sources
    axis = logits.rank - 1
    classes = b.broadcast_to(b.iota(logits.shape[axis], int64), logits.shape)
    number = b.cast(labels, int64)
    hit = b.eq(classes, broadcast_back(number, (axis,), logits.shape))
    y = b.composite("softmax", wide(logits), axis=axis)
    share = b.where(b.in_range(number, logits.shape[axis]), wide(ct), zeros(labels.shape, wide(ct)))
    slope = b.sub(y, b.cast(hit, y.dtype))
    return [(logits, b.cast(b.mul(slope, broadcast_back(share, (axis,), logits.shape)), logits.dtype))]


# --- normalization


def _norm(node: Node, ct: Node, wanted: Set[Node], centers: bool) -> Parts:
    """Layer norm, or (without centering) rms norm."""
    x, *affine = node.sources
    parameters = _parameters(node)
    last = tuple(range(x.rank - parameters["axes"], x.rank))
    lead = tuple(range(x.rank - parameters["axes"]))
    t = wide(ct)
    normal, scale = normalized(x, **parameters, centers=centers)
    if x in wanted:
        slope = b.mul(t, wide(affine[0])) if affine else t
        inner = b.mul(normal, mean(b.mul(slope, normal), last))
        slope = b.sub(slope, b.add(mean(slope, last), inner)) if centers else b.sub(slope, inner)
        yield x, b.cast(b.mul(slope, scale), x.dtype)
    for tensor, part in zip(affine, (b.mul(t, normal), t), strict=False):
        if tensor in wanted:
            yield tensor, b.cast(total(part, lead), x.dtype)


# --- activations


def gelu_slope(x: Node, approximate: str) -> Node:
    if approximate == "tanh":
        factor = 2 * math.sqrt(2 / math.pi)
        square = b.mul(x, x)
        inner = b.scale(b.mul(x, b.shift(b.scale(square, 0.044715), 1.0)), factor)
        share = b.reciprocal(b.shift(b.exp(b.neg(inner)), 1.0))
        rise = b.scale(b.mul(x, b.shift(b.scale(square, 3 * 0.044715), 1.0)), factor)
        return b.mul(share, b.shift(b.mul(rise, b.shift(b.neg(share), 1.0)), 1.0))
    share = b.scale(b.shift(b.erf(b.scale(x, math.sqrt(0.5))), 1.0), 0.5)
    density = b.scale(b.exp(b.scale(b.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.add(share, b.mul(x, density))


def silu_slope(x: Node) -> Node:
    share = b.reciprocal(b.shift(b.exp(b.neg(x)), 1.0))
    return b.mul(share, b.shift(b.mul(x, b.shift(b.neg(share), 1.0)), 1.0))


# By name: the slope of an elementwise composite, from its operand and its parameters.
SLOPES: Final[dict[str, Callable[..., Node]]] = {"gelu": gelu_slope, "silu": silu_slope}


def apply_slope(node: Node, t: Node) -> Node:
    """A change of the operand of an elementwise composite, as it appears in the result."""
    x = node.sources[0]
    slope = SLOPES[node.attribute.name](wide(x), **_parameters(node))
    return b.cast(b.mul(wide(t), slope), x.dtype)


def _activation(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    return [(node.sources[0], apply_slope(node, ct))]


# --- attention


def _attention(node: Node, ct: Node, wanted: Set[Node]) -> Parts:
    """The cotangents of queries, keys, values and a float mask, written so that scores need never be stored.

    What the forward pass leaves is one number per query, the logarithm of its sum of exponentials. From that, the
    weights of any block of scores are computed again wherever they are needed: p = exp(s - log_sum). Then

        dv = p.T @ do        ds = p * (do @ v.T - sum(do * o))        dq = scale * ds @ k        dk = scale * ds.T @ q

    and each of the three products is one kernel (`fuse.chains`). Everything is plain nodes, so that derivatives of
    these follow by the ordinary rules; the logarithm of the sum is a composite only so that it shares the forward pass.
    """
    q, k, v, *mask = node.sources
    parameters = _parameters(node)
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


COMPOSITE_RULES: Final[dict[str, Rule]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cross_entropy": _cross_entropy,
    "layer_norm": partial(_norm, centers=True),
    "rms_norm": partial(_norm, centers=False),
    "attention": _attention,
    **dict.fromkeys(SLOPES, _activation),
}
