"""What a model is made of: sizes and switches, read from a config.json or the metadata of a GGUF file.

Numbers of files are hostile until they have been checked: a `ModelConfig` that exists can be built.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from smelt.errors import ArgumentError, ParseError
from smelt.llm.families import FAMILIES, GGUF_NAMES, Family
from smelt.nn import RotaryEmbedding

__all__ = ["Experts", "ModelConfig", "Rope"]

# The largest sizes that are believed: what is larger is a mistake, or somebody who wants memory.
_LIMITS: Final = {
    "layers": 512,
    "width": 1 << 17,
    "heads": 1 << 10,
    "kv_heads": 1 << 10,
    "head_dim": 1 << 12,
    "hidden": 1 << 20,
    "vocabulary": 1 << 22,
    "context": 1 << 26,
}
_ACTIVATIONS: Final = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}


@dataclass(frozen=True)
class Rope:
    """Rotary positions, as `sm.nn.RotaryEmbedding` takes them; `scaling` as sorted pairs."""

    dim: int
    base: float = 10000.0
    interleaved: bool = False
    scaling: tuple[tuple[str, Any], ...] = ()
    factors: tuple[float, ...] = ()

    def module(self) -> RotaryEmbedding:
        """The module that turns queries and keys."""
        return RotaryEmbedding(self.dim, self.base, self.interleaved, dict(self.scaling) or None, self.factors or None)


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of each MLP: `used` of `count`, whose shares may be `normalized` to sum to 1."""

    count: int
    used: int
    normalized: bool = True


@dataclass(frozen=True)
class ModelConfig:
    """The sizes and switches of a model.

    `windows` has a number for each layer: how far back its queries see, 0 for all. Without a `rope`, positions are
    learned. `local_rope` is that of layers with a window, where it differs.
    """

    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    context: int
    eps: float
    rope: Rope | None
    local_rope: Rope | None = None
    layer_norm: bool = False
    activation: str = "silu"
    gated: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    tied: bool = False
    windows: tuple[int, ...] = ()
    scale: float = 0.0  # of scores; 0: 1 / sqrt(head_dim)
    attention_softcap: float = 0.0
    logit_softcap: float = 0.0
    embedding_scale: float = 1.0
    experts: Experts | None = None

    def __post_init__(self) -> None:
        for name, most in _LIMITS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
                raise ArgumentError(f"ModelConfig: {name} is {value!r}", rule=f"it must be from 1 to {most}.")
        _check(self.family in FAMILIES, f"family is {self.family!r}", f"it must be one of {', '.join(FAMILIES)}.")
        _check(self.heads % self.kv_heads == 0, f"{self.heads} heads share {self.kv_heads}", "it must divide them.")
        _check(self.activation in _ACTIVATIONS.values(), f"activation is {self.activation!r}", "it must be known.")
        for name in ("eps", "scale", "attention_softcap", "logit_softcap", "embedding_scale"):
            value = getattr(self, name)
            _check(math.isfinite(value) and value >= 0, f"{name} is {value}", "it must be finite and not negative.")
        _check(
            len(self.windows) in (0, self.layers) and all(0 <= w <= _LIMITS["context"] for w in self.windows),
            f"there are {len(self.windows)} windows",
            "there must be one for each layer, or none.",
        )
        for rope in (self.rope, self.local_rope):
            if rope is not None:
                _check(rope.dim <= self.head_dim, f"rope turns {rope.dim}", f"a head has {self.head_dim} features.")
                rope.module()  # which checks the numbers, and has as many
        if self.experts is not None:
            count, used = self.experts.count, self.experts.used
            _check(0 < used <= count <= 1024, f"{used} of {count} experts", "it must be some of them, of 1024 at most.")

    def window(self, layer: int) -> int:
        """How far back queries of a layer see; 0: to the beginning."""
        return self.windows[layer] if self.windows else 0

    @classmethod
    def from_huggingface(cls, config: Mapping[str, Any]) -> ModelConfig:
        """The model of a config.json.

        >>> ModelConfig.from_huggingface({"model_type": "mamba"})
        Traceback (most recent call last):
        ...
        smelt.errors.ParseError: config.json: the model_type is 'mamba'
          allowed: llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gemma, gemma2, gemma3_text, gpt2.
        """
        kind = config.get("model_type")
        name = _family(kind, "config.json: the model_type", lambda row: row.model_types)
        return _from_huggingface(name, FAMILIES[name], _Keys("config.json", config, FAMILIES[name].keys))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], names: Collection[str]) -> ModelConfig:
        """The model of a GGUF file: its metadata, and the names of its tensors, which say what parts there are."""
        kind = metadata.get("general.architecture")
        name = _family(kind, "GGUF: the general.architecture", lambda row: row.architectures)
        keys = _Keys("GGUF", {key.removeprefix(f"{kind}."): value for key, value in metadata.items()}, {})
        return _from_gguf(name, FAMILIES[name], keys, frozenset(names))


def _check(holds: bool, message: str, rule: str) -> None:
    if not holds:
        raise ArgumentError(f"ModelConfig: {message}", rule=rule)


def _family(kind: Any, what: str, names: Any) -> str:
    for name, row in FAMILIES.items():
        if isinstance(kind, str) and kind in names(row):
            return name
    known = ", ".join(kind for row in FAMILIES.values() for kind in names(row))
    raise ParseError(f"{what} is {kind!r}", rule=f"allowed: {known}.")


class _Keys:
    """Values by key, each checked as it is read; a null counts as absent. `renamed` has the keys of a family."""

    def __init__(self, what: str, values: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
        self._what, self._values, self._renamed = what, values, renamed

    def get(self, key: str, default: Any = None) -> Any:
        value = self._values.get(self._renamed.get(key, key))
        return default if value is None else value

    def _needed(self, key: str, default: Any, kinds: tuple[type, ...]) -> Any:
        value = self.get(key, default)
        if value is None:
            raise ParseError(f"{self._what}: {self._renamed.get(key, key)} is missing", rule="the model needs it.")
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            raise ParseError(f"{self._what}: {self._renamed.get(key, key)} is {value!r}", rule="it has another type.")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._needed(key, default, (int,)))

    def number(self, key: str, default: float | None = None) -> float:
        value = self._needed(key, default, (int, float))
        if isinstance(value, int) and abs(value) > 1 << 60:
            raise ParseError(f"{self._what}: {key} is out of all bounds")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._needed(key, default, (bool,)))

    def text(self, key: str, default: str) -> str:
        return str(self._needed(key, default, (str,)))

    def mapping(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._needed(key, {}, (Mapping,))
        return found


# --- config.json


def _from_huggingface(name: str, row: Family, keys: _Keys) -> ModelConfig:
    width, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    layers = keys.integer("num_hidden_layers")
    head_dim = keys.integer("head_dim", width // max(heads, 1))
    windows = _windows(row, keys, layers)
    activation = keys.text("hidden_act", row.activation)
    rope, local = _huggingface_ropes(row, keys, head_dim)
    experts = _huggingface_experts(keys)
    hidden = keys.integer("intermediate_size", None if row.gated else 4 * width)
    scalar = keys.number("query_pre_attn_scalar", 0.0)
    return ModelConfig(
        family=name,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=keys.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        hidden=keys.integer("moe_intermediate_size", hidden) if experts else hidden,
        vocabulary=keys.integer("vocab_size"),
        context=keys.integer("max_position_embeddings"),
        eps=keys.number("rms_norm_eps"),
        rope=rope,
        local_rope=local,
        layer_norm=row.layer_norm,
        activation=_ACTIVATIONS.get(activation, activation),
        gated=row.gated,
        qkv_bias=keys.flag("attention_bias", row.qkv_bias),
        out_bias=keys.flag("attention_bias", row.biases),
        mlp_bias=keys.flag("mlp_bias", row.biases),
        qk_norm=row.qk_norm,
        post_norms=row.post_norms,
        tied=keys.flag("tie_word_embeddings", row.tied),
        windows=windows if any(windows) else (),
        scale=scalar**-0.5 if scalar > 0 else 0.0,
        attention_softcap=keys.number("attn_logit_softcapping", 0.0),
        logit_softcap=keys.number("final_logit_softcapping", 0.0),
        embedding_scale=math.sqrt(width) if row.scaled_embedding else 1.0,
        experts=experts,
    )


def _huggingface_ropes(row: Family, keys: _Keys, head_dim: int) -> tuple[Rope | None, Rope | None]:
    """RoPE of all layers, and that of layers with a window where it differs.

    Files of transformers 5 have `rope_parameters`, of each kind of layer where kinds differ; earlier ones `rope_theta`
    and `rope_scaling`.
    """
    if row.learned_positions:
        return None, None
    given = keys.mapping("rope_parameters") or {
        "rope_theta": keys.number("rope_theta", 10000.0),
        **keys.mapping("rope_scaling"),
    }
    if row.local_base is None:
        return _rope(_Keys("config.json: rope_parameters", given, {}), keys, head_dim), None
    everywhere = given.get("full_attention", given)
    local = given.get("sliding_attention", {"rope_theta": keys.number("rope_local_base_freq", row.local_base)})
    kinds = [
        _Keys("config.json: rope_parameters", x if isinstance(x, Mapping) else {}, {}) for x in (everywhere, local)
    ]
    return _rope(kinds[0], keys, head_dim), _rope(kinds[1], keys, head_dim)


def _rope(given: _Keys, keys: _Keys, head_dim: int) -> Rope:
    share = given.number("partial_rotary_factor", keys.number("partial_rotary_factor", 1.0))
    if not 0 < share <= 1:
        raise ParseError(f"config.json: partial_rotary_factor is {share}", rule="it must be above 0, at most 1.")
    values = given._values
    kind = values.get("rope_type", values.get("type", "default"))
    left = ("rope_theta", "partial_rotary_factor", "type", "rope_type")
    scaling = {key: value for key, value in values.items() if key not in left and value is not None}
    pairs = () if kind == "default" else tuple(sorted({**scaling, "rope_type": kind}.items()))
    return Rope(int(head_dim * share), given.number("rope_theta", 10000.0), scaling=pairs)


def _windows(row: Family, keys: _Keys, layers: int) -> tuple[int, ...]:
    """The window of each layer: as `layer_types` says, or by the family's rule."""
    size = keys.integer("sliding_window", 0) if keys.flag("use_sliding_window", True) else 0
    kinds = keys.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return tuple(size if kind == "sliding_attention" else 0 for kind in kinds)
    if kinds is not None:
        raise ParseError(
            "config.json: layer_types does not fit", rule=f"there must be one for each of {layers} layers."
        )
    return _by_pattern(row, size, layers)


def _by_pattern(row: Family, size: int, layers: int) -> tuple[int, ...]:
    every = row.window_every
    has = (every == 1 or (every > 1 and (n + 1) % every != 0) for n in range(min(layers, _LIMITS["layers"])))
    return tuple(size if windowed else 0 for windowed in has)


def _huggingface_experts(keys: _Keys) -> Experts | None:
    count = keys.integer("num_local_experts", keys.integer("num_experts", 0))
    if count == 0:
        return None
    if keys.get("mlp_only_layers") or keys.integer("decoder_sparse_step", 1) != 1:
        raise ParseError("config.json: only some layers have experts", rule="this is not supported.")
    return Experts(count, keys.integer("num_experts_per_tok"), keys.flag("norm_topk_prob", True))


# --- GGUF


def _from_gguf(name: str, row: Family, keys: _Keys, names: frozenset[str]) -> ModelConfig:
    width, heads, layers = (
        keys.integer(f"{key}") for key in ("embedding_length", "attention.head_count", "block_count")
    )
    head_dim = keys.integer("attention.key_length", width // max(heads, 1))
    _check(
        keys.integer("attention.value_length", head_dim) == head_dim, "keys and values differ in size", "they must not."
    )
    windows = _by_pattern(row, keys.integer("attention.sliding_window", 0), layers)

    def has(part: str, kind: str = "weight") -> bool:
        return f"{GGUF_NAMES[part].format(n=0)}.{kind}" in names

    experts = keys.integer("expert_count", 0)
    wide = width / max(heads, 1) if layers == row.wide_scale_layers else 0.0
    rope, local = _gguf_ropes(row, keys, head_dim)
    tokens = keys.get("tokenizer.ggml.tokens", ())
    eps = "attention.layer_norm_epsilon" if row.layer_norm else "attention.layer_norm_rms_epsilon"
    hidden = keys.integer("feed_forward_length")
    return ModelConfig(
        family=name,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        hidden=keys.integer("expert_feed_forward_length", hidden) if experts else hidden,
        vocabulary=keys.integer("vocab_size", len(tokens) or None),
        context=keys.integer("context_length"),
        eps=keys.number(eps),
        rope=rope,
        local_rope=local,
        layer_norm=row.layer_norm,
        activation=row.activation,
        gated=row.gated,
        qkv_bias=has("q", "bias") or has("qkv", "bias"),
        out_bias=has("out", "bias"),
        mlp_bias=has("down", "bias"),
        qk_norm=has("q_norm"),
        post_norms=has("attention_post_norm"),
        tied=not has("head"),
        windows=windows if any(windows) else (),
        scale=keys.number("attention.scale", wide**-0.5 if wide else 0.0),
        attention_softcap=keys.number("attn_logit_softcapping", 0.0),
        logit_softcap=keys.number("final_logit_softcapping", 0.0),
        embedding_scale=math.sqrt(width) if row.scaled_embedding else 1.0,
        experts=Experts(experts, keys.integer("expert_used_count")) if experts else None,
    )


def _gguf_ropes(row: Family, keys: _Keys, head_dim: int) -> tuple[Rope | None, Rope | None]:
    if row.learned_positions:
        return None, None
    dim = keys.integer("rope.dimension_count", head_dim)
    kind = keys.text("rope.scaling.type", "none")
    given: dict[str, Any] = {}
    if kind != "none":
        given = {"rope_type": kind, "factor": keys.number("rope.scaling.factor")}
    if kind == "yarn":
        given["original_max_position_embeddings"] = keys.number("rope.scaling.original_context_length")
        # llama.cpp multiplies what YaRN asks for with this, where transformers puts its own in that place.
        scale = keys.number("rope.scaling.attn_factor", 1.0)
        given["attention_factor"] = scale * (0.1 * math.log(max(given["factor"], 1.0)) + 1)
    base = keys.number("rope.freq_base", 10000.0)
    rope = Rope(dim, base, row.interleaved, tuple(sorted(given.items())))
    if row.local_base is None:
        return rope, None
    return rope, Rope(dim, keys.number("rope.freq_base_swa", row.local_base), row.interleaved)
