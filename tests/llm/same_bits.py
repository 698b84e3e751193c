"""The logits behind a text, however it is read: `python -m tests.llm.same_bits MODEL [exact]` prints for each way how
far they are from the first way's, and a digest of their bits.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from smelt.llm.decoder import Decoder
from smelt.llm.loading import opened
from smelt.llm.programs import DecoderPrograms

LENGTH = 512  # tokens that are read
FURTHER = 8  # tokens whose logits are compared, behind them
TOGETHER = 8  # texts at once


def ways(decoder: Decoder, tokens: list[int], dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and what gives the logits of the last tokens: (FURTHER, vocabulary)."""
    context = LENGTH + FURTHER

    def programs(*chunks: int) -> DecoderPrograms:
        return DecoderPrograms(decoder, TOGETHER, context, chunks=chunks, dtype=dtype)

    large, small = programs(64, LENGTH), programs(64)

    def one_by_one(of: DecoderPrograms, slot: int = 0, start: int = LENGTH) -> Any:
        rows = [of.extend([(of.own(slot), place, tokens[place])]).numpy()[0] for place in range(start, context)]
        return np.stack(rows[-FURTHER:])

    def whole(of: DecoderPrograms, start: int = 0) -> Any:
        size = of.chunks[-1]
        for at in range(start, LENGTH, size):
            of.read(of.own(0), at, tokens[at : min(at + size, LENGTH)])
        return one_by_one(of)

    def after_prefix() -> Any:
        large.read(large.own(0), 0, tokens[:300] + [7] * 100)  # another text that begins alike
        large.read(large.own(0), 300, tokens[300:LENGTH])
        return one_by_one(large)

    def beside(place: int) -> Any:
        rows = [(large.own(slot), place, tokens[place - slot * (slot != 3)]) for slot in range(TOGETHER)]
        return large.extend(rows).numpy()[3]

    def among_others() -> Any:
        for slot in range(TOGETHER):
            own = tokens if slot == 3 else [*tokens[slot:], *tokens[:slot]]
            large.read(large.own(slot), 0, own[:LENGTH])
        return np.stack([beside(place) for place in range(LENGTH, context)])

    def guessed() -> Any:
        large.read(large.own(0), 0, tokens[:LENGTH])
        rows = [(large.own(0), place, tokens[place]) for place in range(LENGTH, context)]
        return large.extend(rows).numpy()[:FURTHER]

    yield f"chunks of {LENGTH}", lambda: whole(large)
    yield "chunks of 64", lambda: whole(small)
    yield "token by token", lambda: one_by_one(small, start=0)
    yield "behind a prefix", after_prefix
    yield f"one of {TOGETHER}", among_others
    yield "guessed", guessed


def main(model: str, exact: bool) -> None:
    """Print a line of JSON for each way."""
    decoder = opened(model, exact=exact)[0]
    tokens = np.random.default_rng(1).integers(0, decoder.config.vocabulary, LENGTH + FURTHER).tolist()
    first = None
    for name, way in ways(decoder, tokens, "float32" if exact else "float16"):
        logits = way()
        first = logits if first is None else first
        row = {"way": name, "apart": float(np.abs(logits - first).max()), "largest": float(np.abs(first).max())}
        print(json.dumps(row | {"digest": hashlib.sha256(logits.tobytes()).hexdigest()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["exact"])
