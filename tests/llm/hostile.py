"""Four hundred model files that somebody made with bad intent, or with bad luck; and what opens them, in a process.

They are mutations of a whole small model: its header field by field, what its metadata mean, its tokens and merges, its
chat template, and bytes at random. `python -m tests.llm.hostile FOLDER` opens all and prints how each one ended.
"""

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from smelt.errors import SmeltError
from smelt.formats import write_gguf
from smelt.llm.loading import _byte_tokens, opened
from tests.llm.converted import converted
from tests.llm.tiny_models import CONFIGS, random_tensors

COUNT = 400
SECONDS = 20  # of computing, after which a file is said to hang; one takes milliseconds
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
HUGE = (0, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
KEY = "tokenizer.ggml."


def parts() -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and tensors of a whole model."""
    config = CONFIGS["llama"] | {"vocab_size": 300}
    metadata, tensors = converted(config, random_tensors(config))
    quantized = {n: ("Q4_0", a) for n, a in tensors.items() if a.ndim == 2 and a.shape[1] == 32}
    own = _byte_tokens(300) | {"tokenizer.chat_template": TEMPLATE, f"{KEY}merges": ["a b", "c d"]}
    tokens = list(own[f"{KEY}tokens"])
    tokens[-2:] = ["ab", "cd"]
    kinds = list(own[f"{KEY}token_type"])
    kinds[-2:] = [1, 1]
    return metadata | own | {f"{KEY}tokens": tokens, f"{KEY}token_type": kinds}, tensors | quantized


def corpus(folder: Path) -> Iterator[tuple[str, Path]]:
    """`COUNT` files with names that say what is wrong; each is gone when the next one is asked for."""
    metadata, tensors = parts()
    whole = folder / "whole.gguf"
    write_gguf(whole, metadata, tensors)
    data = whole.read_bytes()
    yield "whole", whole
    path, number = folder / "hostile.gguf", 1
    for name, change in _changes(metadata, tensors):
        changed = change(data)
        if isinstance(changed, tuple):
            write_gguf(path, *changed)
        else:
            path.write_bytes(changed)
        yield name, path
        number += 1
    rng = np.random.default_rng(0)
    header = data.index(b"output_norm.weight") + 200
    for seed in range(COUNT - number):
        yield f"random {seed}", _random(path, data, header, rng)


def _random(path: Path, data: bytes, header: int, rng: Any) -> Path:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(4, header))
        words = (b"\0", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\0" * 8, rng.bytes(8))
        word = words[int(rng.integers(len(words)))]
        changed[at : at + len(word)] = word
    cut = len(changed) if rng.random() < 0.8 else int(rng.integers(8, len(changed)))
    path.write_bytes(bytes(changed[:cut]))
    return path


Change = Callable[[bytes], Any]


def _changes(metadata: dict[str, Any], tensors: dict[str, Any]) -> Iterator[tuple[str, Change]]:
    yield from _structural()
    for key, value in _meanings():
        left = {k: v for k, v in metadata.items() if k != key}
        pair = {} if value is None else {key: value}
        yield f"{key} = {value!r:.60}", lambda data, left=left, pair=pair: (left | pair, tensors)
    for name, array in _shapes(tensors):
        left = {k: v for k, v in tensors.items() if k != name}
        added = {} if array is None else {name: array}
        yield f"tensor {name}", lambda data, left=left, added=added: (metadata, left | added)


def _structural() -> Iterator[tuple[str, Change]]:
    """Counts, lengths, places and kinds that lie."""
    for at, what in ((8, "tensors"), (16, "metadata")):
        for count in HUGE:
            yield f"{count} {what}", lambda data, at=at, count=count: _put(data, at, "<Q", count)
    for version in (0, 1, 4, 0x03000000):
        yield f"version {version}", lambda data, version=version: _put(data, 4, "<I", version)
    for count in HUGE:
        for key, after in (("tokens", 8), ("merges", 8), ("token_type", 8)):
            yield f"{count} {key}", lambda data, k=key, a=after, c=count: _after(data, KEY + k, a, "<Q", c)
        yield f"a token of {count} bytes", lambda data, c=count: _after(data, f"{KEY}tokens", 16, "<Q", c)
        yield f"a template of {count}", lambda data, c=count: _after(data, "tokenizer.chat_template", 4, "<Q", c)
        for place in (4, 12):
            yield f"a size of {count}", lambda data, p=place, c=count: _after(data, "blk.0.attn_q.weight", p, "<Q", c)
        yield f"an offset of {count}", lambda data, c=count: _after(data, "blk.0.attn_q.weight", 24, "<Q", c)
    for kind in (0, 7, 8, 9, 13, 255, (1 << 32) - 1):
        yield f"tokens of the kind {kind}", lambda data, k=kind: _after(data, f"{KEY}tokens", 4, "<I", k)
        yield f"a template of the kind {kind}", lambda data, k=kind: _after(data, "tokenizer.chat_template", 0, "<I", k)
        yield f"blocks of the kind {kind}", lambda data, k=kind: _after(data, "blk.0.attn_q.weight", 20, "<I", k)
    for rank in (0, 1, 3, 5, 1 << 31):
        yield f"{rank} axes", lambda data, r=rank: _after(data, "blk.0.attn_q.weight", 0, "<I", r)
    yield "two tensors at one place", lambda data: _after(data, "blk.0.attn_k.weight", 24, "<Q", 0)
    yield "two tensors of one name", lambda data: data.replace(b"blk.0.attn_k.weight", b"blk.0.attn_q.weight")
    yield "no UTF-8", lambda data: data.replace(b"blk.0.attn_k", b"blk.0.attn_\xff")
    yield "a token that is no UTF-8", lambda data: data.replace(b"<|258|>", b"<|\xff58|>")
    for share in range(1, 20):
        yield f"cut at {share}/20", lambda data, share=share: data[: len(data) * share // 20]


def _meanings() -> Iterator[tuple[str, Any]]:
    """Metadata that are well-formed and cannot be."""
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    for key in ("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv", "context_length"):
        for value in (None, 0, 3, 1 << 31, np.uint64(1 << 63), -1, "8", 8.0, [1, 2], True):
            yield f"llama.{key}", value
    for key in ("attention.layer_norm_rms_epsilon", "rope.freq_base"):
        for value in (nan, inf, -1.0, 0.0, "1"):
            yield f"llama.{key}", value
    for value in (0, 1, 7, 10_000, 1 << 25, -2):
        yield "llama.rope.dimension_count", value
    yield from (("general.architecture", value) for value in (None, "mamba", 7, "", "llama" * 1000))
    yield from (("general.alignment", value) for value in (8, 1 << 20, 64))
    yield from (("split.count", value) for value in (2, 65535, np.uint64(1 << 63)))
    yield f"{KEY}tokens", list(range(300))
    yield f"{KEY}tokens", ["x"] * 300
    yield f"{KEY}tokens", [f"t{n}" for n in range(299)]
    for byte in ("<0x-1>", "<0x100>", "<0xGG>", "0x41"):
        yield f"{KEY}tokens", [byte, *(f"t{n}" for n in range(299))]
    yield f"{KEY}token_type", [6] * 300
    yield f"{KEY}token_type", [-1] * 300
    yield f"{KEY}token_type", [77] * 300
    yield f"{KEY}token_type", ["1"] * 300
    yield from ((f"{KEY}eos_token_id", value) for value in (300, -1, 1 << 31, "2"))
    yield from ((f"{KEY}pre", value) for value in (None, "unknown", 7, "x" * 100_000))
    yield from ((f"{KEY}model", value) for value in (None, "unigram", "llama", "gemma4"))
    for merges in (["a b"] * 2, ["ab a", "a ba"], [" ab"], ["ab "], ["ab"], ["a  b"], [""], [1, 2], ["x y z"]):
        yield f"{KEY}merges", merges
    yield f"{KEY}merges", ["a b", "b a", "ab ab", "abab a"]  # a circle, but for tokens that are missing
    for template in _BOMBS:
        yield "tokenizer.chat_template", template


_BOMBS = (
    "{% for a in range(10**9) %}x{% endfor %}",
    "{{ 'x' * 10**10 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ '%999999999d' % 1 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append(1) }}",
    "{% include '/etc/passwd' %}",
    "{% if %}",
    "{{ raise_exception('no') }}",
    "{" * 200_000,
    "x" * 300_000,
    "",
)


def _shapes(tensors: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tensors that are missing, of other sizes or formats, or strange."""
    ones = np.ones
    for name in ("token_embd.weight", "output_norm.weight", "blk.2.ffn_down.weight", "blk.1.attn_v.weight"):
        yield name, None
        for shape in ((1,), (32, 300), (1, 1, 1, 32), (64, 32)):
            yield name, ones(shape, np.float32)
        yield name, ones((300, 32), np.int8)
        yield name, ones((300, 32), np.float64)
    yield "more.weight", ones(3, np.float32)
    yield "rope_freqs.weight", ones(3, np.float32)
    yield "rope_freqs.weight", np.array([0, np.nan, np.inf, -1], np.float32)
    yield "output.bias", ones(300, np.float32)
    yield "token_embd.weight", np.full((300, 32), np.nan, np.float32)
    yield "blk.0.attn_q.weight", ("Q4_0", np.full((32, 18), 255, np.uint8))  # scales that are no numbers


def _put(data: bytes, at: int, form: str, value: int) -> bytes:
    word = struct.pack(form, value)
    return data[:at] + word + data[at + len(word) :]


def _after(data: bytes, name: str, at: int, form: str, value: int) -> bytes:
    """Another number so many bytes after a name of the header."""
    text = name.encode()
    return _put(data, data.index(struct.pack("<Q", len(text)) + text) + 8 + len(text) + at, form, value)


def outcome(path: Path) -> str:
    """What comes of opening a file, and of a prompt."""
    try:
        decoder, tokenizer, template = opened(str(path))
        assert max(tokenizer.encode("abcd <|end|> " * 20), default=0) < decoder.config.vocabulary
        if template is not None:
            template.prompt([{"role": "user", "content": "Hello"}])
    except SmeltError as error:
        return f"{type(error).__name__}: {error}"
    except FileNotFoundError:
        return "MissingFileError: a part of it"
    return "loaded"


def main(folder: str, turn: int, of: int) -> None:
    """Open those whose turn it is, and print a line of JSON for each."""
    for place, (name, path) in enumerate(corpus(Path(folder))):
        if place and place % of != turn % of:
            continue
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process
        said = outcome(path)
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        row = {"name": name, "said": said, "seconds": time.process_time() - began, "megabytes": grown if place else 0}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
