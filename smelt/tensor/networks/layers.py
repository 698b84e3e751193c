"""Building blocks of networks that the compiler knows as a whole: normalization, attention, losses of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt.graph import Node, broadcast_shapes, build
from smelt.tensor.arguments import flag
from smelt.tensor.handle import all_common, floating, node_of, wrap
from smelt.tensor.types import DT, S

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "attention",
    "layer_norm",
    "rms_norm",
    "scaled_dot_product_attention",
]


def layer_norm(
    x: Tensor[DT, *S],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: int = 1,
    eps: float = 1e-5,
) -> Tensor[Any, *S]:
    """x with mean 0 and variance 1 over its last `axes` axes, times the weight, plus the bias."""
    node = floating(x, "layer_norm")
    if bias is None:
        return wrap(build.composite("layer_norm", node, *_affine(node, weight), axes=axes, eps=eps))
    if weight is None:  # the bias alone: as with a weight of ones
        shape = node_of(bias, "layer_norm").shape
        return wrap(
            build.composite(
                "layer_norm", node, build.const(1, node.dtype, shape), *_affine(node, bias), axes=axes, eps=eps
            )
        )
    return wrap(build.composite("layer_norm", node, *_affine(node, weight, bias), axes=axes, eps=eps))


def rms_norm(x: Tensor[DT, *S], weight: Tensor | None = None, *, axes: int = 1, eps: float = 1e-5) -> Tensor[Any, *S]:
    """x divided by the root of its mean square over its last `axes` axes, times the weight."""
    node = floating(x, "rms_norm")
    return wrap(build.composite("rms_norm", node, *_affine(node, weight, name="rms_norm"), axes=axes, eps=eps))


def _affine(x: Node, *tensors: Tensor | None, name: str = "layer_norm") -> list[Node]:
    return [build.cast(node_of(tensor, name), x.dtype) for tensor in tensors if tensor is not None]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.mT * scale) @ value over (..., heads, length, features).

    A bool mask says which keys a query may see; a float mask is added to the scores. A query from which the mask hides
    every key gives zeros, and so do its gradients. `causal` hides the keys that come after the query. The scale is
    1 / sqrt(features), unless given. Where the queries have a multiple of the heads that keys and values have,
    neighboring heads share them.

    >>> q, kv = sm.ones((2, 8, 5, 16)), sm.ones((2, 2, 5, 16))
    >>> sm.attention(q, kv, kv, causal=True).shape
    (2, 8, 5, 16)
    """
    sources = all_common((query, key, value), "attention")
    if mask is not None:
        node = node_of(mask, "attention")
        sources.append(node if node.dtype.is_bool else build.cast(node, sources[0].dtype))
    shape, shared = sources[0].shape, _shared_heads(*sources[:3])
    if shared is None:
        return wrap(build.composite("attention", *sources, causal=causal, scale=scale))
    apart = build.composite("attention", *(_by_group(x, shared) for x in sources), causal=causal, scale=scale)
    return wrap(build.reshape(apart, (*apart.shape[:-4], shape[-3], *apart.shape[-2:])))


def _shared_heads(q: Node, k: Node, v: Node) -> int | None:
    """How many heads the keys and values have, if each serves a group of the queries' heads."""
    if min(q.rank, k.rank, v.rank) < 3:
        return None
    heads, shared = q.shape[-3], k.shape[-3]
    if not isinstance(heads, int) or not isinstance(shared, int) or v.shape[-3] != shared:
        return None
    return shared if 1 < shared < heads and heads % shared == 0 else None


def _by_group(x: Node, shared: int) -> Node:
    """The axis of heads as two: groups, and the heads of a group."""
    if x.rank < 3:
        return x
    heads = x.shape[-3]
    groups = (heads, 1) if heads == shared or not isinstance(heads, int) or heads == 1 else (shared, heads // shared)
    return build.reshape(x, (*x.shape[:-3], *groups, *x.shape[-2:]))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = True,
) -> Tensor:
    """`attention` with PyTorch's names; groups of heads share keys and values unless `enable_gqa` is False."""
    if not flag(enable_gqa, "scaled_dot_product_attention", "enable_gqa"):
        broadcast_shapes(node_of(query, "attention").shape[:-2], node_of(key, "attention").shape[:-2], "attention")
    return attention(query, key, value, attn_mask, causal=is_causal, scale=scale)


def class_losses(logits: Tensor, labels: Tensor, axis: int) -> Tensor:
    """For each label, the negative log of the share that softmax gives to its class; NaN where it is no class.

    The labels have the shape of the logits without the axis of the classes.
    """
    node = logits._node
    node = build.permute(node, [a for a in range(node.rank) if a != axis] + [axis])
    return wrap(build.composite("cross_entropy", node, labels._node))
