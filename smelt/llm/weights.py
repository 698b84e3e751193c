"""Tensors of files by the names of their families → a Decoder.

Every tensor of a file is used exactly once, or an error names it: a model that lacks a bias, or has one too many, would
still speak fluently. `build` asks for parts by role and shape, so files of both kinds and random numbers are built
alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import ParseError
from smelt.formats import BLOCKS, Folder, Gguf, Packed
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.decoder import Attention, Beside, Block, Decoder, Layer, MixtureOfExperts, Mlp
from smelt.llm.families import FAMILIES, GGUF_NAMES, Family

__all__ = ["Parts", "build", "from_gguf", "from_huggingface", "load_model", "random_model"]

Floats = NDArray[np.float32]
_MOST_NAMES = 5  # that a message lists
_SMALL = 1 << 16  # bytes of a tensor that is copied: it would keep more of the file in memory than it has


class Arrays(Protocol):
    """A file: names of tensors, and each as an array."""

    def __iter__(self) -> Iterator[str]: ...

    def array(self, name: str, /) -> NDArray[Any]: ...


class Parts(Protocol):
    """The tensors of a model by role: "q", "norm", …, as `families` names them; `n` is the block, `e` the expert."""

    def has(self, role: str) -> bool:
        """Whether there may be such a part: some files have q, k and v in one."""
        ...

    def take(self, role: str, shape: tuple[int, ...], kind: str = "weight", n: int = 0, e: int = 0) -> Floats:
        """The numbers of a part, of this shape; linear layers are (out, in)."""
        ...

    def packed(self, role: str, shape: tuple[int, int], n: int = 0) -> Packed | None:
        """A matrix in blocks, if it lies so in the file and is to be read so; else it is left to `take`."""
        ...

    def done(self) -> None:
        """What has been asked for until now has been laid out anew."""
        ...


def load_model(path: str | os.PathLike[str], *, exact: bool = False) -> Decoder:
    """The model of a GGUF file, or of a folder with a config.json and safetensors.

    Weights in blocks stay as they are, and inputs of their layers are rounded to 8 bits; `exact` makes floats of them.
    """
    if os.path.isdir(path):
        folder = Folder(path)
        return from_huggingface(folder.config, folder)
    file = Gguf(path)
    return from_gguf(file.metadata, file, exact=exact)


def from_huggingface(config: Mapping[str, Any], file: Arrays) -> Decoder:
    """The model of a config.json and tensors under the names that transformers gives them."""
    found = ModelConfig.from_huggingface(config)
    row = FAMILIES[found.family]
    _survey(found, file, row.names, row)
    return _whole(found, _FileParts(found, file, row.names, row))


def from_gguf(metadata: Mapping[str, Any], file: Arrays, *, exact: bool = False) -> Decoder:
    """The model of the metadata and tensors of a GGUF file; `exact` makes floats of weights in blocks."""
    names = frozenset(file)
    config = ModelConfig.from_gguf(metadata, names)
    # What its converter has already done: weights of norms have their 1, linear layers lie as (out, in).
    row = replace(FAMILIES[config.family], norm_offset=0.0, transposed=False, ignored=())
    _survey(config, file, GGUF_NAMES, row)
    gguf = file if isinstance(file, Gguf) else None
    packed = gguf.packed if gguf is not None and not exact else None
    parts = _FileParts(config, file, GGUF_NAMES, row, packed, gguf.drop if gguf is not None else None)
    if config.rope is not None and f"{GGUF_NAMES['frequencies']}.weight" in names:
        factors = parts.take("frequencies", (config.rope.dim // 2,))
        config = replace(config, rope=replace(config.rope, factors=tuple(factors.tolist())))
    return _whole(_by_halves(config), parts)


def random_model(config: ModelConfig, seed: int = 0, kind: str = "F32") -> Decoder:
    """A model of this size with random weights: for tests and measurements, not for reading what it says. `kind` is
    the block format of its matrices, if any.
    """
    return build(config, _RandomParts(seed, kind))


def _by_halves(config: ModelConfig) -> ModelConfig:
    """With the pairs of RoPE as halves of a head, as `_FileParts` orders them: no step shuffles anything then."""

    def halves(rope: Rope | None) -> Rope | None:
        return None if rope is None else replace(rope, interleaved=False)

    return replace(config, rope=halves(config.rope), local_rope=halves(config.local_rope))


def _halves(size: int, rope: Rope) -> NDArray[np.intp]:
    """Where the features of a head with pairs of neighbors lie, those that are firsts of pairs first."""
    return np.concatenate([np.arange(0, rope.dim, 2), np.arange(1, rope.dim, 2), np.arange(rope.dim, size)])


class _FileParts:
    """The tensors of a file, each taken once. Where pairs of RoPE are neighbors there, they are halves here."""

    def __init__(
        self,
        config: ModelConfig,
        file: Arrays,
        names: Mapping[str, str],
        row: Family,
        packed: Callable[[str], Packed | None] | None = None,
        drop: Callable[[str], None] | None = None,
    ) -> None:
        self._file, self._names, self._row, self._tied, self._packed = file, names, row, config.tied, packed
        self._all: Collection[str] = frozenset(file)
        self._left = set(self._all)
        self._drop, self._held = drop, set(self._all)  # what may be in memory
        rope, size = config.rope, config.head_dim
        self._order = _halves(size, rope) if rope is not None and rope.interleaved else None
        # Files of the bare model lack the name of what holds it.
        self._front = "" if f"{names['embedding']}.weight" in self._all else names["embedding"].split(".")[0] + "."

    def has(self, role: str) -> bool:
        return role in self._names and self._name(role, "weight", 0, 0) in self._all

    def take(self, role: str, shape: tuple[int, ...], kind: str = "weight", n: int = 0, e: int = 0) -> Floats:
        name = self._taken(role, kind, n, e)
        array = np.asarray(self._file.array(name))
        array = array.T if self._is_transposed(role, shape, kind) else array
        if array.shape != shape:
            raise ParseError(f"the tensor {name} has shape {array.shape}", rule=f"it must be {shape}.")
        floats = self._ordered(role, array.astype(np.float32, copy=False))
        if role.endswith("norm") and self._row.norm_offset:
            return floats + np.float32(self._row.norm_offset)
        return floats.copy() if floats.nbytes <= _SMALL else floats

    def packed(self, role: str, shape: tuple[int, int], n: int = 0) -> Packed | None:
        if self._packed is None or role not in self._names:
            return None
        name = self._name(role, "weight", n, 0)
        found = self._packed(name) if name in self._left else None
        if found is None or found.shape[1] % sm.nn.QuantizedWeight.BLOCK:
            return None
        if found.shape != shape:
            raise ParseError(f"the tensor {name} has shape {found.shape}", rule=f"it must be {shape}.")
        self._taken(role, "weight", n, 0)
        return replace(found, raw=self._ordered(role, found.raw))

    def done(self) -> None:
        """Give the memory of the file back that is not read again."""
        if self._drop is not None:
            for name in self._held - self._left:
                self._drop(name)
        self._held &= self._left

    def _is_transposed(self, role: str, shape: tuple[int, ...], kind: str) -> bool:
        linear = kind == "weight" and len(shape) == 2 and role not in ("embedding", "places", "head")
        return linear and self._row.transposed

    def _ordered(self, role: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of q and k with the features of their heads as halves."""
        if self._order is None or role not in ("q", "k", "q_norm", "k_norm"):
            return rows
        return rows.reshape(-1, len(self._order), *rows.shape[1:])[:, self._order].reshape(rows.shape)

    def _taken(self, role: str, kind: str, n: int, e: int) -> str:
        """The name of a tensor, which nobody can have again."""
        if role not in self._names:
            raise ParseError(f"the part {role} of block {n} is missing", rule="the model needs it.")
        name = self._name(role, kind, n, e)
        if name not in self._left:
            raise ParseError(f"the tensor {name} is missing", rule="the model needs it.")
        self._left.remove(name)
        return name

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        head = self._name("head", "weight", 0, 0) if self._tied else ""
        left = sorted(name for name in self._left if name != head and not name.endswith(self._row.ignored or ("\0",)))
        if left:
            more = f" and {len(left) - _MOST_NAMES} more" if len(left) > _MOST_NAMES else ""
            raise ParseError(
                f"the model has no place for {', '.join(left[:_MOST_NAMES])}{more}",
                rule="every tensor of a file must be used: the model would not be the one that was trained.",
            )

    def _name(self, role: str, kind: str, n: int, e: int) -> str:
        return f"{self._names[role].format(n=n, e=e).removeprefix(self._front)}.{kind}"


class _Sizes(_FileParts):
    """The same without reading: the part of one block stands for that of all, whose names and sizes are checked."""

    def __init__(self, config: ModelConfig, file: Gguf | Folder, names: Mapping[str, str], row: Family) -> None:
        super().__init__(config, file, names, row)
        self._layers, self._shapes = config.layers, {name: entry.shape for name, entry in file.entries.items()}

    def take(self, role: str, shape: tuple[int, ...], kind: str = "weight", n: int = 0, e: int = 0) -> Floats:
        for block in range(self._layers if "{n}" in self._names.get(role, "") else 1):
            name = self._taken(role, kind, block, e)
            found = self._shapes[name][::-1] if self._is_transposed(role, shape, kind) else self._shapes[name]
            if found != shape:
                raise ParseError(f"the tensor {name} has shape {found}", rule=f"it must be {shape}.")
        return np.ones((1, *shape[1:]) if len(shape) > 1 else shape, np.float32)


class _RandomParts:
    """Random numbers for all that is asked for."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random, self._kind = np.random.default_rng(seed), kind

    def has(self, role: str) -> bool:
        return role not in ("qkv",)

    def take(self, role: str, shape: tuple[int, ...], kind: str = "weight", n: int = 0, e: int = 0) -> Floats:
        drawn = self._random.standard_normal(shape, np.float32) * np.float32(0.02)
        return drawn + np.float32(role.endswith("norm") and kind == "weight")

    def packed(self, role: str, shape: tuple[int, int], n: int = 0) -> Packed | None:
        row = BLOCKS["Q8_0" if role in ("embedding", "head") else self._kind]
        if self._kind == "F32" or shape[1] % row.size:
            return None
        most = 1 << sum(field.bits for field in row.fields)
        raw = np.frombuffer(bytearray(self._random.bytes(shape[0] * shape[1] // row.size * row.nbytes)), np.uint8)
        blocks = raw.reshape(-1, row.nbytes)
        # Codes are even, with a spread of most / √12; weights get that of `take`. Scales come first, then minimums.
        scale = 0.02 * 12**0.5 / most
        halves = np.array([scale] if row.zero else [scale, -scale * most / 2], "<f2").view(np.uint8)
        blocks[:, : len(halves)] = halves
        return Packed(row, raw.reshape(shape[0], -1))

    def done(self) -> None:
        """They are in no file."""


def _survey(config: ModelConfig, file: Arrays, names: Mapping[str, str], row: Family) -> None:
    """Refuse a file whose last tensor is missing, too large or one too many before the first one is in memory."""
    if isinstance(file, Gguf | Folder):
        parts = _Sizes(config, file, names, row)
        if config.rope is not None and parts.has("frequencies"):
            parts.take("frequencies", (config.rope.dim // 2,))
        build(replace(config, layers=1, windows=config.windows[:1]), parts)
        parts.finish()


def _whole(config: ModelConfig, parts: _FileParts) -> Decoder:
    model = build(config, parts)
    parts.finish()
    return model


def build(config: ModelConfig, parts: Parts) -> Decoder:
    """The decoder of a config, of parts that are asked for by role."""
    embedding = _embedding(parts, "embedding", config.vocabulary, config.width)
    places = None if config.rope is not None else _embedding(parts, "places", config.context, config.width)
    parts.done()
    blocks = []
    for n in range(config.layers):
        blocks.append(_block(config, parts, n))
        parts.done()
    norm = _norm(config, parts, "norm", config.width, 0)
    if config.tied:
        head = _tied(embedding)
    else:
        head = linear(parts, ["head"], [config.vocabulary], config.width, False, 0)
    parts.done()
    return Decoder(config, embedding, blocks, norm, head, places).eval()


def linear(parts: Parts, roles: Sequence[str], rows: Sequence[int], columns: int, bias: bool, n: int) -> Layer:
    """One layer of the rows of several: what reads the same input is one product, and one launch."""
    found = [_weight(parts, role, count, columns, n) for role, count in zip(roles, rows, strict=True)]
    biases = [parts.take(role, (count,), "bias", n) for role, count in zip(roles, rows, strict=True)] if bias else []
    added = sm.from_numpy(_joined(biases)) if bias else None
    packed = [one for one in found if isinstance(one, Packed)]
    if len(packed) == len(found) and len({one.block.name for one in packed}) == 1:
        return sm.nn.QuantizedLinear(_quantized(replace(packed[0], raw=_joined([one.raw for one in packed]))), added)
    if packed:  # of several formats
        layers: list[Layer] = [
            sm.nn.QuantizedLinear(_quantized(one)) if isinstance(one, Packed) else _plain(one) for one in found
        ]
        return Beside(layers, added)
    return _plain(_joined([one for one in found if not isinstance(one, Packed)]), added)


def _weight(parts: Parts, role: str, rows: int, columns: int, n: int) -> Packed | Floats:
    packed = parts.packed(role, (rows, columns), n)
    return parts.take(role, (rows, columns), n=n) if packed is None else packed


def _quantized(packed: Packed) -> sm.nn.QuantizedWeight:
    return sm.nn.QuantizedWeight(packed, packed.zero, *packed.scales())


def _plain(weight: Floats, bias: sm.Tensor | None = None) -> sm.nn.Linear:
    layer = sm.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = sm.from_numpy(weight)
    if bias is not None:
        layer.bias = bias
    return layer


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if len(arrays) > 1 else np.ascontiguousarray(arrays[0])


def _embedding(parts: Parts, role: str, rows: int, columns: int) -> Layer:
    packed = parts.packed(role, (rows, columns))
    if packed is not None:
        return sm.nn.QuantizedEmbedding(_quantized(packed))
    return sm.nn.Embedding.from_pretrained(sm.from_numpy(_joined([parts.take(role, (rows, columns))])))


def _tied(embedding: Layer) -> Layer:
    """The head of a model whose logits are products with its embeddings: the same tensor, held once."""
    if isinstance(embedding, sm.nn.QuantizedEmbedding):
        return sm.nn.QuantizedLinear(embedding.weight)
    assert isinstance(embedding, sm.nn.Embedding)
    head = sm.nn.Linear(embedding.embedding_dim, embedding.num_embeddings, bias=False)
    head.weight = embedding.weight
    return head


def _norm(config: ModelConfig, parts: Parts, role: str, width: int, n: int) -> Layer:
    if not config.layer_norm:
        found = sm.nn.RMSNorm(width, eps=config.eps)
        found.weight = sm.from_numpy(_joined([parts.take(role, (width,), n=n)]))
        return found
    layer = sm.nn.LayerNorm(width, eps=config.eps)
    layer.weight = sm.from_numpy(_joined([parts.take(role, (width,), n=n)]))
    layer.bias = sm.from_numpy(_joined([parts.take(role, (width,), "bias", n)]))
    return layer


def _block(config: ModelConfig, parts: Parts, n: int) -> Block:
    post = [
        _norm(config, parts, role, config.width, n) if config.post_norms else None
        for role in ("attention_post_norm", "mlp_post_norm")
    ]
    return Block(
        _norm(config, parts, "attention_norm", config.width, n),
        _attention(config, parts, n),
        _norm(config, parts, "mlp_norm", config.width, n),
        _mlp(config, parts, n) if config.experts is None else _experts(config, parts, n),
        *post,
    )


def _attention(config: ModelConfig, parts: Parts, n: int) -> Attention:
    taken, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    roles, rows = (["qkv"], [taken + 2 * shared]) if parts.has("qkv") else (["q", "k", "v"], [taken, shared, shared])
    norms = [_norm(config, parts, role, config.head_dim, n) for role in ("q_norm", "k_norm") if config.qk_norm]
    return Attention(
        config,
        n,
        linear(parts, roles, rows, config.width, config.qkv_bias, n),
        linear(parts, ["out"], [config.width], taken, config.out_bias, n),
        *norms,
    )


def _mlp(config: ModelConfig, parts: Parts, n: int) -> Mlp:
    roles = ["gate", "up"] if config.gated else ["up"]
    up = linear(parts, roles, [config.hidden] * len(roles), config.width, config.mlp_bias, n)
    return Mlp(config, up, linear(parts, ["down"], [config.width], config.hidden, config.mlp_bias, n))


def _experts(config: ModelConfig, parts: Parts, n: int) -> MixtureOfExperts:
    assert config.experts is not None
    count = config.experts.count
    router = linear(parts, ["router"], [count], config.width, False, n)
    gates, ups = (_stacked(parts, role, (config.hidden, config.width), count, n) for role in ("gates", "ups"))
    downs = _stacked(parts, "downs", (config.width, config.hidden), count, n)
    return MixtureOfExperts(config, router, sm.from_numpy(np.concatenate([gates, ups], axis=1)), sm.from_numpy(downs))


def _stacked(parts: Parts, role: str, shape: tuple[int, int], count: int, n: int) -> Floats:
    """The weights of all experts, (experts, out, in): one tensor in GGUF files, one for each elsewhere."""
    if isinstance(parts, _FileParts) and parts.has(role) and "{e}" in parts._names[role]:
        return np.stack([parts.take(role, shape, n=n, e=e) for e in range(count)])
    return parts.take(role, (count, *shape), n=n)
