"""Models from one kind of file to another: GGUF files, Hugging Face folders, and fewer bits for each weight.

What is written is read again before it gets its name: every tensor has the bytes that were meant and numbers near those
of the source, the config says the same, and the tokenizer makes the same tokens. Tensors are made one after the other,
so that a model need not fit into memory. Whatever fails leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import tempfile
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import ArgumentError, MissingFileError, ParseError
from smelt.formats import BLOCKS, Folder, Gguf, Later, write_gguf, write_safetensors, write_whole
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.described import gguf_metadata, huggingface_config
from smelt.llm.layouts import Tensor, renamed
from smelt.llm.tokens import Tokenizer
from smelt.llm.tokens import writing as tokenizers
from smelt.names import guess, nearest

__all__ = ["Converted", "convert", "TYPES"]

TYPES: Final = tuple(
    name.lower() for name, row in BLOCKS.items() if row.fit is not None or name in ("F32", "F16", "BF16")
)
_PLAIN: Final = ("F32", "F16", "BF16")
_HEAD: Final = "Q8_0"  # of the head in files of fewer bits: it alone decides between tokens
# What rows get that are no multiple of a format's blocks, as others do it; then half precision.
_INSTEAD: Final = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_FILE: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,11}")  # how names of files end, and not 2.5-Instruct
_SHARD: Final = 1 << 30  # bytes of tensors in one file of a folder
_COPIED: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
_WORST: Final = 0.5  # relative error of a tensor that is believed
_SAMPLE: Final = """The quick brown fox jumps over 13 lazy dogs; isn't it 2024?  Größe, naïve café. Привет, мир!
你好，世界。こんにちは 안녕하세요 🦙🚀\n\n\tdef f(x):\n        return x * 2   # ok\r\n<b>"quoted"</b> ...!!! 1234567"""

Report = Callable[[int, int], None]  # bytes so far, bytes in all


class Converted(NamedTuple):
    """What was written: how many tensors of each format, bytes, the largest relative error of a tensor, and what the
    new kind of file cannot say.
    """

    path: Path
    formats: dict[str, int]
    nbytes: int
    error: float
    notes: tuple[str, ...]


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    kind: str | None = None,
    *,
    search: bool = False,
    replaces: bool = False,
    report: Report | None = None,
) -> Converted:
    """Write the model of a GGUF file or folder as a GGUF file (a `target` that ends in .gguf) or a folder.

    `kind` is the type of its matrices, one of `TYPES`; by default they stay as they are, and blocks become float16 in
    folders. `search` looks for better scales, which takes several times as long. A file is replaced only if `replaces`.
    """
    check(target, kind, replaces=replaces)
    to_gguf, wanted = _is_gguf(target), None if kind is None else kind.upper()
    source, target = Path(source), Path(target)
    if not source.exists():
        raise MissingFileError(f"convert: there is no model at {source}")
    file: Gguf | Folder = Folder(source) if source.is_dir() else Gguf(source)
    plan = _planned(file, to_gguf, source)
    with _beside(target) as temporary:
        writer = _gguf if to_gguf else _folder
        made = _Made(plan, wanted, search, report, to_gguf)
        needed = sum(made.sizes)
        if shutil.disk_usage(temporary).free < needed:
            raise ArgumentError(f"convert: {needed / 1e6:.0f} MB are needed, and the disk has less")
        path = writer(plan, made, temporary)
        error = _verified(plan, made, Gguf(path) if to_gguf else Folder(path))
        nbytes = sum(f.stat().st_size for f in ([path] if to_gguf else path.iterdir()))
        os.replace(path, target)
    return Converted(target, dict(Counter(made.formats)), nbytes, error, plan.notes)


def check(target: str | os.PathLike[str], kind: str | None, *, replaces: bool = False) -> None:
    """Refuse a target or a type that cannot be, before anything is read."""
    place, to_gguf = Path(target), _is_gguf(target)
    if kind is not None and kind.lower() not in TYPES:
        raise ArgumentError(
            f"convert: there is no type {kind!r:.40}",
            rule=f"types are {', '.join(TYPES)}.",
            hint=guess(nearest(kind.lower(), TYPES)),
        )
    if not to_gguf and not os.fspath(target).endswith(os.sep) and _FILE.fullmatch(place.suffix):
        raise ArgumentError(
            f"convert: {place.name!r:.80} is neither a GGUF file nor a folder",
            rule="a file ends in .gguf, and other endings of files mean nothing here.",
            hint=f"Write {place.stem}.gguf, or {place.name}/ for a folder of this name.",
        )
    if not to_gguf and kind is not None and kind.upper() not in _PLAIN:
        raise ArgumentError(
            f"convert: folders have no {kind}",
            rule="they have f32, f16 or bf16.",
            hint="Name a file that ends in .gguf.",
        )
    if place.exists() and not (replaces and place.is_file() and to_gguf):
        hint = "--force replaces a file." if to_gguf else "Name another folder, or remove this one."
        raise ArgumentError(f"convert: {place} is there already", hint=hint)
    if not place.absolute().parent.is_dir():
        raise MissingFileError(f"convert: there is no folder {place.absolute().parent}")


def _is_gguf(target: str | os.PathLike[str]) -> bool:
    return os.fspath(target).endswith(".gguf")


class _Plan(NamedTuple):
    """What is to be written, by the names of the new file."""

    tensors: Sequence[Tensor]
    config: ModelConfig
    metadata: Mapping[str, Any]  # of a GGUF file, or the config.json
    files: Mapping[str, bytes]  # of a folder, besides
    tokenizer: Tokenizer | None
    notes: tuple[str, ...]


def _planned(file: Gguf | Folder, to_gguf: bool, source: Path) -> _Plan:
    tokenizer, template = _tokenizer(file)
    if isinstance(file, Gguf):
        config = _with_factors(ModelConfig.from_gguf(file.metadata, frozenset(file)), file)
    else:
        config = ModelConfig.from_huggingface(file.config)
    notes = [] if tokenizer is not None else ["there is no tokenizer, so this model reads tokens only"]
    same = isinstance(file, Gguf) == to_gguf
    tensors = [_as_it_is(file, name) for name in file] if same else renamed(config, file, to_gguf)
    files: dict[str, bytes] = {}
    if same and isinstance(file, Gguf):
        metadata = {name: value for name, value in file.metadata.items() if not name.startswith("split.")}
    elif same:
        assert isinstance(file, Folder)
        metadata = dict(file.config)
        places = {name: Path(file.path, name) for name in _COPIED}
        files = {name: place.read_bytes() for name, place in places.items() if place.is_file()}
    elif to_gguf:
        metadata, factors = gguf_metadata(config)
        metadata = {**metadata, "general.name": source.absolute().name, "general.quantization_version": 2}
        if factors is not None:
            tensors = [*tensors, Tensor("rope_freqs.weight", factors.shape, "F32", lambda: factors)]
        if tokenizer is not None:
            metadata |= tokenizers.gguf_metadata(tokenizer, config.vocabulary)
            notes += _check_tokenizer(tokenizer, Tokenizer.from_gguf_metadata(metadata))
        if template is not None:
            metadata["tokenizer.chat_template"] = template
        if config.windows and not ModelConfig.from_gguf(metadata, {one.name for one in tensors}).windows:
            notes.append("GGUF files of this family have no windows: all tokens are seen, as by llama.cpp")
    else:
        metadata = huggingface_config(config)
        if tokenizer is not None:
            described = tokenizers.huggingface_files(tokenizer, template)
            notes += _check_tokenizer(tokenizer, Tokenizer.from_tokenizer_json(*described.values()))
            ids = {f"{name}_token_id": number for name, number in (("bos", tokenizer.bos), ("eos", tokenizer.eos))}
            metadata |= {name: number for name, number in ids.items() if number is not None}
            described["generation_config.json"] = {**ids, "eos_token_id": sorted(tokenizer.stops)}
            files = {name: _json(value) for name, value in described.items()}
    return _Plan(tensors, config, metadata, files, tokenizer, tuple(notes))


def _with_factors(config: ModelConfig, file: Gguf) -> ModelConfig:
    if config.rope is None or "rope_freqs.weight" not in file:
        return config
    return replace(config, rope=replace(config.rope, factors=tuple(file.array("rope_freqs.weight").tolist())))


def _tokenizer(file: Gguf | Folder) -> tuple[Tokenizer | None, str | None]:
    if isinstance(file, Folder):
        if file.tokenizer is None:
            return None, file.chat_template
        return Tokenizer.from_tokenizer_json(file.tokenizer, file.tokenizer_config), file.chat_template
    template = file.metadata.get("tokenizer.chat_template")
    if "tokenizer.ggml.model" not in file.metadata:
        return None, None
    lists = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in file.metadata.items()}
    return Tokenizer.from_gguf_metadata(lists), template if isinstance(template, str) else None


def _check_tokenizer(old: Tokenizer, new: Tokenizer) -> list[str]:
    """Refuse a tokenizer that makes other tokens; notes about what only shows in rare texts."""
    pieces = [old.decode([number]) for number in range(0, old.size, max(1, old.size // 2000))]
    for text in (_SAMPLE, "".join(pieces), " ".join(pieces)):
        text = text.replace("�", "")
        for form in old.rules.forms:
            text = unicodedata.normalize(form, text)
        if old.encode(text) != new.encode(text) or old.stops != new.stops:
            raise ParseError(
                "convert: the tokenizer cannot be said in the other kind of file.",
                rule="The same text must become the same tokens, and the same tokens end an answer.",
            )
    notes = []
    if old.rules.forms and not new.rules.forms:
        notes.append(f"text is no longer brought to the form {', '.join(old.rules.forms)}")
    if (old.rules.strips_left, old.rules.strips_right) != (new.rules.strips_left, new.rules.strips_right):
        notes.append("spaces beside special tokens are kept")
    return notes


def _as_it_is(file: Gguf | Folder, name: str) -> Tensor:
    if isinstance(file, Gguf):
        entry = file.entries[name]
        raw = lambda: file.raw(name)  # noqa: E731
        return Tensor(name, entry.shape, entry.block.name, lambda: file.array(name), raw)
    kind = _kind(file, name)
    return Tensor(name, tuple(file.entries[name].shape), kind, lambda: file.array(name))


def _kind(file: Folder, name: str) -> str:
    dtype = file.entries[name].dtype
    return next((row.name for row in BLOCKS.values() if row.dtype is dtype), "F32")


# --- making tensors


class _Made:
    """The bytes of tensors, each made when it is asked for; what was made is remembered by a checksum."""

    def __init__(self, plan: _Plan, wanted: str | None, search: bool, report: Report | None, blocks: bool) -> None:
        head = "output.weight" if any(one.name == "output.weight" for one in plan.tensors) else "token_embd.weight"
        self.formats = [_format(one, wanted, head, blocks) for one in plan.tensors]
        self.sizes = [
            math.prod(one.shape) // BLOCKS[kind].size * BLOCKS[kind].nbytes
            for one, kind in zip(plan.tensors, self.formats, strict=True)
        ]
        self.sums: dict[str, int] = {}
        self._search, self._report, self._done = search, report, 0

    def blocks(self, tensor: Tensor, kind: str) -> NDArray[np.uint8]:
        """A tensor as the bytes of a format."""
        if tensor.raw is not None and tensor.format == kind:
            found = np.ascontiguousarray(tensor.raw()).reshape(-1)
        else:
            values = np.asarray(tensor.array())
            row = BLOCKS[kind]
            if row.dtype is not None:
                with np.errstate(over="ignore"):
                    found = row.quantize(values).reshape(-1)
                    lost = np.isfinite(values.astype(np.float32)) & ~np.isfinite(
                        found.view(row.dtype.numpy).astype(np.float32).reshape(values.shape)
                    )
                if lost.any():
                    raise ArgumentError(
                        f"convert: numbers of {tensor.name} are too large for {kind}", hint="Take bf16."
                    )
            else:
                found = row.quantize(values.astype(np.float32, copy=False), search=self._search).reshape(-1)
        self.sums[tensor.name] = zlib.crc32(found.data)
        self.advance(found.size)
        return found

    def advance(self, nbytes: int) -> None:
        """Tell how far it is: everything is written once, and read once."""
        self._done += nbytes
        if self._report is not None:
            self._report(self._done, 2 * sum(self.sizes))


def _format(tensor: Tensor, wanted: str | None, head: str, blocks: bool) -> str:
    """What a tensor becomes: vectors and what is small stay precise."""
    source = BLOCKS[tensor.format]
    if source.dtype is not None and tensor.format not in _PLAIN:
        return tensor.format  # integers
    if not blocks:
        return wanted or (tensor.format if tensor.format in _PLAIN else "F16")
    if wanted is None:
        return (
            tensor.format
            if len(tensor.shape) > 1
            else "F32"
            if tensor.format != "F32" and tensor.raw is None
            else tensor.format
        )
    precise = len(tensor.shape) < 2 or not tensor.name.endswith(".weight") or "_norm" in tensor.name
    if precise or "ffn_gate_inp" in tensor.name or tensor.name.startswith("position_embd"):
        return "F32"
    kind = wanted
    if tensor.name == head and kind not in _PLAIN:
        kind = _HEAD
    while tensor.shape[-1] % BLOCKS[kind].size:
        kind = _INSTEAD.get(kind, "F16")
    return kind


# --- writing


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A folder beside the target, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".new", dir=target.absolute().parent) as name:
        yield Path(name)


def _gguf(plan: _Plan, made: _Made, folder: Path) -> Path:
    path = folder / "model.gguf"
    tensors = {
        one.name: Later(kind, one.shape, lambda one=one, kind=kind: _rows(one, kind, made))  # type: ignore[misc]
        for one, kind in zip(plan.tensors, made.formats, strict=True)
    }
    write_gguf(path, plan.metadata, tensors)
    return path


def _rows(tensor: Tensor, kind: str, made: _Made) -> NDArray[np.uint8]:
    return made.blocks(tensor, kind)


def _folder(plan: _Plan, made: _Made, folder: Path) -> Path:
    path = folder / "model"
    path.mkdir()
    shards = _shards(made.sizes)
    names = [f"model-{n + 1:05}-of-{len(shards):05}.safetensors" for n in range(len(shards))]
    names = names if len(names) > 1 else ["model.safetensors"]
    places: dict[str, str] = {}
    for name, shard in zip(names, shards, strict=True):
        arrays = {}
        for at in shard:
            one, kind = plan.tensors[at], made.formats[at]
            dtype = BLOCKS[kind].dtype
            assert dtype is not None
            arrays[one.name] = made.blocks(one, kind).view(dtype.numpy).reshape(one.shape)
            places[one.name] = name
        write_safetensors(path / name, arrays, {"format": "pt"})
    if len(names) > 1:
        index = {"metadata": {"total_size": sum(made.sizes)}, "weight_map": places}
        write_whole(path / "model.safetensors.index.json", [_json(index)])
    dtype_name = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(
        Counter(made.formats).most_common(1)[0][0]
    )
    config = {key: value for key, value in plan.metadata.items() if key != "torch_dtype"} | {"dtype": dtype_name}
    for name, data in {**plan.files, "config.json": _json(config)}.items():
        write_whole(path / name, [data])
    return path


def _shards(sizes: Sequence[int]) -> list[list[int]]:
    """Tensors by place, in files of about a gigabyte."""
    shards: list[list[int]] = [[]]
    filled = 0
    for at, size in enumerate(sizes):
        if shards[-1] and filled + size > _SHARD:
            shards.append([])
            filled = 0
        shards[-1].append(at)
        filled += size
    return shards


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


# --- reading it again


def _verified(plan: _Plan, made: _Made, file: Gguf | Folder) -> float:
    """Check what was written, and give the largest relative error of a tensor."""
    if set(file) != {one.name for one in plan.tensors}:
        raise ParseError("convert: what was written has other tensors")
    worst = 0.0
    for one, kind, size in zip(plan.tensors, made.formats, made.sizes, strict=True):
        raw = file.raw(one.name) if isinstance(file, Gguf) else file.array(one.name).view(np.uint8)
        written = np.asarray(file.array(one.name))
        if zlib.crc32(np.ascontiguousarray(raw).reshape(-1).data) != made.sums[one.name] or written.shape != one.shape:
            raise ParseError(f"convert: {one.name} was not written as it was made", hint="Is the disk well?")
        if kind != one.format:
            worst = max(worst, error := _error(np.asarray(one.array()), written))
            if not error <= _WORST:
                raise ParseError(f"convert: as {kind}, {one.name} is off by {error:.0%}", hint="Take a wider type.")
        if isinstance(file, Gguf):
            file.drop(one.name)
        made.advance(size)
    if isinstance(file, Gguf):
        found = _with_factors(ModelConfig.from_gguf(file.metadata, frozenset(file)), file)
    else:
        found = ModelConfig.from_huggingface(file.config)
    _check_config(plan.config, found)
    return worst


def _error(wanted: NDArray[Any], found: NDArray[Any]) -> float:
    a, b = wanted.astype(np.float64).reshape(-1), found.astype(np.float64).reshape(-1)
    size = float(a @ a)
    return float(np.sqrt(np.square(a - b).sum() / size)) if size else float(np.abs(b).max(initial=0))


def _check_config(old: ModelConfig, new: ModelConfig) -> None:
    """Sizes and switches must be the same. Windows may be missing from a file that has none, which a note says."""
    for name in old.__dataclass_fields__:
        a, b = getattr(old, name), getattr(new, name)
        if name in ("rope", "local_rope"):
            same = np.allclose(_turns(a), _turns(b), atol=1e-5)
        elif name == "windows":
            same = a == b or not b
        elif name == "scale":
            size = old.head_dim**-0.5
            same = math.isclose(a or size, b or size, rel_tol=1e-5)
        else:
            same = name == "family" or a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-5))
        if not same:
            raise ParseError(f"convert: {name} is {a!r:.60}, and {b!r:.60} in what was written")


def _turns(rope: Rope | None) -> NDArray[Any]:
    """How a rope turns the first positions."""
    if rope is None:
        return np.zeros(1)
    cos, sin = rope.module().tables(sm.asarray([1, 2, 3], dtype=sm.int32), sm.zeros(1, dtype=sm.float64))
    return np.concatenate([cos.numpy(), sin.numpy()])
