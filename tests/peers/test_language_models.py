"""Tiny random models of every family: logits as transformers has them, from both kinds of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.formats import Folder, write_gguf
from smelt.llm.cache import empty_cache
from smelt.llm.conversion import convert
from smelt.llm.lora import load_adapter
from smelt.llm.weights import load_model
from tests.llm.converted import converted
from tests.llm.test_decoder import at_once, in_chunks
from tests.llm.tiny_models import CONFIGS, random_tensors, reference_logits

pytestmark = pytest.mark.peers

torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")
transformers: Any = pytest.importorskip("transformers", reason="peers: transformers is not installed")

TOKENS = np.random.default_rng(2).integers(0, 61, 24).tolist()


def random_peer(config: dict[str, Any]) -> Any:
    """A model of transformers with weights that are large enough for every part to be seen in the logits."""
    torch.manual_seed(0)
    given = {key: value for key, value in config.items() if key != "model_type"}
    found = transformers.AutoConfig.for_model(config["model_type"], attn_implementation="eager", **given)
    model = transformers.AutoModelForCausalLM.from_config(found).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            offset = 0.5 if "norm" in name or "ln_" in name else 0.0
            parameter.copy_(torch.randn_like(parameter) * 0.2 + offset)
    return model


@pytest.mark.filterwarnings("ignore::FutureWarning")  # between these two libraries
def test_adapters_equal_those_of_peft(tmp_path: Path) -> None:
    peft: Any = pytest.importorskip("peft", reason="peers: peft is not installed")
    peer = random_peer(CONFIGS["llama"])
    peer.save_pretrained(tmp_path / "model")
    parts = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]
    found = peft.get_peft_model(peer, peft.LoraConfig(r=3, lora_alpha=5, target_modules=parts)).eval()
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
        expected = found(torch.tensor([TOKENS])).logits[0].numpy()
    found.save_pretrained(tmp_path / "adapter")
    model = load_model(tmp_path / "model")
    assert np.abs(at_once(model, TOKENS) - expected).max() > 0.1
    adapted = load_adapter(model, tmp_path / "adapter")
    np.testing.assert_allclose(at_once(adapted, TOKENS, 32), expected, atol=1e-4, rtol=2e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_those_of_transformers(name: str, tmp_path: Path) -> None:
    peer = random_peer(CONFIGS[name])
    with torch.no_grad():
        expected = peer(torch.tensor([TOKENS])).logits[0].numpy()
    assert np.abs(expected).max() > 0.5
    peer.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    np.testing.assert_allclose(at_once(model, TOKENS), expected, atol=2e-4, rtol=2e-5)
    for sizes in ([7, 16, 1], [1] * 24):
        _, found = in_chunks(model, empty_cache(model.config, 2), TOKENS, sizes, 1)
        np.testing.assert_allclose(found, expected, atol=2e-4, rtol=2e-5)
    folder, written = Folder(tmp_path), json.loads((tmp_path / "config.json").read_text())
    if name == "mistral":  # llama.cpp knows no windows of such models
        return
    write_gguf(tmp_path / "model.gguf", *converted({**written, **CONFIGS[name]}, {n: folder.array(n) for n in folder}))
    model = load_model(tmp_path / "model.gguf")
    np.testing.assert_allclose(at_once(model, TOKENS), expected, atol=2e-4, rtol=2e-5)
    _, found = in_chunks(model, empty_cache(model.config, 2), TOKENS, [1] * 24, 1)
    np.testing.assert_allclose(found, expected, atol=2e-4, rtol=2e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_folders_that_are_converted_from_gguf_files_are_read_by_transformers(name: str, tmp_path: Path) -> None:
    config, tensors = CONFIGS[name], random_tensors(CONFIGS[name])
    write_gguf(tmp_path / "model.gguf", *converted(config, tensors))
    convert(tmp_path / "model.gguf", tmp_path / "folder")
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder", attn_implementation="eager").eval()
    with torch.no_grad():
        logits = peer(torch.tensor([TOKENS])).logits[0].numpy()
    window = {} if name != "mistral" else {"sliding_window": None}  # which GGUF files lack
    np.testing.assert_allclose(logits, reference_logits(config | window, tensors, TOKENS), atol=2e-4, rtol=1e-4)
