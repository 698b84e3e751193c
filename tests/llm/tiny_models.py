"""Tiny language models of every family, under the names of transformers: configs, random tensors, a reference in NumPy
that knows nothing of smelt, and the same model as GGUF files hold it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]

_SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "head_dim": 8,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
_GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "head_dim": 16}
_WINDOWS = {"sliding_window": 5, "query_pre_attn_scalar": 24}

# By a name for the test: the config.json.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_SIZES, "tie_word_embeddings": False},
    "llama-biases": {"model_type": "llama", **_SIZES, "attention_bias": True, "mlp_bias": True},
    "llama-3": {"model_type": "llama", **_SIZES, "tie_word_embeddings": True, "rope_parameters": _LLAMA3},
    "llama-linear": {
        "model_type": "llama",
        **_SIZES,
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    },
    "llama-yarn": {"model_type": "llama", **_SIZES, "rope_parameters": _YARN},
    "mistral": {"model_type": "mistral", **_SIZES, "sliding_window": 6},
    "mixtral": {
        "model_type": "mixtral",
        **_SIZES,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "qwen2": {
        "model_type": "qwen2",
        **{k: v for k, v in _SIZES.items() if k != "head_dim"},
        "tie_word_embeddings": True,
    },
    "qwen3": {"model_type": "qwen3", **_SIZES, "head_dim": 16},
    "qwen3-moe": {
        "model_type": "qwen3_moe",
        **_SIZES,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "norm_topk_prob": True,
    },
    "gemma": {"model_type": "gemma", **_SIZES, **_GEMMA},
    "gemma2": {
        "model_type": "gemma2",
        **_SIZES,
        **_GEMMA,
        **_WINDOWS,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        **_SIZES,
        **_GEMMA,
        **_WINDOWS,
        "num_hidden_layers": 7,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    },
    "gpt2": {
        "model_type": "gpt2",
        "vocab_size": 61,
        "n_embd": 32,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 64,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
    },
}


def random_tensors(config: dict[str, Any], seed: int = 0) -> Arrays:
    """Weights under transformers' names: large enough that every part is seen in the logits."""
    random, found = np.random.default_rng(seed), {}

    def put(name: str, *shape: int, bias: bool = False) -> None:
        found[f"{name}.weight"] = (random.standard_normal(shape) * 0.3).astype(np.float32)
        if bias:
            found[f"{name}.bias"] = (random.standard_normal(shape[:1]) * 0.3).astype(np.float32)

    kind = config["model_type"]
    if kind == "gpt2":
        return _gpt2_tensors(config, random)
    width, hidden, heads, shared = (config[k] for k in list(_SIZES)[1:3] + list(_SIZES)[4:6])
    size = config.get("head_dim") or width // heads
    biased, qkv = config.get("attention_bias", False), config.get("attention_bias", kind == "qwen2")
    put("model.embed_tokens", config["vocab_size"], width)
    put("model.norm", width)
    if not config.get("tie_word_embeddings", False):
        put("lm_head", config["vocab_size"], width)
    for n in range(config["num_hidden_layers"]):
        at = f"model.layers.{n}"
        post = ("pre_feedforward_layernorm", "post_feedforward_layernorm") if kind in ("gemma2", "gemma3_text") else ()
        for name in ("input_layernorm", "post_attention_layernorm", *post):
            put(f"{at}.{name}", width)
        put(f"{at}.self_attn.q_proj", heads * size, width, bias=qkv)
        put(f"{at}.self_attn.k_proj", shared * size, width, bias=qkv)
        put(f"{at}.self_attn.v_proj", shared * size, width, bias=qkv)
        put(f"{at}.self_attn.o_proj", width, heads * size, bias=biased)
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            put(f"{at}.self_attn.q_norm", size)
            put(f"{at}.self_attn.k_norm", size)
        experts = config.get("num_local_experts", config.get("num_experts"))
        if experts:
            names = ("w1", "w3", "w2") if kind == "mixtral" else ("gate_proj", "up_proj", "down_proj")
            mixture = f"{at}.{'block_sparse_moe' if kind == 'mixtral' else 'mlp'}"
            inner = config.get("moe_intermediate_size", hidden)
            put(f"{mixture}.gate", experts, width)
            for e in range(experts):
                for name, shape in zip(names, [(inner, width), (inner, width), (width, inner)], strict=True):
                    put(f"{mixture}.experts.{e}.{name}", *shape)
        else:
            for name, shape in {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}.items():
                put(f"{at}.mlp.{name}_proj", *shape, bias=config.get("mlp_bias", False))
    return found


def _gpt2_tensors(config: dict[str, Any], random: np.random.Generator) -> Arrays:
    width = config["n_embd"]
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (config["vocab_size"], width),
        "transformer.wpe.weight": (config["n_positions"], width),
        "transformer.ln_f.weight": (width,),
        "transformer.ln_f.bias": (width,),
    }
    for n in range(config["n_layer"]):
        at = f"transformer.h.{n}"
        for name, outputs, inputs in [
            ("attn.c_attn", 3 * width, width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", 4 * width, width),
            ("mlp.c_proj", width, 4 * width),
        ]:
            shapes |= {f"{at}.{name}.weight": (inputs, outputs), f"{at}.{name}.bias": (outputs,)}
        shapes |= {f"{at}.{ln}.{part}": (width,) for ln in ("ln_1", "ln_2") for part in ("weight", "bias")}
    return {name: (random.standard_normal(shape) * 0.3).astype(np.float32) for name, shape in shapes.items()}


# --- the reference


def reference_logits(config: dict[str, Any], tensors: Arrays, tokens: list[int]) -> Any:
    """Logits (tokens, vocabulary) of one text, all at once, in float64."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}
    return _gpt2_logits(config, t, tokens) if config["model_type"] == "gpt2" else _llama_logits(config, t, tokens)


def _llama_logits(config: dict[str, Any], t: Arrays, tokens: list[int]) -> Any:
    kind, eps = config["model_type"], config["rms_norm_eps"]
    gemma = kind.startswith("gemma")
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (t[f"{name}.weight"] + gemma)

    def linear(x: Any, name: str) -> Any:
        return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", 0.0)

    def apart(x: Any, count: int) -> Any:
        return x.reshape(len(tokens), count, size).swapaxes(0, 1)

    x = t["model.embed_tokens.weight"][tokens] * (math.sqrt(config["hidden_size"]) if gemma else 1.0)
    for n in range(config["num_hidden_layers"]):
        at, window = f"model.layers.{n}", _window(config, n)
        y = norm(x, f"{at}.input_layernorm")
        q, k = apart(linear(y, f"{at}.self_attn.q_proj"), heads), apart(linear(y, f"{at}.self_attn.k_proj"), shared)
        if f"{at}.self_attn.q_norm.weight" in t:
            q, k = norm(q, f"{at}.self_attn.q_norm"), norm(k, f"{at}.self_attn.k_norm")
        turn = _turning(config, size, len(tokens), bool(window))
        v = apart(linear(y, f"{at}.self_attn.v_proj"), shared)
        scale = config.get("query_pre_attn_scalar", size) ** -0.5
        y = attended(turn(q), turn(k), v, scale, window, config.get("attn_logit_softcapping"))
        y = linear(y, f"{at}.self_attn.o_proj")
        x = x + (norm(y, f"{at}.post_attention_layernorm") if _post(t, at) else y)
        y = norm(x, f"{at}.{'pre_feedforward_layernorm' if _post(t, at) else 'post_attention_layernorm'}")
        y = _mlp(config, t, at, y, linear)
        x = x + (norm(y, f"{at}.post_feedforward_layernorm") if _post(t, at) else y)
    head = t.get("lm_head.weight", t["model.embed_tokens.weight"])
    logits, cap = norm(x, "model.norm") @ head.T, config.get("final_logit_softcapping")
    return cap * np.tanh(logits / cap) if cap else logits


def _post(t: Arrays, at: str) -> bool:
    return f"{at}.post_feedforward_layernorm.weight" in t


def _mlp(config: dict[str, Any], t: Arrays, at: str, x: Any, linear: Any) -> Any:
    act = gelu if config["model_type"].startswith("gemma") else lambda z: z / (1 + np.exp(-z))
    experts = config.get("num_local_experts", config.get("num_experts"))
    if not experts:
        return linear(act(linear(x, f"{at}.mlp.gate_proj")) * linear(x, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
    mixtral = config["model_type"] == "mixtral"
    at = f"{at}.{'block_sparse_moe' if mixtral else 'mlp'}"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    odds, result = np.exp(linear(x, f"{at}.gate")), np.zeros_like(x)
    for row in range(len(x)):
        best = np.argsort(-odds[row])[: config["num_experts_per_tok"]]
        for e in best:
            inner = act(linear(x[row], f"{at}.experts.{e}.{gate}")) * linear(x[row], f"{at}.experts.{e}.{up}")
            result[row] += odds[row, e] / odds[row, best].sum() * linear(inner, f"{at}.experts.{e}.{down}")
    return result


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attended(q: Any, k: Any, v: Any, scale: float, window: int, cap: float | None) -> Any:
    """(heads, length, size) → (length, heads * size): each query sees the keys before it, inside of a window."""
    k, v = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    scores = cap * np.tanh(scores / cap) if cap else scores
    far = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])
    scores = np.where((far >= 0) & (far < (window or 1 << 30)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(q.shape[1], -1)


def _window(config: dict[str, Any], n: int) -> int:
    every = {"mistral": 1 << 30, "gemma2": 2, "gemma3_text": 6}.get(config["model_type"])
    return (config["sliding_window"] or 0) if every and (n + 1) % every else 0


def _turning(config: dict[str, Any], size: int, length: int, local: bool) -> Any:
    given = config.get("rope_parameters", {})
    given = given.get("sliding_attention" if local else "full_attention", given)
    plain = given.get("rope_theta", 10000.0) ** (-np.arange(0, size, 2) / size)
    kind = given.get("rope_type", "default")
    frequencies = plain / rope_factors(given, plain) if kind != "yarn" else _yarn(given, size, plain)
    angles = np.arange(length)[:, None] * frequencies
    scale = 0.1 * math.log(given["factor"]) + 1 if kind == "yarn" else 1.0
    cos, sin = np.cos(angles) * scale, np.sin(angles) * scale

    def turn(x: Any) -> Any:
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    return turn


def rope_factors(given: dict[str, Any], plain: Any) -> Any:
    """By how much each pair is slowed."""
    if given.get("rope_type") == "linear":
        return np.full_like(plain, given["factor"])
    if given.get("rope_type") != "llama3":
        return np.ones_like(plain)
    turns = given["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    smooth = (turns - low) / (high - low)
    between = 1 / ((1 - smooth) / given["factor"] + smooth)
    return np.where(turns < low, given["factor"], np.where(turns > high, 1.0, between))


def _yarn(given: dict[str, Any], size: int, plain: Any) -> Any:
    def pair(turns: float) -> float:
        length = given["original_max_position_embeddings"]
        return size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(given["rope_theta"]))

    low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
    return plain / given["factor"] * ramp + plain * (1 - ramp)


def _gpt2_logits(config: dict[str, Any], t: Arrays, tokens: list[int]) -> Any:
    heads, width = config["n_head"], config["n_embd"]

    def norm(x: Any, name: str) -> Any:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + config["layer_norm_epsilon"])
        return y * t[f"transformer.{name}.weight"] + t[f"transformer.{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ t[f"transformer.{name}.weight"] + t[f"transformer.{name}.bias"]

    x = t["transformer.wte.weight"][tokens] + t["transformer.wpe.weight"][: len(tokens)]
    for n in range(config["n_layer"]):
        qkv = linear(norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.c_attn").reshape(len(tokens), 3, heads, -1)
        y = attended(*qkv.transpose(1, 2, 0, 3), (width // heads) ** -0.5, 0, None)
        x = x + linear(y, f"h.{n}.attn.c_proj")
        x = x + linear(gelu(linear(norm(x, f"h.{n}.ln_2"), f"h.{n}.mlp.c_fc")), f"h.{n}.mlp.c_proj")
    return norm(x, "ln_f") @ t["transformer.wte.weight"].T
