"""Model files with bytes changed at random, opened and asked for some tokens: `python -m tests.llm.fuzzed SECONDS`.

Every file is a whole small model of some family, format of weights and kind of file, of which some bytes are others, or
the end is missing. What opens is a model, and computes: a chunk of a prompt, a batch, what is chosen. All else is an
error that says so. Started with the sanitizers (`tests/test_sanitizers.py`), every access of every kernel is checked.
It prints what the files came to, and a line for each that broke a promise.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smelt.config import settings
from smelt.errors import InternalError, SmeltError
from smelt.formats import BLOCKS, write_gguf, write_safetensors
from smelt.llm.engine import Engine, Request
from smelt.llm.loading import _byte_tokens, opened
from smelt.llm.programs import DecoderPrograms
from tests.llm.converted import converted
from tests.llm.tiny_models import CONFIGS, random_tensors
from tests.llm.tokens.small import byte_level_json
from tests.sanitized import exact_blocks

PROMPT = [5, 9, 2, 33, 7]
LARGEST = 100.0  # megabytes that a file may take
_WORDS = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\0" * 4, b"\xff" * 8, b"\0" * 8, b"\1" + b"\0" * 7)
_WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}  # for blocks of 256


def gguf_file(folder: Path, name: str, kind: str | None) -> Path:
    """A whole model, its matrices in blocks where they fit."""
    wide = _WIDE if kind is not None and BLOCKS[kind].size == 256 else {}
    config = CONFIGS[name] | wide
    metadata, tensors = converted(config, random_tensors(config))
    size = config["vocab_size"] if name != "gpt2" else 61
    own = _byte_tokens(300)
    own = {key: value[:size] if isinstance(value, list) and value else value for key, value in own.items()}
    own["tokenizer.ggml.eos_token_id"] = size - 1
    if kind is not None:
        fits = BLOCKS[kind].size
        tensors |= {n: (kind, a) for n, a in tensors.items() if a.ndim == 2 and a.shape[1] % fits == 0}
    path = folder / f"{name}-{kind}.gguf"
    write_gguf(path, metadata | own, tensors)
    return path


def folder_of(folder: Path, name: str) -> Path:
    """A whole model as a folder."""
    description = byte_level_json("gpt-2")
    vocabulary = len(description["model"]["vocab"]) + len(description["added_tokens"])
    config = CONFIGS[name] | {"vocab_size": vocabulary}
    path = folder / name
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text(json.dumps(description))
    write_safetensors(path / "model.safetensors", random_tensors(config))
    return path


def wholes(folder: Path) -> list[Path]:
    """Every family, and every format that can be made."""
    kinds = [kind for kind, block in BLOCKS.items() if block.dtype is None and block.fit is not None]
    files = [gguf_file(folder, "llama", kind) for kind in kinds] + [
        gguf_file(folder, "qwen2", kind) for kind in kinds[:2]
    ]
    files += [gguf_file(folder, name, None) for name in ("llama-3", "mixtral", "qwen3", "gemma2", "gemma3", "gpt2")]
    return files + [folder_of(folder, name) for name in ("llama", "qwen2", "gemma3")]


def changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes of a file, mostly of its header, as something else; sometimes its end is missing."""
    found = bytearray(data)
    header = min(len(found), 12_000)
    for _ in range(int(rng.integers(1, 5))):
        end = header if rng.random() < 0.6 else len(found)
        at = int(rng.integers(4, max(end, 5)))
        kind = int(rng.integers(4))
        if kind == 0:
            found[at : at + 1] = bytes([found[min(at, len(found) - 1)] ^ 1 << int(rng.integers(8))])
        elif kind == 1:
            word = _WORDS[int(rng.integers(len(_WORDS)))]
            found[at : at + len(word)] = word
        elif kind == 2:  # a number of the file that is a little larger or smaller
            near = int.from_bytes(found[at : at + 4], "little") + int(rng.integers(-3, 4))
            found[at : at + 4] = (near & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            other = int(rng.integers(len(found)))
            found[at : at + 8] = found[other : other + 8]
    return bytes(found[: len(data) if rng.random() < 0.9 else int(rng.integers(len(data)))])


def damaged(whole: Path, target: Path, rng: np.random.Generator) -> Path:
    """A copy of a model with one of its files changed."""
    if whole.is_file():
        path = target / "damaged.gguf"
        path.write_bytes(changed(whole.read_bytes(), rng))
        return path
    path = target / "damaged"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(whole, path)
    names = sorted(file.name for file in path.iterdir())
    file = path / ("model.safetensors" if rng.random() < 0.6 else names[int(rng.integers(len(names)))])
    file.write_bytes(changed(file.read_bytes(), rng))
    return path


def asked(path: Path, compiles: Callable[[Any], bool]) -> str:
    """What a file comes to: the name of an error, or a model that has computed, if it is one that may be compiled."""
    try:
        decoder, tokenizer, _ = opened(str(path))
        tokenizer.encode("abcd <|end|> ")
        if not compiles(decoder.config):
            return "opened"
        context = min(decoder.config.context, 16)
        programs = DecoderPrograms(decoder, 2, context, chunks=(4,), dtype="float16")
        engine = Engine(programs)
        prompt = [token % decoder.config.vocabulary for token in PROMPT]
        for _ in range(2):
            engine.submit(Request(prompt[: context - 2], max_tokens=2))
        while engine.step():
            pass
    except InternalError:
        raise
    except SmeltError as error:
        return type(error).__name__
    return "computed"


def main(seconds: float, seed: int = 0) -> int:
    """Change files for so long; 1 if one of them broke a promise."""
    if settings().sanitize:
        exact_blocks()
    rng, ended, broken = np.random.default_rng(seed), Counter[str](), 0
    slowest, largest, configs = 0.0, 0.0, Counter[str]()

    def compiles(config: Any) -> bool:
        """Of new sizes only some, as each has kernels of its own."""
        configs[str(config)] += 1
        return len(configs) < 60 or configs[str(config)] > 1

    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name) / "whole").mkdir()
        files, number = wholes(folder), 0
        for path in files:
            said = asked(path, compiles)
            assert said == "computed", (path, said)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            whole = files[number % len(files)]
            path = damaged(whole, Path(name), rng)
            before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            try:
                said = asked(path, lambda config: False) if number % 3 else asked(path, compiles)
            except Exception as error:
                said, broken = f"{type(error).__name__}: {error}", broken + 1
                print(json.dumps({"number": number, "file": whole.name, "said": said[:1000]}), flush=True)
            taken = time.process_time() - began
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            ended[said.partition(":")[0]] += 1
            largest, number = max(largest, grown), number + 1
            slowest = max(slowest, taken if said not in ("computed",) else 0.0)
            if grown > LARGEST:
                broken += 1
                print(json.dumps({"number": number, "file": whole.name, "megabytes": grown, "said": said}), flush=True)
    facts = {"files": number, "ended": dict(ended), "seconds_to_refuse_or_open": slowest, "megabytes": largest}
    print(json.dumps(facts), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *map(int, sys.argv[2:])))
