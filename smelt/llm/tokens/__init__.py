"""Text to tokens and back, as the files of models describe it."""

from __future__ import annotations

from smelt.llm.tokens.stream import TextStream
from smelt.llm.tokens.tokenizer import Tokenizer

__all__ = ["TextStream", "Tokenizer"]
