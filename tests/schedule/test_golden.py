"""What is chosen for well-known computations on four kinds of processor, line by line.

With SMELT_UPDATE_GOLDEN=1 the files are written anew instead of being compared: look at what a change changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt.compiler import trace
from smelt.cost.profile import Profile
from smelt.kernel import Routine
from tests.proofs.corpus import PROFILES, drawn_up

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "schedules"
UPDATE = os.environ.get("SMELT_UPDATE_GOLDEN") == "1"


def floats(*shape: int, dtype: sm.DType = sm.float32) -> sm.Tensor:
    """An input, whose values nobody looks at."""
    return sm.from_numpy(np.zeros(shape, dtype.numpy))


def weight_slope(images: int, channels: int, side: int) -> sm.Tensor:
    x, ct = floats(images, channels, side, side), floats(images, channels, side, side)
    return sm.grad(lambda w: (sm.conv2d(x, w, padding=1) * ct).sum())(floats(channels, channels, 3, 3))


def words(m: int, n: int, k: int, dtype: sm.DType, wide: sm.DType) -> sm.Tensor:
    return floats(m, k, dtype=dtype).astype(wide) @ floats(k, n, dtype=dtype).astype(wide)


def indices(*shape: int) -> sm.Tensor:
    return floats(*shape, dtype=sm.int64)


CASES: dict[str, Callable[[], sm.Tensor]] = {
    "elements": lambda: floats(100_000).exp() * 2,
    "few elements": lambda: floats(3).exp(),
    "wide elements": lambda: floats(1000, dtype=sm.float64).sqrt(),
    "half elements": lambda: floats(1000, dtype=sm.bfloat16) + 1,
    "bytes": lambda: floats(70, 33, dtype=sm.uint8) + 3,
    "transposed": lambda: floats(300, 200).T + 1,
    "transposed batches": lambda: sm.swapaxes(floats(8, 65, 130), 1, 2) * 2,
    "broadcast": lambda: floats(200, 1) + floats(300),
    "padded": lambda: sm.pad(floats(30, 40), ((1, 1), (2, 3))),
    "joined": lambda: sm.concat([floats(30, 40), floats(30, 24)], axis=1),
    "rows": lambda: floats(512, 1000).sum(-1),
    "columns": lambda: floats(512, 100).sum(0),
    "everything": lambda: floats(1 << 20).sum(),
    "few": lambda: floats(7).sum(),
    "maxima": lambda: sm.argmax(floats(64, 5000), -1),
    "maxima of columns": lambda: sm.argmax(floats(500, 64), 0),
    "softmax": lambda: floats(64, 1000).softmax(-1),
    "softmax of columns": lambda: floats(100, 64).softmax(0),
    "norm": lambda: sm.layer_norm(floats(128, 768), floats(768), floats(768)),
    "product": lambda: floats(256, 512) @ floats(512, 384),
    "large product": lambda: floats(2048, 1536) @ floats(1536, 1024),
    "product with a bias": lambda: sm.relu(floats(100, 64) @ floats(64, 48) + floats(48)),
    "product of transposed": lambda: floats(2048, 512).T @ floats(2048, 384),
    "product by transposed": lambda: floats(100, 784) @ floats(128, 784).T,
    "products": lambda: floats(12, 64, 32) @ floats(12, 32, 64),
    "row by matrix": lambda: floats(1, 1024) @ floats(1024, 4096),
    "row by transposed": lambda: floats(1, 4096) @ floats(1000, 4096).T,
    "matrix by column": lambda: floats(1000, 4096) @ floats(4096),
    "narrow product": lambda: floats(1000, 8) @ floats(8, 3),
    "odd product": lambda: floats(17, 31) @ floats(31, 13),
    "wide product": lambda: floats(64, 96, dtype=sm.float64) @ floats(96, 80, dtype=sm.float64),
    "words of bytes": lambda: words(64, 96, 128, sm.int8, sm.int32),
    "odd words of bytes": lambda: words(33, 35, 129, sm.uint8, sm.int32),
    "words of halves": lambda: words(64, 96, 128, sm.bfloat16, sm.float32),
    "row of words": lambda: words(1, 512, 256, sm.bfloat16, sm.float32),
    "convolution": lambda: sm.conv2d(floats(4, 16, 28, 28), floats(32, 16, 3, 3), padding=1),
    "strided convolution": lambda: sm.conv2d(floats(2, 3, 64, 64), floats(16, 3, 7, 7), stride=2, padding=3),
    "depthwise convolution": lambda: sm.conv2d(floats(2, 32, 28, 28), floats(32, 1, 3, 3), padding=1, groups=32),
    "slope by a weight": lambda: weight_slope(2, 64, 28),
    "pooling": lambda: sm.max_pool2d(floats(4, 16, 28, 28), 2),
    "attention": lambda: sm.scaled_dot_product_attention(
        floats(2, 8, 256, 64), floats(2, 8, 256, 64), floats(2, 8, 256, 64)
    ),
    "causal attention": lambda: sm.scaled_dot_product_attention(
        floats(1, 4, 100, 32), floats(1, 4, 100, 32), floats(1, 4, 100, 32), is_causal=True
    ),
    "scan": lambda: sm.cumsum(floats(64, 1000), -1),
    "scan of columns": lambda: sm.cumsum(floats(1000, 64), 0),
    "long scan": lambda: sm.cumsum(floats(1 << 18), 0),
    "lookup": lambda: floats(1000, 64)[indices(200)],
    "sort": lambda: sm.sort(floats(100, 300)),
    "long sort": lambda: sm.argsort(floats(1 << 17)),
    "scatter": lambda: floats(1000, 64).at[indices(200)].add(1.0),
}


def lines(profile: Profile) -> Iterator[str]:
    for name, make in CASES.items():
        for built in drawn_up(trace([make()._node]).key, profile):
            routine = isinstance(built.kernel, Routine)
            chosen = built.text.splitlines()[0] if routine else built.schedule
            yield f"{name}: {chosen}; {built.grain} at a time"


@pytest.mark.parametrize("machine", PROFILES)
def test_schedules_are_as_written_down(machine: str) -> None:
    path, text = GOLDEN / f"{machine}.txt", "\n".join(lines(PROFILES[machine])) + "\n"
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
