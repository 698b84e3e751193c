"""Writes the pages that the code itself knows best: `python docs/generate.py`. A test checks that they are current."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import smelt as sm
from smelt.compiler import trace
from smelt.compiler.simplifying import simplify
from smelt.compiler.trace import rebuild
from smelt.cost import Profile
from smelt.fuse import build_region, contiguous, merge_axes, partition
from smelt.graph.text import print_graph
from smelt.kernel import print_kernel, print_region
from smelt.plan import Lifetime, assign
from smelt.render import render
from smelt.schedule import choose

FOLDER = Path(__file__).resolve().parent

# A fixed machine, so that the page is the same wherever it is made.
MACHINE = Profile(
    name="example",
    machine="x86_64",
    vector_bytes=64,
    vector_registers=32,
    cores=2,
    l1_bytes=32 << 10,
    l2_bytes=1 << 20,
    l3_bytes=32 << 20,
    features=frozenset(),
)

PROGRAM = """x = sm.asarray(np.zeros((100, 64), np.float32))
w = sm.asarray(np.zeros((64, 32), np.float32))
b = sm.asarray(np.zeros((32,), np.float32))
y = sm.softmax((x @ w + b).relu() * 0.125, axis=-1)"""


def worked_example() -> str:
    """One program at every stage."""
    x = sm.asarray(np.zeros((100, 64), np.float32))
    w = sm.asarray(np.zeros((64, 32), np.float32))
    b = sm.asarray(np.zeros((32,), np.float32))
    y = sm.softmax((x @ w + b).relu() * 0.125, axis=-1)
    traced = trace([y._node])
    graph = rebuild(traced.key)
    rewritten = simplify(graph)
    groups = partition(rewritten).groups
    regions = [merge_axes(build_region(group, contiguous)[0]) for group in groups]
    chosen = [choose(region, MACHINE) for region in regions]
    parts = [
        "# One program at every stage",
        "This page is written by `docs/generate.py` from the code itself; a test checks that it is current.",
        "```python\nimport numpy as np\nimport smelt as sm\n\n" + PROGRAM + "\n```",
        "## Traced\n\nThe graph below `y`. The factor 0.125 has become an argument: others give the same key.",
        _block(print_graph(graph)),
        "## Rewritten\n\nThe composite is written out, and what has become superfluous is gone.",
        _block(print_graph(rewritten)),
        f"## Fused\n\n{len(groups)} kernels. Each stores one node and computes the others inside.",
        _block("\n".join(f"{group.sink!r}: {len(group.inside)} nodes inside" for group in groups)),
    ]
    for number, (region, (schedule, kernel)) in enumerate(zip(regions, chosen, strict=True)):
        parts += [
            f"## Kernel {number}: region",
            _block(print_region(region)),
            f"## Kernel {number}: schedule",
            _block(schedule.text().replace("; ", "\n")),
            f"## Kernel {number}: kernel IR",
            _block(print_kernel(kernel)),
        ]
    parts += ["## Source\n\nThe second kernel in C.", _block(render([chosen[-1][1]]), "c")]
    lifetimes = [Lifetime(100 * 32 * 4, 0, 1)]
    offsets, total = assign(lifetimes)
    parts.append("## Memory plan\n\nWhat the first kernel stores lives until the second has read it.")
    parts.append(_block(f"{lifetimes[0].nbytes} bytes at offset {offsets[0]}, launches 0 to 1; arena {total} bytes"))
    return "\n\n".join(parts) + "\n"


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


PAGES = {"design/worked-example.md": worked_example}


def main() -> None:
    for name, write in PAGES.items():
        (FOLDER / name).write_text(write(), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
