"""Train an LSTM on the characters of a text, and let it write.

What one learns here: recurrent networks, whose states go in and come out; training on a text that is longer than what
gradients are taken through, by handing the states on from step to step; writing one character at a time with nothing
but the states as memory.

    python examples/lstm_text.py
    python examples/lstm_text.py --text shakespeare.txt --steps 2000

The text is the reference of the Python language, which every Python has for `help()`. On the tenth of it that it has
not seen, the network needs at least 0.5 nats less per character than a table of pairs of characters (a bigram model).
Compare with char_gpt.py, which sees 128 characters at once.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from char_gpt import bigram_loss, language_reference

import smelt as sm

STREAMS = 32  # places of the text that are read at the same time
LENGTH = 64  # characters of each that gradients go through


class Writer(sm.nn.Module):
    """Scores of all characters for each place of (batch, length) numbers, and the states after the last one."""

    def __init__(self, characters: int, width: int) -> None:
        self.embedding = sm.nn.Embedding(characters, width // 2)
        self.lstm = sm.nn.LSTM(width // 2, width, batch_first=True)
        self.out = sm.nn.Linear(width, characters)

    def __call__(self, tokens: sm.Tensor, states: tuple[sm.Tensor, sm.Tensor]):
        x, states = self.lstm(self.embedding(tokens), states)
        return self.out(x), states

    def start(self, batch: int) -> tuple[sm.Tensor, sm.Tensor]:
        """The states before the first character."""
        shape = (1, batch, self.lstm.hidden_size)
        return sm.zeros(shape), sm.zeros(shape)


def loss_of(model: Writer, states, tokens: sm.Tensor, following: sm.Tensor):
    scores, states = model(tokens, states)
    return sm.nn.losses.cross_entropy(scores.reshape(-1, scores.shape[-1]), following.reshape(-1)), states


def pieces(tokens: np.ndarray, streams: int):
    """Pairs of arrays (streams, LENGTH): characters, and those that follow. Each goes on where the last one ended."""
    length = (len(tokens) - 1) // streams // LENGTH * LENGTH
    rows = np.stack([tokens[k * length : (k + 1) * length + 1] for k in range(streams)])
    for start in range(0, length, LENGTH):
        yield rows[:, start : start + LENGTH], rows[:, start + 1 : start + LENGTH + 1]


def train(model: Writer, tokens: np.ndarray, steps: int) -> Writer:
    optimizer = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.Adam(lr=sm.optim.schedules.cosine(1e-2, steps)))
    state = optimizer.init(model)

    # The states that go in are numbers of another call: gradients end there.
    @sm.jit(donate=(0, 1, 2))
    def step(model, state, states, x, y):
        (loss, states), gradients = sm.value_and_grad(loss_of, has_aux=True)(model, states, x, y)
        model, state = optimizer.update(model, gradients, state)
        return model, state, states, loss

    with sm.train.Progress(total=steps, label="training") as bar:
        while bar.done < steps:
            states = model.start(STREAMS)
            for x, y in pieces(tokens, STREAMS):
                model, state, states, loss = step(model, state, states, sm.asarray(x), sm.asarray(y))
                bar.advance(loss=loss)
                if bar.done == steps:
                    break
    return model


def evaluate(model: Writer, tokens: np.ndarray) -> float:
    """The mean loss over the whole of a text."""
    loss, states, losses = sm.jit(loss_of), model.start(STREAMS), []
    for x, y in pieces(tokens, STREAMS):
        one, states = loss(model, states, sm.asarray(x), sm.asarray(y))
        losses.append(float(one))
    return float(np.mean(losses))


def sample(model: Writer, first: int, count: int, temperature: float = 0.7) -> list[int]:
    """Characters that follow a first one. A character costs the same, however many there are already."""

    @sm.jit(donate=(1,))
    def step(model, states, token):
        scores, states = model(token, states)
        return states, sm.random.categorical(scores[:, -1] / temperature).reshape(1, 1)

    states, token, written = model.start(1), sm.asarray([[first]]), []
    for _ in range(count):
        states, token = step(model, states, token)
        written.append(token.item())
    return written


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--text", metavar="FILE", help="another text (UTF-8)")
    parser.add_argument("--steps", type=int, default=300, help="updates of the weights")
    parser.add_argument("--seed", type=int, default=0, help="of weights and sample")
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

    model = train(Writer(len(vocabulary), width=128), seen, 20 if options.quick else options.steps)
    print(vocabulary.decode(sample(model, int(unseen[0]), 60 if options.quick else 400)))
    print("-" * 60)
    bigram, found = bigram_loss(seen, unseen, len(vocabulary)), evaluate(model, unseen)
    print(
        f"validation loss: {found:.3f} nats per character; bigram model: {bigram:.3f}; better by {bigram - found:.3f}"
    )
    if options.quick:
        print("This was a quick trial: without --quick, it is at least 0.5 better than the bigram model.")


if __name__ == "__main__":
    main()
