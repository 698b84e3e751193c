"""Press pictures of digits through eight numbers, and unpack them again.

What one learns here: a module of two parts, a loss without labels, a comparison with the best that straight lines can
do (principal components, by NumPy), and pictures in a file.

    python examples/autoencoder.py --picture digits.png

On digits that it has not seen, the square error of the network is at most half of that of eight principal components.
In the picture, each of 16 digits stands above what the network, and below that, what the components make of it.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import smelt as sm


class Autoencoder(sm.nn.Module):
    """An encoder from 64 dots to a few numbers, and a decoder back."""

    def __init__(self, code: int, hidden: int) -> None:
        self.encoder = sm.nn.Sequential(sm.nn.Linear(64, hidden), sm.nn.SiLU(), sm.nn.Linear(hidden, code))
        self.decoder = sm.nn.Sequential(
            sm.nn.Linear(code, hidden), sm.nn.SiLU(), sm.nn.Linear(hidden, 64), sm.nn.Sigmoid()
        )

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.decoder(self.encoder(x))


def train(model: Autoencoder, images: np.ndarray, epochs: int, seed: int) -> Autoencoder:
    loader = sm.data.DataLoader(sm.data.ArrayDataset(images), batch=64, shuffle=True, seed=seed, drop_last=True)
    optimizer = sm.optim.AdamW(lr=sm.optim.schedules.cosine(4e-3, epochs * len(loader)))
    state = optimizer.init(model)

    @sm.jit(donate=(0, 1))
    def step(model, state, x):
        loss, gradients = sm.value_and_grad(lambda m: sm.nn.losses.mse_loss(m(x), x))(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    with sm.train.Progress(total=epochs * len(loader), label="training") as bar:
        for _ in range(epochs):
            for (x,) in loader:
                model, state, loss = step(model, state, x)
                bar.advance(loss=loss)
    return model


def principal_components(images: np.ndarray, others: np.ndarray, code: int) -> np.ndarray:
    """Other images by the mean of images and the directions in which they differ most: a straight autoencoder."""
    mean = images.mean(0)
    _, _, directions = np.linalg.svd(images - mean, full_matrices=False)
    kept = directions[:code]
    return (others - mean) @ kept.T @ kept + mean


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=150, help="how often all digits are seen")
    parser.add_argument("--code", type=int, default=8, help="numbers that a picture must go through")
    parser.add_argument("--seed", type=int, default=0, help="of weights and of the order of digits")
    parser.add_argument("--quick", action="store_true", help="a few epochs only: is everything in its place?")
    parser.add_argument("--picture", metavar="FILE", default="autoencoder.png", help="where to draw")
    options = parser.parse_args()

    sm.random.seed(options.seed)
    images, unseen = sm.data.digits("train").images, sm.data.digits("test").images
    model = Autoencoder(options.code, hidden=256)
    model = train(model, images, 3 if options.quick else options.epochs, options.seed)

    found = model(sm.asarray(unseen)).numpy()
    straight = principal_components(images, unseen, options.code)
    rows = np.stack([unseen, found, straight])[:, :16].reshape(-1, 8, 8)
    sm.train.image_grid(options.picture, rows.clip(0, 1), columns=16, scale=6, gap=2)
    print(f"{options.picture}: digits, network, principal components", file=sys.stderr)

    error, line = float(np.square(found - unseen).mean()), float(np.square(straight - unseen).mean())
    print(f"mean square error of {options.code} numbers: {error:.5f}; principal components: {line:.5f}")
    print(f"share: {error / line:.3f}")
    if options.quick:
        print("This was a quick trial: without --quick, the share is at most 0.5.")


if __name__ == "__main__":
    main()
