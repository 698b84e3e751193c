"""Computations at the limits where the scheduler chooses otherwise: sizes on both sides of them, odd layouts, symbolic
sizes. What each limit is stands in `smelt/schedule`; here are only the computations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import smelt as sm
from smelt.compiler import GraphKey
from tests.schedule.golden_cases import attention_slope, floats, indices, words

N, M = sm.Dim("n", 1, 4096), sm.Dim("m", 1, 1000)

# Rows, columns and products of each sum.
PRODUCTS = [
    *((rows, 300, 64) for rows in (2, 3, 4, 5)),
    *((100, columns, 40) for columns in (8, 9, 12, 16, 17, 24, 32, 33, 48, 49, 144, 240)),
    *((15, 8, 40), (16, 8, 40), (16, 9, 40), (17, 3, 1000)),
    *((rows, 64, 512) for rows in (191, 192, 300, 600)),
    *((512, 64, depth) for depth in (15, 16, 31, 32)),
    *((100, 256, depth) for depth in (128, 129, 255, 256, 1024, 1025)),
    *((16, 16384, 300), (16, 9000, 512), (40, 1040, 5000), (63, 300, 300), (96, 300, 256)),
    *((1, 1023, 100), (1, 1024, 31), (1, 1024, 32), (2, 2048, 64), (3, 4096, 64), (4, 1024, 64)),
]
TURNED = [(191, 256, 100), (192, 127, 100), (192, 128, 100), (192, 1100, 300), (1000, 640, 3000), (900, 128, 2049)]
WORDS = [(7, 64, 64), (8, 15, 64), (16, 16, 64), (15, 300, 64), (48, 100, 3), (64, 64, 4), (200, 64, 6000)]
WORDS += [(500, 40, 5000), (300, 2000, 512), (256, 64, 2048), (20, 48, 130), (16, 17, 2)]
WORDS += [(1000, 64, 256), (4096, 2048, 4096), (4096, 2048, 256), (32, 32, 232 * 64)]
WORDS += [(32, 32, 145 * 64), (40, 2300, 64)]

# Rows, products of each sum, and steps with each of them.
FINISHED = [(600, 300, 1), (600, 300, 2), (600, 255, 2), (600, 100, 7), (600, 100, 8), (63, 256, 2), (32, 256, 2)]
FINISHED += [(190, 100, 8), (64, 255, 1), (64, 256, 1)]
# Queries, keys and features.
ATTENTION = [(1, 100, 64), (6, 100, 64), (7, 20, 24), (100, 3, 16), (300, 64, 128), (300, 65, 256), (1000, 100, 8)]
ATTENTION += [(12, 200, 32), (22, 200, 32), (59, 200, 32), (71, 200, 96)]
CACHED = [(1, 200), (2, 200), (7, 40), (8, 200)]  # rows and places
SCANNED = [(31, 1024), (32, 1024), (32, 1023), (40, 512), (40, 511), (40, 128), (40, 16), (40, 3), (40, 4000)]
# Rows and elements of each.
SORTED = [
    (100, 1),
    (3, 8),
    (33, 511),
    (40, 4095),
    (40, 4096),
    (1, 65_535),
    (1, 65_536),
    (1, 65_537),
    (5, 1 << 17),
    (31, 1 << 16),
]
SORTED += [(32, 1 << 16), (17, 256), (17, 257)]
SORTED_COLUMNS = [(512, 5), (513, 5), (600, 16), (600, 17), (9000, 40), (70_000, 3), (1 << 17, 2)]
SORTED_TYPES = (sm.int8, sm.uint16, sm.int32, sm.int64, sm.float16, sm.float64)
# Of so many elements, so many are wanted.
CHOSEN = [(512, 64), (513, 64), (520, 65), (4000, 250), (40_000, 1000), (8000, 991), (8000, 992), (65_535, 10)]
CHOSEN += [(65_536, 10), (65_537, 10), (1 << 18, 5000), (1 << 20, 3)]
# Rows of the result, elements of each, and rows of the updates.
SCATTERED = [(1000, 7, 90), (1000, 8, 90), (8000, 8, 192), (8191, 8, 1), (8190, 8, 2), (30_001, 8, 100), (3, 50_000, 4)]
SCATTERED += [(1 << 18, 1, 1 << 18), ((1 << 18) + 1, 1, 1 << 18), (1 << 16, 7, 75_000), (70_000, 7, 70_000)]


def byte_product(left: sm.DType, right: sm.DType) -> sm.Tensor:
    return floats(40, 64, dtype=left).astype(sm.int32) @ floats(64, 48, dtype=right).astype(sm.int32)


def attention(queries: int, keys: int, features: int) -> sm.Tensor:
    q, k, v = floats(1, 4, queries, features), floats(1, 4, keys, features), floats(1, 4, keys, features)
    return sm.scaled_dot_product_attention(q, k, v)


def cached_attention(rows: int, keys: int) -> sm.Tensor:
    """Of a few rows to as many keys as an integer says."""
    q, k, v = floats(3, rows, 64), floats(3, keys, 64), floats(3, keys, 64)
    mask = sm.arange(keys, dtype=sm.int32) <= floats(1, dtype=sm.int32)
    weights = sm.softmax(sm.where(mask, sm.einsum("hqd,hkd->hqk", q, k) * 0.125, -sm.inf), axis=-1)
    return sm.einsum("hqk,hkd->hqd", weights, v)


def attention_slopes(causal: bool) -> tuple[sm.Tensor, ...]:
    def value(*operands: sm.Tensor) -> sm.Tensor:
        return (sm.scaled_dot_product_attention(*operands, is_causal=causal) * weights).sum()

    weights = floats(2, 3, 130, 32)
    return sm.grad(value, argnums=(0, 1, 2))(*(floats(2, 3, 130, 32) for _ in range(3)))


def slope_of_halves(which: int) -> sm.Tensor:
    operands = [floats(1, 2, 70, 32, dtype=sm.bfloat16) for _ in range(3)]
    return sm.grad(lambda *x: sm.scaled_dot_product_attention(*x).astype(sm.float32).sum(), argnums=which)(*operands)


def slope_by_keys(heads: int, queries: int, keys: int, features: int) -> sm.Tensor:
    """The slope by the keys, which sums over the queries."""
    q, k, v = floats(heads, queries, features), floats(heads, keys, features), floats(heads, keys, features)
    weights = floats(heads, queries, features)
    return sm.grad(lambda k: (sm.scaled_dot_product_attention(q, k, v) * weights).sum())(k)


def many_steps(rows: int, columns: int, count: int, axis: int) -> sm.Tensor:
    """A sum of what takes so many steps to compute."""
    x = floats(rows, columns)
    for _ in range(count):
        x = x.exp()
    return x.sum(axis)


def finished(rows: int, depth: int, steps: int, columns: int = 512) -> sm.Tensor:
    """A product, and so many steps with each of its numbers."""
    y = floats(rows, depth) @ floats(depth, columns)
    for _ in range(steps):
        y = y.exp()
    return y


def in_panels(columns: int, depth: int, panel: int, dtype: sm.DType = sm.float32, together: int = 1) -> sm.Tensor:
    """A weight that was packed: panels of columns, in which so many rows lie together."""
    packed = floats(columns // panel, depth // together, panel, together, dtype=dtype)
    return packed.permute_dims((1, 3, 0, 2)).reshape((depth, columns))


def shares(x: sm.Tensor, axis: int = -1) -> sm.Tensor:
    """Parts of a sum: each element is needed again after it."""
    return x / x.sum(axis, keepdims=True)


def both(*functions: Callable[[sm.Tensor], sm.Tensor]) -> tuple[sm.Tensor, ...]:
    x = floats(64, 1000)
    return tuple(function(x) for function in functions)


EDGES: dict[str, Callable[[], sm.Tensor | tuple[sm.Tensor, ...]]] = {
    # elements
    **{f"halves of {n} rows": lambda n=n: floats(n, 40)[:, :20] + 1 for n in (255, 256, 257)},
    "transposed pairs": lambda: floats(300, 2).T + 1,
    "turned images": lambda: floats(4, 30, 20, 3).permute_dims((0, 3, 1, 2)) * 2,
    "one number": lambda: floats() + 1,
    "positions": lambda: sm.arange(1000),
    "mask of doubles": lambda: floats(1000, dtype=sm.float64) > 0,
    "narrow and wide": lambda: floats(1000, dtype=sm.int8).astype(sm.float64) * floats(1000, dtype=sm.float64),
    "past half of the cache": lambda: floats(1 << 22, dtype=sm.float32) * 2,
    "below half of the cache": lambda: floats((1 << 22) - 1) * 2,
    "lookup of columns": lambda: floats(64, 1000)[:, indices(200)],
    # folds
    **{f"sum of {n}": lambda n=n: floats(n).sum() for n in (1, 15, 16, 33, 64, 128, 10_000)},
    **{f"sums of {n}": lambda n=n: floats(500, n).sum(-1) for n in (3, 4, 7, 8, 15, 16, 17)},
    "sums of rows in another order": lambda: sm.swapaxes(floats(20, 30, 40), 0, 1).reshape((600, 40)).sum(-1),
    "sum of doubles": lambda: floats(100, 1000, dtype=sm.float64).sum(-1),
    "sum over two axes": lambda: floats(40, 50, 60).sum((0, 2)),
    "sort of rows of a power of two": lambda: sm.sort(floats(100, 64)),
    "sum of short windows": lambda: sm.avg_pool2d(floats(4, 16, 30, 30), 3, 1),
    "folded": lambda: shares(floats(64, 1000).exp().sin()),
    "folded columns": lambda: shares(floats(64, 1000).exp().sin(), 0),
    "short windows of turned images": lambda: sm.avg_pool2d(floats(4, 30, 30, 16).permute_dims((0, 3, 1, 2)), 3, 1),
    "columns in another order": lambda: sm.swapaxes(floats(10, 40, 50), 1, 2).sum(0),
    "variance of columns": lambda: floats(500, 1024).var(0),
    "sum of halves over two axes": lambda: floats(30, 40, 512)[:, :20].sum((0, 1)),
    "variance": lambda: floats(64, 1000).var(-1),
    "kept cheaply": lambda: shares(floats(64, 1000) * 2),
    **{f"many steps {n}": lambda n=n: many_steps(64, 1000, n, -1) for n in (62, 63, 126, 127)},
    **{f"columns of many steps {n}": lambda n=n: many_steps(100, 512, n, 0) for n in (2, 3, 14, 15)},
    "two sums": lambda: both(lambda x: x.sum(-1), lambda x: (x * x).sum(-1)),
    "sum and shares of it": lambda: both(lambda x: x.sum(-1), shares),
    "two results": lambda: both(sm.sin, sm.cos),
    # products
    **{f"product {m} {n} {k}": lambda m=m, n=n, k=k: floats(m, k) @ floats(k, n) for m, n, k in PRODUCTS},
    **{f"turned {m} {n} {k}": lambda m=m, n=n, k=k: floats(k, m).T @ floats(k, n) for m, n, k in TURNED},
    **{
        f"turned doubles {k}": lambda k=k: floats(k, 200, dtype=sm.float64).T @ floats(k, 200, dtype=sm.float64)
        for k in (600, 5000)
    },
    "turned and padded": lambda: sm.pad(floats(100, 300), ((0, 0), (1, 1))).T @ floats(100, 256),
    "turned batches": lambda: sm.swapaxes(floats(3, 100, 300), 1, 2) @ floats(3, 100, 256),
    "inner product": lambda: floats(1000) @ floats(1000),
    "outer product": lambda: floats(300, 1) @ floats(1, 200),
    "narrow products": lambda: floats(20, 17, 32) @ floats(20, 32, 8),
    "narrow product of few": lambda: floats(20, 3, 32) @ floats(20, 32, 8),
    "batches side by side": lambda: sm.einsum("ikb,kjb->ijb", floats(20, 30, 40), floats(30, 10, 40)),
    "products by one weight": lambda: floats(5, 70, 48) @ floats(48, 300),
    "weights by one matrix": lambda: floats(70, 48) @ floats(5, 48, 300),
    "product over two axes": lambda: sm.einsum("ikl,klj->ij", floats(70, 20, 30), floats(20, 30, 100)),
    "long product over two axes": lambda: sm.einsum("ikl,klj->ij", floats(70, 3, 3000), floats(3, 3000, 100)),
    "few rows over two axes": lambda: sm.einsum("ikl,klj->ij", floats(2, 20, 80), floats(20, 80, 2000)),
    "product of sines": lambda: floats(100, 64).sin() @ floats(64, 2000),
    "product of few sines": lambda: floats(20, 64).sin() @ floats(64, 4000),
    "product by sines": lambda: floats(100, 64) @ floats(64, 256).sin(),
    "product of padded": lambda: sm.pad(floats(100, 62), ((0, 0), (1, 1))) @ floats(64, 256),
    "product stored transposed": lambda: (floats(600, 300) @ floats(300, 512)).T + 1,
    "batches of few rows": lambda: floats(3, 6, 64) @ floats(3, 64, 2048),
    "many small products": lambda: floats(500, 8, 8) @ floats(500, 8, 8),
    **{f"finished {m} {k} {s}": lambda m=m, k=k, s=s: finished(m, k, s) for m, k, s in FINISHED},
    **{f"panels {k} {p}": lambda k=k, p=p: floats(100, k) @ in_panels(256, k, p) for k in (64, 1500) for p in (16, 64)},
    "batches by panels": lambda: floats(3, 300, 64) @ in_panels(256, 64, 64),
    "panels and few rows": lambda: floats(8, 64) @ in_panels(256, 64, 64),
    "panels of sines": lambda: floats(100, 64) @ in_panels(256, 64, 64).sin(),
    "panels that lie in rows": lambda: floats(100, 64) @ in_panels(64, 64, 64),
    # images
    **{
        f"convolution {s} {c}": lambda s=s, c=c: sm.conv2d(floats(2, c, s, s), floats(32, c, 3, 3), padding=1)
        for s in (7, 8, 14, 16, 33)
        for c in (3, 64)
    },
    "convolution of two rows": lambda: sm.conv2d(floats(2, 16, 2, 8), floats(32, 16, 3, 3), padding=1),
    "deep convolution": lambda: sm.conv2d(floats(1, 512, 14, 14), floats(64, 512, 3, 3), padding=1),
    "convolution by points": lambda: sm.conv2d(floats(2, 64, 20, 20), floats(128, 64, 1, 1)),
    "convolution of large windows": lambda: sm.conv2d(floats(1, 16, 20, 20), floats(8, 16, 11, 11)),
    "grouped convolution": lambda: sm.conv2d(floats(2, 32, 20, 20), floats(64, 8, 3, 3), padding=1, groups=4),
    "convolution of a row": lambda: sm.conv1d(floats(2, 16, 200), floats(32, 16, 5)),
    # words
    **{f"unsigned {m} {n} {k}": lambda m=m, n=n, k=k: words(m, n, k, sm.uint8, sm.int32) for m, n, k in WORDS},
    **{f"brains {m} {n} {k}": lambda m=m, n=n, k=k: words(m, n, k, sm.bfloat16, sm.float32) for m, n, k in WORDS},
    "bytes of both signs": lambda: byte_product(sm.uint8, sm.int8),
    "bytes of other signs": lambda: byte_product(sm.int8, sm.uint8),
    "bytes by transposed": lambda: (
        floats(1, 256, dtype=sm.int8).astype(sm.int32) @ floats(300, 256, dtype=sm.int8).astype(sm.int32).T
    ),
    "bytes of one word": lambda: (
        floats(1, 4, dtype=sm.int8).astype(sm.int32) @ floats(300, 4, dtype=sm.int8).astype(sm.int32).T
    ),
    "batches of bytes": lambda: (
        floats(3, 40, 64, dtype=sm.int8).astype(sm.int32) @ floats(3, 64, 48, dtype=sm.int8).astype(sm.int32)
    ),
    "transposed bytes": lambda: (
        floats(64, 100, dtype=sm.int8).astype(sm.int32).T @ floats(64, 48, dtype=sm.int8).astype(sm.int32)
    ),
    "bytes in panels": lambda: (
        floats(64, 128, dtype=sm.int8).astype(sm.int32) @ in_panels(128, 128, 32, sm.int8, 4).astype(sm.int32)
    ),
    "brains in panels": lambda: (
        floats(64, 128, dtype=sm.bfloat16).astype(sm.float32)
        @ in_panels(128, 128, 32, sm.bfloat16, 2).astype(sm.float32)
    ),
    **{
        f"{kind} of {m} rows in panels of {panel}": lambda m=m, panel=panel, dtype=dtype, wide=wide, depth=depth: (
            floats(m, 1024, dtype=dtype).astype(wide) @ in_panels(256, 1024, panel, dtype, depth).astype(wide)
        )
        for kind, dtype, wide, depth in (
            ("bytes", sm.int8, sm.int32, 4),
            ("unsigned", sm.uint8, sm.int32, 4),
            ("halves", sm.float16, sm.float32, 1),
        )
        for m, panel in ((1, 64), (2, 64), (64, 64), (65, 64), (65, 16))
    },
    "rounded brains": lambda: (
        (floats(64, 128) * 2).astype(sm.bfloat16).astype(sm.float32)
        @ floats(128, 96, dtype=sm.bfloat16).astype(sm.float32)
    ),
    "bytes over two axes": lambda: sm.einsum(
        "ikl,klj->ij",
        floats(70, 8, 16, dtype=sm.int8).astype(sm.int32),
        floats(8, 16, 64, dtype=sm.int8).astype(sm.int32),
    ),
    "squared and summed bytes": lambda: words(64, 96, 128, sm.int8, sm.int32) * 2 + 1,
    # attention
    **{f"attention {q} {k} {d}": lambda q=q, k=k, d=d: attention(q, k, d) for q, k, d in ATTENTION},
    **{f"attention to a cache {q} {k}": lambda q=q, k=k: cached_attention(q, k) for q, k in CACHED},
    "attention of one head": lambda: sm.scaled_dot_product_attention(floats(100, 32), floats(90, 32), floats(90, 32)),
    "attention of many heads": lambda: sm.scaled_dot_product_attention(*(floats(4, 8, 66, 32) for _ in range(3))),
    "attention of many short heads": lambda: sm.scaled_dot_product_attention(*(floats(40, 20, 32) for _ in range(3))),
    "attention of twelve heads": lambda: sm.scaled_dot_product_attention(*(floats(12, 70, 32) for _ in range(3))),
    "attention by given maxima": lambda: (floats(100, 48) @ floats(48, 90) - floats(100, 1)).exp() @ floats(90, 32),
    "attention of halves": lambda: sm.scaled_dot_product_attention(
        *(floats(1, 2, 70, 32, dtype=sm.bfloat16) for _ in range(3))
    ),
    "slopes of attention": lambda: attention_slopes(causal=False),
    "causal slopes of attention": lambda: attention_slopes(causal=True),
    "causal slope by queries": lambda: attention_slope(0, causal=True),
    **{f"slope of halves {which}": lambda which=which: slope_of_halves(which) for which in (0, 1)},
    "slope of wide rows": lambda: slope_by_keys(4, 30, 20, 64),
    "slope of many heads": lambda: slope_by_keys(40, 30, 20, 16),
    "logarithms of sums": lambda: sm.logsumexp(floats(100, 48) @ floats(48, 900), -1),
    "logarithms of sums of few": lambda: sm.logsumexp(floats(3, 100, 48) @ floats(3, 48, 9), -1),
    "two products": lambda: (floats(100, 48) @ floats(48, 200)) @ floats(200, 64),
    "two products of few": lambda: (floats(10, 48) @ floats(48, 20)).exp() @ floats(20, 6),
    # scans
    **{f"scan of {m} by {n}": lambda m=m, n=n: sm.cumsum(floats(m, n), 0) for m, n in SCANNED},
    "scan of a volume": lambda: sm.cumsum(floats(20, 30, 40), 1),
    "scan in another order": lambda: sm.cumsum(
        sm.swapaxes(floats(40, 30, 20) + floats(40, 30, 20) * floats(40, 30, 20), 1, 2), 0
    ),
    "scan of transposed": lambda: sm.cumsum(floats(200, 300).T, 1),
    "scan past the cache": lambda: sm.cumsum(floats(64, 1 << 16), 0),
    "scan of a broadcast row": lambda: sm.cumsum(sm.broadcast_to(floats(100, 1), (100, 50)), 0),
}

# Sorts, scatters and masks: launches of routines.
ROUTINES: dict[str, Callable[[], sm.Tensor]] = {
    **{f"sort {m} {n}": lambda m=m, n=n: sm.sort(floats(m, n)) for m, n in SORTED},
    **{f"order {m} {n}": lambda m=m, n=n: sm.argsort(floats(m, n)) for m, n in SORTED},
    **{f"sort of columns {m} {n}": lambda m=m, n=n: sm.sort(floats(m, n), axis=0) for m, n in SORTED_COLUMNS},
    **{f"sort of {dtype}": lambda dtype=dtype: sm.sort(floats(40, 6000, dtype=dtype)) for dtype in SORTED_TYPES},
    **{f"short sort of {dtype}": lambda dtype=dtype: sm.sort(floats(40, 60, dtype=dtype)) for dtype in SORTED_TYPES},
    **{f"long sort of {dtype}": lambda dtype=dtype: sm.sort(floats(1 << 18, dtype=dtype)) for dtype in SORTED_TYPES},
    **{f"best {k} of {n}": lambda n=n, k=k: sm.topk(floats(2, n), k)[0] for n, k in CHOSEN},
    **{
        f"places of the best {k} of {n}": lambda n=n, k=k: sm.topk(floats(n, dtype=sm.float64), k)[1] for n, k in CHOSEN
    },
    "best 1000 of halves": lambda: sm.topk(floats(2, 40_000, dtype=sm.float16), 1000)[0],
    "sort of a volume": lambda: sm.sort(floats(5, 600, 7), axis=1),
    **{
        f"scatter {m} {n} {k}": lambda m=m, n=n, k=k: floats(m, n).at[indices(k)].add(floats(k, n))
        for m, n, k in SCATTERED
    },
    **{
        f"scatter of {dtype}": lambda dtype=dtype: (
            floats(4000, 40, dtype=dtype).at[indices(300)].add(floats(300, 40, dtype=dtype))
        )
        for dtype in (sm.float16, sm.bfloat16, sm.int32)
    },
    "scatter of halves that replace": lambda: (
        floats(4000, 40, dtype=sm.float16).at[indices(300)].set(floats(300, 40, dtype=sm.float16))
    ),
    "scatter of a number": lambda: floats(400, 40).at[indices(30)].add(floats()),
    "scatter into zeros": lambda: sm.zeros((400, 40)).at[indices(30)].add(floats(30, 40)),
    "scatter into two zeros": lambda: sm.zeros(2).at[indices(30)].add(floats(30)),
    "scatter into one": lambda: floats(1).at[indices(30)].add(floats(30)),
    "scatter of narrow indices": lambda: floats(400, 40).at[floats(30, dtype=sm.uint8)].add(floats(30, 40)),
    "scatter into rows of one": lambda: floats(1, 400, 40).at[:, indices(30)].add(floats(1, 30, 40)),
    "scatter of transposed": lambda: floats(400, 40).at[indices(30)].add(floats(40, 30).T),
    "scatter into the middle": lambda: floats(8, 100, 16).at[:, indices(30)].add(floats(8, 30, 16)),
    "scatter by two indices": lambda: floats(8, 100, 16).at[indices(30), indices(30)].add(floats(30, 16)),
    **{f"positions of {n}": lambda n=n: sm.nonzero(floats(n) > 0, size=50)[0] for n in (1 << 15, (1 << 15) + 1)},
}

SYMBOLIC: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "any elements": (lambda x: x.exp() * 2, [(N,)]),
    "any rows": (lambda x: x.sum(-1), [(N, 64)]),
    "rows of any length": (lambda x: x.softmax(-1), [(64, N)]),
    "any columns": (lambda x: x.sum(0), [(300, N)]),
    "columns of any length": (lambda x: x.sum(0), [(N, 300)]),
    "any transposed": (lambda x: x.T + 1, [(N, M)]),
    "product of any rows": (lambda x, y: (x @ y).relu(), [(N, 64), (64, 300)]),
    "product of any rows and few columns": (lambda x, y: x @ y, [(N, 64), (64, 8)]),
    "product of any columns": (lambda x, y: x @ y, [(40, 64), (64, N)]),
    "product of any depth": (lambda x, y: x @ y, [(40, N), (N, 300)]),
    "row by any columns": (lambda x, y: x @ y, [(1, 64), (64, N)]),
    "row of any depth": (lambda x, y: x @ y, [(1, N), (N, 2048)]),
    "turned of any depth": (lambda x, y: x.T @ y, [(N, 300), (N, 300)]),
    "any batches": (lambda x, y: x @ y, [(N, 20, 30), (N, 30, 40)]),
    "bytes of any rows": (lambda x, y: x.astype(sm.int8).astype(sm.int32) @ y.astype(sm.int32), [(N, 64), (64, 48)]),
    "any queries": (sm.scaled_dot_product_attention, [(2, 3, N, 32), (2, 3, 70, 32), (2, 3, 70, 32)]),
    "any keys": (sm.scaled_dot_product_attention, [(2, 3, 70, 32), (2, 3, N, 32), (2, 3, N, 32)]),
    "any images": (lambda x, w: sm.conv2d(x, w, padding=1), [(N, 16, 14, 14), (32, 16, 3, 3)]),
    "any scan": (lambda x: sm.cumsum(x, 0), [(N, 2048)]),
    "scan of any columns": (lambda x: sm.cumsum(x, 0), [(100, N)]),
    "any scan of a row": (lambda x: sm.cumsum(x, 0), [(N,)]),
    "any sort": (sm.sort, [(N,)]),
    "sorts of any rows": (sm.sort, [(N, 40)]),
    "any scatter": (lambda x, i, y: x.at[i.astype(sm.int64)].add(y), [(N, 40), (M,), (M, 40)]),
    "any lookup": (lambda x, i: x[i.astype(sm.int64)], [(N, 40), (M,)]),
    "any positions": (lambda x: sm.nonzero(x > 0, size=10)[0], [(N,)]),
}


def symbolic_key(name: str) -> GraphKey:
    function, shapes = SYMBOLIC[name]
    sizes = [tuple(size if isinstance(size, int) else 5 for size in shape) for shape in shapes]
    return sm.jit(function, shapes=shapes).graph_key(*(floats(*size) for size in sizes))[0]
