"""Reading index expressions back from the text that `str(Index)` prints.

The grammar is that of Python's arithmetic on integers: sums of products, `//` and `%` (which bind like `*`),
`min(a, b)`, `max(a, b)`, brackets, a leading minus, and names. Names that are not plain are written as JSON strings.
`TokenReader` is shared with the larger text forms that contain index expressions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from smelt.errors import InternalError, ParseError
from smelt.graph.index import Index, as_index, maximum, minimum
from smelt.names import nearest

_MAXIMUM_DEPTH = 100  # of brackets: deeper text is refused, so that the parser's recursion is bounded
_MAXIMUM_TERMS = 1_000  # of a product: text can ask for expressions that grow exponentially
_MAXIMUM_FACTORS = 100
_MAXIMUM_DIGITS = 1_000

_TOKEN = re.compile(
    r"\s*(?:"
    r'(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|(?P<number>[0-9][A-Za-z0-9_.]*(?:(?<=[pP])[+-][0-9]+)?)"  # also hexadecimal floats, for the texts that have them
    r"|(?P<symbol>//|->|\.\.|\S)"
    r")"
)


class TokenReader:
    """A line of text cut into tokens, read from left to right. `line` is only for messages."""

    __slots__ = ("_depth", "_kinds", "_position", "_tokens", "indent", "kind", "line", "token")
    token: str  # the next one
    kind: str  # of the next one: string, name, number, symbol or end

    def __init__(self, text: str, line: int = 0) -> None:
        self.line, self.indent = line, len(text) - len(text.lstrip(" "))
        self._depth = 0
        matches = list(_TOKEN.finditer(text.strip()))
        self._tokens = [match[match.lastgroup or 0] for match in matches] + [""]
        self._kinds = [match.lastgroup or "" for match in matches] + ["end"]
        self._move(0)

    def _move(self, position: int) -> None:
        self._position = position
        self.token, self.kind = self._tokens[position], self._kinds[position]

    def fail(self, expected: str) -> NoReturn:
        """Raise the error for a token that does not fit."""
        place = f"line {self.line}: " if self.line else ""
        found = repr(self.token[:40]) if self.kind != "end" else "the end"
        raise ParseError(f"{place}expected {expected}, found {found}")

    def unknown(self, expected: str, word: str, known: Iterable[str]) -> NoReturn:
        """Raise the error for a word that was taken and is none of those that are known."""
        place, meant = f"line {self.line}: " if self.line else "", nearest(word, known)
        hint = f"Did you mean {meant}?" if meant else ""
        raise ParseError(f"{place}expected {expected}, found {word[:40]!r}", hint=hint)

    def take(self) -> str:
        """The token, after moving past it."""
        token = self.token
        if self.kind != "end":
            self._move(self._position + 1)
        return token

    def accept(self, token: str) -> bool:
        """Move past `token` if it is next."""
        if self.token != token or self.kind == "end":
            return False
        self._move(self._position + 1)
        return True

    def starts(self, *tokens: str) -> bool:
        """Whether these come next."""
        return self._tokens[self._position : self._position + len(tokens)] == list(tokens)

    def rest(self) -> tuple[str, ...]:
        """All that is left."""
        tokens = tuple(self._tokens[self._position : -1])
        self._move(len(self._tokens) - 1)
        return tokens

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                self.fail(f"{token!r}")

    def name(self, expected: str = "a name") -> str:
        """A name, plain or quoted."""
        if self.kind == "string":
            return self.string()
        if self.kind != "name":
            self.fail(expected)
        return self.take()

    def string(self) -> str:
        if self.kind != "string":
            self.fail("a string")
        try:
            value = json.loads(self.token)
        except ValueError:
            self.fail("a string in JSON's form")
        self.take()
        return str(value)

    def integer(self) -> int:
        """An integer, possibly negative."""
        sign = -1 if self.accept("-") else 1
        if self.kind != "number" or not self.token.isdigit() or len(self.token) > _MAXIMUM_DIGITS:
            self.fail("an integer")
        return sign * int(self.take())

    def end(self) -> None:
        """Check that nothing is left."""
        if self.kind != "end":
            self.fail("the end")

    def index(self, variables: Mapping[str, Index]) -> Index:
        """An index expression, as far as it goes."""
        self._depth += 1
        if self._depth > _MAXIMUM_DEPTH:
            self.fail(f"at most {_MAXIMUM_DEPTH} nested brackets")
        total = -self._product(variables) if self.accept("-") else self._product(variables)
        while self.token in ("+", "-") and self.kind == "symbol":
            negative = self.take() == "-"
            term = self._product(variables)
            total = total - term if negative else total + term
        self._depth -= 1
        return total

    def _product(self, variables: Mapping[str, Index]) -> Index:
        value = self._factor(variables)
        count = 0
        while self.token in ("*", "//", "%") and self.kind == "symbol":
            symbol = self.take()
            count += 1
            if count > _MAXIMUM_FACTORS:
                self.fail(f"at most {_MAXIMUM_FACTORS} factors")
            right = self._factor(variables)
            if symbol == "*":
                if len(value.terms) * len(right.terms) > _MAXIMUM_TERMS:
                    self.fail("a product of fewer terms")
                value = value * right
                continue
            if right.low < 1:
                self.fail(f"a divisor that is always positive before here ({right} may be {right.low})")
            value = value // right if symbol == "//" else value % right
        return value

    def _factor(self, variables: Mapping[str, Index]) -> Index:
        if self.kind == "number":
            return as_index(self.integer())
        if self.accept("("):
            value = self.index(variables)
            self.expect(")")
            return value
        quoted = self.kind == "string"
        name = self.name("a number, a name or a bracket")
        if not quoted and name in ("min", "max") and self.accept("("):
            a = self.index(variables)
            self.expect(",")
            b = self.index(variables)
            self.expect(")")
            return minimum(a, b) if name == "min" else maximum(a, b)
        if name not in variables:
            self._move(self._position - 1)
            self.fail("a known variable")
        return variables[name]


def parse_index(text: str, variables: Mapping[str, Index]) -> Index:
    """The expression that `str(Index)` printed; `variables` gives the expression for each name."""
    reader = TokenReader(text)
    try:
        value = reader.index(variables)
    except InternalError as error:
        raise ParseError(f"{text[:80]!r} is not an index expression: {error}") from None
    reader.end()
    return value
