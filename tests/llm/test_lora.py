"""Adapters beside linear layers: what merging them into the weights would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import llm
from smelt.errors import ParseError
from smelt.llm.lora import adapted, load_adapter
from smelt.llm.weights import from_gguf, from_huggingface
from tests.llm.converted import converted
from tests.llm.test_decoder import TOKENS, Held, at_once
from tests.llm.tiny_models import CONFIGS, random_tensors

CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 3}
NAMES = ["self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"]


def adapter(tensors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its tensors, and those of the model with it merged."""
    random, parts, merged = np.random.default_rng(7), {}, dict(tensors)
    for name in [f"model.layers.{n}.{part}" for n in (0, 2) for part in NAMES]:
        weight = tensors[f"{name}.weight"]
        a, b = (
            random.standard_normal(s).astype(np.float32) * 0.3 for s in ((2, weight.shape[1]), (weight.shape[0], 2))
        )
        parts |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
        merged[f"{name}.weight"] = weight + 1.5 * b @ a
    return parts, merged


def test_adapters_equal_merged_weights(tmp_path: Path) -> None:
    config, tensors = CONFIGS["llama"], random_tensors(CONFIGS["llama"])
    parts, merged = adapter(tensors)
    model = from_huggingface(config, Held(tensors))
    before = at_once(model, TOKENS)
    sm.save({name: sm.from_numpy(array) for name, array in parts.items()}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    expected = at_once(from_huggingface(config, Held(merged)), TOKENS)
    np.testing.assert_allclose(at_once(load_adapter(model, tmp_path), TOKENS), expected, atol=1e-4)
    np.testing.assert_array_equal(at_once(model, TOKENS), before)


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        ({"use_dora": True}, "", "plain LoRA"),
        ({"bias": "all"}, "", "plain LoRA"),
        ({"rank_pattern": {"q": 1}}, "", "layers differ"),
        ({"r": 0}, "", "r is 0"),
        ({}, "model.layers.9.mlp.up_proj.lora_A.weight", "no up_proj in layer 9"),
        ({}, "model.layers.0.mlp.up_proj.lora_A.weight", "has shapes"),
        ({}, "lm_head.lora_A.weight", "no layer for lm_head"),
    ],
)
def test_adapters_that_are_refused(change: dict[str, Any], name: str, message: str) -> None:
    model = from_huggingface(CONFIGS["llama"], Held(random_tensors(CONFIGS["llama"])))
    with pytest.raises(ParseError, match=message):
        adapted(model, {**CONFIG, **change}, {name: np.ones((2, 5), np.float32)} if name else {})


def test_neighbors_and_halves() -> None:
    """GGUF files have the rows of q and k in another order than adapters."""
    tensors = random_tensors(CONFIGS["llama"])
    metadata, arrays = converted(CONFIGS["llama"], tensors)
    parts, merged = adapter(tensors)
    found = adapted(from_gguf(metadata, Held(arrays)), CONFIG, parts)
    np.testing.assert_allclose(
        at_once(found, TOKENS), at_once(from_huggingface(CONFIGS["llama"], Held(merged)), TOKENS), atol=1e-4
    )


def test_a_model_is_loaded_with_an_adapter(tmp_path: Path) -> None:
    parts = {
        "model.layers.0.self_attn.q_proj.lora_A.weight": np.ones((2, 64), np.float32),
        "model.layers.0.self_attn.q_proj.lora_B.weight": np.ones((64, 2), np.float32),
    }
    sm.save({name: sm.from_numpy(array) for name, array in parts.items()}, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    vectors = []
    for adapter in (None, tmp_path):
        with llm.load("random:tiny", context=64, adapter=adapter) as model:
            vectors.append(model.embed("Hello"))
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
