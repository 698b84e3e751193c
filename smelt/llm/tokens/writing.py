"""A tokenizer as files describe it: the way back to the metadata of a GGUF file, and to a tokenizer.json.

What is written is read again by `smelt.llm.conversion` and compared on texts: tokenizers differ in more than files of
the other kind can say, and a model whose text is cut in another way is fluent and wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from smelt.errors import ParseError
from smelt.llm.tokens.gguf import _KEY, _SPECIAL
from smelt.llm.tokens.pretokenize import LINES, PRETOKENIZERS, in_characters
from smelt.llm.tokens.tokenizer import SPACE, Rules, Tokenizer
from smelt.llm.tokens.vocabulary import Kind, Vocabulary

__all__ = ["gguf_metadata", "huggingface_files"]

_UNUSED: Final = "[PAD{}]"  # so others call tokens that only fill a vocabulary


def gguf_metadata(tokenizer: Tokenizer, size: int) -> dict[str, Any]:
    """What a GGUF file says about a tokenizer, whose vocabulary is filled up to the `size` of the embedding."""
    vocabulary, rules = tokenizer.vocabulary, tokenizer.rules
    count = len(vocabulary.tokens)
    if count > size:
        raise ParseError(f"The tokenizer has {count} tokens, and the model {size}.", rule="Each token has a row.")
    tokens = [token or _UNUSED.format(number) for number, token in enumerate(vocabulary.tokens)]
    kinds = [int(kind) if vocabulary.tokens[number] else 5 for number, kind in enumerate(vocabulary.kinds)]
    found: dict[str, Any] = {
        f"{_KEY}model": "gpt2" if rules.bytes else "llama",
        f"{_KEY}tokens": tokens + [_UNUSED.format(number) for number in range(count, size)],
        f"{_KEY}token_type": kinds + [int(Kind.UNUSED)] * (size - count),
        f"{_KEY}add_bos_token": rules.add_bos,
        **{_SPECIAL[name]: number for name, number in vocabulary.special.items() if name in _SPECIAL},
    }
    if rules.bytes:
        return found | {f"{_KEY}pre": _pre(rules), f"{_KEY}merges": _merges(rules)}
    if not rules.spaces or rules.patterns:
        raise _unsupported("GGUF file", "tokens of characters that are split by a pattern")
    scores = _scores(vocabulary, rules) + [0.0] * (size - count)
    return found | {f"{_KEY}scores": scores, f"{_KEY}add_space_prefix": rules.prefix != "never"}


def _pre(rules: Rules) -> str:
    """The name of the row of the table with these patterns."""
    for row in PRETOKENIZERS:
        if (row.patterns, row.whole) == (rules.patterns + rules.letter_patterns, rules.whole):
            return row.names[0]
    raise _unsupported("GGUF file", "a pre-tokeniser that no name stands for")


def _merges(rules: Rules) -> list[str]:
    return sorted(rules.ranks, key=lambda merge: rules.ranks[merge])


def _scores(vocabulary: Vocabulary, rules: Rules) -> list[float]:
    """A score for each token: that of a joined one follows from the first merge that makes it."""
    if not rules.between:
        return [-rules.ranks.get(token, 0.0) for token in vocabulary.tokens]
    first: dict[str, float] = {}
    for merge, rank in rules.ranks.items():
        token = merge.replace(" ", "", 1)
        first[token] = min(rank, first.get(token, math.inf))
    last = float(len(rules.ranks))  # characters, which nothing makes
    special = {*vocabulary.special.values(), *vocabulary.odd}
    return [0.0 if number in special else -first.get(token, last) for number, token in enumerate(vocabulary.tokens)]


# --- tokenizer.json


def huggingface_files(tokenizer: Tokenizer, template: str | None) -> dict[str, dict[str, Any]]:
    """`tokenizer.json` and `tokenizer_config.json` of a tokenizer; the latter has the chat template, too."""
    vocabulary, rules = tokenizer.vocabulary, tokenizer.rules
    if not rules.bytes and (LINES in rules.patterns or not rules.spaces):
        raise _unsupported("tokenizer.json", "tokens of characters that are split by a pattern")
    added = [
        {
            **{"id": number, "content": vocabulary.tokens[number], "single_word": False, "normalized": False},
            **{"lstrip": number in rules.strips_left, "rstrip": number in rules.strips_right},
            "special": kind != Kind.USER_DEFINED,
        }
        for number, kind in sorted(vocabulary.odd.items())
        if kind in (Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED) and vocabulary.tokens[number]
    ]
    names = tokenizer.special_names()
    numbers = {token: number for number, token in enumerate(vocabulary.tokens) if token}
    model = {
        **{"type": "BPE", "dropout": None, "unk_token": names.get("unk") if not rules.bytes else None},
        **{"fuse_unk": not rules.bytes, "byte_fallback": not rules.bytes, "ignore_merges": rules.whole},
        **{"vocab": numbers, "merges": [list(pair) for pair in _pairs(vocabulary, rules)]},
    }
    normalizer, pre_tokenizer, decoder = _byte_level(rules) if rules.bytes else _spaces(rules)
    described = {
        **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer},
        **{"pre_tokenizer": pre_tokenizer, "post_processor": _begin(tokenizer), "decoder": decoder, "model": model},
    }
    config: dict[str, Any] = {
        **{"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": rules.add_bos, "model_max_length": 1 << 30},
        "clean_up_tokenization_spaces": False,
        **{f"{name}_token": text for name, text in names.items() if name in ("bos", "eos", "unk", "pad", "sep")},
        **({"chat_template": template} if template is not None else {}),
    }
    return {"tokenizer.json": described, "tokenizer_config.json": config}


def _pairs(vocabulary: Vocabulary, rules: Rules) -> list[tuple[str, str]]:
    """Merges in order. Where scores decide, they are all pairs that make a token, the best first."""
    if rules.between:
        return [(left, right) for left, _, right in (merge.partition(" ") for merge in _merges(rules))]
    index = vocabulary.from_text()
    found = [
        (rank, index[token[:at]], index[token[at:]], token[:at], token[at:])
        for token, rank in rules.ranks.items()
        for at in range(1, len(token))
        if token[:at] in index and token[at:] in index
    ]
    return [(left, right) for *_, left, right in sorted(found)]


def _byte_level(rules: Rules) -> tuple[Any, Any, Any]:
    forms = [{"type": form} for form in rules.forms]
    normalizer = {"type": "Sequence", "normalizers": forms} if forms else None

    def split(pattern: str) -> dict[str, Any]:
        found = {"type": "Split", "pattern": {"Regex": in_characters(pattern)}, "behavior": "Isolated"}
        return {**found, "invert": False}

    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    steps = [*map(split, rules.patterns), level, *map(split, rules.letter_patterns)]
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return normalizer, {"type": "Sequence", "pretokenizers": steps}, decoder


def _spaces(rules: Rules) -> tuple[Any, Any, Any]:
    steps: list[Mapping[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if rules.prefix != "never":
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    decoder = {"type": "Sequence", "decoders": steps}
    if rules.prefix_once or rules.prefix == "first":
        scheme = {"prepend_scheme": rules.prefix, "split": False}
        return None, {"type": "Metaspace", "replacement": SPACE, **scheme}, decoder
    forms: list[Mapping[str, Any]] = [{"type": form} for form in rules.forms]
    forms += [{"type": "Prepend", "prepend": SPACE}] if rules.prefix == "always" else []
    forms.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return {"type": "Sequence", "normalizers": forms}, None, decoder


def _begin(tokenizer: Tokenizer) -> dict[str, Any] | None:
    if not tokenizer.add_bos or tokenizer.bos is None:
        return None
    text = tokenizer.special_names()["bos"]
    bos, first, second = (
        {"SpecialToken": {"id": text, "type_id": 0}},
        *({"Sequence": {"id": name, "type_id": 0}} for name in "AB"),
    )
    tokens = {text: {"id": text, "ids": [tokenizer.bos], "tokens": [text]}}
    return {
        "type": "TemplateProcessing",
        "single": [bos, first],
        "pair": [bos, first, bos, second],
        "special_tokens": tokens,
    }


def _unsupported(kind: str, what: str) -> ParseError:
    return ParseError(f"A {kind} cannot say what this tokenizer does: {what}.", rule="Nothing is left out in silence.")
