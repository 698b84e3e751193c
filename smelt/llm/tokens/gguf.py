"""The tokenizer that the metadata of a GGUF file describes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from smelt.errors import ParseError
from smelt.llm.tokens.checks import field_of, list_of, mapping_of
from smelt.llm.tokens.pretokenize import LINES, named
from smelt.llm.tokens.tokenizer import Rules
from smelt.llm.tokens.vocabulary import Kind, Vocabulary, steers

_KEY: Final = "tokenizer.ggml."
_SPECIAL: Final = {
    **{name: f"{_KEY}{name}_token_id" for name in ("bos", "eos", "eot", "eom", "mask")},
    "unk": f"{_KEY}unknown_token_id",
    "pad": f"{_KEY}padding_token_id",
    "sep": f"{_KEY}seperator_token_id",  # so in the files
}
_NONE: Final = 0xFFFFFFFF  # how files say that there is no such token


def described(metadata: Mapping[str, Any]) -> tuple[Vocabulary, Rules]:
    """Vocabulary and rules, all checked."""
    metadata = mapping_of(metadata, "metadata")
    model = field_of(metadata, f"{_KEY}model", str)
    rules = _MODELS.get(model)
    if rules is None:
        raise ParseError(
            f"Tokenizers of the kind {model[:40]!r} are not supported.",
            hint=f"Supported are {', '.join(_MODELS)}: byte-pair encodings, and SentencePiece's with scores.",
        )
    tokens = list_of(metadata, f"{_KEY}tokens", str)
    vocabulary = Vocabulary(tokens, _kinds(metadata, tokens), _special(metadata, model))
    return vocabulary, rules(metadata, vocabulary)


def _kinds(metadata: Mapping[str, Any], tokens: Sequence[str]) -> list[int]:
    key = f"{_KEY}token_type"
    if key not in metadata:
        return [int(Kind.NORMAL)] * len(tokens)
    kinds = list_of(metadata, key, int, len(tokens))
    if strange := set(kinds) - set(Kind):
        raise ParseError(f"Tokens are of the types {sorted(strange)[:5]}.", rule=f"Types are 0 to {max(Kind)}.")
    for place in [place for place, kind in enumerate(kinds) if kind == 4]:
        if steers(tokens[place]):
            kinds[place] = Kind.CONTROL
    return kinds


def _special(metadata: Mapping[str, Any], model: str) -> dict[str, int]:
    # What SentencePiece gives these tokens where nobody says anything.
    found = {"unk": 0, "bos": 1, "eos": 2} if model == "llama" else {}
    for name, key in _SPECIAL.items():
        number = field_of(metadata, key, int, _NONE)
        if number != _NONE:
            found[name] = number
    return found


def _by_merges(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Rules:
    row = named(metadata.get(f"{_KEY}pre"))
    return Rules(
        ranks=ranks_of(list_of(metadata, f"{_KEY}merges", str), vocabulary),
        between=" ",
        patterns=row.patterns,
        whole=row.whole,
        add_bos=field_of(metadata, f"{_KEY}add_bos_token", bool, row.add_bos),
    )


def _by_scores(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Rules:
    scores = list_of(metadata, f"{_KEY}scores", float, len(vocabulary.tokens))
    if any(math.isnan(score) for score in scores):
        raise ParseError("A score of a token is not a number.", rule="Scores say which tokens come first.")
    ranks = {token: -scores[number] for token, number in vocabulary.from_text().items()}
    prefix = field_of(metadata, f"{_KEY}add_space_prefix", bool, True)
    return Rules(
        ranks=ranks,
        between="",
        bytes=False,
        spaces=True,
        prefix="always" if prefix else "never",
        add_bos=field_of(metadata, f"{_KEY}add_bos_token", bool, True),
    )


def _gemma4(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> Rules:
    """Characters and ▁ as SentencePiece has them, joined by merges."""
    return Rules(
        ranks=ranks_of(list_of(metadata, f"{_KEY}merges", str), vocabulary),
        between=" ",
        patterns=(LINES,),
        bytes=False,
        spaces=True,
        add_bos=field_of(metadata, f"{_KEY}add_bos_token", bool, True),
    )


_MODELS: Final = {"gpt2": _by_merges, "llama": _by_scores, "gemma4": _gemma4}


def ranks_of(merges: Sequence[str], vocabulary: Vocabulary) -> dict[str, float]:
    """When pairs are joined: "left right" to a number. What is joined has to be a token."""
    joined = {merge.replace(" ", "", 1) for merge in merges}
    whole = all(" " in merge[1:-1] for merge in merges)
    for merge in merges if not whole or joined - vocabulary.index.keys() else ():
        if " " not in merge[1:-1] or merge.replace(" ", "", 1) not in vocabulary.index:
            raise ParseError(
                f"The merge {merge[:80]!r} makes no token.",
                rule="A merge is two texts with a space between them, and joined they are a token.",
            )
    return dict(zip(merges, range(len(merges)), strict=True))
