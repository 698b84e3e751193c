"""How text is split before its pieces become tokens: a table of the patterns that files of models name or contain.

A pre-tokeniser is a chain of patterns: each splits every piece that the last one left into matches and what lies
between them. Files are hostile and patterns can take forever, so only patterns of this table are ever run: GGUF files
name a row of it, and each pattern in a `tokenizer.json` has to be one of those here. A pre-tokeniser that is not here
is refused: another one in its place would give a model that is fluent and wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from smelt.errors import ArgumentError, ParseError
from smelt.llm.tokens.checks import mapping_of

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN2 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES
_QWEN35 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _SPACES
_TEKKEN = _CASED.replace("%s", "") + r"|\p{N}" + _MARKS
_GPT4O = _CASED.replace("%s", _ENDINGS + "?") + r"|\p{N}{1,3}" + _MARKS
_DIGIT = r"\p{N}"
_PUNCTUATION = r"[\p{P}\$\+<=>\^~\|`]+"
_BREAKS = r"[\r\n]"
_ASIAN = r"[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
# Letters of scripts with upper and lower case, by number: some look alike.
_DEEPSEEK_LETTERS = (
    r"\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373"
    r"\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-"
    r"\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-"
    r"\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
    r"\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-"
    r"\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D"
    r"\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE"
    r"\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06"
    r"\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB"
    r"\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+"
)
_DEEPSEEK_MARKS = r"\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _SPACES
)
_SENTENCES = r" ?[^(\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+"
_KANJI = r"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"
LINES: Final = r"[^\n]+|[\n]+"

# So in files. Tried at each of a million spaces it would look at all the others, so another form is run.
_AT_END = r"\s+$"
_RUN_AS: Final = {_AT_END: r"(?<!\s)\s++\Z"}


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """`patterns` split one after the other; `whole` takes a word that is a token as it is, whatever the merges say."""

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    whole: bool = False
    add_bos: bool = False  # unless the file says otherwise


PRETOKENIZERS: Final = (
    PreTokenizer(
        ("gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "a.x-4.0", "mellum", "trillion"), (_GPT2,)
    ),
    PreTokenizer(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
        (_LLAMA3,),
        whole=True,
        add_bos=True,
    ),
    PreTokenizer(("dbrx", "smaug-bpe"), (_LLAMA3,)),
    PreTokenizer(("chatglm-bpe",), (_LLAMA3,)),
    PreTokenizer(("glm4", "glm5"), (_LLAMA3,), whole=True),
    PreTokenizer(
        ("qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2"), (_QWEN2,)
    ),
    PreTokenizer(("qwen35",), (_QWEN35,)),
    PreTokenizer(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"), (_DIGIT, _GPT2)
    ),
    PreTokenizer(("falcon",), (_PUNCTUATION, _GPT2, r"[0-9][0-9][0-9]")),
    PreTokenizer(
        ("deepseek-llm",), (_BREAKS, _DEEPSEEK_LETTERS, _DEEPSEEK_MARKS, _AT_END, _ASIAN, r"\p{N}+")
    ),
    PreTokenizer(("deepseek-coder",), (_BREAKS, r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, _DIGIT)),
    PreTokenizer(
        ("deepseek-v3", "hunyuan-dense", "joyai-llm"), (r"\p{N}{1,3}", _KANJI, _DEEPSEEK3)
    ),
    PreTokenizer(("tekken",), (_TEKKEN,), whole=True, add_bos=True),
    PreTokenizer(("gpt-4o", "llama4", "kanana2"), (_GPT4O,)),
    PreTokenizer(("bloom", "poro-chat", "gpt3-finnish"), (_SENTENCES,)),
    PreTokenizer(("viking",), (_SENTENCES, _DIGIT)),
)  # fmt: skip
_BY_NAME: Final = {name: row for row in PRETOKENIZERS for name in row.names}


def in_characters(pattern: str) -> str:
    """A pattern with characters instead of their numbers."""
    numbered = re.compile(r"\\u([0-9A-F]{4})|\\U([0-9A-F]{8})")
    return numbered.sub(lambda found: chr(int(found[1] or found[2], 16)), pattern)


def _spellings(pattern: str) -> set[str]:
    """How files write a pattern: with characters or their numbers, with line breaks or their escapes."""
    return {
        text
        for form in (pattern, in_characters(pattern))
        for text in (form, form.replace(r"\r", "\r").replace(r"\n", "\n"))
    }


_KNOWN: Final = {text: pattern for row in PRETOKENIZERS for pattern in row.patterns for text in _spellings(pattern)}
_KNOWN[r"[0-9]{3}"] = r"[0-9][0-9][0-9]"


def named(name: object) -> PreTokenizer:
    """The row that a GGUF file names."""
    if not isinstance(name, str) or name not in _BY_NAME:
        what = "names no pre-tokeniser" if name is None else f"names an unknown pre-tokeniser, {_short(name)}"
        raise ParseError(
            f"The file {what}.",
            rule="Text split in another way than the model was trained with gives wrong tokens, so nothing is guessed.",
            hint=f"Known are {', '.join(sorted(_BY_NAME))}.",
        )
    return _BY_NAME[name]


def of_json(step: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Patterns of a step of the `pre_tokenizer` of a tokenizer.json, and whether it writes bytes as letters then.

    Metaspace belongs to the normaliser (`huggingface.py`) and is not met here.
    """
    kind = step.get("type")
    if kind == "ByteLevel":
        if step.get("add_prefix_space"):
            raise _unknown("ByteLevel with add_prefix_space")
        return ((_GPT2,) if step.get("use_regex", True) else ()), True
    if kind == "Digits":
        return ((_DIGIT if step.get("individual_digits") else r"\p{N}+"),), False
    if kind == "Punctuation" and step.get("behavior") == "Contiguous":
        return (_PUNCTUATION,), False
    if kind == "Split":
        return (_split(step),), False
    raise _unknown(_short(kind))


def _split(description: Mapping[str, Any]) -> str:
    text = mapping_of(description.get("pattern"), "pattern").get("Regex")
    known = _KNOWN.get(text) if isinstance(text, str) else None
    if known is None:
        raise _unknown(f"the pattern {_short(text)}")
    how = (description.get("behavior"), bool(description.get("invert")))
    # What does not match is dropped, which changes nothing where everything matches.
    if how != ("Isolated", False) and not (how == ("Removed", True) and known.endswith(r"|\s+")):
        raise _unknown(f"Split with behavior {_short(how[0])}")
    return known


def _unknown(what: str) -> ParseError:
    return ParseError(
        f"The pre-tokeniser in tokenizer.json is not known: {what}.",
        rule="Text split in another way than the model was trained with gives wrong tokens, so nothing is guessed.",
        hint="Known are Sequence, ByteLevel, Digits, Punctuation (Contiguous), Metaspace, and Split (Isolated) by the "
        f"patterns of {', '.join(row.names[0] for row in PRETOKENIZERS)}.",
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


class Splitter:
    """Text to words, by patterns."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]

    def words(self, text: str) -> list[str]:
        """The pieces of `text`: joined, they are `text` again, and none is empty."""
        pieces = [text]
        for pattern in self._patterns:
            # With one group around all of it, `split` gives matches and what lies between them in turn.
            pieces = [part for piece in pieces for part in pattern.split(piece) if part]
        return pieces


@cache
def _compiled(pattern: str) -> Any:
    try:
        import regex
    except ImportError:
        raise ArgumentError(
            "Splitting text into words needs the package regex.", hint="Install it with pip install smelt[llm]."
        ) from None
    return regex.compile(f"({_RUN_AS.get(pattern, pattern)})")
