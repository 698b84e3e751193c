"""Slots of the cache: who holds which, and what each still has from before.

A slot is the memory of one sequence. When its request is done, what it holds stays, and a later request that begins
with the same tokens continues there: the next turn of a chat, another question behind the same instructions. Tokens are
compared, never hashes of them, and only with those of the same owner: which slot a request gets, and what it finds
there, never depends on which tokens somebody else has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Slot:
    """The memory of one sequence: the tokens whose keys and values are in the cache."""

    number: int
    tokens: list[int] = field(default_factory=list)
    owner: str = ""  # who has read them
    is_held: bool = False
    used: int = 0  # when it was let go last, in steps of a clock of their own


class Slots:
    """All slots of a cache."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._clock = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def free(self) -> int:
        """How many slots nobody holds."""
        return sum(not slot.is_held for slot in self._slots)

    @property
    def cached(self) -> int:
        """How many tokens are kept in slots that nobody holds."""
        return sum(len(slot.tokens) for slot in self._slots if not slot.is_held)

    def take(self, prompt: Sequence[int], owner: str = "") -> Slot | None:
        """A free slot, cut to what the owner has read there of the prompt; none if all are held.

        Of a prompt one token at least is left to be read: its logits are needed. If nothing is found that is worth it,
        the slot that was let go first is used, so that what others may come back to stays longest.
        """
        free = [slot for slot in self._slots if not slot.is_held]
        if not free:
            return None

        def shared(slot: Slot) -> int:
            return common(slot.tokens, prompt) if slot.owner == owner else 0

        slot = max(free, key=lambda slot: (shared(slot), -slot.used))
        kept = min(shared(slot), len(prompt) - 1)
        if kept * 2 < len(slot.tokens):  # more would be lost than is won: rather the one that is least missed
            slot = min(free, key=lambda slot: (bool(slot.tokens), slot.used))
            kept = min(shared(slot), len(prompt) - 1)
        del slot.tokens[kept:]
        slot.owner, slot.is_held = owner, True
        return slot

    def release(self, slot: Slot) -> None:
        """Let go of a slot; what it holds may serve another request."""
        self._clock += 1
        slot.is_held, slot.used = False, self._clock

    def clear(self) -> None:
        """Forget what all slots hold, and who holds them."""
        for slot in self._slots:
            slot.is_held, slot.tokens = False, []


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginnings."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))
