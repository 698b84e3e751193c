"""Families of language models: what differs between them, as rows of a table.

A family is a row of switches and of names: how it is called in files, which parts its blocks have, and under which
names its tensors lie. Nothing else knows a family by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["FAMILIES", "GGUF_NAMES", "Family"]


def _names(**names: str) -> Mapping[str, str]:
    return MappingProxyType(names)


# Where each part lies, without ".weight" and ".bias": `{n}` is the number of the block, `{e}` that of an expert.
GGUF_NAMES: Final = _names(
    embedding="token_embd",
    places="position_embd",
    norm="output_norm",
    head="output",
    attention_norm="blk.{n}.attn_norm",
    q="blk.{n}.attn_q",
    k="blk.{n}.attn_k",
    v="blk.{n}.attn_v",
    qkv="blk.{n}.attn_qkv",
    out="blk.{n}.attn_output",
    q_norm="blk.{n}.attn_q_norm",
    k_norm="blk.{n}.attn_k_norm",
    attention_post_norm="blk.{n}.post_attention_norm",
    mlp_norm="blk.{n}.ffn_norm",
    gate="blk.{n}.ffn_gate",
    up="blk.{n}.ffn_up",
    down="blk.{n}.ffn_down",
    mlp_post_norm="blk.{n}.post_ffw_norm",
    router="blk.{n}.ffn_gate_inp",
    gates="blk.{n}.ffn_gate_exps",
    ups="blk.{n}.ffn_up_exps",
    downs="blk.{n}.ffn_down_exps",
    frequencies="rope_freqs",
)

_LLAMA_NAMES: Final = _names(
    embedding="model.embed_tokens",
    norm="model.norm",
    head="lm_head",
    attention_norm="model.layers.{n}.input_layernorm",
    q="model.layers.{n}.self_attn.q_proj",
    k="model.layers.{n}.self_attn.k_proj",
    v="model.layers.{n}.self_attn.v_proj",
    out="model.layers.{n}.self_attn.o_proj",
    q_norm="model.layers.{n}.self_attn.q_norm",
    k_norm="model.layers.{n}.self_attn.k_norm",
    mlp_norm="model.layers.{n}.post_attention_layernorm",
    gate="model.layers.{n}.mlp.gate_proj",
    up="model.layers.{n}.mlp.up_proj",
    down="model.layers.{n}.mlp.down_proj",
    router="model.layers.{n}.mlp.gate",
    gates="model.layers.{n}.mlp.experts.{e}.gate_proj",
    ups="model.layers.{n}.mlp.experts.{e}.up_proj",
    downs="model.layers.{n}.mlp.experts.{e}.down_proj",
)

_POST_NORM_NAMES: Final = _names(
    **{
        **_LLAMA_NAMES,
        "attention_post_norm": "model.layers.{n}.post_attention_layernorm",
        "mlp_norm": "model.layers.{n}.pre_feedforward_layernorm",
        "mlp_post_norm": "model.layers.{n}.post_feedforward_layernorm",
    }
)

_MIXTRAL_NAMES: Final = _names(
    **{
        **_LLAMA_NAMES,
        "router": "model.layers.{n}.block_sparse_moe.gate",
        "gates": "model.layers.{n}.block_sparse_moe.experts.{e}.w1",
        "ups": "model.layers.{n}.block_sparse_moe.experts.{e}.w3",
        "downs": "model.layers.{n}.block_sparse_moe.experts.{e}.w2",
    }
)

_GPT2_NAMES: Final = _names(
    embedding="transformer.wte",
    places="transformer.wpe",
    norm="transformer.ln_f",
    head="lm_head",
    attention_norm="transformer.h.{n}.ln_1",
    qkv="transformer.h.{n}.attn.c_attn",
    out="transformer.h.{n}.attn.c_proj",
    mlp_norm="transformer.h.{n}.ln_2",
    up="transformer.h.{n}.mlp.c_fc",
    down="transformer.h.{n}.mlp.c_proj",
)

_GPT2_KEYS: Final = _names(
    hidden_size="n_embd",
    num_hidden_layers="n_layer",
    num_attention_heads="n_head",
    max_position_embeddings="n_positions",
    intermediate_size="n_inner",
    rms_norm_eps="layer_norm_epsilon",
    hidden_act="activation_function",
)


@dataclass(frozen=True)
class Family:
    """The switches of a family. What files may choose themselves (a bias, tied heads) has its usual value here."""

    model_types: tuple[str, ...]  # in a config.json
    architectures: tuple[str, ...] = ()  # in a GGUF file
    interleaved: bool = False  # GGUF files hold q and k so that the pairs of RoPE are neighbors, not halves
    layer_norm: bool = False  # with a mean and a bias, not RMSNorm
    activation: str = "silu"
    gated: bool = True
    biases: bool = False  # everywhere, as in GPT-2
    qkv_bias: bool = False
    qk_norm: bool = False  # per head
    post_norms: bool = False  # of what attention and MLP add
    scaled_embedding: bool = False  # by the root of the width
    norm_offset: float = 0.0  # what the weights of norms in Hugging Face's files lack
    learned_positions: bool = False
    transposed: bool = False  # linear layers in Hugging Face's files are (in, out)
    tied: bool = False
    window_every: int = 0  # n: in all but every n-th layer there is a window; 1: in all; 0: in none
    local_base: float | None = None  # of RoPE, in layers with a window
    wide_scale_layers: int = 0  # GGUF: with so many layers, scores are scaled by width / heads, not by a head's size
    names: Mapping[str, str] = field(default_factory=lambda: _LLAMA_NAMES, repr=False)  # in Hugging Face's files
    keys: Mapping[str, str] = field(default_factory=_names, repr=False)  # of a config.json, where not Llama's
    ignored: tuple[str, ...] = ("rotary_emb.inv_freq",)  # ends of names that are no weights


_GELU: Final = _names(hidden_act="hidden_activation")

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "llama": Family(("llama",), ("llama",), interleaved=True),
        "mistral": Family(("mistral",), interleaved=True, window_every=1),
        "mixtral": Family(("mixtral",), interleaved=True, window_every=1, names=_MIXTRAL_NAMES),
        "qwen2": Family(("qwen2",), ("qwen2",), qkv_bias=True),
        "qwen3": Family(("qwen3", "qwen3_moe"), ("qwen3", "qwen3moe"), qk_norm=True),
        "gemma": Family(
            ("gemma",),
            ("gemma",),
            activation="gelu_tanh",
            scaled_embedding=True,
            norm_offset=1.0,
            tied=True,
            keys=_GELU,
        ),
        "gemma2": Family(
            ("gemma2",),
            ("gemma2",),
            activation="gelu_tanh",
            scaled_embedding=True,
            norm_offset=1.0,
            tied=True,
            post_norms=True,
            window_every=2,
            wide_scale_layers=46,
            names=_POST_NORM_NAMES,
            keys=_GELU,
        ),
        "gemma3": Family(
            ("gemma3_text",),
            ("gemma3",),
            activation="gelu_tanh",
            scaled_embedding=True,
            norm_offset=1.0,
            tied=True,
            post_norms=True,
            qk_norm=True,
            window_every=6,
            local_base=10000.0,
            wide_scale_layers=62,
            names=_POST_NORM_NAMES,
            keys=_GELU,
        ),
        "gpt2": Family(
            ("gpt2",),
            ("gpt2",),
            activation="gelu_tanh",
            layer_norm=True,
            gated=False,
            biases=True,
            qkv_bias=True,
            learned_positions=True,
            transposed=True,
            tied=True,
            names=_GPT2_NAMES,
            keys=_GPT2_KEYS,
            ignored=("attn.bias", "attn.masked_bias"),
        ),
    }
)
