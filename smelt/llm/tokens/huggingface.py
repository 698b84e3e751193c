"""The tokenizer that a tokenizer.json describes, with what tokenizer_config.json adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, cast

from smelt.errors import ParseError
from smelt.llm.tokens.checks import MOST_TOKENS, field_of, mapping_of
from smelt.llm.tokens.gguf import ranks_of
from smelt.llm.tokens.pretokenize import of_json
from smelt.llm.tokens.tokenizer import SPACE, Rules
from smelt.llm.tokens.vocabulary import Kind, Vocabulary, steers

_FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")
_NAMED: Final = ("bos", "eos", "unk", "pad", "sep", "mask")


class _Spaces(NamedTuple):
    """What normalizer and pre-tokeniser do with spaces."""

    written: bool = False  # as ▁
    prefix: Literal["never", "first", "always"] = "never"
    once: bool = False


class _Split(NamedTuple):
    """What the pre-tokeniser does: patterns, whether bytes are written as letters then, and patterns for these."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    byte_level: bool = False


def described(tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Vocabulary, Rules]:
    """Vocabulary and rules, all checked."""
    tokenizer, config = mapping_of(tokenizer, "tokenizer.json"), mapping_of(config, "tokenizer_config.json")
    model = mapping_of(tokenizer.get("model"), "model")
    if model.get("type", "BPE") != "BPE":
        raise _unsupported(f"models of the type {model.get('type')!r}", "BPE")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(key):
            raise _unsupported(f"models with {key}", "models without")
    added = [_Added.of(entry) for entry in field_of(tokenizer, "added_tokens", list, [])]
    forms, spaces = _normalized(tokenizer.get("normalizer"))
    split, spaces = _split(tokenizer.get("pre_tokenizer"), spaces)
    if not split.byte_level and not (spaces.written and model.get("byte_fallback")):
        raise _unsupported("models whose symbols are neither bytes nor characters with bytes for the others", "both")
    vocabulary = _vocabulary(model, config, added, byte_fallback=not split.byte_level)
    return vocabulary, Rules(
        ranks=ranks_of(_merges(model), vocabulary),
        between=" ",
        patterns=split.before,
        letter_patterns=split.after,
        bytes=split.byte_level,
        whole=field_of(model, "ignore_merges", bool, False),
        spaces=spaces.written,
        prefix=spaces.prefix,
        prefix_once=spaces.once,
        forms=forms,
        add_bos=field_of(config, "add_bos_token", bool, _begins(tokenizer.get("post_processor"), vocabulary)),
        strips_left=frozenset(entry.number for entry in added if entry.strips_left),
        strips_right=frozenset(entry.number for entry in added if entry.strips_right),
    )


class _Added(NamedTuple):
    text: str
    number: int
    special: bool
    strips_left: bool
    strips_right: bool

    @classmethod
    def of(cls, entry: object) -> _Added:
        entry = mapping_of(entry, "added token")
        if entry.get("single_word"):
            raise _unsupported("added tokens that are single words", "added tokens anywhere in a text")
        flags = (field_of(entry, key, bool, False) for key in ("special", "lstrip", "rstrip"))
        return cls(field_of(entry, "content", str), field_of(entry, "id", int), *flags)


def _vocabulary(
    model: Mapping[str, Any], config: Mapping[str, Any], added: list[_Added], *, byte_fallback: bool
) -> Vocabulary:
    vocab = mapping_of(model.get("vocab"), "vocab")
    if set(map(type, vocab.values())) - {int}:
        raise ParseError("The vocabulary has ids that are no integers.", rule="Each token has a number.")
    numbers = {**vocab, **{entry.text: entry.number for entry in added}}
    size = max(numbers.values(), default=-1) + 1
    # Ids that nobody has are rare; a vocabulary of two tokens with the ids 0 and 2^32 is an attack.
    if not 0 < size <= min(MOST_TOKENS, 2 * len(numbers) + 4096) or min(numbers.values()) < 0:
        raise ParseError(f"The ids of {len(numbers)} tokens go up to {size - 1}.", rule="Ids count from 0.")
    tokens = [""] * size
    for text, number in numbers.items():
        if tokens[number]:
            raise ParseError(f"{tokens[number]!r} and {text!r} are both token {number}.", rule="Each id is one token.")
        tokens[number] = text
    kinds = [int(Kind.NORMAL)] * size
    for byte in range(256) if byte_fallback else ():
        if (number := numbers.get(f"<0x{byte:02X}>")) is not None:
            kinds[number] = Kind.BYTE
    for entry in added:
        kinds[entry.number] = Kind.CONTROL if entry.special or steers(entry.text) else Kind.USER_DEFINED
    names = {name: _text(config.get(f"{name}_token")) for name in _NAMED}
    names["unk"] = names["unk"] or _text(model.get("unk_token"))
    special = {name: numbers[text] for name, text in names.items() if text is not None and text in numbers}
    return Vocabulary(tokens, kinds, special)


def _text(token: object) -> str | None:
    token = token.get("content") if isinstance(token, Mapping) else token
    return token if isinstance(token, str) else None


def _merges(model: Mapping[str, Any]) -> list[str]:
    merges = []
    for merge in field_of(model, "merges", list):
        if isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
            if " " in merge[0] or " " in merge[1]:
                raise ParseError(f"The merge {str(merge)[:80]} has spaces in it.", rule="Spaces are written as ▁ or Ġ.")
            merge = f"{merge[0]} {merge[1]}"
        if not isinstance(merge, str):
            raise ParseError(f"The merge {str(merge)[:80]} is no pair of texts.", rule="A merge joins two texts.")
        merges.append(merge)
    return merges


def _steps(description: object, what: str, inner: str) -> Iterator[Mapping[str, Any]]:
    """The steps of a description, those of a sequence one by one."""
    if description is None:
        return
    description = mapping_of(description, what)
    if description.get("type") == "Sequence":
        for part in field_of(description, inner, list):
            yield from _steps(part, what, inner)
    else:
        yield description


def _normalized(description: object) -> tuple[tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...], _Spaces]:
    forms, spaces = [], _Spaces()
    for step in _steps(description, "normalizer", "normalizers"):
        kind = step.get("type")
        if kind in _FORMS and not spaces.written:
            forms.append(kind)
        elif kind == "Prepend" and step.get("prepend") == SPACE:
            spaces = spaces._replace(prefix="always")
        elif kind == "Replace" and (step.get("pattern"), step.get("content")) == ({"String": " "}, SPACE):
            spaces = spaces._replace(written=True)
        else:
            raise _unsupported(f"the normalizer {str(dict(step))[:80]}", "Unicode normal forms, and ▁ for spaces")
    return cast("Any", tuple(forms)), spaces


def _split(description: object, spaces: _Spaces) -> tuple[_Split, _Spaces]:
    steps = list(_steps(description, "pre_tokenizer", "pretokenizers"))
    if len(steps) == 1 and steps[0].get("type") == "Metaspace":
        return _metaspace(steps[0])
    # It splits at spaces, and there are none any more.
    if spaces.written and len(steps) == 1 and steps[0].get("pattern") == {"String": " "}:
        return _Split(), spaces
    before: list[str] = []
    after: list[str] = []
    byte_level = False
    for step in steps:
        patterns, level = of_json(step)
        (after if byte_level else before).extend(patterns)
        byte_level = byte_level or level
    return _Split(tuple(before), tuple(after), byte_level), spaces


def _metaspace(step: Mapping[str, Any]) -> tuple[_Split, _Spaces]:
    prefix = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    if step.get("replacement", SPACE) != SPACE or step.get("split", True) or prefix not in ("never", "first", "always"):
        raise _unsupported(f"the pre-tokeniser {str(dict(step))[:120]}", "Metaspace with ▁ that does not split")
    return _Split(), _Spaces(True, prefix, once=True)


def _begins(description: object, vocabulary: Vocabulary) -> bool:
    """Whether what is done last puts the beginning token first."""
    for step in _steps(description, "post_processor", "processors"):
        if step.get("type") == "TemplateProcessing":
            first = next(iter(field_of(step, "single", list)), None)
            named = first.get("SpecialToken") if isinstance(first, Mapping) else None
            text = named.get("id") if isinstance(named, Mapping) else None
            if text is not None and text == vocabulary.tokens[vocabulary.special.get("bos", 0)]:
                return "bos" in vocabulary.special
    return False


def _unsupported(what: str, supported: str) -> ParseError:
    return ParseError(f"This tokenizer.json has {what}, which is not supported.", hint=f"Supported: {supported}.")
