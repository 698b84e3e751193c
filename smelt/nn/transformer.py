"""Transformers with PyTorch's arguments and names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.nn.attention import MultiheadAttention
from smelt.nn.cache import Cache
from smelt.nn.containers import ModuleList
from smelt.nn.dropout import Dropout
from smelt.nn.inputs import floats
from smelt.nn.linear import Linear
from smelt.nn.module import Module
from smelt.nn.normalization import LayerNorm
from smelt.nn.sizes import count
from smelt.tensor import DTypeLike, Tensor, flag, full, gelu, random, relu, triu

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu}


class _Layer(Module):
    """What layers of encoders and decoders share: sublayers with a sum around and a normalization before or after."""

    def init_cache(self, batch: int | None, length: int, dtype: DTypeLike | None = None) -> Cache:
        """An empty cache for `length` tokens of a batch, which `extend` fills; None: the input has no batch axis."""
        return self.self_attn.init_cache(batch, length, dtype)

    def _extended(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Causal self-attention to what the cache holds, with a sum around it."""
        held = [cache]

        def attended(inner: Tensor) -> Tensor:
            output, held[0] = self.self_attn.extend(inner, cache)
            return output

        return self._around(1, x, attended), held[0]

    def _begin(self, d_model: int, nhead: int, dropout: float, batch_first: bool, bias: bool) -> None:
        name = type(self).__name__
        count(d_model, name, "d_model", least=1)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)

    def _end(
        self, d_model: int, wide: int, dropout: float, activation: Activation, eps: float, norm_first: bool, bias: bool
    ) -> None:
        name = type(self).__name__
        self.linear1 = Linear(d_model, count(wide, name, "dim_feedforward", least=1), bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(wide, d_model, bias)
        self.norm_first = flag(norm_first, name, "norm_first")
        for k in range(1, 4 if hasattr(self, "multihead_attn") else 3):
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=eps, bias=bias))
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _activation(activation, name)

    def _around(self, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        result: Tensor = x + dropout(sublayer(norm(x))) if self.norm_first else norm(x + dropout(sublayer(x)))
        return result

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _activation(given: Activation, name: str) -> Callable[[Tensor], Tensor]:
    if isinstance(given, str) and given in _ACTIVATIONS:
        return _ACTIVATIONS[given]
    if isinstance(given, str) or not callable(given):
        raise ArgumentError(
            f"{name}: activation is {given!r:.80}", rule=f"it must be a function, or {' or '.join(_ACTIVATIONS)}."
        )
    return given


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a sum around it and a normalization.

    >>> import smelt as sm
    >>> layer = sm.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(sm.ones(3, 5, 8)).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        self._begin(d_model, nhead, dropout, batch_first, bias)
        self._end(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias)

    def __call__(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        floats(src, "TransformerEncoderLayer", "src", (2, 3), self.self_attn.embed_dim)

        def attended(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._around(2, self._around(1, src, attended), self._feed_forward)

    def extend(self, src: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The output for the next tokens, each of which sees the ones before it, and the cache with them."""
        floats(src, "TransformerEncoderLayer", "src", (2, 3), self.self_attn.embed_dim)
        x, after = self._extended(src, cache)
        return self._around(2, x, self._feed_forward), after


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to what an encoder gave, and a feed-forward network.

    >>> import smelt as sm
    >>> layer = sm.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(sm.ones(3, 5, 8), sm.ones(3, 7, 8), tgt_is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        self._begin(d_model, nhead, dropout, batch_first, bias)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self._end(d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias)

    def __call__(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        floats(tgt, "TransformerDecoderLayer", "tgt", (2, 3), self.self_attn.embed_dim)
        floats(memory, "TransformerDecoderLayer", "memory", (tgt.ndim,), self.self_attn.embed_dim)

        def attended(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def remembered(x: Tensor) -> Tensor:
            mask, padding = memory_mask, memory_key_padding_mask
            return self.multihead_attn(x, memory, memory, padding, False, mask, is_causal=memory_is_causal)[0]

        return self._around(3, self._around(2, self._around(1, tgt, attended), remembered), self._feed_forward)

    def extend(
        self,
        tgt: Tensor,
        memory: Tensor,
        cache: Cache,
        memory_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """The output for the next tokens, each of which sees the ones before it, and the cache with them.

        >>> import smelt as sm
        >>> layer = sm.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True).eval()
        >>> memory, x = sm.random.normal((3, 7, 8)), sm.random.normal((3, 5, 8))
        >>> output, cache = layer.extend(x, memory, layer.init_cache(3, 16))
        >>> sm.allclose(output, layer(x, memory, tgt_is_causal=True), atol=1e-5).item()
        True
        """
        floats(tgt, "TransformerDecoderLayer", "tgt", (2, 3), self.self_attn.embed_dim)
        floats(memory, "TransformerDecoderLayer", "memory", (tgt.ndim,), self.self_attn.embed_dim)

        def remembered(x: Tensor) -> Tensor:
            return self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)[0]

        x, after = self._extended(tgt, cache)
        return self._around(3, self._around(2, x, remembered), self._feed_forward), after


class _Stack(Module):
    """Layers like a given one, one after the other, and perhaps a normalization at the end."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        name = type(self).__name__
        if not isinstance(layer, Module):
            raise ArgumentError(f"{name}: the layer is of type {type(layer).__name__}", rule="it must be a module.")
        self.num_layers = count(num_layers, name, "num_layers", least=1)
        # Tensors of its own for each layer: the same ones would be tied.
        self.layers = ModuleList(layer.map(lambda tensor: tensor.astype(tensor.dtype)) for _ in range(num_layers))
        self.norm = norm

    def init_cache(self, batch: int | None, length: int, dtype: DTypeLike | None = None) -> tuple[Cache, ...]:
        """Empty caches for `length` tokens of a batch, one for each layer; `extend` fills them."""
        return tuple(layer.init_cache(batch, length, dtype) for layer in self.layers)

    def _extended(self, x: Tensor, caches: Sequence[Cache], *memory: Any) -> tuple[Tensor, tuple[Cache, ...]]:
        if len(caches) != len(self.layers):
            raise ArgumentError(
                f"{type(self).__name__}: {len(caches)} caches for {len(self.layers)} layers",
                hint="Make them with init_cache(batch, length).",
            )
        after: list[Cache] = []
        for layer, cache in zip(self.layers, caches, strict=True):
            first, *masks = memory or (None,)
            x, one = layer.extend(x, first, cache, *masks) if memory else layer.extend(x, cache)
            after.append(one)
        return (x if self.norm is None else self.norm(x)), tuple(after)


class TransformerEncoder(_Stack):
    """Encoder layers, one after the other, which begin as copies of the one that is given.

    >>> import smelt as sm
    >>> encoder = sm.nn.TransformerEncoder(sm.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16), num_layers=2)
    >>> encoder(sm.ones(5, 3, 8), is_causal=True).shape
    (5, 3, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def __call__(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)

    def extend(self, src: Tensor, cache: Sequence[Cache]) -> tuple[Tensor, tuple[Cache, ...]]:
        """The output for the next tokens, each of which sees the ones before it, and the caches with them."""
        return self._extended(src, cache)


class TransformerDecoder(_Stack):
    """Decoder layers, one after the other, which begin as copies of the one that is given.

    >>> import smelt as sm
    >>> decoder = sm.nn.TransformerDecoder(sm.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16), num_layers=2)
    >>> decoder(sm.ones(5, 3, 8), sm.ones(7, 3, 8)).shape
    (5, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def __call__(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)

    def extend(
        self,
        tgt: Tensor,
        memory: Tensor,
        cache: Sequence[Cache],
        memory_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Cache, ...]]:
        """The output for the next tokens, each of which sees the ones before it, and the caches with them."""
        return self._extended(tgt, cache, memory, memory_mask, memory_key_padding_mask)


class Transformer(Module):
    """An encoder, and a decoder that attends to what it gives.

    >>> import smelt as sm
    >>> net = sm.nn.Transformer(8, 2, 1, 1, dim_feedforward=16, batch_first=True)
    >>> net(sm.ones(3, 7, 8), sm.ones(3, 5, 8), tgt_is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        self.d_model, self.nhead = count(d_model, "Transformer", "d_model", least=1), nhead
        self.batch_first = flag(batch_first, "Transformer", "batch_first")
        layer: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer = (*layer, batch_first, norm_first, bias)
        norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias)
        encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm)
        decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer), num_decoder_layers, norm.map(lambda tensor: tensor.astype(tensor.dtype))
        )
        self.encoder, self.decoder = encoder.map(_anew), decoder.map(_anew)

    def __call__(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        floats(src, "Transformer", "src", (2, 3), self.d_model)
        floats(tgt, "Transformer", "tgt", (src.ndim,), self.d_model)
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError(
                f"Transformer: src has shape {shape_text(src.shape)}, tgt {shape_text(tgt.shape)}",
                rule=f"axis {batch} of both is the batch and must be the same.",
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        result: Tensor = self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)
        return result

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> Tensor:
        """A float mask that hides what comes later; `is_causal` does the same without one.

        >>> import smelt as sm
        >>> sm.nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        return triu(full((sz, sz), -math.inf), 1)


def _anew(tensor: Tensor) -> Tensor:
    """Matrices drawn anew, so that layers begin different from each other."""
    return random.xavier_uniform(tensor.shape, dtype=tensor.dtype) if tensor.ndim > 1 else tensor
