"""Compiled steps of a decoder over a cache of pages: chunks of a prompt, and one token for each of a batch.

Sizes are static, and what does not fill one is padded: rows of padding write behind the end of a text, or to page 0,
which no text has. Each size is compiled at its first use, or before by `parts`. Weights and cache are bound to
the step: a call flattens nothing, and the cache belongs to this object alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt import tree
from smelt.errors import ArgumentError, ContextLengthError
from smelt.llm.cache import PAGE, Cache, empty_cache, pages_of
from smelt.llm.decoder import Decoder
from smelt.tensor import DTypeLike

CHUNKS: Final = (32, 256)  # tokens of a prompt; each is a program to be compiled, and traced in every process
# Rows for each number of slots: few sizes, the others are padded.
BATCHES: Final = {
    1: (1,),
    2: (1, 2),
    4: (1, 2, 4),
    8: (1, 2, 4, 8),
    16: (1, 4, 8, 16),
    32: (1, 4, 16, 32),
    64: (1, 8, 32, 64),
}


class DecoderPrograms:
    """Steps of one model, for at most `slots` texts of at most `context` tokens at once; `rows` may be more than that,
    for several tokens of a text in one step.
    """

    def __init__(
        self,
        model: Decoder,
        slots: int = 1,
        context: int = 2048,
        chunks: Sequence[int] = CHUNKS,
        dtype: DTypeLike = sm.float32,
        rows: int = 1,
    ) -> None:
        if not 1 <= slots <= max(BATCHES):
            raise ArgumentError(f"there are {slots} slots", rule=f"there are 1 to {max(BATCHES)}.")
        if not 2 <= context <= model.config.context:
            raise ArgumentError(
                f"the context is {context}", rule=f"it is at least 2, and this model has {model.config.context}."
            )
        self.slots, self.context, self.vocabulary = slots, context, model.config.vocabulary
        self.page, self.pages = PAGE, 1 + slots * pages_of(context)  # positions of a page; how many there are
        self._row = context // PAGE + 1  # pages in a row of pages: room for padding behind the longest text
        self.chunks: Sequence[int] = tuple(size for size in chunks if size <= context) or chunks[:1]
        self.batches: Sequence[int] = next(sizes for most, sizes in BATCHES.items() if most >= max(slots, rows))
        self._all = {size: np.arange(size, dtype=np.int32) for size in self.batches}  # rows that have logits
        self.config, self._dtype = model.config, dtype  # of keys and values in the cache
        leaves, structure = tree.flatten(model)
        self._weights = tuple(leaves)
        # What a step reads: of an embedding that does not also make the logits, only some rows.
        table = 0 if model.config.tied else sum(leaf.nbytes for leaf in tree.flatten(model.embedding)[0])
        tensors = {id(leaf): leaf.nbytes for leaf in leaves if isinstance(leaf, sm.Tensor)}  # one may be in two places
        self.weight_bytes = sum(tensors.values()) - table

        def embedded(model: Decoder, tokens: Any, positions: Any) -> Any:
            return model.embedded(tokens, sm.minimum(positions, model.config.context - 1))  # padding may lie behind it

        def run(weights: Any, cache: Cache, *given: Any) -> Any:
            if len(given) == 2:  # a page, and where to copy it: no step, but what else becomes of the same cache
                return (cache.copied(*given),)
            tokens, positions, pages, wanted = given
            model = tree.unflatten(structure, list(weights))
            # Given back, so that they are stored: embeddings that are computed again where they are read are added up
            # in another order by batches, and a batch would not give the bits of a row alone.
            rows = embedded(model, tokens, positions)
            return (*model.continued(cache, rows, positions, pages, wanted), rows)

        def hidden(weights: Any, cache: Cache, tokens: Any, positions: Any, pages: Any) -> Any:
            model = tree.unflatten(structure, list(weights))
            model.config, model.head = replace(model.config, logit_softcap=0.0), lambda x: x
            rows = embedded(model, tokens, positions)
            return model.continued(cache, rows, positions, pages, sm.arange(tokens.shape[0], dtype=sm.int32))

        self._hidden, self._step = sm.jit(hidden, donate=(1,)), sm.jit(run, donate=(1,))
        self.reset()

    def reset(self) -> None:
        """Forget all texts: a new cache."""
        self._bound: Any = None  # there may be no room for two
        self._embedding: Any = None  # with a cache of its own, once somebody asks
        cache = empty_cache(self.config, self.pages, self._dtype)
        self.cache_bytes: int = sum(part.nbytes for part in tree.flatten(cache)[0])
        self._bound = self._step.bind(self._weights, cache)

    def own(self, slot: int) -> list[int]:
        """The pages of a text, where each slot has some for itself."""
        count = pages_of(self.context)
        return list(range(1 + slot * count, 1 + (slot + 1) * count))

    def read(self, pages: Sequence[int], start: int, tokens: Sequence[int]) -> sm.Tensor:
        """Read tokens of a text with these pages from position `start` on; the logits behind the last, as one row."""
        logits: sm.Tensor = self._bound(*self._padded(pages, start, tokens))[0]
        return logits

    def _padded(self, pages: Sequence[int], start: int, tokens: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        """Tokens, positions, pages and the last row of a chunk."""
        size = next(size for size in self.chunks if len(tokens) <= size)
        padded = np.zeros(size, np.int32)
        padded[: len(tokens)] = tokens
        positions = np.minimum(np.arange(start, start + size, dtype=np.int32), self.context)
        numbers = np.zeros(self._row, np.int32)
        numbers[: len(pages)] = pages
        return padded, positions, numbers, np.array([len(tokens) - 1], np.int32)

    def extend(self, rows: Sequence[tuple[Sequence[int], int, int]]) -> sm.Tensor:
        """Read one token each, as (pages, position, token); a row of logits for each, and for padding behind them."""
        size = next(size for size in self.batches if len(rows) <= size)
        tokens, positions = np.zeros(size, np.int32), np.zeros(size, np.int32)
        pages = np.zeros((size, self._row), np.int32)
        for row, (numbers, position, token) in enumerate(rows):
            tokens[row], positions[row], pages[row, : len(numbers)] = token, position, numbers
        logits: sm.Tensor = self._bound(tokens, positions, pages, self._all[size])[0]
        return logits

    def copy(self, source: int, target: int) -> None:
        """Copy a page onto another one."""
        self._bound(np.array(source, np.int32), np.array(target, np.int32))

    def parts(self) -> list[Callable[[], Any]]:
        """What compiles each size and copies: the smallest chunk and batch first, as a first request needs both."""
        reads = [partial(self.read, (), 0, [0] * size) for size in self.chunks]
        extends = [partial(self.extend, [((), 0, 0)] * size) for size in self.batches]
        return [*reads[:1], *extends[:1], partial(self.copy, 0, 0), *reads[1:], *extends[1:]]

    def embed(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The mean over a text of what the model makes of each token, (width,) and of length 1."""
        if not 0 < len(tokens) <= self.context:
            raise ContextLengthError(f"the text has {len(tokens)} tokens", rule=f"it has 1 to {self.context}.")
        if self._embedding is None:
            cache = empty_cache(self.config, 1 + pages_of(self.context), self._dtype)
            self._embedding = self._hidden.bind(self._weights, cache)
        total = np.zeros(self.config.width, np.float64)
        for start in range(0, len(tokens), self.chunks[-1]):
            piece = tokens[start : start + self.chunks[-1]]
            padded, positions, pages, _ = self._padded(self.own(0), start, piece)
            rows = self._embedding(padded, positions, pages)
            total += rows.numpy()[: len(piece)].sum(axis=0, dtype=np.float64)
        return (total / max(float(np.linalg.norm(total)), 1e-30)).astype(np.float32)
