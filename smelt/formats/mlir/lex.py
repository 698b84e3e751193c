"""Text to tokens, by one regular expression.

A token is its text alone: its first character says what it is. Where it stands is found by going through the text again
when somebody asks, which only happens to say what is wrong.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from smelt.errors import ParseError

# All quantifiers are possessive (`*+`): a text that does not fit is given up at once, not tried in every other way.
# A type such as tensor<2x3xf32, #stablehlo.bounds<?, 5>> is one token, with two levels of brackets inside.
_BRACKETS = r"<[^<>\"]*+(?:<[^<>\"]*+(?:<[^<>\"]*+>[^<>\"]*+)*+>[^<>\"]*+)*+>"
_STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'

_TOKENS: Final = (
    r"%[A-Za-z0-9_$.\-]++(?:\#[0-9]++)?+",  # a value, or one of several
    r"[,=()\[\]}]",  # punctuation that begins nothing longer: there is much of it
    rf"tensor{_BRACKETS}",
    r"[A-Za-z_][A-Za-z0-9_$.]*+",  # a name of an operation, an attribute or a type
    r"->|::",
    r"\{-\#|\#-\}",  # around the resources
    r"-?+(?:0x[0-9A-Fa-f]++|[0-9]++(?:\.[0-9]*+)?+(?:[eE][+\-]?+[0-9]++)?+)",
    r'"0x[0-9A-Fa-f]{16}[^"]*+"',  # bytes of a constant: the one test that is fast goes through megabytes of them
    _STRING,
    r'"[^\n]*+',  # a string without an end
    rf"@(?:[A-Za-z_$.0-9][A-Za-z0-9_$.\-]*+|{_STRING})",
    r"[\#!^][A-Za-z0-9_$.\-]++",  # attributes, types and blocks by name
    r"[^\s]",  # punctuation, and whatever does not belong here
    r"\Z",  # the end is a token of its own, so that there always is a next one
)
TOKEN: Final = re.compile(rf"\s*+(?://[^\n]*+\s*+)*+({'|'.join(_TOKENS)})")

Tokens = list[str]


class Place(NamedTuple):
    """Line and column, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def tokens(text: str) -> Tokens:
    """All tokens of a text; what belongs to none is a token of one character."""
    found: Tokens = TOKEN.findall(text)
    return found


def place(text: str, at: int) -> Place:
    """Where token number `at` stands; the end of the text if there are fewer."""
    match = next(islice(TOKEN.finditer(text), at, None), None)
    offset = len(text) if match is None else match.start(1)
    return Place(text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1)


def wrong(text: str, at: int, message: str, rule: str = "") -> ParseError:
    """The error about token number `at`."""
    return ParseError(f"{place(text, at)}: {message}", rule=rule)
