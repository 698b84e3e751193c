"""Pages that texts share: who holds which is always known, nobody finds what another owner has read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smelt.llm.pages import Chain, Pages, common

SIZE, SLOTS, CONTEXT = 4, 3, 22
PER = -(-CONTEXT // SIZE)
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=CONTEXT - 2)


class Texts(RuleBasedStateMachine):
    """As many texts as there is room for come, grow, fork and go; a list stands for the memory of the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[list[Any]] = [[None] * SIZE for _ in range(1 + SLOTS * PER)]
        self.pages = Pages(len(self.memory), SIZE, self.copy)
        self.texts: list[tuple[Chain, list[int]]] = []

    def copy(self, source: int, target: int) -> None:
        assert target not in {number for chain, _ in self.texts for number in chain.numbers}
        self.memory[target] = list(self.memory[source])

    def read(self, chain: Chain, tokens: list[int]) -> None:
        """Write tokens with their owner, who alone may find them, to where they belong."""
        self.pages.reserve(chain, len(tokens))
        for place, token in enumerate(tokens, chain.length):
            self.memory[chain.numbers[place // SIZE]][place % SIZE] = (chain.owner, token)
        self.pages.append(chain, tokens)

    @precondition(lambda self: len(self.texts) < SLOTS)
    @rule(prompt=PROMPTS, owner=st.sampled_from("ab"))
    def begin(self, prompt: list[int], owner: str) -> None:
        kept = [text for chain, text in self.texts if chain.owner == owner]
        chain = self.pages.begin(prompt, owner)
        most = max((common(text, prompt[:-1]) for text in kept), default=0)
        assert most <= chain.length < len(prompt)  # what others still hold is found
        self.read(chain, prompt[chain.length :])
        self.texts.append((chain, prompt))

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=6), guessed=st.integers(0, 5))
    def grow(self, data: st.DataObject, tokens: list[int], guessed: int) -> None:
        chain, text = data.draw(st.sampled_from(self.texts))
        tokens = tokens[: CONTEXT - 1 - len(text)]
        self.pages.reserve(chain, min(len(tokens) + guessed, CONTEXT - 1 - len(text)))
        self.read(chain, tokens)
        text += tokens

    @precondition(lambda self: 0 < len(self.texts) < SLOTS)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        chain, text = data.draw(st.sampled_from(self.texts))
        self.texts.append((self.pages.fork(chain), list(text)))

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        chain, _ = self.texts.pop(data.draw(st.integers(0, len(self.texts) - 1)))
        self.pages.release(chain)

    @invariant()
    def texts_are_where_they_should_be(self) -> None:
        for chain, text in self.texts:
            assert chain.length == len(text)
            found = [entry for number in chain.numbers for entry in self.memory[number]]
            assert found[: len(text)] == [(chain.owner, token) for token in text]

    @invariant()
    def holders_are_counted(self) -> None:
        held = Counter(number for chain, _ in self.texts for number in chain.numbers)
        assert self.pages.held == len(held)
        assert 0 not in held
        for chain, _ in self.texts:
            full = chain.length // SIZE
            assert all(page.holders == held[page.number] for page in chain.pages)
            assert all(page.holders == 1 for page in chain.pages[full:])

    @invariant()
    def every_page_is_at_one_place(self) -> None:
        used, free = [page.number for page in self.pages._used], self.pages._free
        assert sorted([*used, *free]) == list(range(1, len(self.memory)))
        seen, owners = [], dict(self.pages._roots)
        for root in owners.values():
            below = list(root.after)
            while below:
                page = below.pop()
                assert page.holders >= max((after.holders for after in page.after), default=0)
                seen.append(page.number)
                below += page.after
        assert sorted(seen) == sorted(used)

    def teardown(self) -> None:
        for chain, _ in self.texts:
            self.pages.release(chain)
        assert self.pages.held == 0


TestTexts = Texts.TestCase


def kept(pages: Pages, tokens: list[int], owner: str = "") -> Chain:
    """A text that is read and let go."""
    chain = pages.begin(tokens, owner)
    pages.reserve(chain, len(tokens) - chain.length)
    pages.append(chain, tokens[chain.length :])
    pages.release(chain)
    return chain


def test_what_was_used_last_stays_longest() -> None:
    pages = Pages(1 + 3, 2, lambda source, target: None)
    kept(pages, [1, 2, 3, 4])
    kept(pages, [9])
    assert pages.begin([1, 2, 3, 4, 5]).length == 4
    pages = Pages(1 + 3, 2, lambda source, target: None)
    kept(pages, [1, 2, 3, 4])
    kept(pages, [9])
    kept(pages, [8])  # takes the end of what was used first
    assert pages.begin([1, 2, 3, 4, 5]).length == 2
    assert pages.begin([9, 9]).length == 1


def test_a_part_of_a_page_is_copied_unless_it_is_all_that_is_there() -> None:
    copies: list[tuple[int, int]] = []
    pages = Pages(1 + 8, 4, lambda *pair: copies.append(pair))
    kept(pages, [1, 2, 3, 4, 5, 6])
    assert pages.begin([1, 2, 3, 4, 5, 6, 7]).length == 6  # another turn of a chat goes on where it ended
    assert not copies
    assert pages.begin([1, 2, 3, 4, 5, 9]).length == 5
    assert pages.begin([1, 2, 3, 9]).length == 3
    assert len(copies) == 2


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), PROMPTS, st.booleans()), max_size=20))
def test_what_others_ask_changes_nothing_of_what_one_finds(
    count: int, asked: list[tuple[bool, list[int], bool]]
) -> None:
    """With other tokens in the prompts of "b", "a" gets the same pages at every turn, with the same tokens in them."""
    found = []
    for shift in (0, 10):
        pages = Pages(1 + count * PER, SIZE, lambda source, target: None)
        held: list[Chain] = []
        seen = []
        for is_own, prompt, lets_go in asked:
            if held and (lets_go or len(held) == count):
                pages.release(held.pop(0))
            tokens = prompt if is_own else [token + shift for token in prompt]
            chain = pages.begin(tokens, "a" if is_own else "b")
            seen.append((chain.numbers, chain.length))
            pages.reserve(chain, len(tokens) - chain.length)
            pages.append(chain, tokens[chain.length :])
            held.append(chain)
        found.append(seen)
    assert found[0] == found[1]
