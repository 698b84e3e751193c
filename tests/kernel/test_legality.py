"""Every legality check, with a region and a schedule in which it is the only thing that fails."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import smelt.kernel
from smelt.dtypes import float16, float32, int32
from smelt.graph.index import of
from smelt.kernel import Illegal, lower, parse_schedule, verify
from smelt.kernel.region import Less, mask_expression
from tests.kernel import regions as r
from tests.kernel.regions import Case

TILE = "split m (16 reg); split n (16 lane); split k (16 reg)"

SPLITS = [
    ("split z (4 reg)", "no axis z"),
    ("split c (4 reg); split c (2 reg)", "is split already"),
    ("split c ()", "at least one part"),
    ("split c (4 reg) tail wrap", "wrap is not a tail"),
    ("split c (4 warp)", "warp is not a kind"),
    ("split c (3 thread)", "3 threads is not a power of two"),
    ("split c (4 thread, 2 reg)", "must be loops, then reg, then thread, then lane"),
    ("split c (4 thread) tail unit", "tail unit needs a tile without lanes and threads"),
    ("split c (0 reg)", "0 is not an extent"),
    ("split c (12 lane)", "12 lanes is not a power of two"),
    ("split c (1 lane)", "1 lanes is not a power of two"),
    ("split c (4 reg, 2 loop)", "loops, then reg, then thread"),
    ("split c (4 lane, 2 reg)", "loops, then reg, then thread"),
    ("split c (4 reg, 2 reg)", "two parts of one kind"),
    ("split c (4 loop) tail mask", "needs a tile"),
    ("split c (4 reg, 4 lane) tail unit", "without lanes"),
    ("split r (4 lane); split c (4 lane)", "two lane parts"),
]

LOOPS = [
    ("order r.0", "every loop of c"),
    ("order r.0 c.0 r.0", "named twice"),
    ("order r.0 c.0; order c.0 r.0", "given twice"),
    ("split c (4 loop); order r.0 c.1 c.0", "c.1 must come after c.0"),
    ("order r.0 c.1", "no loop c.1"),
    ("order r.0 c", "no loop c"),
    ("bind r.0 r.0 grid", "named twice"),
    ("bind r.0 grid; bind c.0 grid", "one action names all"),
    ("bind c.0 grid", "the grid must be the outermost loops"),
    ("unroll c.0 0", "0 is not a factor"),
    ("grain 0", "one task at least"),
    ("shares 0", "one register at least"),
    ("prefetch 4096 8 nothing", "no such buffer"),
    ("unroll c.7 2", "no loop c.7"),
]

MEMORY = [
    ("stage %99 at r.0 (c)", "no node %99"),
    ("stage v at r.0 ()", "must name axes"),
    ("stage v at r.0 (c, c)", "must name axes"),
    ("stage v at r.0 (c%4, c/4)", "must name axes"),
    ("stage v at r.0 (c/4, c%8)", "must name axes"),
    ("stage v at r.0 (c/4)", "must name axes"),
    ("stage v at r.0 (c/1, c%1)", "not a block of c"),
    ("split c (4 lane); stage v at r.0 (c/6, c%6)", "not whole vectors"),
    ("stage v at r.0 (c); stage v at c.0 (c)", "staged already"),
    ("stage m at r.0 (c)", "does not vary over all axes"),
    ("stage v at r.0 (r)", "c is not open"),
    ("split r (2 reg); stage v at r.0 (c)", "r has a tile"),
    ("keep e register", "register is not a place"),
    ("keep e local; keep e out", "kept already"),
    ("keep m local", "is a reduction"),
    ("keep z out", "is a reduction"),
]

ONLINE = [
    ("online c; online c", "online already"),
    ("split c (4 loop); online c", "more than one loop"),
    ("online r", "no reduction over r follows"),
    ("online c; stage e at c.0 (c, r)", "no group over c"),
]


@pytest.mark.parametrize(("schedule", "reason"), SPLITS + LOOPS + MEMORY + ONLINE)
def test_softmax_refuses(schedule: str, reason: str) -> None:
    with pytest.raises(Illegal, match=reason):
        lower(r.softmax(3, 17).region, parse_schedule(schedule))


def test_what_is_refused_needs_only_a_small_change() -> None:
    """The neighbors of the refused schedules are legal, so nothing else is wrong with them."""
    for schedule in (
        "split c (4 reg, 4 lane) tail mask",
        "split c (4 reg) tail unit",
        "split r (4 reg); split c (4 lane)",
        "split c (4 loop); order r.0 c.0 c.1",
        "bind r.0 c.0 grid",
        "order c.0 r.0; bind c.0 grid",
        "stage v at r.0 (c)",
        "stage v at c.0 (r, c)",
        "split r (2 reg); stage v at r.0 (c, r)",
        "keep e local",
        "keep e out",
        "online c",
        "online c; stage v at c.0 (c, r)",
    ):
        verify(lower(r.softmax(3, 17).region, parse_schedule(schedule)))


def cyclic() -> Case:
    """o[c] = sum over j of A[c, j] * sum over c of k[c] * B[c, j]: a phase over the output's axis, inside its loop."""
    c, j = r.axis("c", 5), r.axis("j", 3)
    kept = r.op("exp", r.load(r.buffer("k", 5), c))
    inner = r.reduce("add", r.op("mul", kept, r.load(r.buffer("B", 5, 3), c, j)), c)
    value = r.reduce("add", r.op("mul", r.load(r.buffer("A", 5, 3), c, j), inner), j)
    return Case(r.region(r.out(r.buffer("o", 5), [c], value), [c, j], kept=kept))


def reread() -> Case:
    """A first phase keeps e; a later one, for each stored element, reads all of it again."""
    c, j = r.axis("c", 5), r.axis("j", 5)
    x = r.load(r.buffer("x", 5), c)
    e = r.op("exp", x)
    z = r.reduce("add", e, c)
    again = r.reduce("add", r.op("mul", e, r.load(r.buffer("w", 5, 5), c, j)), c)
    row = r.reduce("add", r.op("mul", again, r.load(r.buffer("A", 5, 5), c, j)), j)
    value = r.op("mul", e, r.op("mul", z, row))
    return Case(r.region(r.out(r.buffer("o", 5), [c], value), [c, j], e=e))


def aliased() -> Case:
    """The output is also read."""
    a, c = r.axis("a", 3), r.axis("c", 5)
    o = r.buffer("o", 3, 5)
    e = r.op("exp", r.load(o, a, c))
    value = r.op("div", e, r.reduce("add", e, c))
    return Case(r.region(r.out(o, [a, c], value), [a, c], e=e))


def halves() -> Case:
    a, c = r.axis("a", 3), r.axis("c", 5)
    e = r.op("exp", r.load(r.buffer("x", 3, 5), a, c))
    value = r.op("div", e, r.reduce("add", e, c))
    return Case(r.region(r.out(r.buffer("o", 3, 5, dtype=float16), [a, c], value), [a, c], e=e))


def chained(first_reads: bool = False) -> Case:
    """The second output reads what the first stored."""
    i, j = r.axis("i", 6), r.axis("j", 6)
    middle, o = r.buffer("t", 6), r.buffer("o", 6)
    first = r.out(middle, [i], r.op("exp", r.load(middle if first_reads else r.buffer("x", 6), i)))
    second = r.out(o, [j], r.op("neg", r.load(middle, j)))
    return Case(r.region([first, second], [i, j]))


def scaled(size: int = 5) -> Case:
    """All rows use one sum over everything."""
    a, c = r.axis("a", size), r.axis("c", 7)
    e = r.op("exp", r.load(r.buffer("x", size, 7), a, c))
    z = r.reduce("add", e, a, c)
    return Case(r.region(r.out(r.buffer("o", size, 7), [a, c], r.op("div", e, z)), [a, c], e=e, z=z))


def squared() -> Case:
    """All elements use a sum over rows of a sum along each: that one walks the output's rows in a loop of its own."""
    a, c = r.axis("a", 5), r.axis("c", 7)
    e = r.op("exp", r.load(r.buffer("x", 5, 7), a, c))
    row = r.reduce("add", e, c)
    total = r.reduce("add", r.op("mul", row, row), a)
    return Case(r.region(r.out(r.buffer("o", 5, 7), [a, c], r.op("div", e, total)), [a, c], e=e))


def two_products() -> Case:
    m, n, k = r.axis("m", 5), r.axis("n", 6), r.axis("k", 7)
    a, b = r.load(r.buffer("A", 5, 7), m, k), r.load(r.buffer("B", 7, 6), k, n)
    y = r.reduce("add", r.op("mul", a, b), k)
    w = r.reduce("add", r.op("mul", r.op("exp", a), b), k)
    return Case(r.region(r.out(r.buffer("o", 5, 6), [m, n], r.op("add", y, w)), [m, n, k]))


def repeated_dots() -> Case:
    """Inner products, each of them stored 16 times."""
    case, j = r.dots(16, 9, 16), r.axis("j", 16)
    m, n, k = case.region.axes
    y = dict(case.region.roles)["y"]
    value = r.op("add", y, r.load(r.buffer("c", 16, dtype=int32), j))
    return Case(r.region(r.out(r.buffer("o", 16, 9, 16, dtype=int32), [m, n, j], value), [m, n, j, k], y=y))


def dots_and_sums() -> Case:
    """Inner products, and sums of the words of one factor."""
    case = r.dots(16, 16, 16, also=True)
    (m, n, k), (y, z) = case.region.axes, (dict(case.region.roles)[name] for name in "yz")
    products, sums = r.buffer("o", 16, 16, dtype=int32), r.buffer("p", 16, dtype=int32)
    return Case(r.region([r.out(products, [m, n], y), r.out(sums, [n], z)], [m, n, k], y=y))


def exponentials(least: int) -> Case:
    """The sum of exponentials relative to the maximum, over an axis of at least so many elements."""
    n = r.parameter("N", least, 9)
    a, c = r.axis("a", 3), r.axis("c", of(n))
    x = r.load(r.buffer("x", 3, of(n)), a, c)
    m = r.reduce("max", x, c)
    z = r.reduce("add", r.op("exp", r.op("sub", x, m)), c)
    return Case(r.region(r.out(r.buffer("o", 3), [a], z), [a, c], [n]), {"N": 4})


def masked_attention(kind: str) -> Case:
    """Plain attention with one thing that `skip` cannot work with."""
    q, k = r.axis("q", 6), r.axis("k", 6)
    s = r.load(r.buffer("S", 6, 6), q, k)
    condition = {
        "data": lambda: r.op("le", r.load(r.buffer("K", 6, dtype=float32), k), r.load(r.buffer("L", 6), q)),
        "two": lambda: mask_expression((Less(of(k), of(q) + 1), Less(of(q), of(k) + 3))),
        "scaled": lambda: r.op("le", r.index(of(k) * 2), r.index(q)),
    }.get(kind, lambda: r.op("le", r.index(k), r.index(q)))()
    low = r.load(r.buffer("F", 6), k) if kind == "varying" else -1e30
    x = s if kind == "plain" else r.op("where", condition, s, low)
    m = r.reduce("max", x, k)
    z = r.reduce("add", r.op("exp", r.op("sub", x, m)), k)
    # The plain one uses the condition elsewhere, so that it has a name.
    value = r.op("where", r.reduce("max", condition, k), z, 0.0) if kind == "plain" else z
    return Case(r.region(r.out(r.buffer("o", 6), [q], value), [q, k], condition=condition))


def running_product() -> Case:
    """A scan and a product, over the same elements."""
    m, n, k = r.axis("m", 5), r.axis("n", 6), r.axis("k", 7)
    y = r.reduce("add", r.op("mul", r.load(r.buffer("A", 5, 7), m, k), r.load(r.buffer("B", 7, 6), k, n)), k)
    s = r.scan("add", r.load(r.buffer("x", 5, 6), m, n), n)
    return Case(r.region(r.out(r.buffer("o", 5, 6), [m, n], r.op("add", y, s)), [m, n, k]))


OTHERS: list[tuple[Callable[[], Case], str, str]] = [
    (lambda: r.matmul(5, 6, 7), "bind m.0 k.0 grid", "k.0 is a loop of a reduction"),
    (r.full, "bind r.0 grid", "r.0 is a loop of a reduction"),
    (r.concatenated, "bind i.0 grid", "the outermost loops of every output"),
    (chained, "bind i.0 j.0 grid", "do not wait"),
    (lambda: chained(True), "", "read before its last store"),
    (lambda: r.matmul(5, 6, 7), "order k.0 m.0 n.0; bind m.0 grid", "the outermost loops of every output"),
    (lambda: r.matmul(5, 6, 7), "split k (2 loop); order k.0 k.1 m.0 n.0", "only one loop of a reduction"),
    (two_products, "order k.0 m.0 n.0", "needs one reduction"),
    (lambda: exponentials(0), "order c.0 a.0", "may be empty"),
    (lambda: exponentials(0), "online c", "may be empty"),
    (lambda: exponentials(1), "order c.0 a.0; online c", "c is online"),
    (r.log_sum_exp, "online c; stage %3 at c.0 (c)", "what depends on the reduction that leads"),
    (lambda: r.elementwise(9), "stage %0 at i.0 (i); keep %0 local", "no phase before the last"),
    (r.two_outputs, "keep v out", "own axes"),
    (lambda: r.layer_norm(3, 9), "keep %17 out", "no phase before the last"),
    (cyclic, "keep kept out", "between stores"),
    (reread, "keep e out", "between stores"),
    (aliased, "", "read before its last store"),
    (chained, "stage %0 at j.0 (i)", "not used inside j.0"),
    (halves, "keep e out", "holds"),
    (scaled, "bind a.0 grid; keep e out", "outside the grid"),
    (squared, "keep e out", "loops of its own"),
    (lambda: masked_attention("plain"), "online k; skip k q condition", "must be over where"),
    (lambda: masked_attention("varying"), "online k; skip k q condition", "must be over where"),
    (lambda: masked_attention("good"), "split q (2 thread); online k; skip k q condition", "threads of a group"),
    (lambda: masked_attention("data"), "online k; skip k q condition", "compare places along axes"),
    (lambda: masked_attention("two"), "online k; skip k q condition", "compare two places"),
    (lambda: masked_attention("scaled"), "online k; skip k q condition", r"k <= or >= q \+ constant"),
    (lambda: masked_attention("good"), "skip k q condition", "can leave anything out"),
    (lambda: masked_attention("good"), "online k; skip k k condition", r"k <= or >= k \+ constant"),
    (lambda: masked_attention("good"), "online k; skip k q condition; skip k q condition", "already"),
    (lambda: r.scored(kind="plain"), "skip k q condition", "can leave anything out"),
    (lambda: r.scored(kind="one"), "skip k q condition", "can leave anything out"),
    (lambda: r.scored(kind="less"), "skip k q condition", "can leave anything out"),
    (r.scored, "skip k e condition", "can leave anything out"),
    (r.scored, "skip k d condition", r"k <= or >= d \+ constant"),
    (r.scored, "skip k q condition; keep p local", "would be missing"),
    (r.scored, "order k.0 q.0 d.0; skip k q condition", "can leave anything out"),
    (r.scored, "together", "there must be several outputs"),
    (r.concatenated, "together", "there must be several outputs"),
    (r.two_scans, "together", "scans are made in the nest"),
    (r.two_outputs, "keep v out; together", "none of them can hold"),
    (r.scored_twice, "order q.0 k.0 d.0; together", "a loop of a reduction stands outside"),
    (lambda: r.dots(16, 16, 16), "matrix y mma", "mma is not an instruction"),
    (lambda: r.dots(16, 16, 16), "matrix y tdpbf16ps", "no sum of what tdpbf16ps multiplies"),
    (lambda: r.dots(16, 16, 16), f"{TILE}; matrix y tdpbusd; matrix y tdpbusd", "has the registers already"),
    (lambda: r.dots(16, 16, 16), "split n (8 lane); matrix y tdpbusd", "tdpbusd takes no vectors of 8"),
    (lambda: r.dots(16, 16, 20), f"{TILE} tail mask; matrix y tdpbusd", "not summed as they are made"),
    (lambda: r.dots(16, 9, 16), f"{TILE}; matrix y tdpbusd", "not read from memory where"),
    (repeated_dots, f"{TILE.replace('split n', 'split j')}; matrix y tdpbusd", "a tile of tdpbusd has 16 lanes"),
    (lambda: r.dots(9, 16, 16), f"{TILE}; matrix y tdpbusd", "a tile of tdpbusd has 16 rows"),
    (lambda: r.dots(48, 16, 16), f"{TILE.replace('16', '48', 1)}; matrix y tdpbusd", "for 2 by 2 tiles"),
    (lambda: r.dots(16, 16, 8), f"{TILE}; matrix y tdpbusd", "tdpbusd sums 16 words at a time"),
    (lambda: r.dots(16, 16, 16), f"{TILE}; matrix y tdpbsud", "tdpbsud multiplies other numbers"),
    (lambda: r.pairs(16, 16, 16), f"{TILE}; matrix y tdpbf16ps", "do not lie side by side"),
    (lambda: r.dots(16, 16, 16, moved=1), f"{TILE}; matrix y tdpbusd", "not read from memory where"),
    (dots_and_sums, f"{TILE}; together; matrix y tdpbusd", "needed as vectors, too"),
    (lambda: r.matmul(5, 6, 16), "split m (2 reg); apart m; apart m", "one axis at most"),
    (lambda: r.matmul(5, 6, 16), "split m (2 loop); apart m", "m must have registers, and neither"),
    (lambda: r.matmul(5, 6, 16), "split k (2 reg); apart k", "k must be an axis of every output"),
    (lambda: r.matmul(5, 6, 16), "split m (2 reg); split k (4 thread); apart m", "a group's threads do not wait"),
    (r.running, "split r (2 reg); apart r", "the values of a scan do not wait"),
    (lambda: r.matmul(5, 6, 16), "split m (2 reg) tail overlap", "elements would be finished twice"),
    (r.two_outputs, "split r (2 reg) tail overlap; apart r; keep v out", "where elements are finished already"),
    (lambda: r.softmax(4, 7), "split c (2 reg) tail overlap; apart c", "elements would be added twice"),
    (
        lambda: r.matmul(7, 6, 16),
        "split m (2 loop, 2 reg) tail overlap; apart m; bind m.0 m.1 grid",
        "needs its tiles inside of tasks",
    ),
    (r.running, "bind r.0 c.0 grid", "c is scanned, so its loops run in order"),
    (lambda: r.matmul(5, 6, 16), "split k (8 thread); stage y at m.0 (n)", "are those of another part of the value"),
    (lambda: r.nested(2, 7), "split i (8 thread); stage %3 at j.0 (i, j)", "over more threads in one place"),
    (r.running, "split c (4 thread)", "c is scanned, so threads cannot share it"),
    (r.running, "order c.0 r.0", "r.0 stands inside the scan of c"),
    (r.running_twice, "split c (2 loop); order r.0 c.0 k.0 c.1", "k.0 repeats steps of the scan of c"),
    (running_product, "order k.0 m.0 n.0", "the output needs a scan"),
    (r.running, "stage s at r.0 (c)", "s needs a scan"),
    (r.running, "keep s local", "no phase before the last"),
]


@pytest.mark.parametrize(("make", "schedule", "reason"), OTHERS, ids=[f"{s or 'none'}: {w}" for _, s, w in OTHERS])
def test_refuses(make: Callable[[], Case], schedule: str, reason: str) -> None:
    with pytest.raises(Illegal, match=reason):
        lower(make().region, parse_schedule(schedule))


def test_every_check_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place in the source that refuses a schedule is reached by a case above."""
    reached: set[tuple[str, int]] = set()

    def record(self: Illegal, *arguments: object) -> None:
        caller = sys._getframe(1)
        reached.add((caller.f_code.co_filename, caller.f_lineno))

    monkeypatch.setattr(Illegal, "__init__", record)
    cases = [(lambda: r.softmax(3, 17), schedule) for schedule, _ in SPLITS + LOOPS + MEMORY + ONLINE]
    for make, schedule in cases + [(make, schedule) for make, schedule, _ in OTHERS]:
        with pytest.raises(Illegal):
            lower(make().region, parse_schedule(schedule))
    for path in Path(smelt.kernel.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and ast.unparse(node.exc.func) == "Illegal"
            ):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                assert any((str(path), line) in reached for line in lines), ast.unparse(node)


def test_skip_takes_the_plain_mask() -> None:
    verify(lower(masked_attention("good").region, parse_schedule("online k; skip k q condition")))
