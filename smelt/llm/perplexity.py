"""How surprised a model is by a text: llama.cpp's convention, so that figures can be compared.

The tokens are cut into chunks of `context`, each read from an empty cache; what is left over is dropped. Only the
second half of a chunk counts, where every token has at least half a chunk before it. If texts of the model begin with a
token, it takes the place of the first of each chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import smelt as sm
from smelt.errors import ArgumentError
from smelt.llm.cache import Cache, empty_cache, pages_of
from smelt.llm.decoder import Decoder, step
from smelt.tensor import DTypeLike, Tensor

__all__ = ["Agreement", "Perplexity", "agreements", "perplexities", "perplexity"]


class Perplexity(NamedTuple):
    """The perplexity of the tokens scored so far, and how many chunks and tokens that were."""

    value: float
    chunks: int
    tokens: int


def perplexity(model: Decoder, tokens: Sequence[int], context: int = 512, bos: int | None = None) -> Perplexity:
    """The perplexity of a text of tokens.

    >>> from smelt.llm.config import ModelConfig, Rope
    >>> from smelt.llm.weights import random_model
    >>> config = ModelConfig("llama", 1, 8, 2, 1, 4, 16, 32, 64, 1e-5, Rope(4))
    >>> result = perplexity(random_model(config), [1, 5, 3] * 12, context=16)
    >>> round(result.value), result.chunks, result.tokens
    (32, 2, 14)
    """
    return list(perplexities(model, tokens, context, bos))[-1]


def perplexities(
    model: Decoder,
    tokens: Sequence[int],
    context: int = 512,
    bos: int | None = None,
    dtype: DTypeLike = sm.float32,
) -> Iterator[Perplexity]:
    """The same after each chunk, while they are computed, with keys and values of a dtype."""
    total, count = 0.0, 0
    cache, losses = empty_cache(model.config, pages_of(context), dtype), sm.jit(_losses, donate=(1,))
    for number, (chunk, following) in enumerate(_chunks(model, tokens, context, bos)):
        cache, found = losses(model, cache, chunk, following)
        total, count = total + float(found.numpy().astype(np.float64).sum()), count + following.shape[0]
        yield Perplexity(math.exp(total / count), number + 1, count)


class Agreement(NamedTuple):
    """How near a model is to a reference on the tokens scored so far: both perplexities, the share of tokens before
    which both find the same token most likely, and the mean divergence (Kullback-Leibler, in nats) of the model's
    probabilities from the reference's.
    """

    value: float
    reference: float
    same_token: float
    divergence: float
    chunks: int
    tokens: int


def agreements(
    model: Decoder,
    reference: Decoder,
    tokens: Sequence[int],
    context: int = 512,
    bos: int | None = None,
    dtype: DTypeLike = sm.float32,
) -> Iterator[Agreement]:
    """How near a model, with keys and values of a dtype, is to another one of the same tokens after each chunk, both
    reading the same text. The reference keeps float32.

    >>> from smelt.llm.config import ModelConfig, Rope
    >>> from smelt.llm.weights import random_model
    >>> model = random_model(ModelConfig("llama", 1, 8, 2, 1, 4, 16, 32, 64, 1e-5, Rope(4)))
    >>> found = list(agreements(model, model, [1, 5, 3] * 12, context=16))[-1]
    >>> found.same_token, found.divergence, found.chunks
    (1.0, 0.0, 2)
    """
    if model.config.vocabulary != reference.config.vocabulary or context > reference.config.context:
        raise ArgumentError(
            f"agreements: {reference.config.vocabulary} tokens, {reference.config.context} positions in the reference",
            rule="both models read the same tokens, and have room for a whole chunk.",
        )
    both, step_of, compared = (model, reference), sm.jit(_logits, donate=(1,)), sm.jit(_compared)
    caches = [
        empty_cache(one.config, pages_of(context), kind) for one, kind in zip(both, (dtype, sm.float32), strict=True)
    ]
    totals, count = np.zeros(4), 0
    for number, (chunk, following) in enumerate(_chunks(model, tokens, context, bos)):
        found = []
        for place, one in enumerate(both):
            caches[place], logits = step_of(one, caches[place], chunk, following)
            found.append(logits)
        totals += [part.numpy().astype(np.float64).sum() for part in compared(found[0], found[1], following)]
        count += following.shape[0]
        own, other, same, divergence = (totals / count).tolist()
        yield Agreement(math.exp(own), math.exp(other), same, divergence, number + 1, count)


def _chunks(model: Decoder, tokens: Sequence[int], context: int, bos: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    """The tokens of each chunk, and those of it that are scored."""
    ids = np.asarray(tokens, np.int32)
    chunks = len(ids) // context if context >= 4 else 0
    if not chunks or context > model.config.context:
        raise ArgumentError(
            f"perplexity: {len(ids)} tokens in chunks of {context}",
            rule=f"there must be a whole one of 4 to {model.config.context} tokens.",
        )
    if ids.min() < 0 or ids.max() >= model.config.vocabulary:
        raise ArgumentError("perplexity: a token is outside of the vocabulary", hint="Is it the model's tokenizer?")
    for start in range(0, chunks * context, context):
        chunk = ids[start : start + context].copy()
        following = chunk[context // 2 + 1 :].copy()
        chunk[0] = chunk[0] if bos is None else bos
        yield sm.from_numpy(chunk), sm.from_numpy(following)


def _logits(model: Decoder, cache: Cache, chunk: Tensor, following: Tensor) -> tuple[Cache, Tensor]:
    """The logits before each token that is scored."""
    rows = chunk.shape[0]
    wanted = sm.arange(rows - 1 - following.shape[0], rows - 1, dtype=sm.int32)
    positions = sm.arange(rows, dtype=sm.int32)
    pages = sm.arange(cache.values[0].shape[0], dtype=sm.int32)
    return step(model, cache, chunk, positions, pages, wanted)


def _losses(model: Decoder, cache: Cache, chunk: Tensor, following: Tensor) -> tuple[Cache, Tensor]:
    """For each token that is scored, the negative logarithm of its probability."""
    cache, logits = _logits(model, cache, chunk, following)
    return cache, sm.nn.losses.cross_entropy(logits, following, reduction="none")


def _compared(logits: Tensor, reference: Tensor, following: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For each token, both losses, whether both find the same token most likely, and the divergence."""
    losses = [sm.nn.losses.cross_entropy(one, following, reduction="none") for one in (logits, reference)]
    own, other = (one.log_softmax(-1) for one in (logits, reference))
    same = (logits.argmax(-1) == reference.argmax(-1)).astype(sm.float32)
    return losses[0], losses[1], same, (other.exp() * (other - own)).sum(-1)
