"""Pages of the cache: which texts hold each, and what is in those that nobody holds.

Each text has a chain of pages, all of them full but the last. Pages know the tokens whose keys and values they have,
and the page that comes before them, so they are a tree for each owner: a text that begins as another one did has the
same full pages, whether the other is still running or not. Its last page it has for itself: where only a part of a page
is the same, that part is copied. Tokens are compared, never hashes of them, and only with those of the same owner: what
a text finds never depends on which tokens somebody else has read.

Always holds: who holds a page holds those before it; a page that is not full has one holder at most; pages that nobody
holds are kept, and given to others last used first, the ends of chains before what they stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from smelt.errors import InternalError


@dataclass(eq=False)
class Page:
    """A page of the cache; where chains of an owner begin, one of no tokens that is in no cache."""

    number: int
    before: Page | None = None
    tokens: list[int] = field(default_factory=list)
    after: list[Page] = field(default_factory=list)
    holders: int = 0
    used: int = 0  # when it was let go last, in steps of a clock of their own


@dataclass(eq=False)
class Chain:
    """The pages of one text, and how many tokens are in them."""

    owner: str
    pages: list[Page] = field(default_factory=list)
    length: int = 0

    @property
    def numbers(self) -> list[int]:
        """Where in the cache it is."""
        return [page.number for page in self.pages]


class Pages:
    """All pages of a cache, `count` of `size` positions; number 0 is nobody's. `copy` copies one onto another."""

    def __init__(self, count: int, size: int, copy: Callable[[int, int], object]) -> None:
        self.size, self._copy, self._count = size, copy, count
        self.clear()

    def clear(self) -> None:
        """Forget what all pages have, and who holds them."""
        self._free = list(range(self._count - 1, 0, -1))
        self._used: list[Page] = []
        self._roots: dict[str, Page] = {}
        self._clock = 0

    def __len__(self) -> int:
        return self._count - 1

    @property
    def held(self) -> int:
        """How many pages are parts of texts that somebody works on."""
        return sum(page.holders > 0 for page in self._used)

    @property
    def cached(self) -> int:
        """How many tokens are kept in pages that nobody holds."""
        return sum(len(page.tokens) for page in self._used if not page.holders)

    def begin(self, prompt: Sequence[int], owner: str = "") -> Chain:
        """A text with what the owner has read of a prompt before, all but one token at most: its logits are needed."""
        chain, page = Chain(owner), self._root(owner)
        while True:
            rest = prompt[chain.length : len(prompt) - 1]
            # Of the pages that have most in common with the rest, one that can be gone on with as it is.
            found = max(page.after, key=lambda one: (common(one.tokens, rest), _ends_in(one, rest)), default=None)
            shared = common(found.tokens, rest) if found is not None else 0
            if found is None or not shared:
                return chain
            is_whole = shared == self.size or _ends_in(found, rest)
            page = found if is_whole else self._copied(found, shared)
            self._append(chain, page, shared)
            if shared < self.size:
                return chain

    def fork(self, chain: Chain) -> Chain:
        """Another text that begins with all of this one."""
        other, full = Chain(chain.owner), chain.length // self.size
        for page in chain.pages[:full]:
            self._append(other, page, self.size)
        if chain.length % self.size:
            self._append(other, self._copied(chain.pages[full], chain.length % self.size), chain.length % self.size)
        return other

    def reserve(self, chain: Chain, count: int) -> None:
        """Give a text pages for so many tokens more. There are enough, if no more texts run than there is room for."""
        while len(chain.pages) * self.size < chain.length + count:
            self._append(chain, self._new(chain.pages[-1] if chain.pages else self._root(chain.owner)), 0)

    def append(self, chain: Chain, tokens: Sequence[int]) -> None:
        """Note that tokens have been read into pages that were reserved for them."""
        for token in tokens:
            chain.pages[chain.length // self.size].tokens.append(token)
            chain.length += 1

    def release(self, chain: Chain) -> None:
        """Let go of a text; what is in its pages may serve another one."""
        self._clock += 1
        for page in reversed(chain.pages):
            page.holders, page.used = page.holders - 1, self._clock
            if not page.tokens:
                self._give_up(page)
        chain.pages, chain.length = [], 0

    def _root(self, owner: str) -> Page:
        return self._roots.setdefault(owner, Page(0))

    def _append(self, chain: Chain, page: Page, tokens: int) -> None:
        page.holders += 1
        chain.pages.append(page)
        chain.length += tokens

    def _copied(self, page: Page, count: int) -> Page:
        """A page of its own with the first tokens of another one, which is given up for it if no other can be."""
        assert page.before is not None
        new, number = self._new(page.before, page), page.number
        new.tokens = page.tokens[:count]
        if new.number != number:
            self._copy(number, new.number)
        return new

    def _new(self, before: Page, last: Page | None = None) -> Page:
        """An empty page behind another one, in the place of what was used least lately, and of `last` at the very last.

        What is before it is not given up: its holder comes to hold this one.
        """
        before.holders += 1
        if not self._free:
            ends = [page for page in self._used if not page.holders and not page.after]
            if not ends:
                raise InternalError("all pages of the cache are held")
            self._give_up(min(ends, key=lambda page: (page is last, page.used)))
        before.holders -= 1
        page = Page(self._free.pop(), before)
        before.after.append(page)
        self._used.append(page)
        return page

    def _give_up(self, page: Page) -> None:
        assert page.before is not None
        page.before.after.remove(page)
        self._used.remove(page)
        self._free.append(page.number)
        if not page.before.number and not page.before.after:
            self._roots = {owner: root for owner, root in self._roots.items() if root.after or root.holders}


def _ends_in(page: Page, rest: Sequence[int]) -> bool:
    """Whether a text with this rest can go on in a page that nobody holds, behind all that is there."""
    return not page.holders and not page.after and common(page.tokens, rest) == len(page.tokens)


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginnings."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))
