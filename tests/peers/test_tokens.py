"""Tokens and prompts beside those of llama.cpp's goldens, tokenizers and transformers.

`SMELT_TEST_VOCABULARIES` is the path of the source distribution of llama-cpp-python, which has vocabularies with golden
tokens, and templates; `SMELT_TEST_GGUF` that of a model's file with a byte-level vocabulary and a chat template.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import struct
import sys
import tarfile
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, BinaryIO

import pytest

from smelt.errors import ParseError
from smelt.llm.chat import ChatTemplate
from smelt.llm.tokens import Tokenizer
from smelt.llm.tokens.pretokenize import in_characters, named
from tests.llm.conversations import CONVERSATIONS, TEMPLATES, TOOLS
from tests.llm.tokens.small import byte_level_json, spaces_json

tokenizers = pytest.importorskip("tokenizers")
chat_utils = pytest.importorskip("transformers.utils.chat_template_utils")

pytestmark = pytest.mark.peers

SOURCES = os.environ.get("SMELT_TEST_VOCABULARIES")
MODEL = os.environ.get("SMELT_TEST_GGUF")
needs_sources = pytest.mark.skipif(not SOURCES, reason="SMELT_TEST_VOCABULARIES is not set")
needs_model = pytest.mark.skipif(not MODEL, reason="SMELT_TEST_GGUF is not set")
STRINGS = int(os.environ.get("SMELT_TEST_STRINGS", "3000"))

GOLDEN = (
    *("command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "mpt"),
    *("phi-3", "qwen2", "qwen35", "refact", "starcoder"),
)
REFUSED = {"bert-bge": "bert", "nomic-bert-moe": "t5", "aquila": "no pre-tokeniser", "gpt-neox": "no pre-tokeniser"}
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_metadata(file: BinaryIO) -> dict[str, Any]:
    """The metadata of a GGUF file, of which nothing is checked."""

    def number(form: str, count: int = 1) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{form}", file.read(count * struct.calcsize(form)))

    def text() -> str:
        return file.read(number("Q")[0]).decode("utf-8", "replace")

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I")[0], number("Q")[0]
            return [value(inner) for _ in range(count)] if inner in (8, 9) else list(number(FORMATS[inner], count))
        return number(FORMATS[kind])[0]

    file.read(8)
    _, count = number("Q", 2)
    return {text(): value(number("I")[0]) for _ in range(count)}


@cache
def stored() -> dict[str, bytes]:
    """Vocabularies, goldens and templates, by the names of their files."""
    with tarfile.open(str(SOURCES)) as archive:
        wanted = [
            member
            for member in archive.getmembers()
            if re.search(r"/models/(ggml-vocab-|templates/.*jinja)", member.name)
        ]
        return {member.name.rpartition("/")[2]: archive.extractfile(member).read() for member in wanted}  # type: ignore[union-attr]


@cache
def vocabulary(name: str) -> dict[str, Any]:
    if name == "model":
        with open(str(MODEL), "rb") as file:
            return read_metadata(file)
    return read_metadata(io.BytesIO(stored()[f"ggml-vocab-{name}.gguf"]))


@needs_sources
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tokens(name: str) -> None:
    tokenizer = Tokenizer.from_gguf_metadata(vocabulary(name))
    texts = stored()[f"ggml-vocab-{name}.gguf.inp"].decode().split("\n__ggml_vocab_test__\n")
    goldens = stored()[f"ggml-vocab-{name}.gguf.out"].decode().splitlines()
    assert len(goldens) >= 46
    for text, golden in zip(texts, goldens, strict=False):
        ids = tokenizer.encode(text, bos=False)
        assert ids == [int(number) for number in golden.split()], text
        assert tokenizer.decode(ids) == text


@needs_sources
@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name: str) -> None:
    with pytest.raises(ParseError, match=REFUSED[name]):
        Tokenizer.from_gguf_metadata(vocabulary(name))


# Characters that older tables of Unicode have as well: new ones are letters for some libraries and nothing for others.
OLD = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs")]
FAVORITES = [
    *" \n\t\r'.,!?<>|0123456789aAsStTmMdDſK",
    "'s",
    "'LL",
    "  ",
    "\n\n",
    "é",
    "e\u0301",
    "🦙",
    "中",
    "▁",
    "Ġ",
    "the",
]


def strings(count: int) -> Iterator[str]:
    """Texts of all kinds: single characters of all of Unicode, common ones, words of one script."""
    source = random.Random(0)
    for _ in range(count):
        kind = source.randrange(3)
        length = source.randrange(1, 24)
        if kind == 0:
            yield "".join(source.choice(OLD) for _ in range(length))
        elif kind == 1:
            yield "".join(source.choice(FAVORITES) for _ in range(length))
        else:
            start = source.randrange(len(OLD))
            near = [*OLD[start : start + 40], *"  \n1-"]
            yield "".join(source.choice(near) for _ in range(length))


def differing(ours: Tokenizer, theirs: Any) -> list[tuple[str, list[int], list[int]]]:
    found = []
    for text in strings(STRINGS):
        expected = theirs.encode(text, add_special_tokens=False).ids
        ids = ours.encode(text, special=True, bos=False)  # theirs always looks for control tokens
        if ids != expected:
            found.append((text, ids, expected))
    return found


@pytest.mark.parametrize(
    "name",
    [
        "gpt-2",
        "llama3",
        "qwen2",
        "qwen35",
        "smollm",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
        "tekken",
        "gpt-4o",
    ],
)
def test_small_byte_level_vocabularies(name: str) -> None:
    description = byte_level_json(name)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(description))
    assert differing(Tokenizer.from_tokenizer_json(description), theirs) == []


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
THREE = {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False}
STEPS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [LEVEL],
    "smollm": [{"type": "Digits", "individual_digits": True}, LEVEL],
    "falcon": [
        {"type": "Punctuation", "behavior": "Contiguous"},
        LEVEL,
        {"type": "Digits", "individual_digits": False},
        THREE,
    ],
}


@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
@pytest.mark.parametrize("name", STEPS)
def test_steps_and_normal_forms(name: str, form: str | None) -> None:
    description = byte_level_json(name)
    description["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": STEPS[name]}
    description["normalizer"] = None if form is None else {"type": form}
    theirs = tokenizers.Tokenizer.from_str(json.dumps(description))
    assert differing(Tokenizer.from_tokenizer_json(description), theirs) == []


@pytest.mark.parametrize("form", ["prepend", "first", "always", "never"])
def test_small_vocabularies_of_characters(form: str) -> None:
    description = spaces_json(form)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(description))
    assert differing(Tokenizer.from_tokenizer_json(description), theirs) == []


def converted(metadata: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json that says the same as a GGUF file with merges."""
    row = named(metadata["tokenizer.ggml.pre"])
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    splits = [
        {"type": "Split", "pattern": {"Regex": in_characters(pattern)}, "behavior": "Isolated", "invert": False}
        for pattern in row.patterns
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": tokens[number], "special": kind == 3, **plain}
        for number, kind in enumerate(kinds)
        if kind in (3, 4)
    ]
    merges = metadata["tokenizer.ggml.merges"]
    vocab = {token: number for number, token in enumerate(tokens)}
    description: dict[str, Any] = {
        **{"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None},
        **{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, level]}, "post_processor": None},
        **{"decoder": None, "model": {"type": "BPE", "vocab": vocab, "merges": merges}},
    }
    description["model"]["ignore_merges"] = row.whole
    return description


@needs_sources
@pytest.mark.parametrize("name", ["gpt-2", "qwen2", "starcoder", "llama-bpe", "deepseek-llm", "mpt"])
def test_large_byte_level_vocabularies(name: str) -> None:
    metadata = vocabulary(name)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(converted(metadata)))
    assert differing(Tokenizer.from_gguf_metadata(metadata), theirs) == []


def by_merges(metadata: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json with the merges that scores amount to: earlier, the better the token that they make."""
    tokens, scores, kinds = (metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type"))
    normal = {token: score for token, score, kind in zip(tokens, scores, kinds, strict=True) if kind == 1}
    pairs = [
        (-score, token[:cut], token[cut:])
        for token, score in normal.items()
        for cut in range(1, len(token))
        if token[:cut] in normal and token[cut:] in normal
    ]
    merges = [[left, right] for _, left, right in sorted(pairs, key=lambda pair: pair[0])]
    description = spaces_json("prepend")
    vocab = {token: number for number, token in enumerate(tokens)}
    description["model"] |= {"vocab": vocab, "merges": merges, "unk_token": "<unk>"}
    return description


@needs_sources
def test_a_large_vocabulary_with_scores() -> None:
    metadata = vocabulary("llama-spm")
    description = by_merges(metadata)
    theirs = tokenizers.Tokenizer.from_str(json.dumps(description))
    assert differing(Tokenizer.from_gguf_metadata(metadata), theirs) == []
    assert differing(Tokenizer.from_tokenizer_json(description), theirs) == []


SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def theirs_rendered(template: str, messages: Any, tools: Any, **more: Any) -> str | None:
    try:
        # It is cached by the text of the template.
        texts, _ = chat_utils.render_jinja_template(
            [messages], tools=tools, documents=None, chat_template=template, **SPECIAL, **more
        )
    except Exception:
        return None
    return str(texts[0])


def ours_rendered(template: ChatTemplate, messages: Any, tools: Any, **more: Any) -> str | None:
    try:
        return template.render(messages, tools, **more)
    except ParseError:
        return None


def special_tokenizer() -> Tokenizer:
    description = byte_level_json("gpt-2")
    for number, text in enumerate(
        SPECIAL.values(), start=len(description["model"]["vocab"]) + len(description["added_tokens"])
    ):
        description["added_tokens"].append({"id": number, "content": text, "special": True})
    return Tokenizer.from_tokenizer_json(description, SPECIAL)


def compare_templates(text: str, more: dict[str, Any]) -> tuple[int, int]:
    """How many conversations were rendered alike, and how many both refused."""
    template = ChatTemplate(text, special_tokenizer())
    alike = refused = 0
    for messages in CONVERSATIONS:
        for tools in (None, TOOLS):
            for answers in (True, False):
                expected = theirs_rendered(text, messages, tools, add_generation_prompt=answers, **more)
                assert ours_rendered(template, messages, tools, add_generation_prompt=answers, **more) == expected
                alike, refused = alike + (expected is not None), refused + (expected is None)
    return alike, refused


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str) -> None:
    alike, _ = compare_templates(TEMPLATES[name], {})
    assert alike >= 2 * len(CONVERSATIONS)


@needs_sources
def test_stored_templates() -> None:
    names = [name for name in stored() if name.endswith(".jinja")]
    assert len(names) > 50
    for name in names:
        print(name, *compare_templates(stored()[name].decode(), {}))


@needs_model
def test_prompts_as_tokens() -> None:
    from transformers import PreTrainedTokenizerFast

    metadata = vocabulary("model")
    tokenizer = Tokenizer.from_gguf_metadata(metadata)
    names = {f"{name}_token": text for name, text in tokenizer.special_names().items() if name in ("bos", "eos", "unk")}
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(converted(metadata))), **names
    )
    texts = {**TEMPLATES, "its own": metadata["tokenizer.chat_template"]}
    for text in texts.values():
        template = ChatTemplate(text, tokenizer)
        for messages in CONVERSATIONS:
            try:
                expected = theirs.apply_chat_template(
                    messages, chat_template=text, add_generation_prompt=True, return_dict=False
                )
            except Exception:
                continue
            assert template.prompt(messages) == expected
