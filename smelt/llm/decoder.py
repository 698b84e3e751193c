"""One decoder for all families: plain tensor code over modules of `sm.nn`, switched by a `ModelConfig`.

Rows are tokens, flat over all texts: (rows, width). `step` appends the keys and values of its rows to a cache and lets
each row see what its own text holds up to its position, so a chunk of a prompt, one token of each of many texts, or any
mixture are the same program with other numbers. Positions and pages are data, never sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from smelt.dtypes import int32
from smelt.llm.cache import Cache
from smelt.llm.config import ModelConfig
from smelt.nn import Module, RotaryEmbedding
from smelt.tensor import Tensor, arange, concat, einsum, gelu, silu, softmax, tanh, where

__all__ = ["Attention", "Beside", "Block", "Decoder", "Layer", "MixtureOfExperts", "Mlp", "step"]

_ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
}


class Turning(NamedTuple):
    """Cosines and sines of the positions of a step, which all layers share, and the module that turns by them."""

    rope: RotaryEmbedding
    cos: Tensor
    sin: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Queries or keys (heads, rows, features), turned by their positions."""
        return self.rope.turned(x, self.cos, self.sin)


class Layer(Protocol):
    """A module from rows to rows: linear, a norm or an embedding, also one whose weights are quantized."""

    def __call__(self, x: Tensor, /) -> Tensor: ...


class Beside(Module):
    """Layers that read the same rows, their results side by side: weights of several formats."""

    def __init__(self, layers: list[Layer], bias: Tensor | None = None) -> None:
        self.layers, self.bias = layers, bias

    def __call__(self, x: Tensor) -> Tensor:
        found = concat([layer(x) for layer in self.layers], axis=-1)
        return found if self.bias is None else found + self.bias


class Attention(Module):
    """Queries of rows over the keys and values that their texts have in the cache."""

    def __init__(
        self,
        config: ModelConfig,
        layer: int,
        qkv: Layer,
        out: Layer,
        q_norm: Layer | None = None,
        k_norm: Layer | None = None,
    ) -> None:
        self.qkv, self.out, self.q_norm, self.k_norm = qkv, out, q_norm, k_norm
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.layer, self.window, self.softcap = layer, config.window(layer), config.attention_softcap
        self.scale = config.scale or config.head_dim**-0.5

    def __call__(
        self, x: Tensor, cache: Cache, positions: Tensor, pages: Tensor, turn: Turning | None
    ) -> tuple[Tensor, Cache]:
        rows = x.shape[0]
        # (heads, rows, features), as RoPE takes them
        apart = self.qkv(x).reshape(rows, self.heads + 2 * self.kv_heads, self.head_dim).swapaxes(0, 1)
        q, k, v = apart.split([self.heads, self.heads + self.kv_heads])
        q = q if self.q_norm is None else self.q_norm(q)
        k = k if self.k_norm is None else self.k_norm(k)
        if turn is not None:
            q, k = turn(q), turn(k)
        cache = cache.appended(self.layer, pages, positions, k.swapaxes(0, 1), v.swapaxes(0, 1))
        keys, values = cache.held(self.layer, pages)
        # Where all rows are of one text, its keys serve all of them; else each row has those of its own.
        own = "" if keys.ndim == 3 else "r"
        q = (q * self.scale).reshape(self.kv_heads, self.heads // self.kv_heads, rows, self.head_dim)
        scores = einsum(f"kgrd,{own}knd->kgrn", q, keys.astype(q.dtype))
        if self.softcap:
            scores = self.softcap * tanh(scores / self.softcap)
        weights = softmax(where(self._seen(positions, keys.shape[-2]), scores, -math.inf), axis=-1)
        taken = einsum(f"kgrn,{own}knd->rkgd", weights, values.astype(q.dtype))
        return self.out(taken.reshape(rows, self.heads * self.head_dim)), cache

    def _seen(self, positions: Tensor, length: int) -> Tensor:
        """Which keys (rows, length) a row sees: those up to its own, inside the window."""
        places, last = arange(length, dtype=int32), positions.expand_dims(-1)
        seen = places <= last
        return seen & (places > last - self.window) if self.window else seen


class Mlp(Module):
    """down(activation(gate(x)) * up(x)), gate and up as one layer; without a gate, down(activation(up(x)))."""

    def __init__(self, config: ModelConfig, up: Layer, down: Layer) -> None:
        self.up, self.down = up, down
        self.activation, self.gated = config.activation, config.gated

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(_activated(self.up(x), self.activation, self.gated))


def _activated(x: Tensor, activation: str, gated: bool) -> Tensor:
    if not gated:
        return _ACTIVATIONS[activation](x)
    gate, up = x.split(2, axis=-1)
    return _ACTIVATIONS[activation](gate) * up


class MixtureOfExperts(Module):
    """The experts that a router finds best for a row, by their shares. All experts are computed: weights are
    (experts, out, in), and what is not chosen has a share of 0.
    """

    def __init__(self, config: ModelConfig, router: Layer, up: Tensor, down: Tensor) -> None:
        self.router, self.up, self.down = router, up, down
        self.activation, self.experts = config.activation, config.experts

    def __call__(self, x: Tensor) -> Tensor:
        assert self.experts is not None
        odds = softmax(self.router(x), axis=-1)
        best, chosen = odds.topk(self.experts.used)
        best = best / best.sum(axis=-1, keepdims=True) if self.experts.normalized else best
        numbers = arange(self.experts.count, dtype=chosen.dtype)
        shares = where(chosen.expand_dims(-1) == numbers, best.expand_dims(-1), 0.0).sum(axis=-2)
        inner = _activated(einsum("ri,eoi->reo", x, self.up), self.activation, True)
        return einsum("re,reo,eio->ri", shares, inner, self.down)


class Block(Module):
    """Attention and an MLP, each of a norm of the rows, added to them; some families normalize what is added, too."""

    def __init__(
        self,
        attention_norm: Layer,
        attention: Attention,
        mlp_norm: Layer,
        mlp: Mlp | MixtureOfExperts,
        attention_post_norm: Layer | None = None,
        mlp_post_norm: Layer | None = None,
    ) -> None:
        self.attention_norm, self.attention, self.attention_post_norm = attention_norm, attention, attention_post_norm
        self.mlp_norm, self.mlp, self.mlp_post_norm = mlp_norm, mlp, mlp_post_norm

    def __call__(
        self, x: Tensor, cache: Cache, positions: Tensor, pages: Tensor, turn: Turning | None
    ) -> tuple[Tensor, Cache]:
        found, cache = self.attention(self.attention_norm(x), cache, positions, pages, turn)
        x = x + (found if self.attention_post_norm is None else self.attention_post_norm(found))
        found = self.mlp(self.mlp_norm(x))
        return x + (found if self.mlp_post_norm is None else self.mlp_post_norm(found)), cache


class Decoder(Module):
    """A language model: tokens to logits. `places` are learned positions, where there is no RoPE."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Layer,
        blocks: list[Block],
        norm: Layer,
        head: Layer,
        places: Layer | None = None,
    ) -> None:
        self.config = config
        self.embedding, self.places, self.blocks, self.norm, self.head = embedding, places, blocks, norm, head
        self.rope = None if config.rope is None else config.rope.module()
        self.local_rope = self.rope if config.local_rope is None else config.local_rope.module()

    def __call__(
        self, cache: Cache, tokens: Tensor, positions: Tensor, pages: Tensor, wanted: Tensor
    ) -> tuple[Cache, Tensor]:
        return self.continued(cache, self.embedded(tokens, positions), positions, pages, wanted)

    def embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The rows (rows, width) that the first block reads."""
        x = self.embedding(tokens)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        return x if self.places is None else x + self.places(positions)

    def continued(
        self, cache: Cache, x: Tensor, positions: Tensor, pages: Tensor, wanted: Tensor
    ) -> tuple[Cache, Tensor]:
        """What becomes of `embedded` rows."""
        turn, local = (
            None if rope is None else Turning(rope, *rope.tables(positions, x)) for rope in (self.rope, self.local_rope)
        )
        for number, block in enumerate(self.blocks):
            x, cache = block(x, cache, positions, pages, local if self.config.window(number) else turn)
        logits = self.head(self.norm(x[wanted]))
        cap = self.config.logit_softcap
        return cache, cap * tanh(logits / cap) if cap else logits


def step(
    model: Decoder, cache: Cache, tokens: Tensor, positions: Tensor, pages: Tensor, wanted: Tensor
) -> tuple[Cache, Tensor]:
    """Some more tokens: the cache with them, and the logits (wanted, vocabulary) that follow the rows `wanted`.

    Tokens and positions are int32 (rows,). Positions continue what is there of a text; its rows may come in any order.
    `pages` says where in the cache the texts are, in one of two forms:

    - (count,): all rows are of one text, whose keys serve all of them. A chunk of a prompt.
    - (rows, count): the pages of the text of each row. Any mixture; the keys of its text are gathered for each row.

    Compile it with `sm.jit(step, donate=(1,))`, one for each number of rows: the cache is written in place.
    """
    return model(cache, tokens, positions, pages, wanted)
