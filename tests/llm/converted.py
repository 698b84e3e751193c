"""What a converter to GGUF makes of a model under transformers' names: other names, q and k in another order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.llm.tiny_models import Arrays, rope_factors

_KEYS = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "attention.value_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_GPT2_KEYS = {
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "context_length": "n_positions",
    "vocab_size": "vocab_size",
}
_NAMES = [
    (r"model\.embed_tokens|transformer\.wte", "token_embd"),
    (r"transformer\.wpe", "position_embd"),
    (r"model\.norm|transformer\.ln_f", "output_norm"),
    (r"lm_head", "output"),
    (r"model\.layers|transformer\.h", "blk"),
    (r"input_layernorm|ln_1", "attn_norm"),
    (r"self_attn\.([qkv])_proj", r"attn_\1"),
    (r"self_attn\.([qk])_norm", r"attn_\1_norm"),
    (r"self_attn\.o_proj|attn\.c_proj", "attn_output"),
    (r"attn\.c_attn", "attn_qkv"),
    (r"pre_feedforward_layernorm|ln_2", "ffn_norm"),
    (r"post_feedforward_layernorm", "post_ffw_norm"),
    (r"mlp\.(gate|up|down)_proj", r"ffn_\1"),
    (r"mlp\.c_fc", "ffn_up"),
    (r"mlp\.c_proj", "ffn_down"),
    (r"(block_sparse_moe|mlp)\.gate\.", "ffn_gate_inp."),
]
_ARCHITECTURES = {"mistral": "llama", "mixtral": "llama", "gemma3_text": "gemma3", "qwen3_moe": "qwen3moe"}


def converted(config: dict[str, Any], tensors: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Metadata and tensors of the GGUF file of a model."""
    kind = config["model_type"]
    architecture = _ARCHITECTURES.get(kind, kind)
    keys = _GPT2_KEYS if kind == "gpt2" else _KEYS
    metadata = {f"{architecture}.{key}": config[name] for key, name in keys.items() if config.get(name) is not None}
    metadata["general.architecture"] = architecture
    if kind == "gpt2":
        metadata["gpt2.feed_forward_length"] = 4 * config["n_embd"]
    found = _experts_together(tensors, metadata, architecture)
    result = {_renamed(name, kind): _laid_out(name, array, config, architecture) for name, array in found.items()}
    _add_rope(config, metadata, architecture, result)
    if config.get("query_pre_attn_scalar"):  # llama.cpp knows the one model where it is not the size of a head
        metadata[f"{architecture}.attention.scale"] = config["query_pre_attn_scalar"] ** -0.5
    return metadata, result


def _renamed(name: str, kind: str) -> str:
    post = "post_attention_norm" if kind in ("gemma2", "gemma3_text") else "ffn_norm"
    for pattern, new in [*_NAMES, ("post_attention_layernorm", post)]:
        name = re.sub(pattern, new, name)
    return name


def _laid_out(name: str, array: Any, config: dict[str, Any], architecture: str) -> Any:
    projected = re.search(r"self_attn\.([qk])_proj", name)
    if architecture == "llama" and projected:
        heads = config["num_attention_heads" if projected[1] == "q" else "num_key_value_heads"]
        return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape).copy()
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return array + np.float32(1)
    if architecture == "gpt2" and re.search(r"c_(attn|proj|fc)\.weight", name):
        return array.T.copy()
    return array


def _experts_together(tensors: Arrays, metadata: dict[str, Any], architecture: str) -> Arrays:
    """One tensor for the experts of a layer."""
    result: Arrays = {}
    parts: dict[str, list[Any]] = {}
    kinds = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
    for name, array in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.\w+\.experts\.\d+\.(\w+)\.weight", name)
        if match:
            parts.setdefault(f"blk.{match[1]}.ffn_{kinds[match[2]]}_exps.weight", []).append(array)
        else:
            result[name] = array
    if parts:
        metadata[f"{architecture}.expert_count"] = len(next(iter(parts.values())))
    return {**result, **{name: np.stack(arrays) for name, arrays in parts.items()}}


def _add_rope(config: dict[str, Any], metadata: dict[str, Any], architecture: str, tensors: Arrays) -> None:
    if architecture == "gpt2":
        return
    given = config.get("rope_parameters") or {}
    given = given.get("full_attention", given)
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    metadata[f"{architecture}.rope.dimension_count"] = size
    metadata[f"{architecture}.rope.freq_base"] = base = given.get("rope_theta", 10000.0)
    kind = given.get("rope_type", "default")
    if kind == "llama3":
        factors = rope_factors(given, base ** (-np.arange(0, size, 2) / size))
        tensors["rope_freqs.weight"] = factors.astype(np.float32)
    elif kind != "default":
        metadata[f"{architecture}.rope.scaling.type"] = kind
        metadata[f"{architecture}.rope.scaling.factor"] = given["factor"]
    if kind == "yarn":
        metadata[f"{architecture}.rope.scaling.original_context_length"] = given["original_max_position_embeddings"]
