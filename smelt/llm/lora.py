"""Adapters: what a fine-tuning adds to linear layers, as products of two thin matrices beside them (LoRA).

An adapter is a folder of PEFT: `adapter_config.json`, and tensors that are named after the layers which they change.
Every tensor is used, or an error names it. The model's own weights stay as they are, quantized ones, too.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import MissingFileError, ParseError
from smelt.formats import SafeTensors, json_object
from smelt.llm.decoder import Decoder, Layer, Mlp
from smelt.nn import Module
from smelt.tensor import Tensor

__all__ = ["Adapted", "adapted", "load_adapter"]

_NAME: Final = re.compile(
    r"(?:base_model\.model\.)?model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)\.lora_([AB])\.weight"
)
_MOST_RANK: Final = 4096
_LARGEST_CONFIG: Final = 1_000_000  # bytes


class Adapted(Module):
    """A layer plus `(x @ down.T) @ up.T`: the thin matrices of all of its parts, (rank, in) and (out, rank)."""

    def __init__(self, layer: Layer, down: Tensor, up: Tensor) -> None:
        self.layer, self.down, self.up = layer, down, up

    def __call__(self, x: Tensor) -> Tensor:
        return self.layer(x) + (x @ self.down.T) @ self.up.T


def load_adapter(model: Decoder, path: str | os.PathLike[str]) -> Decoder:
    """A model with the adapter of a folder; the given one stays as it is."""
    place = os.path.join(path, "adapter_config.json")
    if not os.path.exists(place):
        raise MissingFileError(f"{os.fspath(path)} has no adapter_config.json", hint="Name the folder of an adapter.")
    with open(place, "rb") as file:
        text = file.read(_LARGEST_CONFIG)
    try:
        config = json_object(text)
    except ValueError as error:
        raise ParseError(f"adapter_config.json: {error}", rule="it must be the config of an adapter.") from None
    tensors = SafeTensors(os.path.join(path, "adapter_model.safetensors"))
    return adapted(model, config, {name: tensors.array(name) for name in tensors})


def adapted(model: Decoder, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Decoder:
    """A model with what an adapter adds to its layers; the given one stays as it is."""
    scale = _scale(config)
    pairs: dict[tuple[int, str], dict[str, NDArray[np.float32]]] = {}
    for name, array in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ParseError(f"adapter: there is no layer for {name}", rule="every tensor must be used.")
        pairs.setdefault((int(match[1]), match[2]), {})[match[3]] = array.astype(np.float32)
    result = model.copy()
    for n, block in enumerate(result.blocks):
        q, k = model.config.heads * model.config.head_dim, model.config.kv_heads * model.config.head_dim
        hidden, width = model.config.hidden, model.config.width
        block.attention.qkv = _put(block.attention.qkv, pairs, n, {"q_proj": q, "k_proj": k, "v_proj": k}, width, scale)
        block.attention.out = _put(block.attention.out, pairs, n, {"o_proj": width}, q, scale)
        if isinstance(block.mlp, Mlp) and block.mlp.gated:
            block.mlp.up = _put(block.mlp.up, pairs, n, {"gate_proj": hidden, "up_proj": hidden}, width, scale)
            block.mlp.down = _put(block.mlp.down, pairs, n, {"down_proj": width}, hidden, scale)
    if pairs:
        n, part = next(iter(pairs))
        raise ParseError(f"adapter: the model has no {part} in layer {n}", rule="every tensor must be used.")
    return result


def _scale(config: Mapping[str, Any]) -> float:
    """What the products are scaled by. Kinds of adapters that do more than that are refused."""
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if config.get("peft_type") != "LORA" or config.get("use_dora") or config.get("bias", "none") != "none":
        raise ParseError("adapter: it is not plain LoRA", rule="DoRA, biases and other kinds are not supported.")
    if config.get("rank_pattern") or config.get("alpha_pattern") or config.get("modules_to_save"):
        raise ParseError("adapter: layers differ, or are replaced", rule="this is not supported.")
    if not isinstance(rank, int) or not 0 < rank <= _MOST_RANK or not isinstance(alpha, int | float):
        raise ParseError(f"adapter: r is {rank!r}, lora_alpha {alpha!r}", rule="they must be numbers.")
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _put(layer: Layer, pairs: dict[Any, Any], n: int, rows: Mapping[str, int], columns: int, scale: float) -> Layer:
    """A layer with the adapters of its parts, one after the other in its rows; they are taken from `pairs`."""
    found = {part: pairs.pop((n, part)) for part in rows if (n, part) in pairs}
    if not found:
        return layer
    for part, pair in found.items():
        shapes = {side: array.shape for side, array in pair.items()}
        rank = shapes.get("A", (0,))[0]
        if shapes != {"A": (rank, columns), "B": (rows[part], rank)} or not 0 < rank <= _MOST_RANK:
            raise ParseError(f"adapter: {part} of layer {n} has shapes {shapes}", rule="A and B must fit the layer.")
    down = np.concatenate([pair["A"] for pair in found.values()])
    up = np.zeros((sum(rows.values()), len(down)), np.float32)
    row = column = 0
    for part, count in rows.items():
        if part in found:
            rank = len(found[part]["A"])
            up[row : row + count, column : column + rank] = found[part]["B"] * np.float32(scale)
            column += rank
        row += count
    return Adapted(layer, sm.from_numpy(down), sm.from_numpy(up))
