"""The demonstration: a network learns to read digits; then what its training step was compiled to.

Results go to stdout, the progress bar to stderr.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import smelt as sm
from smelt.bench.report import machine, machine_text
from smelt.plan import KernelRecord
from smelt.transform import Explanation, examine

EPOCHS = 30
BATCH = 64
_WIDTH = 100
_OPS = 60  # characters of a kernel's line for its ops
_FREE = {"reshape", "expand", "permute"}  # became part of how other ops index, and are not listed
_SUMS = {"contract", "reduce.add"}  # how gradients by weights and biases end


class Net(sm.nn.Module):
    """Scores of ten digits for pictures of 64 dots."""

    def __init__(self, hidden: int) -> None:
        self.first, self.second = sm.nn.Linear(64, hidden), sm.nn.Linear(hidden, hidden)
        self.third = sm.nn.Linear(hidden, 10)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.third(self.second(self.first(x).relu()).relu())


class Trained(NamedTuple):
    """What training gave, and how long it took."""

    model: Net
    step: Callable[..., Any]
    arguments: tuple[Any, ...]  # for one more step
    first_seconds: float  # of the first step, with tracing and compiling
    steps: int  # after the first
    seconds: float  # of these


def main() -> int:
    """Print the demonstration; 0 when the digits were learned, 1 when not."""
    print(f"smelt demo on {machine_text(machine())}\n")
    trained = train()
    accuracy, confusion = evaluate(trained.model)
    explanation = examine(trained.step, *trained.arguments)
    print(
        "── digits that it has not seen: rows are what they are, columns what they were taken for ".ljust(_WIDTH, "─")
    )
    print(f"{confusion}\n")
    print("── one training step: forward pass, gradients and AdamW, one compiled program ".ljust(_WIDTH, "─"))
    print("\n".join(kernel_lines(explanation)) + "\n")
    print("\n".join(update_lines(explanation, len(trained.model.parameters()))) + "\n")
    print(f"test accuracy: {accuracy:.2%}")
    print(
        f"first step, with compiling: {trained.first_seconds:.2f} s; the {trained.steps} steps after it, with feeding: "
        f"{trained.steps / trained.seconds:.0f} per second"
    )
    print(
        "\nEvery stage of your own function: sm.explain(f, *arguments). The program as a file: examples/digits_mlp.py"
    )
    return 0 if accuracy > 0.9 else 1


def train(epochs: int = EPOCHS) -> Trained:
    """Train the network on the digits that come with smelt."""
    sm.random.seed(0)
    model = Net(256)
    loader = sm.data.DataLoader(sm.data.digits("train"), batch=BATCH, shuffle=True, drop_last=True)
    steps = epochs * len(loader)
    optimizer = sm.optim.AdamW(lr=sm.optim.schedules.cosine(3e-3, steps), weight_decay=0.05)
    state = optimizer.init(model)

    def loss_of(model: Net, x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        return sm.nn.losses.cross_entropy(model(x), y, label_smoothing=0.1)

    @sm.jit(donate=(0, 1))
    def step(model: Net, state: Any, x: sm.Tensor, y: sm.Tensor) -> tuple[Net, Any, sm.Tensor]:
        loss, gradients = sm.value_and_grad(loss_of)(model, x, y)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    start = first = time.perf_counter()
    with sm.train.Progress[Any](total=steps, label="training") as bar:
        for _ in range(epochs):
            for x, y in loader:
                model, state, loss = step(model, state, x, y)
                bar.advance(loss=loss)
                if bar.done == 1:
                    loss.item()  # waits
                    first = time.perf_counter()
        loss.item()
    return Trained(model, step, (model, state, x, y), first - start, steps - 1, time.perf_counter() - first)


def evaluate(model: Net) -> tuple[float, sm.train.ConfusionMatrix]:
    """The share of unseen digits that are right, and what the others were taken for."""
    test = sm.data.digits("test")
    scores, labels = model.eval()(sm.asarray(test.images)), sm.asarray(test.labels)
    accuracy, confusion = sm.train.Accuracy(), sm.train.ConfusionMatrix(10)
    accuracy.update(scores, labels)
    confusion.update(scores, labels)
    return accuracy.value(), confusion


def kernel_lines(explanation: Explanation) -> list[str]:
    """A line for each launch: the ops that it holds."""
    lines = [f"{'kernel':<7}{'ops in it':<{_OPS}}{'Mflop':>8}{'kB':>7}"]
    for number, record in enumerate(explanation.kernels):
        told = "gradient, update" if is_update(record) and has_sum(record) else "update" if is_update(record) else ""
        numbers = f"{record.flops / 1e6:>8.2f}{record.bytes_moved / 1e3:>7.0f}"
        lines.append(f"{number:>4}   {fused(record.nodes, _OPS - 2):<{_OPS}}{numbers}  {told}".rstrip())
    return lines


def update_lines(explanation: Explanation, parameters: int) -> list[str]:
    """What became of gradients and updates."""
    updates = [record for record in explanation.kernels if is_update(record)]
    together = sum(map(has_sum, updates))
    launches = len(explanation.kernels)
    return [
        f"{launches} launches in one call; {together} of {parameters} parameters are updated in the kernel "
        "that sums up their gradient,",
        "which is then never stored. "
        f"Memory for intermediates: {explanation.compiled.intermediate_bytes / 1e3:.0f} kB.",
    ]


def is_update(record: KernelRecord) -> bool:
    """Whether a kernel holds the root that Adam divides by."""
    return "sqrt" in record.nodes


def has_sum(record: KernelRecord) -> bool:
    """Whether a kernel sums up over the batch, as gradients by parameters do."""
    return not _SUMS.isdisjoint(record.nodes)


def fused(nodes: tuple[str, ...], width: int = 1000) -> str:
    """The ops of a kernel that compute, each with how often it is there, in at most so many characters."""
    counts = Counter(node for node in nodes if node not in _FREE)
    words = [name if count == 1 else f"{name}×{count}" for name, count in counts.items()]
    text = " ".join(words)
    if len(text) <= width:
        return text
    return text[: width - 1].rsplit(" ", 1)[0] + " …"
