"""Well-known computations, whose schedules are written down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import smelt as sm


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


def halves(m: int, n: int, k: int) -> sm.Tensor:
    a, b = floats(m, k, dtype=sm.bfloat16), floats(n, k, dtype=sm.bfloat16)
    return a.astype(sm.float32) @ b.astype(sm.float32).T


def attention_slope(which: int, causal: bool) -> sm.Tensor:
    operands = [floats(2, 4, 130, 32) for _ in range(3)]
    weights = floats(2, 4, 130, 32)

    def value(*operands: sm.Tensor) -> sm.Tensor:
        return (sm.scaled_dot_product_attention(*operands, is_causal=causal) * weights).sum()

    return sm.grad(value, argnums=which)(*operands)


SHAPES = [
    (1, 70, 9),
    (7, 64, 64),
    (8, 1000, 33),
    (33, 100, 35),
    (12, 16, 4),
    (64, 333, 129),
    (20, 200, 4100),
    (9, 5, 3),
    (8, 1024, 32),
    (8, 1023, 31),
    (64, 1024, 257),
    (65, 1025, 256),
    (24, 128, 512),
    (2, 8, 256),
    (128, 256, 64 * 37),
    (4000, 64, 2048),
]
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
    "slope by queries": lambda: attention_slope(0, causal=False),
    "slope by keys": lambda: attention_slope(1, causal=False),
    "slope by values": lambda: attention_slope(2, causal=True),
    "causal slope by keys": lambda: attention_slope(1, causal=True),
    "grouped attention": lambda: sm.scaled_dot_product_attention(
        floats(2, 8, 33, 16), floats(2, 2, 70, 16), floats(2, 2, 70, 16), enable_gqa=True
    ),
    "loss over many classes": lambda: sm.cross_entropy(floats(64, 48) @ floats(48, 5000), indices(64)),
    "scan": lambda: sm.cumsum(floats(64, 1000), -1),
    "scan of columns": lambda: sm.cumsum(floats(1000, 64), 0),
    "long scan": lambda: sm.cumsum(floats(1 << 18), 0),
    "lookup": lambda: floats(1000, 64)[indices(200)],
    "sort": lambda: sm.sort(floats(100, 300)),
    "sort of short rows": lambda: sm.sort(floats(5000, 7), descending=True),
    "sort of columns": lambda: sm.sort(floats(300, 20), axis=0),
    "sort of integers": lambda: sm.argsort(floats(64, 5000, dtype=sm.int32)),
    "sort of halves": lambda: sm.sort(floats(3, 200, dtype=sm.float16)),
    "long sort": lambda: sm.argsort(floats(1 << 17)),
    "long sort of integers": lambda: sm.sort(floats(1 << 20, dtype=sm.int64), descending=True),
    "first few": lambda: sm.topk(floats(10, 4000), 5)[0],
    "first few of few": lambda: sm.topk(floats(1000, 12), 3)[1],
    "first few of many": lambda: sm.topk(floats(1 << 18), 100)[0],
    "scatter": lambda: floats(1000, 64).at[indices(200)].add(1.0),
    "scatter of numbers": lambda: floats(1000).at[indices(1 << 16)].add(floats(1 << 16)),
    "scatter of elements": lambda: floats(100, 50).at[indices(20), indices(20)].set(floats(20)),
    "scatter of columns": lambda: floats(64, 1000).at[:, indices(200)].max(floats(64, 200)),
    "scatter of bytes": lambda: floats(1000, 3, dtype=sm.uint8).at[indices(200)].min(floats(200, 3, dtype=sm.uint8)),
    "scatter along an axis": lambda: sm.scatter_add(floats(8, 100), 1, indices(8, 300), floats(8, 300)),
    "long scatter": lambda: floats(1 << 16, 8).at[indices(1 << 17)].add(floats(1 << 17, 8)),
    "scatter of one number": lambda: floats(1000).at[indices()].add(floats()),
    "positions of a mask": lambda: sm.nonzero(floats(100_000) > 0, size=50)[0],
    "few positions": lambda: sm.nonzero(floats(7) > 0, size=50)[0],
    "sort of wide columns": lambda: sm.sort(floats(3000, 1000), axis=0),
    "order of columns": lambda: sm.argsort(floats(700, 300, dtype=sm.float64), axis=0),
    "sort of rows at the limit": lambda: sm.sort(floats(100, 512)),
    "sort of rows beyond it": lambda: sm.sort(floats(100, 513)),
    "order of doubles": lambda: sm.argsort(floats(100, 300, dtype=sm.float64)),
    "order of long integers": lambda: sm.argsort(floats(64, 5000, dtype=sm.int64)),
    "order of bytes": lambda: sm.argsort(floats(64, 5000, dtype=sm.uint8), descending=True),
    "first few of doubles": lambda: sm.topk(floats(10, 4000, dtype=sm.float64), 5)[1],
    "first eighth": lambda: sm.topk(floats(10, 4000), 500)[0],
    "more than an eighth": lambda: sm.topk(floats(10, 4000), 501)[0],
    "columns of a page": lambda: floats(8, 1024).sum(0),
    "columns of doubles": lambda: floats(3000, 1025, dtype=sm.float64).sum(0),
    "scan of pages": lambda: sm.cumsum(floats(100, 2048), 0),
    "scan of few columns": lambda: sm.cumsum(floats(9, 40), 0),
    "few queries": lambda: sm.scaled_dot_product_attention(
        floats(1, 8, 3, 64), floats(1, 8, 1000, 64), floats(1, 8, 1000, 64)
    ),
    "masked attention": lambda: sm.scaled_dot_product_attention(
        floats(2, 4, 192, 40), floats(2, 4, 200, 40), floats(2, 4, 200, 40), floats(192, 200)
    ),
    **{
        f"columns {m} {n}": lambda m=m, n=n: floats(m, n).sum(0) for m in (15, 16, 24) for n in (64, 128, 192, 256, 384)
    },
    "scatter of short rows": lambda: floats(50_000, 10).at[indices(1000)].add(floats(1000, 10)),
    "scatter of pairs": lambda: floats(50_000, 2).at[indices(1000)].add(floats(1000, 2)),
    "scatter of doubles": lambda: floats(9000, 8, dtype=sm.float64).at[indices(100)].set(1.0),
    "words of padded halves": lambda: (
        sm.pad(floats(62, 128, dtype=sm.bfloat16), ((1, 1), (0, 0))).astype(sm.float32)
        @ floats(128, 96, dtype=sm.bfloat16).astype(sm.float32)
    ),
    "stored past the cache": lambda: floats(1 << 22) + 1,
    "counts": lambda: sm.bincount(indices(100_000), minlength=50),
    **{f"product {m} {n} {k}": lambda m=m, n=n, k=k: floats(m, k) @ floats(k, n) for m, n, k in SHAPES},
    **{f"bytes {m} {n} {k}": lambda m=m, n=n, k=k: words(m, n, k, sm.int8, sm.int32) for m, n, k in SHAPES},
    **{f"by transposed {m} {n} {k}": lambda m=m, n=n, k=k: floats(m, k) @ floats(n, k).T for m, n, k in SHAPES},
    **{f"halves {m} {n} {k}": lambda m=m, n=n, k=k: halves(m, n, k) for m, n, k in SHAPES},
}
