"""Ways to damage a text of MLIR: whatever the result says, it is read or refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = sorted([*(HERE.parent / "formats" / "texts").glob("*.mlir"), *(HERE.parent / "bench").rglob("*.mlir")])

PARTS = [re.compile(p) for p in (r"(?<![%\w@#.])-?\d+(?![\w.])", r"stablehlo\.\w+", r"%\w+(?:#\d)?", r"tensor<[^<>]*>")]
OTHERS = [
    "-1",
    "0",
    "7",
    str(2**63),
    "stablehlo.sort",
    "stablehlo.while",
    "chlo.top_k",
    "tensor<i1>",
    "tensor<0x5xf32>",
    "tensor<?x5xf32>",
    "tensor<2xcomplex<f32>>",
]


def mutated(text: str, source: random.Random) -> str:
    """A text with one thing wrong: something cut out, doubled, exchanged, or written over."""
    a, b = sorted(source.randrange(len(text)) for _ in range(2))
    b = min(b, a + source.choice([1, 3, 30, 300]))
    kind = source.randrange(4)
    if kind == 0:
        return text[:a] + text[b:]
    if kind == 1:
        return text[:b] + text[a:b] + text[b:]
    if kind == 2:
        at = source.randrange(len(text))
        return text[:a] + text[at : at + b - a] + text[b:]
    return text[:a] + "".join(source.choice('<>()[]{}%@#!"=:,x0-') for _ in range(b - a)) + text[b:]


def meant(text: str, source: random.Random) -> str:
    """A text that is well formed and says something else: another number, operation, value or type somewhere."""
    places = list(source.choice(PARTS).finditer(text)) or list(PARTS[1].finditer(text))
    if not places:
        return text
    at = source.choice(places)
    new = source.choice(places).group() if source.random() < 0.6 else source.choice(OTHERS)
    return text[: at.start()] + new + text[at.end() :]


def damaged(number: int) -> str:
    """Text number so and so: one of ours with a few things changed."""
    source = random.Random(number)
    text = source.choice(TEXTS).read_text(encoding="utf-8")
    for _ in range(source.choice([1, 1, 1, 2, 4])):
        text = (meant if source.random() < 0.6 else mutated)(text, source)
    return text
