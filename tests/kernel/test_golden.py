"""Well-known kernels, line by line. The same texts stand in docs/design/kernels.md.

With SMELT_UPDATE_GOLDEN=1 the files and the page are written anew instead of being compared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from smelt.kernel import lower, parse_schedule, print_kernel, print_region, print_schedule, verify
from tests.kernel import regions as r
from tests.kernel.regions import Case

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "kernels"
PAGE = ROOT / "docs" / "design" / "kernels.md"
UPDATE = os.environ.get("SMELT_UPDATE_GOLDEN") == "1"

EXAMPLES: dict[str, tuple[Callable[[], Case], str]] = {
    "softmax": (lambda: r.softmax(1024, 100), "split c (4 reg, 16 lane); bind r.0 grid; keep e out"),
    "matmul": (
        lambda: r.matmul(256, 512, 1000, symbolic="m"),
        "split m (6 reg) tail unit; split n (4 reg, 16 lane); split k (500 loop);"
        "order n.0 k.0 m.0 k.1; bind n.0 grid; stage B at k.0 (k, n); unroll k.1 4",
    ),
    "matrix": (
        lambda: r.dots(100, 64, 128, "dot4_ss"),
        "split m (32 reg) tail mask; split n (2 reg, 16 lane); split k (4 loop, 16 reg);"
        "order n.0 k.0 m.0 k.1; bind n.0 grid; stage B at k.0 (k, n); stage A at k.0 (m, k)",
    ),
    "attention": (
        lambda: r.attention(12, 1024, 64, causal=True),
        "split q (6 reg) tail balance; split d (4 reg, 16 lane); split k (4 reg, 16 lane);"
        "stage Kt at h.0 (e, k); online k; skip k q condition; bind h.0 grid",
    ),
    "scores": (
        lambda: r.scored(1024, 1024, 64, by_keys=True),
        "split k (6 reg) tail balance; split d (4 reg, 16 lane); split q (64 loop); order k.0 d.0 q.0 q.1;"
        "stage Q at k.0 (q/64, e, q%64); stage slope at q.0 (k, q/64, q%64); skip q k condition",
    ),
}


def example(name: str) -> str:
    make, schedule = EXAMPLES[name]
    region, actions = make().region, parse_schedule(schedule)
    kernel = lower(region, actions, name)
    verify(kernel)
    return "\n".join([print_region(region), print_schedule(actions) + "\n", print_kernel(kernel)])


@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_are_as_written_down(name: str) -> None:
    path, text = GOLDEN / f"{name}.txt", example(name)
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_the_page_shows_what_the_code_prints() -> None:
    page = PAGE.read_text(encoding="utf-8")

    def block(match: re.Match[str]) -> str:
        return f"<!-- example: {match[1]} -->\n```\n{example(match[1])}```\n"

    fresh = re.sub(r"<!-- example: (\w+) -->\n```\n.*?```\n", block, page, flags=re.DOTALL)
    if UPDATE:
        PAGE.write_text(fresh, encoding="utf-8")
    assert re.findall(r"<!-- example: (\w+) -->", page) == ["softmax", "matmul"]
    assert PAGE.read_text(encoding="utf-8") == fresh
