"""Names, files and folders to a `LanguageModel`; and random weights of a size, for measurements."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from smelt.errors import ArgumentError
from smelt.formats import Folder, Gguf
from smelt.llm import models
from smelt.llm.chat import ChatTemplate
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.decoder import Decoder
from smelt.llm.language import LanguageModel
from smelt.llm.lora import load_adapter
from smelt.llm.programs import DecoderPrograms
from smelt.llm.speculate import MOST_DRAFTED, Draft
from smelt.llm.tokens import Tokenizer
from smelt.llm.weights import from_gguf, from_huggingface, random_model

CACHE_TYPES: Final = ("float16", "float32", "int8")  # of keys and values
CONTEXT: Final = 2048  # positions of a slot, unless more are asked for: they take memory, and time at every token

# layers, width, heads, kv_heads, head_dim, hidden, vocabulary
_SIZES: Final = {
    "tiny": (2, 64, 4, 2, 16, 128, 512),
    "135m": (30, 576, 9, 3, 64, 1536, 49152),
    "0.5b": (24, 896, 14, 2, 64, 4864, 151936),
    "1b": (16, 2048, 32, 8, 64, 8192, 128256),
    "1.5b": (28, 1536, 12, 2, 128, 8960, 151936),
    "3b": (28, 3072, 24, 8, 128, 8192, 128256),
    "8b": (32, 4096, 32, 8, 128, 14336, 128256),
}
RANDOM_TYPES: Final = ("f32", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
_USUAL: Final = "q4_1"


def load(
    model: str = models.DEFAULT,
    *,
    slots: int = 1,
    context: int | None = None,
    queue_limit: int = 64,
    exact: bool = False,
    adapter: str | os.PathLike[str] | None = None,
    speculate: int = 0,
    draft: str | None = None,
    cache_type: str | None = None,
    report: models.Report | None = None,
) -> LanguageModel:
    """A model by its name, which is fetched if it is not here yet, or by its .gguf file or Hugging Face folder.

    `slots` texts of up to `context` tokens are worked on at once. Weights in blocks are multiplied as they are, with
    inputs rounded to 8 bits; `exact` rounds nothing, and takes several times as long and as much memory. `adapter` is a
    folder of PEFT, whose LoRA matrices are put beside the layers. Where a text repeats itself, up to `speculate` tokens
    are guessed and checked at once: the same text, sooner. `draft` is a smaller model of the same tokens, which guesses
    in the place of that (4 at once unless `speculate` says). Keys and values are float16, or float32 if `exact`, unless
    `cache_type` is another one of these or int8, which takes little more than half of the memory.
    `random:tiny`, `random:135m` up to `random:8b` are models with random weights and tokens for bytes, for tests and
    measurements; all but the first have about 5 bits a weight, and `random:1b:f32` or `random:1b:q8_0` others.

    >>> with load("random:tiny", context=64) as model:
    ...     answer = model.generate("Hello", max_tokens=4)
    >>> len(answer.tokens), answer.reason
    (4, 'length')
    """
    decoder, tokenizer, template = opened(model, report, exact=exact)
    speculate = speculate or (MOST_DRAFTED if draft else 0)
    if adapter is not None:
        decoder = load_adapter(decoder, adapter)
    if context is None:
        context = min(CONTEXT, decoder.config.context)
    kind = cache_dtype(cache_type, exact)
    programs = DecoderPrograms(decoder, slots, context, dtype=kind, rows=speculate + 1)
    name = Path(model).stem if "/" in model else model
    drafts = None if draft is None else _draft(draft, report, tokenizer, programs, kind)
    return LanguageModel(name, tokenizer, template, programs, queue_limit, speculate, drafts)


def _draft(name: str, report: models.Report | None, tokenizer: Tokenizer, of: DecoderPrograms, kind: str) -> Draft:
    """A model that guesses for another one, with as many slots, and as much context as it has."""
    decoder, own, _ = opened(name, report)
    limit = min(own.size, tokenizer.size)
    if any(own.piece(token) != tokenizer.piece(token) for token in range(limit)):
        raise ArgumentError(
            f"{name} has other tokens", rule="a model that guesses for another one has the same tokens."
        )
    programs = DecoderPrograms(decoder, of.slots, min(of.context, decoder.config.context), dtype=kind)
    return Draft(programs, min(limit, decoder.config.vocabulary, of.vocabulary))


def cache_dtype(name: str | None, exact: bool = False) -> str:
    """What keys and values are kept as, by name or by default."""
    if name is not None and name not in CACHE_TYPES:
        raise ArgumentError(f"there is no cache of {name!r:.40}", rule=f"types are {', '.join(CACHE_TYPES)}.")
    return name or ("float32" if exact else "float16")


def opened(
    model: str, report: models.Report | None = None, *, exact: bool = False
) -> tuple[Decoder, Tokenizer, ChatTemplate | None]:
    """The decoder of a model, its tokenizer, and its chat template if it has one."""
    if model.startswith("random:"):
        return _random(model.removeprefix("random:"))
    path = models.find(model, report)
    # What came with a pinned hash has been read; other templates are rendered where they can do no harm.
    trusted = model in models.MODELS
    if path.is_dir():
        folder = Folder(path)
        if folder.tokenizer is None:
            raise ArgumentError(f"{path} has no tokenizer.json", rule="text cannot become tokens without it.")
        decoder = from_huggingface(folder.config, folder)
        tokenizer = Tokenizer.from_tokenizer_json(folder.tokenizer, folder.tokenizer_config)
        return decoder, tokenizer, _template(folder.chat_template, tokenizer, trusted)
    file = Gguf(path)
    with ThreadPoolExecutor(1) as beside:  # weights are work of NumPy, which leaves Python to others
        weights = beside.submit(from_gguf, file.metadata, file, exact=exact)
        lists = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in file.metadata.items()}
        tokenizer = Tokenizer.from_gguf_metadata(lists)
        template = _template(file.metadata.get("tokenizer.chat_template"), tokenizer, trusted)
        return weights.result(), tokenizer, template


def _template(text: Any, tokenizer: Tokenizer, trusted: bool) -> ChatTemplate | None:
    return ChatTemplate(text, tokenizer, trusted=trusted) if text else None


def random_config(name: str) -> tuple[ModelConfig, str]:
    """The config of a random model by its size, and the type of its weights: `8b`, or `8b:f32`."""
    size, _, kind = name.partition(":")
    kind = kind or ("f32" if size == "tiny" else _USUAL)
    if size not in _SIZES or kind not in RANDOM_TYPES:
        rule = f"sizes are {', '.join(_SIZES)}, and types after a colon {', '.join(RANDOM_TYPES)}."
        raise ArgumentError(f"there is no random model {name!r:.80}", rule=rule)
    layers, width, heads, kv_heads, head_dim, hidden, vocabulary = _SIZES[size]
    rope = Rope(head_dim, 10000.0)
    config = ModelConfig(
        "llama", layers, width, heads, kv_heads, head_dim, hidden, vocabulary, 8192, 1e-5, rope, tied=True
    )
    return config, kind


def _random(name: str) -> tuple[Decoder, Tokenizer, ChatTemplate]:
    config, kind = random_config(name)
    tokenizer = Tokenizer.from_gguf_metadata(_byte_tokens(config.vocabulary))
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    model = random_model(config, kind=kind.upper())
    return model, tokenizer, ChatTemplate(template, tokenizer, trusted=True)


def _byte_tokens(vocabulary: int) -> Mapping[str, Any]:
    """A vocabulary with a token for each byte, one that ends texts, and names for the rest."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = [*map(chr, visible), *(chr(0x100 + place) for place in range(len(hidden)))]
    tokens = [*letters, "<|end|>", *(f"<|{number}|>" for number in range(257, vocabulary))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * (vocabulary - 256),
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": 256,
    }
