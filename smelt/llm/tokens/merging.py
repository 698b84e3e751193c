"""Byte-pair encoding: neighbors are joined, the best pair first, until no pair can be."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush


def merged(symbols: list[str], ranks: Mapping[str, float], between: str) -> list[str]:
    """What is left of `symbols` when pairs have been joined in the order of `ranks[left + between + right]`.

    Of equal ranks the leftmost goes first. A heap keeps it at n log n: a word may be a million characters long.
    """
    if len(symbols) == 1:
        return symbols
    symbols = list(symbols)
    count = len(symbols)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    find = ranks.get
    heap = []
    for left in range(count - 1):
        rank = find(symbols[left] + between + symbols[left + 1])
        if rank is not None:
            heap.append((rank, left, symbols[left] + symbols[left + 1]))
    heapify(heap)
    while heap:
        _, left, joined = heappop(heap)
        right = after[left]
        if right == count or not symbols[left] or symbols[left] + symbols[right] != joined:
            continue  # one of the two is part of something else by now
        symbols[left], symbols[right] = joined, ""
        following = after[left] = after[right]
        if following < count:
            before[following] = left
            rank = find(joined + between + symbols[following])
            if rank is not None:
                heappush(heap, (rank, left, joined + symbols[following]))
        previous = before[left]
        if previous >= 0:
            rank = find(symbols[previous] + between + joined)
            if rank is not None:
                heappush(heap, (rank, previous, symbols[previous] + joined))
    return [symbol for symbol in symbols if symbol]
