"""The demonstration: two small programs, what became of them, and how long they take.

Each program is written once with smelt and once with NumPy, as a user of either would. The results are compared before
anything is timed; both libraries use as many threads as they like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.bench.models import check_close, gelu_reference, softmax_reference
from smelt.bench.report import machine, machine_text
from smelt.bench.timing import Paired, paired
from smelt.transform import Explanation, examine

_TOLERANCE = 1e-4
_WIDTH = 100
_FREE = {"reshape", "expand", "permute"}  # became part of how other ops index, and are not listed


@dataclass(frozen=True)
class Program:
    """The same computation twice, and its arguments."""

    title: str
    code: str
    smelt: Callable[..., sm.Tensor]
    numpy: Callable[..., NDArray[Any]]
    arguments: tuple[NDArray[Any], ...]


def network(x: sm.Tensor, w1: sm.Tensor, b1: sm.Tensor, w2: sm.Tensor, b2: sm.Tensor) -> sm.Tensor:
    return ((x @ w1 + b1).relu() @ w2 + b2).softmax(-1)


def network_numpy(
    x: NDArray[Any], w1: NDArray[Any], b1: NDArray[Any], w2: NDArray[Any], b2: NDArray[Any]
) -> NDArray[Any]:
    return softmax_reference(np.maximum(x @ w1 + b1, 0) @ w2 + b2)


def block(x: sm.Tensor, w: sm.Tensor, b: sm.Tensor) -> sm.Tensor:
    return sm.gelu(x.softmax(-1) @ w + b, approximate="tanh")


def block_numpy(x: NDArray[Any], w: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return gelu_reference(softmax_reference(x) @ w + b)


def programs() -> list[Program]:
    """What is shown, with inputs that are the same every time."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> NDArray[np.float32]:
        return generator.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5)

    return [
        Program(
            "a network: a batch of 256 through 784 → 512 → 10",
            "softmax(relu(x @ w1 + b1) @ w2 + b2)",
            network,
            network_numpy,
            (normal(256, 784), normal(784, 512), normal(512), normal(512, 10), normal(10)),
        ),
        Program(
            "a block: softmax, matmul, gelu on 512 × 512",
            "gelu(softmax(x) @ w + b)",
            block,
            block_numpy,
            (normal(512, 512), normal(512, 512), normal(512)),
        ),
    ]


def main() -> int:
    """Print the demonstration; 0 when all results are right."""
    print(f"smelt demo on {machine_text(machine())}")
    for program in programs():
        tensors = [sm.from_numpy(array) for array in program.arguments]
        function = sm.jit(program.smelt)
        expected = program.numpy(*program.arguments)
        found = function(*tensors).numpy()
        check_close(found, expected, _TOLERANCE)
        difference = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
        explanation = examine(function, *tensors)
        times = paired(lambda: function(*tensors), lambda: program.numpy(*program.arguments), window=0.02, most=21)  # noqa: B023
        print()
        print(section(program, explanation, times, difference))
    print("\nEvery stage of your own function: sm.explain(f, *arguments). Benchmarks: python -m smelt.bench --help")
    return 0


def section(program: Program, explanation: Explanation, times: Paired, difference: float) -> str:
    """What became of one program."""
    lines = [f"── {program.title} ".ljust(_WIDTH, "─"), f"   {program.code}", ""]
    lines += _kernel_lines(explanation)
    lines += [""]
    lines += _memory_lines(explanation)
    speed = times.second_best / times.first_best
    lines += [
        "",
        f"   equal to NumPy within {difference:.0e} of the largest value; best of {times.rounds} alternating rounds:",
        f"   smelt {1e3 * times.first_best:.3f} ms, NumPy {1e3 * times.second_best:.3f} ms ({speed:.2f} × its speed)",
    ]
    return "\n".join(lines)


def _kernel_lines(explanation: Explanation) -> list[str]:
    lines = [f"   {'kernel':<8}{'fused, in order':<46}{'tasks':>7}{'Mflop':>9}{'kB moved':>10}"]
    for number, record in enumerate(explanation.kernels):
        first, *more = _wrapped(fused(record.nodes), 44)
        lines.append(
            f"   {number:<8}{first:<46}{record.tasks:>7}{record.flops / 1e6:>9.1f}{record.bytes_moved / 1e3:>10.0f}"
        )
        lines += [f"   {'':<8}{text}" for text in more]
    return lines


def fused(nodes: tuple[str, ...]) -> list[str]:
    """The ops of a kernel that compute; a run of the same op is counted."""
    counted = [(name, len(list(run))) for name, run in groupby(node for node in nodes if node not in _FREE)]
    return [name if count == 1 else f"{name}×{count}" for name, count in counted]


def _wrapped(words: list[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _memory_lines(explanation: Explanation) -> list[str]:
    placed = explanation.memory
    lines = [f"   {'memory':<8}{'intermediate':<46}{'kB':>7}{'offset':>9}{'kernels':>10}"]
    lines += [
        f"   {'':<8}{short(p.text):<46}{p.nbytes / 1e3:>7.0f}{p.offset:>9}{f'{p.first}–{p.last}':>10}" for p in placed
    ]
    if not placed:
        lines = ["   memory  no intermediate is stored"]
    lines.append(f"   {'':<8}{'peak, with results and scratch':<46}{explanation.peak_bytes / 1e3:>7.0f}")
    return lines


def short(node: str) -> str:
    """`<binary 'max' float32[256, 512]>` as `max float32[256, 512]`."""
    parts = re.fullmatch(r"<(\w+)(?: '(\w+)')?.* (\w+\[.*\])>", node)
    return node if parts is None else f"{parts[2] or parts[1]} {parts[3]}"
