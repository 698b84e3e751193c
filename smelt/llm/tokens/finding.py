"""Where names of special tokens stand in a text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection


class Finder:
    """Texts to look for. Vocabularies have thousands, so a pattern that tries one after the other would be slow."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        lengths: dict[str, set[int]] = defaultdict(set)
        for name in names:
            lengths[name[0]].add(len(name))
        # Of two that begin alike, the longer one is meant.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._firsts = re.compile(f"[{re.escape(''.join(sorted(lengths)))}]") if lengths else None

    def split(self, text: str) -> list[str]:
        """Text without names and names, in turn: at odd places are names, and all joined are the text."""
        pieces, end = [], 0
        for first in self._firsts.finditer(text) if self._firsts is not None else ():
            start = first.start()
            if start < end:
                continue
            for length in self._lengths[first[0]]:
                if text[start : start + length] in self._names:
                    pieces += [text[end:start], text[start : start + length]]
                    end = start + length
                    break
        return [*pieces, text[end:]]
