"""The tokens of a model: texts, what kind each is of, and what the special ones are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from smelt.errors import ParseError
from smelt.llm.tokens.checks import MOST_TOKENS


class Kind(IntEnum):
    """What a token is, by the numbers of GGUF files."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # steers the model; text of users never becomes one
    USER_DEFINED = 4  # taken out of text before anything else
    UNUSED = 5
    BYTE = 6  # "<0x41>"


# With one of these the model says that its answer is over, whatever else the file says.
_ENDS: Final = frozenset(
    [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "</s>",
        "<|eom_id|>",
        "<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<｜end▁of▁sentence｜>",
        "<|END_OF_TURN_TOKEN|>",
    ]
)
# Where answers have parts, this ends only one of them.
_PART: Final = ("<|end|>", frozenset({"<|return|>", "<|call|>"}))
# Files often call these user-defined. They steer the model all the same.
_STEERS: Final = re.compile(r"<\|[^|<>\s]+\|>|<｜[^<>\s]+｜>|<(?:start|end)_of_turn>|\[/?INST\]")
_BYTE: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Checked when made: texts are different, kinds are known, byte tokens are bytes, ids are of this vocabulary."""

    tokens: Sequence[str]
    kinds: Sequence[int]  # of `Kind`; plain numbers, of which a hundred thousand are compared in no time
    special: dict[str, int] = field(default_factory=dict)  # "bos", "eos", "unk", "pad", …
    index: dict[str, int] = field(init=False)  # text of every token to its id
    odd: dict[int, int] = field(init=False)  # ids of tokens that are not normal, and their kinds
    bytes: dict[int, int] = field(init=False)  # byte to the id of its token

    def __post_init__(self) -> None:
        if not 0 < len(self.tokens) <= MOST_TOKENS:
            raise ParseError(f"The vocabulary has {len(self.tokens)} tokens.", rule=f"1 to {MOST_TOKENS} are possible.")
        index = {token: number for number, token in enumerate(self.tokens)}
        # Files fill gaps with empty texts, which no text becomes.
        if len(index) + max(0, self.tokens.count("") - 1) != len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens) if token and index[token] != number)
            raise ParseError(f"The token {twice!r} is in the vocabulary twice.", rule="Each text is one token.")
        index.pop("", None)
        for name, number in self.special.items():
            if not 0 <= number < len(self.tokens):
                raise ParseError(
                    f"The {name} token is {number}.", rule=f"There are {len(self.tokens)} tokens, counted from 0."
                )
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "odd", {place: kind for place, kind in enumerate(self.kinds) if kind != 1})
        object.__setattr__(self, "bytes", self._bytes())

    def _bytes(self) -> dict[int, int]:
        found = {}
        for number, kind in self.odd.items():
            if kind == Kind.BYTE:
                match = _BYTE.fullmatch(self.tokens[number])
                if match is None:
                    raise ParseError(
                        f"Token {number} is the byte {self.tokens[number]!r}.", rule="Bytes are <0x00> to <0xFF>."
                    )
                found[int(match[1], 16)] = number
        return found

    def of_kinds(self, *kinds: Kind) -> list[int]:
        """Ids of the tokens of some kinds that are not normal, in order, without those that have no text."""
        return [number for number, kind in self.odd.items() if kind in kinds and self.tokens[number]]

    def from_text(self) -> dict[str, int]:
        """What text may become, and its ids: "<s>" or "<0x41>" in a text are these characters, and nothing else."""
        kept = dict(self.index)
        for number in self.of_kinds(Kind.CONTROL, Kind.UNKNOWN, Kind.BYTE):
            del kept[self.tokens[number]]
        return kept

    def stops(self) -> frozenset[int]:
        """The tokens that end an answer."""
        found = {self.special[name] for name in ("eos", "eot", "eom") if name in self.special}
        names = {name for name in _ENDS if self.kind_of(name) in (Kind.CONTROL, Kind.USER_DEFINED)}
        part, parted = _PART
        if parted <= names:
            names.discard(part)
        return frozenset(found | {self.index[name] for name in names})

    def kind_of(self, text: str) -> int | None:
        """The kind of the token with this text, if there is one."""
        number = self.index.get(text)
        return None if number is None else self.kinds[number]


def steers(text: str) -> bool:
    """Whether a token with this text steers the model, even if its file calls it user-defined."""
    return text in _ENDS or _STEERS.fullmatch(text) is not None
