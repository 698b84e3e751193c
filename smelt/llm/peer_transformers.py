"""transformers with torch as a contender of `smelt llm-bench`: the same weights in float32, in a process of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import ArgumentError
from smelt.llm import models
from smelt.llm.conversion import convert
from smelt.llm.described import huggingface_config
from smelt.llm.loading import random_config

__all__ = ["contender"]


def contender(model: str, threads: int, tasks: Sequence[Mapping[str, int]]) -> tuple[dict[str, Any], Any]:
    """Facts, and what runs a task and gives the seconds that it took. A GGUF file becomes a folder for a while."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ArgumentError("transformers is measured with torch", hint="pip install transformers torch") from error
    torch.set_num_threads(threads)
    peer = _loaded(transformers, model).eval()

    def run(task: Mapping[str, int]) -> float:
        with torch.inference_mode():
            return _timed(torch, peer, task)

    for task in tasks:
        run({**task, "write": 2} if "write" in task else task)
    return {"bytes_per_step": sum(one.nbytes for one in peer.parameters())}, run


def _loaded(transformers: Any, model: str) -> Any:
    auto: Callable[..., Any] = transformers.AutoModelForCausalLM
    if model.startswith("random:"):
        found = huggingface_config(random_config(model.removeprefix("random:"))[0])
        kind = found.pop("model_type")
        return auto.from_config(transformers.AutoConfig.for_model(kind, **found))  # type: ignore[attr-defined]
    path = models.find(model)
    if path.is_dir():
        return auto.from_pretrained(path, dtype="float32", local_files_only=True)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(prefix="smelt-peer-") as folder:
        whole = convert(path, Path(folder) / "model", "f32").path
        found = auto.from_pretrained(whole, dtype="float32", local_files_only=True)  # type: ignore[attr-defined]
    return found


def _timed(torch: Any, peer: Any, task: Mapping[str, int]) -> float:
    began = time.perf_counter()
    if "read" in task:
        peer(torch.ones((1, task["read"]), dtype=torch.int64), use_cache=True, logits_to_keep=1)
        return time.perf_counter() - began
    tokens, past = torch.ones((task["batch"], 1), dtype=torch.int64), None
    for _ in range(task["write"]):
        past = peer(tokens, past_key_values=past, use_cache=True).past_key_values
    return time.perf_counter() - began
