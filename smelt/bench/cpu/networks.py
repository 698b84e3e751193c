"""Two networks, each written once for all libraries: a GPT-2-sized forward pass and one step of a decoder.

The decoder has the layers of a model of the Llama family: 16 of them, width 2048, 32 heads of 64 that share 8 heads of
keys and values, an inner width of 8192, and 32,000 words whose vectors serve as the last layer too. These are
1.04 G weights. A step takes the vector of one token, and the keys and values of those before it, to the next logits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smelt.bench.cpu.library import Spelling
from smelt.bench.models import Transformer

GPT2 = Transformer(layers=12, width=768, heads=12, length=256, vocabulary=50257)


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a decoder; `length` counts the tokens that attention sees, this one included."""

    layers: int
    width: int
    heads: int
    shared_heads: int
    inner: int
    vocabulary: int
    length: int

    @property
    def features(self) -> int:
        return self.width // self.heads

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The weights by name; matrices are (outputs, inputs)."""
        width, shared = self.width, self.shared_heads * self.features
        yield "tokens", (self.vocabulary, width)
        for layer in range(self.layers):
            for name, shape in (
                ("norm", (width,)),
                ("query", (width, width)),
                ("key", (shared, width)),
                ("value", (shared, width)),
                ("out", (width, width)),
                ("inner_norm", (width,)),
                ("gate", (self.inner, width)),
                ("up", (self.inner, width)),
                ("down", (width, self.inner)),
            ):
                yield f"h{layer}.{name}", shape
        yield "norm", (width,)

    def weights(self) -> int:
        return sum(int(np.prod(shape)) for _, shape in self.shapes())


LLAMA = Decoder(layers=16, width=2048, heads=32, shared_heads=8, inner=8192, vocabulary=32000, length=512)
SMALL = Decoder(layers=2, width=256, heads=8, shared_heads=2, inner=704, vocabulary=1000, length=33)


def decoder_inputs(size: Decoder, dtype: Any) -> list[Any]:
    """Weights, the token's vector, keys and values of each layer, and the cosines and sines of the token's position.

    The values of all weights are cut out of one random block: drawing a billion takes longer than measuring them.
    """
    generator = np.random.default_rng(0)
    block = ((generator.random(1 << 22, dtype=np.float32) - 0.5) * 0.07).astype(dtype)
    weights: dict[str, Any] = {}
    for number, (name, shape) in enumerate(size.shapes()):
        if len(shape) == 1:
            weights[name] = np.ones(shape, dtype)
        else:
            weights[name] = _filled(shape, block[977 * number :])
    features = size.features
    before = (1, size.shared_heads, size.length - 1, features)
    cache = {
        f"h{layer}.{name}": generator.standard_normal(before, dtype=np.float32).astype(dtype)
        for layer in range(size.layers)
        for name in ("keys", "values")
    }
    angles = (size.length - 1) / 10000.0 ** (np.arange(features // 2) / (features // 2))
    angles = np.concatenate([angles, angles])
    x = generator.standard_normal((1, size.width), dtype=np.float32).astype(dtype)
    return [weights, x, cache, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]


def _filled(shape: tuple[int, ...], block: Any) -> Any:
    """An array that repeats a block: in one pass, as `np.resize` is not."""
    flat = np.empty(int(np.prod(shape)), block.dtype)
    for start in range(0, flat.size, block.size):
        flat[start : start + block.size] = block[: flat.size - start]
    return flat.reshape(shape)


def decode(s: Spelling, size: Decoder, weights: Mapping[str, Any], x: Any, cache: Mapping[str, Any], *turn: Any) -> Any:
    """Logits (1, vocabulary) after one more token."""
    for layer in range(size.layers):
        part = f"h{layer}"
        normed = s.rms_norm(x, weights[f"{part}.norm"])
        # The heads that share keys are the rows of one: nothing is repeated.
        group = size.heads // size.shared_heads
        query = s.linear(normed, weights[f"{part}.query"]).reshape((1, size.shared_heads, group, size.features))
        key = s.linear(normed, weights[f"{part}.key"]).reshape((1, size.shared_heads, 1, size.features))
        value = s.linear(normed, weights[f"{part}.value"]).reshape((1, size.shared_heads, 1, size.features))
        keys = s.concat([cache[f"{part}.keys"], _turned(s, key, *turn)], 2)
        values = s.concat([cache[f"{part}.values"], value], 2)
        seen = s.attention(_turned(s, query, *turn), keys, values, False)
        x = x + s.linear(seen.reshape((1, size.width)), weights[f"{part}.out"])
        normed = s.rms_norm(x, weights[f"{part}.inner_norm"])
        inner = s.silu(s.linear(normed, weights[f"{part}.gate"])) * s.linear(normed, weights[f"{part}.up"])
        x = x + s.linear(inner, weights[f"{part}.down"])
    return s.linear(s.rms_norm(x, weights["norm"]), weights["tokens"])


def _turned(s: Spelling, x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary positions: the halves of the features are the two parts of complex numbers."""
    half = x.shape[-1] // 2
    return x * cosine + s.concat([-x[..., half:], x[..., :half]], -1) * sine


def gpt2(s: Spelling, size: Transformer, weights: Mapping[str, Any], x: Any) -> Any:
    """Logits (length, vocabulary) from embedded tokens (length, width), with the weights of `models.parameters`."""
    width, length = size.width, size.length
    x = x + weights["positions"]
    for layer in range(size.layers):
        part = f"h{layer}.attention"
        normed = s.layer_norm(x, weights[f"{part}.norm.weight"], weights[f"{part}.norm.bias"])
        mixed = s.affine(normed, weights[f"{part}.in.weight"], weights[f"{part}.in.bias"])
        query, key, value = (
            mixed[:, at : at + width].reshape((1, length, size.heads, width // size.heads)).swapaxes(1, 2)
            for at in (0, width, 2 * width)
        )
        seen = s.attention(query, key, value, True).swapaxes(1, 2).reshape((length, width))
        x = x + s.affine(seen, weights[f"{part}.out.weight"], weights[f"{part}.out.bias"])
        part = f"h{layer}.mlp"
        normed = s.layer_norm(x, weights[f"{part}.norm.weight"], weights[f"{part}.norm.bias"])
        hidden = s.gelu(s.affine(normed, weights[f"{part}.up.weight"], weights[f"{part}.up.bias"]))
        x = x + s.affine(hidden, weights[f"{part}.down.weight"], weights[f"{part}.down.bias"])
    return s.linear(s.layer_norm(x, weights["norm.weight"], weights["norm.bias"]), weights["tokens"])


def network_operations(s: Spelling) -> dict[str, Any]:
    """The networks as operations on what `cases` gives them."""
    return {
        "gpt2": lambda weights, x: gpt2(s, GPT2, weights, x),
        "decode": lambda *inputs: decode(s, LLAMA, *inputs),
        "decode small": lambda *inputs: decode(s, SMALL, *inputs),
    }
