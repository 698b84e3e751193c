"""Vocabularies that are made here: a few hundred tokens, learned from a few lines."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

from smelt.llm.tokens.pretokenize import Splitter, in_characters, named
from smelt.llm.tokens.tokenizer import _LETTER as LETTERS

TEXT = (
    """The quick brown fox jumps over the lazy dog, and the dog doesn't mind: they're old friends, aren't they?
In 1984 there were 12345 of them; in 2024 only 7. "Why?", she'd asked.   Nobody'll say...
def main(argument):\n    for number in range(100):\n        print(number * 2)\n\n\n    return None
Größe, naïve, café, résumé; Привет, мир! Как дела? 你好，世界。こんにちは、元気ですか。안녕하세요 세계
''''''```````  ====  ------ !!!!  ??? <b>bold</b> a_b a-b a.b  \t\t tabs\r\n and returns 🦙🦙 🚀
"""
    * 3
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
DEFINED = ["<tool>", "   "]


def learned(words: Counter[tuple[str, ...]], count: int) -> list[tuple[str, str]]:
    """Merges of the pairs that are seen most, one after the other."""
    merges = []
    for _ in range(count):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = Counter({joined(word, best): times for word, times in words.items()})
    return merges


def joined(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    result: list[str] = []
    for symbol in word:
        if result and (result[-1], symbol) == pair:
            result[-1] += symbol
        else:
            result.append(symbol)
    return tuple(result)


@cache
def _byte_level(patterns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    words = Counter(
        tuple(word.encode().decode("latin-1").translate(LETTERS)) for word in Splitter(patterns).words(TEXT)
    )
    merges = learned(words, 250)
    tokens = dict.fromkeys([*LETTERS.values(), *(left + right for left, right in merges)])
    return tuple(tokens), tuple(f"{left} {right}" for left, right in merges)


def byte_level_metadata(name: str = "gpt-2") -> dict[str, Any]:
    """What a GGUF file says about a byte-level vocabulary."""
    tokens, merges = _byte_level(named(name).patterns)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": [*tokens, *SPECIAL, *DEFINED],
        "tokenizer.ggml.token_type": [1] * len(tokens) + [3] * len(SPECIAL) + [4] * len(DEFINED),
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.bos_token_id": len(tokens),
        "tokenizer.ggml.eos_token_id": len(tokens) + 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def byte_level_json(name: str = "gpt-2") -> dict[str, Any]:
    """The same vocabulary as a tokenizer.json."""
    row = named(name)
    tokens, merges = _byte_level(row.patterns)
    added = [
        {
            **{"id": len(tokens) + place, "content": text, "special": text in SPECIAL},
            **{"single_word": False, "lstrip": False, "rstrip": False, "normalized": False},
        }
        for place, text in enumerate([*SPECIAL, *DEFINED])
    ]
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": in_characters(pattern)}, "behavior": "Isolated", "invert": False}
        for pattern in row.patterns
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    model = {"type": "BPE", "vocab": {token: number for number, token in enumerate(tokens)}, "merges": list(merges)}
    return {
        **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None},
        **{"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "post_processor": None},
        **{"decoder": None, "model": {**model, "ignore_merges": row.whole}},
    }


@cache
def _of_characters() -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    # Some characters have no token, so that they become bytes.
    text = TEXT.replace(" ", "▁").translate(dict.fromkeys(map(ord, "Пк世🚀")))
    words = Counter(tuple(f"▁{word}") for word in text.split("▁"))
    merges = (*learned(words, 200), ("▁", "▁"), ("▁▁", "▁▁"))
    letters = sorted(set(text))
    tokens = dict.fromkeys([*letters, *(left + right for left, right in merges)])
    return tuple(tokens), merges


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def scores_metadata() -> dict[str, Any]:
    """What a GGUF file says about a vocabulary with scores, in the manner of SentencePiece."""
    tokens, merges = _of_characters()
    order = {left + right: rank for rank, (left, right) in reversed(list(enumerate(merges)))}
    scores = [0.0] * 259 + [-float(order.get(token, 10_000)) for token in tokens]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *BYTES, *tokens],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(tokens)],
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def spaces_json(form: str = "first") -> dict[str, Any]:
    """A tokenizer.json whose symbols are characters: with a normalizer that prepends ▁, or by a scheme of Metaspace."""
    tokens, merges = _of_characters()
    vocab = {token: number for number, token in enumerate(["<unk>", "<s>", "</s>", *BYTES, *tokens])}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": number, "content": text, **flags} for number, text in enumerate(["<unk>", "<s>", "</s>"])]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": form, "split": False}
    whole = form == "prepend"
    return {
        **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None},
        **{"normalizer": normalizer if whole else None, "pre_tokenizer": None if whole else metaspace},
        **{"decoder": None},
        "model": {
            **{"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab},
            "merges": [list(merge) for merge in merges],
        },
    }
