"""Layers of attention: PyTorch's, and that of present language models."""

from __future__ import annotations

import math

from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.nn.cache import Cache, checked_cache, empty_cache
from smelt.nn.dropout import Dropout
from smelt.nn.inputs import floats, no_tensor, shaped
from smelt.nn.linear import Linear
from smelt.nn.module import Module
from smelt.nn.normalization import RMSNorm
from smelt.nn.rotary import RotaryEmbedding
from smelt.nn.sizes import count
from smelt.tensor import DTypeLike, Tensor, arange, attention, concat, flag, random, repeat, where, zeros

__all__ = ["Attention", "MultiheadAttention"]


# --- attention written out, for those who want its weights or leave some of them out


def _causal(queries: int, keys: int) -> Tensor:
    """True where a key does not come after the query."""
    return arange(keys) <= arange(queries).expand_dims(-1)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """What each query takes of each key."""
    if key.shape[-3] not in (1, query.shape[-3]):
        key = repeat(key, query.shape[-3] // key.shape[-3], axis=-3)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]))
    if causal:
        scores = where(_causal(*scores.shape[-2:]), scores, -math.inf)
    if mask is None:
        return scores.softmax(-1)
    scores = where(mask, scores, -math.inf) if mask.dtype.is_bool else scores + mask.astype(scores.dtype)
    seen = (scores != -math.inf).any(axis=-1, keepdims=True)  # queries that see no key take nothing
    return where(seen, where(seen, scores, 0.0).softmax(-1), 0.0)


def _taken(weights: Tensor, value: Tensor) -> Tensor:
    if value.shape[-3] not in (1, weights.shape[-3]):
        value = repeat(value, weights.shape[-3] // value.shape[-3], axis=-3)
    return weights @ value


def _heads_apart(x: Tensor, heads: int) -> Tensor:
    """(..., length, heads * features) as (..., heads, length, features)."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).swapaxes(-3, -2)


def _heads_together(x: Tensor) -> Tensor:
    return x.swapaxes(-3, -2).flatten(-2)


def _divided(embed_dim: int, num_heads: int, name: str) -> int:
    """The features of a head."""
    if embed_dim % num_heads:
        raise ArgumentError(
            f"{name}: embed_dim is {embed_dim}, num_heads is {num_heads}", rule="the first must be a multiple."
        )
    return embed_dim // num_heads


class MultiheadAttention(Module):
    """Attention of several heads, with PyTorch's arguments, names and masks: True hides a key.

    Inputs are (length, batch, features), with `batch_first` (batch, length, features), or (length, features). Gives the
    output, and the weights of the heads' mean, which cost nothing unless they are read. With `is_causal` no mask is
    needed.

    >>> import smelt as sm
    >>> layer, x = sm.nn.MultiheadAttention(8, 2, batch_first=True), sm.ones(3, 5, 8)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        name = "MultiheadAttention"
        self.embed_dim = count(embed_dim, name, "embed_dim", least=1)
        self.num_heads = count(num_heads, name, "num_heads", least=1)
        self.dropout = Dropout(dropout).p
        self.batch_first = flag(batch_first, name, "batch_first")
        self.add_zero_attn = flag(add_zero_attn, name, "add_zero_attn")
        self.kdim = embed_dim if kdim is None else count(kdim, name, "kdim", least=1)
        self.vdim = embed_dim if vdim is None else count(vdim, name, "vdim", least=1)
        _divided(embed_dim, num_heads, name)
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = random.xavier_uniform((3 * embed_dim, embed_dim))
        else:
            self.q_proj_weight = random.xavier_uniform((embed_dim, embed_dim))
            self.k_proj_weight = random.xavier_uniform((embed_dim, self.kdim))
            self.v_proj_weight = random.xavier_uniform((embed_dim, self.vdim))
        self.in_proj_bias = zeros(3 * embed_dim) if flag(bias, name, "bias") else None
        added = flag(add_bias_kv, name, "add_bias_kv")
        self.bias_k = random.xavier_normal((1, 1, embed_dim)) if added else None
        self.bias_v = random.xavier_normal((1, 1, embed_dim)) if added else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = zeros(embed_dim)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._check(query, key, value)
        swapped = query.ndim == 3 and not self.batch_first
        q, k, v = self._projected(query, key, value, swapped)
        scores = (*q.shape[:-2], self.num_heads, q.shape[-2], k.shape[-2])
        causal = flag(is_causal, "MultiheadAttention", "is_causal")
        hidden = [m for m in (_for_scores(attn_mask, scores), _for_keys(key_padding_mask, scores)) if m is not None]
        more = (self.bias_k is not None) + self.add_zero_attn
        if more and causal:  # the keys that are added come after no query
            hidden, causal = [*hidden, ~_causal(*scores[-2:])], False
        k, v = self._more_keys(k, self.bias_k), self._more_keys(v, self.bias_v)
        mask = _allowed([m.pad([*([(0, 0)] * (m.ndim - 1)), (0, more)]) if more else m for m in hidden], q)
        q, k, v = (_heads_apart(x, self.num_heads) for x in (q, k, v))
        weights = _weights(q, k, mask, causal) if need_weights or self._drops() else None
        if self._drops():
            assert weights is not None
            weights = Dropout(self.dropout)(weights)
            taken = _taken(weights, v)
        else:
            taken = attention(q, k, v, mask, causal=causal)
        output = self.out_proj(_heads_together(taken))
        output = output.swapaxes(0, 1) if swapped else output
        if not need_weights or weights is None:
            return output, None
        return output, weights.mean(-3) if average_attn_weights else weights

    def init_cache(self, batch: int | None, length: int, dtype: DTypeLike | None = None) -> Cache:
        """An empty cache for `length` tokens of a batch, which `extend` fills; None: the input has no batch axis."""
        kind = self.out_proj.weight.dtype if dtype is None else dtype
        features = self.embed_dim // self.num_heads
        return empty_cache(batch, self.num_heads, length, features, kind, "MultiheadAttention")

    def extend(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Causal self-attention of the next tokens of a text, and the cache with them.

        >>> import smelt as sm
        >>> layer, x = sm.nn.MultiheadAttention(8, 2, batch_first=True), sm.random.normal((1, 4, 8))
        >>> output, cache = layer.extend(x, layer.init_cache(1, 16))
        >>> sm.allclose(output, layer(x, x, x, is_causal=True)[0], atol=1e-5).item()
        True
        """
        before = checked_cache(cache, "MultiheadAttention")
        self._check(x, x, x)
        if self.bias_k is not None or self.add_zero_attn:
            raise ArgumentError(
                "MultiheadAttention: a layer with add_bias_kv or add_zero_attn has no cache",
                rule="the keys that it adds come after those of the text.",
            )
        swapped = x.ndim == 3 and not self.batch_first
        q, k, v = (_heads_apart(part, self.num_heads) for part in self._projected(x, x, x, swapped))
        after = before.extended(k, v)
        seen = before.visible(k.shape[-2], True)
        if self._drops():
            taken = _taken(Dropout(self.dropout)(_weights(q, after.keys, seen, False)), after.values)
        else:
            taken = attention(q, after.keys, after.values, seen)
        output = self.out_proj(_heads_together(taken))
        return (output.swapaxes(0, 1) if swapped else output), after

    def _drops(self) -> bool:
        return self.training and self.dropout > 0

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        name = "MultiheadAttention"
        floats(query, name, "the query", (2, 3), self.embed_dim)
        floats(key, name, "the key", (query.ndim,), self.kdim)
        floats(value, name, "the value", (query.ndim,), self.vdim)
        shaped(value, name, "the value", (*key.shape[:-1], self.vdim))
        batch = 0 if self.batch_first else 1
        if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
            raise ShapeError(
                f"{name}: the query has shape {shape_text(query.shape)}, the key {shape_text(key.shape)}",
                rule=f"axis {batch} of both is the batch and must be the same.",
                hint="With batch_first=True the batch is the first axis.",
            )

    def _projected(self, query: Tensor, key: Tensor, value: Tensor, swapped: bool) -> list[Tensor]:
        """Queries, keys and values (batch, length, embed_dim)."""
        joint = getattr(self, "in_proj_weight", None)
        if joint is not None and query is key is value:
            x: Tensor = (query.swapaxes(0, 1) if swapped else query) @ joint.T
            return (x if self.in_proj_bias is None else x + self.in_proj_bias).split(3, axis=-1)
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight] if joint is None else joint.split(3)
        found = [(x.swapaxes(0, 1) if swapped else x) @ w.T for x, w in zip((query, key, value), weights, strict=True)]
        if self.in_proj_bias is None:
            return found
        return [x + bias for x, bias in zip(found, self.in_proj_bias.split(3), strict=True)]

    def _more_keys(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """With a learned key, or a key of zeros, or both, after the last."""
        shape = (*x.shape[:-2], 1, self.embed_dim)
        added = [] if bias is None else [bias[0].broadcast_to(shape).astype(x.dtype)]
        if self.add_zero_attn:
            added.append(zeros(shape, dtype=x.dtype))
        return concat([x, *added], axis=-2) if added else x


def _for_scores(mask: Tensor | None, scores: tuple[int, ...]) -> Tensor | None:
    """A mask of queries and keys, (queries, keys) or (batch * heads, queries, keys), in the rank of the scores."""
    if mask is None:
        return None
    _check_mask(mask, "attn_mask")
    if mask.shape == scores[-2:]:
        return mask
    rows = math.prod(scores[:-2])
    return shaped(mask, "MultiheadAttention", "attn_mask", (rows, *scores[-2:])).reshape(scores)


def _for_keys(mask: Tensor | None, scores: tuple[int, ...]) -> Tensor | None:
    """A mask of keys, (batch, keys) or (keys), in the rank of the scores."""
    if mask is None:
        return None
    _check_mask(mask, "key_padding_mask")
    shaped(mask, "MultiheadAttention", "key_padding_mask", (*scores[:-3], scores[-1]))
    return mask.expand_dims(-2).expand_dims(-2)


def _check_mask(mask: Tensor, what: str) -> None:
    if not isinstance(mask, Tensor):
        raise no_tensor(mask, "MultiheadAttention", what)
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise DTypeError(
            f"MultiheadAttention: {what} is {mask.dtype}", rule="it must be bool (True hides) or a float that is added."
        )


def _allowed(hidden: list[Tensor], like: Tensor) -> Tensor | None:
    """The mask that `attention` takes for PyTorch's masks: bools say which keys count, floats are added."""
    if not hidden:
        return None
    if all(mask.dtype.is_bool for mask in hidden):
        joint = hidden[0]
        for mask in hidden[1:]:
            joint = joint | mask
        return ~joint
    added = [where(m, -math.inf, 0.0) if m.dtype.is_bool else m for m in hidden]
    total = added[0].astype(like.dtype)
    for mask in added[1:]:
        total = total + mask.astype(like.dtype)
    return total


class Attention(Module):
    """Self-attention as present language models have it, over (..., length, embed_dim).

    Groups of heads share keys and values where `num_kv_heads` is smaller than `num_heads`. `rope` turns queries and
    keys by their positions; `qk_norm` normalizes them first, head by head. A bool mask says which keys a query may see;
    a float mask is added to the scores.

    >>> import smelt as sm
    >>> layer = sm.nn.Attention(32, 4, num_kv_heads=2, rope=sm.nn.RotaryEmbedding(8), qk_norm=True)
    >>> layer(sm.ones(2, 5, 32)).shape
    (2, 5, 32)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        *,
        head_dim: int | None = None,
        causal: bool = True,
        bias: bool = False,
        rope: RotaryEmbedding | None = None,
        qk_norm: bool = False,
        eps: float = 1e-6,
        dropout: float = 0.0,
    ) -> None:
        self.embed_dim = count(embed_dim, "Attention", "embed_dim", least=1)
        self.num_heads = count(num_heads, "Attention", "num_heads", least=1)
        shared = num_heads if num_kv_heads is None else num_kv_heads
        self.num_kv_heads = count(shared, "Attention", "num_kv_heads", least=1)
        if num_heads % shared:
            raise ArgumentError(
                f"Attention: num_kv_heads is {shared}", rule=f"num_heads, which is {num_heads}, must be a multiple."
            )
        size = _divided(embed_dim, num_heads, "Attention") if head_dim is None else head_dim
        self.head_dim = count(size, "Attention", "head_dim", least=1)
        if rope is not None and not isinstance(rope, RotaryEmbedding):
            raise ArgumentError(
                f"Attention: rope is of type {type(rope).__name__}", rule="it must be a RotaryEmbedding."
            )
        if rope is not None and rope.dim > size:
            raise ArgumentError(f"Attention: rope turns {rope.dim} features", rule=f"a head has {size}.")
        self.causal, self.dropout = flag(causal, "Attention", "causal"), Dropout(dropout).p
        self.q_proj = Linear(embed_dim, num_heads * size, bias)
        self.k_proj = Linear(embed_dim, shared * size, bias)
        self.v_proj = Linear(embed_dim, shared * size, bias)
        self.o_proj = Linear(num_heads * size, embed_dim, bias)
        normalized = flag(qk_norm, "Attention", "qk_norm")
        self.q_norm = RMSNorm(size, eps=eps) if normalized else None
        self.k_norm = RMSNorm(size, eps=eps) if normalized else None
        self.rope = rope

    def __call__(self, x: Tensor, mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return self._attended(*self._heads(x, positions), mask, self.causal)

    def init_cache(self, batch: int | tuple[int, ...] | None, length: int, dtype: DTypeLike | None = None) -> Cache:
        """An empty cache for `length` tokens of a batch, which `extend` fills; None: the input has no batch axis."""
        kind = self.k_proj.weight.dtype if dtype is None else dtype
        return empty_cache(batch, self.num_kv_heads, length, self.head_dim, kind, "Attention")

    def extend(self, x: Tensor, cache: Cache, mask: Tensor | None = None) -> tuple[Tensor, Cache]:
        """The output for the next tokens of a text, and the cache with them; what came before is not computed again.

        >>> import smelt as sm
        >>> layer, x = sm.nn.Attention(32, 4, rope=sm.nn.RotaryEmbedding(8)), sm.random.normal((2, 5, 32))
        >>> first, cache = layer.extend(x[:, :3], layer.init_cache(2, 16))
        >>> second, cache = layer.extend(x[:, 3:], cache)
        >>> sm.allclose(sm.concat([first, second], axis=1), layer(x), atol=1e-5).item(), cache.length.item()
        (True, 5)
        """
        before = checked_cache(cache, "Attention")
        floats(x, "Attention", "the input", (2, 3, 4), self.embed_dim)
        tokens = x.shape[-2]
        q, k, v = self._heads(x, before.positions(tokens))
        after = before.extended(k, v)
        seen = before.visible(tokens, self.causal, mask)
        return self._attended(q, after.keys, after.values, seen, False), after

    def _heads(self, x: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (..., heads, length, features)."""
        floats(x, "Attention", "the input", (2, 3, 4), self.embed_dim)
        q = _heads_apart(self.q_proj(x), self.num_heads)
        k, v = (_heads_apart(layer(x), self.num_kv_heads) for layer in (self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rope is not None:
            q, k = self.rope(q, positions), self.rope(k, positions)
        return q, k, v

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        if self.training and self.dropout:
            taken = _taken(Dropout(self.dropout)(_weights(q, k, mask, causal)), v)
        else:
            taken = attention(q, k, v, mask, causal=causal)
        return self.o_proj(_heads_together(taken))
