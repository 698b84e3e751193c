"""Text to tokens and back.

There is one class. What differs between models is data: the vocabulary, the order of merges, the patterns that split
text (`pretokenize.py`), and whether symbols are bytes or characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from smelt.errors import ArgumentError, IndexRangeError
from smelt.llm.tokens.finding import Finder
from smelt.llm.tokens.merging import merged
from smelt.llm.tokens.pretokenize import Splitter
from smelt.llm.tokens.vocabulary import Kind, Vocabulary

SPACE: Final = "▁"
_MOST_WORDS: Final = 1 << 17  # kept with their tokens; about 30 MB when full
_LONGEST_WORD: Final = 64


def _byte_letters() -> dict[int, str]:
    """Byte-level vocabularies write bytes as letters: visible ones of Latin-1 as they are, others from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in visible else next(others)) for byte in range(256)}


_LETTER: Final = _byte_letters()
_BYTE: Final = {letter: byte for byte, letter in _LETTER.items()}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a file says about its tokenizer, besides the vocabulary."""

    ranks: Mapping[str, float]  # `left + between + right` to when they are joined: smaller is earlier
    between: str  # " " for merges; "" where the score of the joined token decides
    patterns: tuple[str, ...] = ()
    letter_patterns: tuple[str, ...] = ()  # split the words again, when their bytes have become letters
    bytes: bool = True  # symbols are bytes written as letters; else characters, and bytes for those without a token
    whole: bool = False  # a word that is a token is taken as it is
    spaces: bool = False  # are written as ▁
    prefix: Literal["never", "first", "always"] = "never"  # a space goes before text: at the start, after specials too
    prefix_once: bool = False  # but not before a space
    forms: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ()  # Unicode normal forms that text is brought to
    add_bos: bool = False
    strips_left: frozenset[int] = frozenset()  # special tokens that take the spaces beside them along
    strips_right: frozenset[int] = frozenset()
    special: Mapping[str, int] = field(default_factory=dict)


class Tokenizer:
    """Text to tokens and back, as a model's file describes it.

    >>> tokens = ["<|end|>", "h", "i", "Ġ", "hi", "Ġhi"]
    >>> tokenizer = Tokenizer.from_gguf_metadata({
    ...     "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
    ...     "tokenizer.ggml.merges": ["h i", "Ġ hi"], "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
    ... })
    >>> tokenizer.encode("hi hi<|end|>", special=True), tokenizer.decode([4, 5])
    ([4, 5, 0], 'hi hi')
    """

    def __init__(self, vocabulary: Vocabulary, rules: Rules) -> None:
        self.vocabulary = vocabulary
        self.rules = rules
        self._splitter = Splitter(rules.patterns)
        self._letters = Splitter(rules.letter_patterns)
        self._index = vocabulary.from_text()
        self._words: dict[str, tuple[int, ...]] = {}
        self._control = vocabulary.of_kinds(Kind.CONTROL, Kind.UNKNOWN)
        self._hidden = frozenset(self._control)
        self._defined = self._finder(vocabulary.of_kinds(Kind.USER_DEFINED))
        self._controls = self._finder(self._control)
        self._between_words = self._boundary() if rules.spaces else None
        self.stops = vocabulary.stops()

    @classmethod
    def from_gguf_metadata(cls, metadata: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer of a GGUF file, by its metadata."""
        from smelt.llm.tokens.gguf import described

        return cls(*described(metadata))

    @classmethod
    def from_tokenizer_json(
        cls, tokenizer_json: Mapping[str, Any], tokenizer_config: Mapping[str, Any] | None = None
    ) -> Tokenizer:
        """The tokenizer of a Hugging Face folder, by the contents of its tokenizer.json and tokenizer_config.json."""
        from smelt.llm.tokens.huggingface import described

        return cls(*described(tokenizer_json, tokenizer_config or {}))

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.vocabulary.tokens)

    @property
    def bos(self) -> int | None:
        """The token that begins a text, if the model has one."""
        return self.vocabulary.special.get("bos")

    @property
    def eos(self) -> int | None:
        """The token that ends a text, if the model has one; `stops` are all that end an answer."""
        return self.vocabulary.special.get("eos")

    @property
    def add_bos(self) -> bool:
        """Whether the model wants its texts to begin with `bos`."""
        return self.rules.add_bos and self.bos is not None

    @property
    def control(self) -> dict[str, int]:
        """Texts of the tokens that steer the model, which text becomes with `special=True` only, and their ids."""
        return {self.vocabulary.tokens[number]: number for number in self._control}

    def special_names(self) -> dict[str, str]:
        """Texts of special tokens by what they are for: {"bos": "<s>", …}."""
        return {name: self.vocabulary.tokens[number] for name, number in self.vocabulary.special.items()}

    def encode(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]:
        """The tokens of `text`; `special` makes tokens of the texts of control tokens, for prompts that programs write.

        `bos` says whether to begin with the token for that; by default the file of the model does.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"encode takes a string, and this is a {type(text).__name__}.")
        parts = self.parts(text) if special else [text]
        return self.encode_parts(parts, bos=self.add_bos if bos is None else bos)

    def parts(self, text: str) -> list[str | int]:
        """`text` cut at its control tokens: ids of those, and texts between them."""
        return self._cut(text, self._controls)

    def _cut(self, text: str, finder: Finder) -> list[str | int]:
        parts: list[str | int] = []
        for place, piece in enumerate(finder.split(text)):
            if place % 2:
                number = self.vocabulary.index[piece]
                if parts and isinstance(parts[-1], str) and number in self.rules.strips_left:
                    parts[-1] = parts[-1].rstrip()
                parts.append(number)
            else:
                strip = bool(parts) and parts[-1] in self.rules.strips_right
                parts.append(piece.lstrip() if strip else piece)
        return [part for part in parts if part != ""]

    def encode_parts(self, parts: Iterable[str | int], *, bos: bool = False) -> list[int]:
        """The tokens of texts, in which names of control tokens are text, and of ids in between."""
        ids = [self.bos] if bos and self.bos is not None else []
        place: Literal["first", "always"] | None = "first"
        for part in parts:
            for piece in self._cut(part, self._defined) if isinstance(part, str) else [part]:
                if isinstance(piece, int):
                    ids.append(piece)
                    place = "always"
                elif piece:
                    self._encode_text(piece, place, ids)
                    place = None
        return ids

    def _encode_text(self, text: str, place: Literal["first", "always"] | None, ids: list[int]) -> None:
        rules = self.rules
        # Halves of surrogate pairs are no characters.
        text = text.encode("utf-8", "replace").decode()
        for form in rules.forms:
            text = unicodedata.normalize(form, text)
        if place in (rules.prefix, "first") and rules.prefix != "never" and text:
            text = text if rules.prefix_once and text[0] in (" ", SPACE) else f" {text}"
        if rules.spaces:
            text = text.replace(" ", SPACE)
        words = self._words
        for word in self._split(text):
            known = words.get(word)
            if known is None:
                known = tuple(self._encode_word(word))
                if len(word) <= _LONGEST_WORD:
                    if len(words) >= _MOST_WORDS:
                        words.clear()
                    words[word] = known
            ids.extend(known)

    def _split(self, text: str) -> list[str]:
        pieces = self._splitter.words(text)
        if self._between_words is None:
            return pieces
        return [word for piece in pieces for word in self._between_words.split(piece)]

    def _boundary(self) -> re.Pattern[str]:
        """Where no token reaches across: before a space, after a character that no token has in front of one.

        What lies between such places can be looked at alone, and remembered.
        """
        crossed = {text for token in self._index for text in _BEFORE_SPACE.findall(token)} | {SPACE}
        return re.compile(f"(?<=[^{re.escape(''.join(sorted(crossed)))}])(?={SPACE})")

    def _encode_word(self, word: str) -> Iterator[int]:
        rules, index = self.rules, self._index
        if rules.bytes:
            word = word.encode().decode("latin-1").translate(_LETTER)
        for piece in self._letters.words(word):
            whole = rules.whole and piece in index
            for symbol in [piece] if whole else merged(list(piece), rules.ranks, rules.between):
                number = index.get(symbol)
                if number is not None:
                    yield number
                else:
                    yield from self._without_token(symbol)

    def _without_token(self, symbol: str) -> Iterator[int]:
        """A symbol that is no token: its bytes if these are tokens; else the unknown token, or nothing without one."""
        numbers = [self.vocabulary.bytes.get(byte) for byte in symbol.encode()]
        if None not in numbers:
            yield from (number for number in numbers if number is not None)
        elif "unk" in self.vocabulary.special:
            yield self.vocabulary.special["unk"]

    def piece(self, number: int) -> bytes:
        """The bytes that a token stands for. Tokens may be parts of characters. Control tokens have their names."""
        if not 0 <= number < self.size:
            raise IndexRangeError(f"{number} is no token.", rule=f"There are {self.size}, counted from 0.")
        token, kind = self.vocabulary.tokens[number], self.vocabulary.kinds[number]
        if kind == Kind.BYTE:
            return bytes([int(token[3:5], 16)])
        if kind in (Kind.CONTROL, Kind.UNKNOWN) or (kind == Kind.USER_DEFINED and self.rules.bytes):
            return token.encode("utf-8", "replace")
        if self.rules.bytes:
            return b"".join(_PIECES.get(letter) or letter.encode("utf-8", "replace") for letter in token)
        return token.replace(SPACE, " ").encode("utf-8", "replace")

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens, without that of control tokens unless `special`; bytes that are no text become �.

        The space that `encode` puts in front of a text is left out: `decode(encode(text))` is `text`.
        """
        ids = list(ids)
        shown = [self.piece(number) for number in ids if special or number not in self._hidden]
        text = b"".join(shown).decode("utf-8", "replace")
        first = next((number for number in ids if number != self.bos), None)
        begins = self.rules.prefix != "never" and first not in self._hidden
        return text[1:] if begins and text.startswith(" ") else text

    def is_control(self, number: int) -> bool:
        """Whether a token steers the model, and stands for no text."""
        return number in self._hidden

    def _finder(self, numbers: Sequence[int]) -> Finder:
        return Finder({self.vocabulary.tokens[number] for number in numbers})


_PIECES: Final = {letter: bytes([byte]) for letter, byte in _BYTE.items()}
_BEFORE_SPACE: Final = re.compile(f"([^{SPACE}]){SPACE}")
