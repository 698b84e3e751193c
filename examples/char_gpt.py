"""Train a small GPT on the characters of a text, and let it write.

What one learns here: attention blocks, windows of a long text as a dataset, gradient clipping and warm-up, a baseline
to be better than, and a loop that samples with one compiled step, however long the text becomes.

    python examples/char_gpt.py
    python examples/char_gpt.py --text shakespeare.txt --steps 2000

The text is the reference of the Python language, which every Python has for `help()`. On the tenth of it that it has
not seen, the network needs at least 0.5 nats less per character than a table of pairs of characters (a bigram model).
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import smelt as sm

LENGTH = 128  # characters that the network sees


class Block(sm.nn.Module):
    """Characters look at those before them, then each is thought about; both are added to what was there."""

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = sm.nn.LayerNorm(width), sm.nn.LayerNorm(width)
        self.attention = sm.nn.Attention(width, heads, rope=sm.nn.RotaryEmbedding(width // heads))  # causal
        self.wide, self.narrow = sm.nn.Linear(width, 4 * width), sm.nn.Linear(4 * width, width)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(sm.gelu(self.wide(self.norm2(x))))


class GPT(sm.nn.Module):
    """Scores of all characters for each place of (batch, length) numbers: what comes next?"""

    def __init__(self, characters: int, width: int, heads: int, layers: int) -> None:
        self.embedding = sm.nn.Embedding(characters, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm = sm.nn.LayerNorm(width)
        self.out = sm.nn.Linear(width, characters)

    def __call__(self, tokens: sm.Tensor) -> sm.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def loss_of(model: GPT, tokens: sm.Tensor, following: sm.Tensor) -> sm.Tensor:
    scores = model(tokens)
    return sm.nn.losses.cross_entropy(scores.reshape(-1, scores.shape[-1]), following.reshape(-1))


def train(model: GPT, tokens: np.ndarray, steps: int, seed: int) -> GPT:
    windows = sm.data.WindowDataset(tokens, LENGTH, stride=LENGTH // 2)
    loader = sm.data.DataLoader(windows, batch=16, shuffle=True, seed=seed, drop_last=True)
    rate = sm.optim.schedules.warmup(sm.optim.schedules.cosine(3e-3, steps), steps=min(20, steps))
    optimizer = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=rate, weight_decay=0.1))
    state = optimizer.init(model)

    @sm.jit(donate=(0, 1))
    def step(model, state, x, y):
        loss, gradients = sm.value_and_grad(loss_of)(model, x, y)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    with sm.train.Progress(total=steps, label="training") as bar:
        while bar.done < steps:  # several epochs, the last one not to its end
            for x, y in loader:
                model, state, loss = step(model, state, x, y)
                bar.advance(loss=loss)
                if bar.done == steps:
                    break
    return model


def evaluate(model: GPT, tokens: np.ndarray) -> float:
    """The mean loss over the whole of a text, window by window."""
    loss = sm.jit(loss_of)
    loader = sm.data.DataLoader(sm.data.WindowDataset(tokens, LENGTH, stride=LENGTH), batch=16, drop_last=True)
    return float(np.mean([float(loss(model, x, y)) for x, y in loader]))


def bigram_loss(train: np.ndarray, test: np.ndarray, characters: int) -> float:
    """The loss of a table that knows how often each character follows each other; every pair counts once more."""
    counts = np.ones((characters, characters))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    shares = counts / counts.sum(1, keepdims=True)
    return float(-np.log(shares[test[:-1], test[1:]]).mean())


def sample(model: GPT, prompt: np.ndarray, count: int, temperature: float = 0.8) -> list[int]:
    """Characters that follow a prompt of LENGTH characters. The window moves on by one each time: its shape, and so the
    compiled step, stays the same.
    """

    @sm.jit
    def step(model, window):
        scores = model(window)[:, -1]
        drawn = sm.random.categorical(scores / temperature).astype(window.dtype)
        return sm.concat([window[:, 1:], drawn.reshape(1, 1)], axis=1)

    window, written = sm.asarray(prompt[None]), []
    for _ in range(count):
        window = step(model, window)
        written.append(int(window[0, -1]))
    return written


def language_reference() -> str:
    """The topics of `help()`. They quote each other at length: each paragraph is taken once."""
    from pydoc_data.topics import topics

    paragraphs = [part for name in sorted(topics) for part in topics[name].split("\n\n")]
    return "\n\n".join(dict.fromkeys(paragraphs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--text", metavar="FILE", help="another text (UTF-8)")
    parser.add_argument("--steps", type=int, default=250, help="updates of the weights")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and sample")
    parser.add_argument("--quick", action="store_true", help="a few steps only: is everything in its place?")
    options = parser.parse_args()

    sm.random.seed(options.seed)
    text = sm.data.read_text(options.text) if options.text else language_reference()
    if len(text) < 25_000:
        parser.error(f"the text has {len(text)} characters, and a tenth of 25000 is needed to judge by")
    vocabulary = sm.data.Vocabulary.of(text)
    tokens = vocabulary.encode(text)
    cut = len(tokens) * 9 // 10
    seen, unseen = tokens[:cut], tokens[cut:]
    print(f"{len(text):,} characters, {len(vocabulary)} different ones", file=sys.stderr)

    model = GPT(len(vocabulary), width=96, heads=3, layers=3)
    model = train(model, seen, 20 if options.quick else options.steps, options.seed).eval()
    print(vocabulary.decode(sample(model, unseen[:LENGTH], 60 if options.quick else 400)))
    print("-" * 60)
    bigram, found = bigram_loss(seen, unseen, len(vocabulary)), evaluate(model, unseen)
    print(
        f"validation loss: {found:.3f} nats per character; bigram model: {bigram:.3f}; better by {bigram - found:.3f}"
    )
    if options.quick:
        print("This was a quick trial: without --quick, it is at least 0.5 better than the bigram model.")


if __name__ == "__main__":
    main()
