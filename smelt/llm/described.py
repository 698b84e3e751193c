"""A config as files say it: the way back from `ModelConfig` to a config.json and to the metadata of a GGUF file.

What a file of the other kind cannot say is an error, since a model that lacks a bias or a stretched position still
speaks. `tests/llm/test_conversion.py` reads back what is written here.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smelt.errors import ArgumentError
from smelt.llm.config import ModelConfig, Rope
from smelt.llm.families import FAMILIES, Family

__all__ = ["gguf_metadata", "huggingface_config", "huggingface_family", "slowed"]

_HALVES: Final = ("original_max_position_embeddings", "factor")
_LLAMA3_LENGTHS: Final = tuple(1 << power for power in range(4, 21))  # that a model may have been trained on first


def huggingface_family(config: ModelConfig) -> str:
    """The family of a config in Hugging Face's files: GGUF files call several of them llama."""
    return "mixtral" if config.family == "llama" and config.experts is not None else config.family


def huggingface_config(config: ModelConfig) -> dict[str, Any]:
    """What a config.json says about a model."""
    family = huggingface_family(config)
    row = FAMILIES[family]
    found: dict[str, Any] = {
        "model_type": row.model_types[1 if config.experts is not None and len(row.model_types) > 1 else 0],
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.eps,
        "hidden_act": _activation(config),
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": config.tied,
    }
    if not row.learned_positions:
        found |= {"num_key_value_heads": config.kv_heads, "head_dim": config.head_dim}
    if not row.biases:
        found |= _biases(config, row)
    if config.experts is not None:
        counted = "num_local_experts" if family == "mixtral" else "num_experts"
        found |= {counted: config.experts.count, "num_experts_per_tok": config.experts.used}
        found |= {"norm_topk_prob": config.experts.normalized}
        found |= {} if family == "mixtral" else {"moe_intermediate_size": config.hidden}
    if config.windows:
        found["layer_types"] = ["sliding_attention" if window else "full_attention" for window in config.windows]
        found |= {"sliding_window": max(config.windows), "use_sliding_window": True}
    if config.scale and row.post_norms:
        found["query_pre_attn_scalar"] = _whole(config.scale**-2)
    elif config.scale and not math.isclose(config.scale, config.head_dim**-0.5):
        raise _unsayable("scores that are scaled in a way of their own")
    for key, cap in (
        ("attn_logit_softcapping", config.attention_softcap),
        ("final_logit_softcapping", config.logit_softcap),
    ):
        found |= {key: cap} if cap else {}
    found |= _ropes(config, row)
    return {"architectures": [_CLASSES[str(found["model_type"])]], **{row.keys.get(k, k): v for k, v in found.items()}}


_CLASSES: Final = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
}


def _whole(number: float) -> float:
    """A number that was rounded on its way, as the integer that it was."""
    return round(number) if math.isclose(number, round(number), rel_tol=1e-6) else number


def _activation(config: ModelConfig) -> str:
    return {"gelu_tanh": "gelu_new" if config.layer_norm else "gelu_pytorch_tanh"}.get(
        config.activation, config.activation
    )


def _biases(config: ModelConfig, row: Family) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if (config.qkv_bias, config.out_bias) != (row.qkv_bias, row.biases):
        if config.qkv_bias != config.out_bias:
            raise _unsayable("a bias of q, k and v, and none behind attention")
        found["attention_bias"] = config.qkv_bias
    return found | ({"mlp_bias": True} if config.mlp_bias else {})


def _ropes(config: ModelConfig, row: Family) -> dict[str, Any]:
    if config.rope is None:
        return {}
    full = _rope(config.rope, config.head_dim)
    if config.local_rope is None:
        theta = {"rope_theta": config.rope.base}  # for readers of older files
        scaling = {key: value for key, value in full.items() if key != "rope_theta"}
        old = {"rope_scaling": scaling} if full["rope_type"] != "default" else {}
        return theta | old | {"rope_parameters": full}
    return {"rope_parameters": {"full_attention": full, "sliding_attention": _rope(config.local_rope, config.head_dim)}}


def _rope(rope: Rope, head_dim: int) -> dict[str, Any]:
    found: dict[str, Any] = {"rope_theta": rope.base, "rope_type": "default", **dict(rope.scaling)}
    if rope.factors:
        if rope.scaling:
            raise _unsayable("factors of RoPE beside a scaling")
        found |= _llama3(rope)
    return found | ({"partial_rotary_factor": rope.dim / head_dim} if rope.dim != head_dim else {})


def _plain(rope: Rope) -> NDArray[np.float64]:
    found: NDArray[np.float64] = rope.base ** (-np.arange(0, rope.dim, 2) / rope.dim)
    return found


def slowed(rope: Rope) -> NDArray[np.float64]:
    """By how much each pair is slowed, where a config has the numbers of Llama 3."""
    given = dict(rope.scaling)
    turns = given["original_max_position_embeddings"] * _plain(rope) / (2 * math.pi)
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    found: NDArray[np.float64] = 1 / ((1 - share) / given["factor"] + share)
    return found


def _llama3(rope: Rope) -> dict[str, Any]:
    """The numbers from which factors were made: they are few, so all are tried."""
    factors = np.asarray(rope.factors)
    if np.allclose(factors, 1.0):
        return {}
    given = {"rope_type": "llama3", "factor": _whole(float(factors.max()))}
    for length in _LLAMA3_LENGTHS:
        tried = given | {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": length}
        if np.allclose(slowed(Rope(rope.dim, rope.base, scaling=tuple(sorted(tried.items())))), factors, rtol=1e-5):
            return tried
    raise _unsayable("factors of RoPE that are not Llama 3's")


# --- GGUF


def gguf_metadata(config: ModelConfig) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
    """What the metadata of a GGUF file say about a model, and the tensor `rope_freqs` if it needs one."""
    row = FAMILIES[config.family]
    kinds = row.architectures or ("llama",)
    kind = kinds[1 if config.experts is not None and len(kinds) > 1 else 0]
    layer_norm = "attention.layer_norm_epsilon" if config.layer_norm else "attention.layer_norm_rms_epsilon"
    found: dict[str, Any] = {
        "context_length": config.context,
        "embedding_length": config.width,
        "block_count": config.layers,
        "feed_forward_length": config.hidden,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        layer_norm: config.eps,
        "vocab_size": config.vocabulary,
    }
    if config.activation != row.activation:
        raise _unsayable(f"the activation {config.activation}")
    if not row.learned_positions:
        found |= {"attention.key_length": config.head_dim, "attention.value_length": config.head_dim}
    if config.windows:
        found["attention.sliding_window"] = max(config.windows)
    if config.scale and not math.isclose(config.scale, config.head_dim**-0.5):
        found["attention.scale"] = config.scale
    for key, cap in (
        ("attn_logit_softcapping", config.attention_softcap),
        ("final_logit_softcapping", config.logit_softcap),
    ):
        found |= {key: cap} if cap else {}
    if config.experts is not None:
        if not config.experts.normalized:
            raise _unsayable("shares of experts that are not normalized")
        found |= {"expert_count": config.experts.count, "expert_used_count": config.experts.used}
        found["expert_feed_forward_length"] = config.hidden
    factors = None
    if config.rope is not None:
        pairs, factors = _gguf_rope(config.rope)
        found |= pairs
    if config.local_rope is not None:
        found["rope.freq_base_swa"] = config.local_rope.base
    return {"general.architecture": kind, **{f"{kind}.{key}": value for key, value in found.items()}}, factors


def _gguf_rope(rope: Rope) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
    found: dict[str, Any] = {"rope.dimension_count": rope.dim, "rope.freq_base": rope.base}
    given = dict(rope.scaling)
    kind = given.pop("rope_type", "default")
    if kind == "llama3":
        return found, slowed(rope).astype(np.float32)
    factors = np.asarray(rope.factors, np.float32) if rope.factors else None
    if kind == "default":
        return found, factors
    if kind not in ("linear", "yarn") or set(given) - {*_HALVES, "attention_factor", "beta_fast", "beta_slow"}:
        raise _unsayable(f"RoPE of the type {kind} with {', '.join(given)}")
    if given.get("beta_fast", 32) != 32 or given.get("beta_slow", 1) != 1:
        raise _unsayable("numbers of YaRN that are not the usual ones")
    found |= {"rope.scaling.type": kind, "rope.scaling.factor": given["factor"]}
    if kind == "yarn":
        found["rope.scaling.original_context_length"] = given["original_max_position_embeddings"]
        usual = 0.1 * math.log(max(given["factor"], 1.0)) + 1
        if not math.isclose(scale := given.get("attention_factor", usual) / usual, 1.0, rel_tol=1e-6):
            found["rope.scaling.attn_factor"] = scale
    return found, factors


def _unsayable(what: str) -> ArgumentError:
    return ArgumentError(f"convert: the model has {what}", rule="files of the other kind cannot say so.")
