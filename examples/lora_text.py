"""A language model learns a small text, with an adapter: thin matrices beside its layers, and nothing else is changed.

What one learns here: layers of a loaded model replaced by adapted ones, gradients by a part of a module, a compiled
training step over a model of a hundred million weights, and what the model says before and after. SmolLM2 (98 MB,
Apache-2.0) is fetched once. Needs `pip install '.[llm]'`.

    python examples/lora_text.py
    python examples/lora_text.py --model own.gguf --steps 30
"""

import argparse
import sys
from typing import Any

import numpy as np

import smelt as sm
from smelt.llm.cache import empty_cache
from smelt.llm.decoder import Decoder, step
from smelt.llm.loading import opened
from smelt.llm.lora import Adapted

TEXT = """The old lighthouse of Varn stands on a rock of green slate. Its keeper, Odrin Hale, lights the lamp with
seven matches, never six. On foggy nights he rings the bell called Marigold, and the fishermen answer with whistles."""
PROMPT = "The old lighthouse of"
RANK, ROWS = 8, 64


def with_adapters(model: Decoder, adapters: list[tuple[sm.Tensor, sm.Tensor]]) -> Decoder:
    """The model with adapters beside queries, keys and values; the given one stays as it is."""
    result = model.copy()
    for block, (down, up) in zip(result.blocks, adapters, strict=True):
        block.attention.qkv = Adapted(block.attention.qkv, down, up)
    return result


def new_adapters(model: Decoder, seed: int) -> list[tuple[sm.Tensor, sm.Tensor]]:
    """Adapters that change nothing yet: one of the two matrices is zero."""
    random, config = np.random.default_rng(seed), model.config
    rows = (config.heads + 2 * config.kv_heads) * config.head_dim
    downs = [random.standard_normal((RANK, config.width), np.float32) * 0.05 for _ in range(config.layers)]
    return [(sm.from_numpy(down), sm.zeros(rows, RANK)) for down in downs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a name, a .gguf file, or a Hugging Face folder")
    parser.add_argument("--steps", type=int, default=25, help="how often the text is read")
    parser.add_argument("--quick", action="store_true", help="a small model of random weights, which learns bytes")
    parser.add_argument("--seed", type=int, default=0, help="of the first adapters")
    arguments = parser.parse_args()

    model, tokenizer, _ = opened("random:tiny" if arguments.quick else arguments.model, exact=True)
    tokens = np.array(tokenizer.encode(TEXT)[: ROWS + 1], np.int32)
    read, expected = sm.from_numpy(tokens[:-1]), sm.from_numpy(tokens[1:])
    count = len(tokens) - 1
    positions = sm.arange(count, dtype=sm.int32)
    adapters = new_adapters(model, arguments.seed)
    optimizer = sm.optim.AdamW(lr=3e-3, weight_decay=0.0)

    def loss(adapters: Any, model: Decoder) -> sm.Tensor:
        cache, pages = empty_cache(model.config, 1), sm.zeros(1, dtype=sm.int32)
        _, logits = step(with_adapters(model, adapters), cache, read, positions, pages, positions)
        return sm.nn.losses.cross_entropy(logits, expected)

    @sm.jit(donate=(0, 1))
    def train(adapters: Any, state: Any, model: Decoder) -> Any:
        value, slopes = sm.value_and_grad(loss)(adapters, model)
        adapters, state = optimizer.update(adapters, slopes, state)
        return adapters, state, value

    def goes_on(adapters: Any) -> str:
        """The most likely tokens after the prompt, each with all of the text before it."""
        adapted, ids = with_adapters(model, adapters), tokenizer.encode(PROMPT)
        for _ in range(20):
            padded = sm.from_numpy(np.array(ids + [0] * (ROWS - len(ids)), np.int32))
            ids.append(int(following(adapted, padded, sm.asarray([len(ids) - 1], dtype=sm.int32)).argmax().item()))
        return tokenizer.decode(ids)

    @sm.jit
    def following(adapted: Decoder, ids: sm.Tensor, last: sm.Tensor) -> sm.Tensor:
        cache, pages = empty_cache(adapted.config, 1), sm.zeros(1, dtype=sm.int32)
        return step(adapted, cache, ids, sm.arange(ROWS, dtype=sm.int32), pages, last)[1]

    print(f"before: {goes_on(adapters)!r}")
    state = optimizer.init(adapters)
    losses = []
    with sm.train.Progress(total=arguments.steps, label="training", stream=sys.stderr) as bar:
        for _ in range(arguments.steps):
            adapters, state, value = train(adapters, state, model)
            losses.append(float(value.item()))
            bar.advance(loss=losses[-1])
    weights = sum(part.size for pair in adapters for part in pair)
    print(f"after:  {goes_on(adapters)!r}")
    print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} at last; {weights} weights were trained")
    if arguments.quick:
        print("This was a quick trial: without --quick, the model goes on with the text that it has learned.")


if __name__ == "__main__":
    main()
