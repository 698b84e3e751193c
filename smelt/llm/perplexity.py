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

__all__ = ["Perplexity", "perplexity", "perplexities"]


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
    ids = np.asarray(tokens, np.int32)
    chunks = len(ids) // context if context >= 4 else 0
    if not chunks or context > model.config.context:
        raise ArgumentError(
            f"perplexity: {len(ids)} tokens in chunks of {context}",
            rule=f"there must be a whole one of 4 to {model.config.context} tokens.",
        )
    if ids.min() < 0 or ids.max() >= model.config.vocabulary:
        raise ArgumentError("perplexity: a token is outside of the vocabulary", hint="Is it the model's tokenizer?")
    first, total, count = context // 2, 0.0, 0
    cache, losses = empty_cache(model.config, pages_of(context), dtype), sm.jit(_losses, donate=(1,))
    for number in range(chunks):
        chunk = ids[number * context : (number + 1) * context].copy()
        following = chunk[first + 1 :].copy()
        chunk[0] = chunk[0] if bos is None else bos
        cache, found = losses(model, cache, sm.from_numpy(chunk), sm.from_numpy(following))
        total, count = total + float(found.numpy().astype(np.float64).sum()), count + len(following)
        yield Perplexity(math.exp(total / count), number + 1, count)


def _losses(model: Decoder, cache: Cache, chunk: Tensor, following: Tensor) -> tuple[Cache, Tensor]:
    """For each token that is scored, the negative logarithm of its probability."""
    rows = chunk.shape[0]
    wanted = sm.arange(rows - 1 - following.shape[0], rows - 1, dtype=sm.int32)
    positions = sm.arange(rows, dtype=sm.int32)
    pages = sm.arange(cache.values[0].shape[0], dtype=sm.int32)
    cache, logits = step(model, cache, chunk, positions, pages, wanted)
    return cache, sm.nn.losses.cross_entropy(logits, following, reduction="none")
