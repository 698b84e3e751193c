"""A small training run that goes on from its last checkpoint: `python run.py FOLDER STEPS`.

It says each step that is done, so that whoever started it knows when to kill it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import smelt as sm


class Net(sm.nn.Module):
    """Two layers, noise from the global random state, and a running mean."""

    buffer_names = ("mean",)

    def __init__(self) -> None:
        self.first, self.second = sm.nn.Linear(64, 16), sm.nn.Linear(16, 10)
        self.mean = sm.zeros(16)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        hidden = self.first(x).relu()
        self.mean = 0.9 * self.mean + 0.1 * hidden.mean(0)
        return self.second(hidden * sm.random.bernoulli(0.9, hidden.shape, dtype=sm.float32))


def main(folder: Path, steps: int) -> None:
    sm.random.seed(1)
    model, optimizer = Net(), sm.optim.AdamW(lr=1e-2)
    state = optimizer.init(model)
    loader = sm.data.DataLoader(sm.data.digits(), batch=100, shuffle=True, seed=3)
    checkpoint = sm.train.Checkpoint(folder, keep=2)
    done, (model, state), _ = checkpoint.restore((model, state), loader=loader)

    @sm.jit
    def step(model: Net, state: sm.optim.State, x: sm.Tensor, y: sm.Tensor) -> tuple[Net, sm.optim.State, sm.Tensor]:
        loss, slope = sm.value_and_grad(lambda m: sm.cross_entropy(m(x), y))(model)
        model, state = optimizer.update(model, slope, state)
        return model, state, loss

    while done < steps:
        for x, y in loader:
            model, state, _ = step(model, state, x, y)
            done += 1
            checkpoint.save(done, (model, state), loader=loader)
            print(done, flush=True)
            if done == steps:
                break
    sm.save((model, state), folder / "end.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
