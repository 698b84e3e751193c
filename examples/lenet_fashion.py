"""Classify pictures of clothes with a convolutional network, LeNet.

What one learns here: convolutions and pooling, a learning rate that rises and falls, evaluation in batches whose last
one is padded and masked, and what to do about data that are not there.

    python examples/lenet_fashion.py

Needs Fashion-MNIST, 60000 + 10000 pictures of 28 by 28 dots in ten classes: on Debian and Ubuntu `apt install
dataset-fashion-mnist`, or `make fashion-mnist` without root; `--data` says where else. After four epochs at least 88
of 100 pictures of the test part are right.
"""

from __future__ import annotations

import argparse
import sys

import smelt as sm
from smelt.errors import MissingFileError

NAMES = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


class LeNet(sm.nn.Module):
    """Two convolutions that find shapes, three layers that judge them (Y. LeCun and others, 1998; here with ReLU)."""

    def __init__(self) -> None:
        self.features = sm.nn.Sequential(
            sm.nn.Conv2d(1, 6, 5, padding=2),
            sm.nn.ReLU(),
            sm.nn.MaxPool2d(2),
            sm.nn.Conv2d(6, 16, 5),
            sm.nn.ReLU(),
            sm.nn.MaxPool2d(2),
            sm.nn.Flatten(),
        )
        self.classifier = sm.nn.Sequential(
            sm.nn.Linear(400, 120), sm.nn.ReLU(), sm.nn.Linear(120, 84), sm.nn.ReLU(), sm.nn.Linear(84, 10)
        )

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.classifier(self.features(x))


def train(model: LeNet, data: sm.data.Dataset, epochs: int, seed: int) -> LeNet:
    loader = sm.data.DataLoader(data, batch=128, shuffle=True, seed=seed, drop_last=True)
    # A schedule is a function of the number of updates, a tensor: it is compiled into the step.
    optimizer = sm.optim.Adam(lr=sm.optim.schedules.one_cycle(6e-3, total_steps=epochs * len(loader)))
    state = optimizer.init(model)

    @sm.jit(donate=(0, 1))
    def step(model, state, x, y):
        loss, gradients = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    with sm.train.Progress(total=epochs * len(loader), label="training") as bar:
        for _ in range(epochs):
            for x, y in loader:
                model, state, loss = step(model, state, x, y)
                bar.advance(loss=loss)
    return model


def evaluate(model: LeNet, data: sm.data.Dataset) -> tuple[float, list[float]]:
    """The share of pictures that are right, over all and in each class."""
    model = model.eval()
    accuracy, recall = sm.train.Accuracy(), sm.train.Recall(10, average=None)

    @sm.jit
    def count(model, x, y, mask):
        scores = model(x)
        accuracy.update(scores, y, mask)  # metrics are modules: what is set inside of `jit` is seen outside
        recall.update(scores, y, mask)

    # 10000 is no multiple of 512. With `pad_last` all batches have one size, and a mask says which pictures are real.
    for x, y, mask in sm.data.DataLoader(data, batch=512, pad_last=True):
        count(model, x, y, mask)
    return accuracy.value(), recall.value().tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=4, help="how often all pictures are seen")
    parser.add_argument("--data", metavar="FOLDER", help="where the four IDX files are, if not in a usual place")
    parser.add_argument("--seed", type=int, default=0, help="of weights and of the order of pictures")
    parser.add_argument("--quick", action="store_true", help="one epoch of a tenth of the pictures")
    options = parser.parse_args()

    try:
        data, test = (sm.data.fashion_mnist(split, options.data) for split in ("train", "test"))
    except MissingFileError as error:
        sys.exit(f"lenet_fashion: {error}")
    if options.quick:
        data = sm.data.Subset(data, range(0, len(data), 10))

    sm.random.seed(options.seed)
    model = LeNet()
    print(model.summary((1, 1, 28, 28)), file=sys.stderr)
    model = train(model, data, 1 if options.quick else options.epochs, options.seed)
    accuracy, shares = evaluate(model, test)
    for name, share in zip(NAMES, shares, strict=True):
        print(f"{name:<9} {share:6.1%}")
    print(f"test accuracy: {accuracy:.4f}")
    if options.quick:
        print("This was a quick trial: without --quick, at least 0.88 are right.")


if __name__ == "__main__":
    main()
