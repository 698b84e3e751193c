"""Draw digits out of noise: a small diffusion model.

What one learns here: random numbers inside of compiled steps, an average of the weights over time, and a loop of a
hundred steps that is compiled as one program (`sm.scan`).

    python examples/diffusion_digits.py --picture drawn.png

A network learns to say which noise was added to a picture, at all strengths from hardly any to nothing but noise (J. Ho
and others, "Denoising Diffusion Probabilistic Models", 2020). Drawing starts with noise, and takes off a little of what
the network sees, a hundred times. Asked for a digit, it draws that one: of the drawn digits at least 95 of 100 look
most like a real digit of the wanted kind, and the mean and spread of each dot are those of real digits, within 0.1.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import smelt as sm

STEPS = 100  # from a picture to noise
# The share of the picture's variance that is left after each number of steps: a cosine, then none.
LEFT = np.cos(np.linspace(0.0, 0.99, STEPS + 1) * np.pi / 2) ** 2


class Denoiser(sm.nn.Module):
    """From noisy pictures, how many steps of noise they have, and which digits they show: the noise."""

    def __init__(self, width: int, layers: int) -> None:
        self.start = sm.nn.Linear(64, width)
        self.times = sm.nn.Linear(64, width)
        self.kinds = sm.nn.Embedding(10, width)
        self.layers = [sm.nn.Sequential(sm.nn.Linear(width, width), sm.nn.SiLU()) for _ in range(layers)]
        self.norm = sm.nn.LayerNorm(width)
        self.out = sm.nn.Linear(width, 64)

    def __call__(self, x: sm.Tensor, steps: sm.Tensor, kinds: sm.Tensor) -> sm.Tensor:
        about = self.times(sm.nn.sinusoidal_positions(steps, 64, base=STEPS)) + self.kinds(kinds)
        x = self.start(x)
        for layer in self.layers:
            x = x + layer(x + about)
        return self.out(self.norm(x))


def loss_of(model: Denoiser, pictures: sm.Tensor, kinds: sm.Tensor) -> sm.Tensor:
    """How wrong the network is about noise of random strength. Each call draws other numbers, compiled or not."""
    steps = sm.random.randint(1, STEPS + 1, (len(pictures),))
    noise = sm.random.normal(pictures.shape)
    left = sm.asarray(LEFT, dtype=sm.float32)[steps].reshape(-1, 1)
    noisy = left.sqrt() * pictures + (1 - left).sqrt() * noise
    return sm.nn.losses.mse_loss(model(noisy, steps, kinds), noise)


def train(model: Denoiser, epochs: int, seed: int) -> Denoiser:
    data = sm.data.digits("all")
    loader = sm.data.DataLoader(
        sm.data.ArrayDataset(2 * data.images - 1, data.labels), batch=128, shuffle=True, seed=seed, drop_last=True
    )
    optimizer = sm.optim.Adam(lr=sm.optim.schedules.cosine(2e-3, epochs * len(loader)))
    ema = sm.optim.EMA(0.995, warmup=True)
    state, average = optimizer.init(model), ema.init(model)

    @sm.jit(donate=(0, 1, 2))
    def step(model, state, average, x, y):
        loss, gradients = sm.value_and_grad(loss_of)(model, x, y)
        model, state = optimizer.update(model, gradients, state)
        return model, state, ema.update(average, model), loss

    with sm.train.Progress(total=epochs * len(loader), label="training") as bar:
        for _ in range(epochs):
            for x, y in loader:
                model, state, average, loss = step(model, state, average, x, y)
                bar.advance(loss=loss)
    return average.average


@sm.jit
def draw(model: Denoiser, kinds: sm.Tensor) -> sm.Tensor:
    """A picture from -1 to 1 for each kind. The loop runs inside of the compiled program, without Python."""
    count = len(kinds)
    share = np.append(1.0, LEFT[1:] / LEFT[:-1])  # of the variance before, what each step leaves

    def back(x, now):
        step, noise, left, kept, before = now
        seen = model(x, step.broadcast_to((count,)), kinds)
        picture = ((x - (1 - left).sqrt() * seen) / left.sqrt()).clip(-1, 1)
        # Between what was drawn so far and the picture that the network believes in, with some new noise.
        mean = (before.sqrt() * (1 - kept) * picture + kept.sqrt() * (1 - before) * x) / (1 - left)
        return mean + ((1 - before) / (1 - left) * (1 - kept)).sqrt() * noise, None

    numbers = [sm.asarray(values, dtype=sm.float32) for values in (LEFT[1:], share[1:], LEFT[:-1])]
    noise = sm.random.normal((STEPS, count, 64))
    last, _ = sm.scan(back, sm.random.normal((count, 64)), (sm.arange(1, STEPS + 1), noise, *numbers), reverse=True)
    return last


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """From each picture of one list to each of another."""
    squares = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T
    return np.sqrt(squares.clip(0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=200, help="how often all digits are seen")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and noise")
    parser.add_argument("--quick", action="store_true", help="a few epochs only: is everything in its place?")
    parser.add_argument("--picture", metavar="FILE", default="diffusion.png", help="where to draw")
    options = parser.parse_args()

    sm.random.seed(options.seed)
    model = train(Denoiser(256, 4), 3 if options.quick else options.epochs, options.seed)

    kinds = np.arange(1000) % 10
    drawn = ((draw(model, sm.asarray(kinds)) + 1) / 2).clip(0, 1).numpy()
    sm.train.image_grid(options.picture, drawn[:100].reshape(-1, 8, 8), columns=10, scale=6, gap=2)
    print(f"{options.picture}: ten of each digit", file=sys.stderr)

    real = sm.data.digits("all")
    apart, own = distances(drawn, real.images), distances(real.images, real.images)
    np.fill_diagonal(own, np.inf)  # not to itself
    alike = real.labels[apart.argmin(1)] == kinds
    mean = np.abs(drawn.mean(0) - real.images.mean(0)).max()
    spread = np.abs(drawn.std(0) - real.images.std(0)).max()
    print(f"largest difference to real digits over all dots: mean {mean:.3f}, standard deviation {spread:.3f}")
    # Digits learned by heart would be much nearer to a real one than real ones are to each other.
    print(f"mean distance to the nearest real digit: drawn {apart.min(1).mean():.2f}, real {own.min(1).mean():.2f}")
    print(f"drawn digits whose nearest real digit is of the wanted kind: {alike.mean():.3f}")
    if options.quick:
        print("This was a quick trial: without --quick, at least 0.95 are of the wanted kind.")


if __name__ == "__main__":
    main()
