"""Answers that follow a grammar: a JSON schema, any JSON object, or a regular expression.

llguidance says after each token which ones may come next. Grammars come from strangers: their size is bounded, and one
that is wrong or too hard is an `ArgumentError`, or ends the request that brought it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from smelt.errors import ArgumentError, MissingFileError

_MOST_TEXT: Final = 1 << 17  # characters of a grammar


class Vocabulary(Protocol):
    """What is needed of a tokenizer."""

    stops: frozenset[int]

    @property
    def size(self) -> int: ...
    def piece(self, number: int, /) -> bytes: ...
    def is_control(self, number: int, /) -> bool: ...
    def encode(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]: ...


class _Wrapped:
    """A tokenizer as llguidance wants it."""

    def __init__(self, tokenizer: Vocabulary) -> None:
        controls = [number for number in range(tokenizer.size) if tokenizer.is_control(number)]
        self.tokens = [tokenizer.piece(number) for number in range(tokenizer.size)]
        for number in controls:  # this byte is in no text, and marks what must not be written by a grammar
            self.tokens[number] = b"\xff" + self.tokens[number]
        self.eos_token_id = min(tokenizer.stops, default=0)
        self.bos_token_id = None
        self.special_token_ids = controls
        self._encode = tokenizer.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode("utf-8", "replace"), bos=False)


class Grammars:
    """What makes constraints for the tokens of one model, of `size` logits."""

    def __init__(self, tokenizer: Vocabulary, size: int) -> None:
        try:
            import llguidance
        except ImportError as error:
            raise MissingFileError(
                "answers that follow a grammar need llguidance", hint="pip install 'smelt[serve]'"
            ) from error
        self._guidance: Any = llguidance
        self._size = size
        wrapped = llguidance.TokenizerWrapper(_Wrapped(tokenizer))
        self._tokenizer = llguidance.LLTokenizer(wrapped, eos_token=sorted(tokenizer.stops) or None)

    def json_object(self) -> Grammar:
        """Any JSON object."""
        return self.json_schema({"type": "object"})

    def json_schema(self, schema: Mapping[str, Any]) -> Grammar:
        """JSON that a schema describes."""
        text = json.dumps(schema)
        _check_size(text)
        options = {"whitespace_flexible": False, "whitespace_pattern": None}  # small models else write spaces for ever
        try:
            return self._made(self._guidance.LLMatcher.grammar_from_json_schema(text, overrides=options))
        except ValueError as error:
            raise ArgumentError(f"the schema is not usable: {error!s:.500}") from error

    def regex(self, pattern: str) -> Grammar:
        """Text that a regular expression matches."""
        _check_size(pattern)
        return self._made(self._guidance.LLMatcher.grammar_from_regex(pattern))

    def lark(self, text: str) -> Grammar:
        """Text of a grammar in llguidance's variant of Lark's language."""
        _check_size(text)
        return self._made(self._guidance.LLMatcher.grammar_from_lark(text))

    def _made(self, grammar: str) -> Grammar:
        matcher = self._guidance.LLMatcher(self._tokenizer, grammar, log_level=0)
        found = Grammar(matcher, self._size)
        if not found.allowed().any():  # of what can never be said, one should hear before it is tried
            raise ArgumentError("the grammar is not usable: it allows no answer")
        return found


class Grammar:
    """Where one answer stands in its grammar."""

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher, self._size = matcher, size
        self.is_done = False

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next; `ArgumentError` if the grammar became too hard."""
        mask = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            said = self._matcher.get_error().partition("\n")[0]  # what follows is the state of the parser
            raise ArgumentError(f"the grammar is not usable: {said:.500}")
        found = np.zeros(self._size, np.bool_)
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[: self._size]
        found[: len(bits)] = bits
        return found

    def accept(self, token: int) -> None:
        """Go on by a token that was allowed."""
        self._matcher.consume_token(token)
        # It also stops where no token can say what must come next: `allowed` tells that.
        self.is_done = self._matcher.is_stopped() and not self._matcher.is_error()


def _check_size(text: str) -> None:
    if len(text) > _MOST_TEXT:
        raise ArgumentError(f"the grammar has {len(text)} characters", rule=f"it has at most {_MOST_TEXT}.")
