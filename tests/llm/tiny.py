"""Small stand-ins: a model whose logits follow from its history, and a tokenizer whose tokens are bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import smelt as sm


class History:
    """A model whose logits are a function of all tokens before, which it keeps by page and place as a cache does.

    A token that is read at the wrong place, or a page that is not what it should be, changes what comes next.
    """

    chunks = (2, 4)

    def __init__(
        self,
        slots: int = 3,
        context: int = 64,
        vocabulary: int = 50,
        rows: int = 0,
        reach: int | None = None,
        page: int = 4,
    ) -> None:
        """At most `rows` in a step; logits follow from the last `reach` tokens, so that texts come to repeat."""
        self.reach = reach
        self.slots, self.context, self.vocabulary = slots, context, vocabulary
        self.page, self.pages = page, 1 + slots * -(-context // page)
        self.memory = np.full((self.pages, page), -1)
        self.cache_bytes = self.memory.nbytes
        self.batches = (slots, rows) if rows > slots else (slots,)
        self.extended: list[int] = []
        self.read_tokens = 0
        self.copies = 0
        self.fails = False

    def reset(self) -> None:
        self.memory[:] = -1

    def parts(self) -> list[Any]:
        return []

    def embed(self, tokens: Sequence[int]) -> np.ndarray:
        counts = np.bincount(tokens, minlength=self.vocabulary).astype(np.float32)
        return counts / np.linalg.norm(counts)

    def _logits(self, pages: Sequence[int], position: int) -> np.ndarray:
        history = self.memory[list(pages)].reshape(-1)[: position + 1]
        assert (history >= 0).all(), "a hole in the cache"
        seen = history if self.reach is None else history[-self.reach :]
        rng = np.random.default_rng(zlib.crc32(seen.tobytes()))
        return rng.normal(size=self.vocabulary).astype(np.float32)

    def _write(self, pages: Sequence[int], position: int, token: int) -> None:
        number = pages[position // self.page]
        assert number, "page 0 is nobody's"
        self.memory[number, position % self.page] = token

    def read(self, pages: Sequence[int], start: int, tokens: Sequence[int]):
        assert 1 <= len(tokens) <= self.chunks[-1]
        if self.fails:
            raise RuntimeError("the programs broke")
        for place, token in enumerate(tokens):
            self._write(pages, start + place, token)
        self.read_tokens += len(tokens)
        return sm.asarray(self._logits(pages, start + len(tokens) - 1)[None])

    def extend(self, rows: Sequence[tuple[Sequence[int], int, int]]):
        places = {(pages[position // self.page], position % self.page) for pages, position, _ in rows}
        assert len(places) == len(rows)
        size = next(size for size in self.batches if len(rows) <= size)
        self.extended.append(len(rows))
        for row in rows:
            self._write(*row)
        logits = [self._logits(pages, position) for pages, position, _ in rows]
        return sm.asarray(np.stack(logits + [logits[0]] * (size - len(rows))))  # padded, as programs do

    def copy(self, source: int, target: int) -> None:
        assert source, "page 0 is nobody's"
        assert target, "page 0 is nobody's"
        self.memory[target] = self.memory[source]
        self.copies += 1


class Slots(History):
    """A model with pages for each slot, as one that guesses for another has."""

    def own(self, slot: int) -> range:
        count = -(-self.context // self.page)
        return range(1 + slot * count, 1 + (slot + 1) * count)


class Bytes:
    """Tokens 0 to 127 are characters of ASCII, 128 ends an answer."""

    size = 129
    stops = frozenset({128})
    bos = None

    def encode(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]:
        return list(text.encode("ascii", "replace"))

    def decode(self, tokens: Iterable[int]) -> str:
        return b"".join(map(self.piece, tokens)).decode()

    def piece(self, number: int) -> bytes:
        return b"<end>" if number == 128 else bytes([number])

    def is_control(self, number: int) -> bool:
        return number == 128


class Lines:
    """A chat template: a line for each message."""

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        text = "".join(f"{message['role'][0]}:{message['content']}\n" for message in messages)
        return list(f"{text}a:".encode("ascii", "replace"))
