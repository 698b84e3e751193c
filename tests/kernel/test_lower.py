"""What lowering promises: correct without a schedule, deterministic, and the shape of well-known kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.dtypes import float32
from smelt.graph.index import of
from smelt.kernel import Kernel, interpret, lower, parse_schedule, print_kernel, verify
from smelt.kernel.ir import Ask, For, Let, Load, Local, Reduce, Store, Update, statements
from tests.kernel import regions as r
from tests.kernel.regions import CASES, Case
from tests.kernel.runners import RUNNERS, evaluate_region


def count(kernel: Kernel, kind: type) -> int:
    return sum(isinstance(statement, kind) for statement in statements(kernel.body))


def outcome(case: Case, schedule: str = "", runner: str = "interpreted", special: bool = False) -> dict[str, Any]:
    """Run a schedule and compare with the reference."""
    kernel = lower(case.region, parse_schedule(schedule))
    verify(kernel)
    arrays = case.arrays(special=special)
    expected = {name: array.copy() for name, array in arrays.items()}
    evaluate_region(case.region, expected, case.integers)
    RUNNERS[runner]([(kernel, arrays, case.integers)])
    for output in case.region.outputs:
        name = output.buffer.name
        np.testing.assert_allclose(
            arrays[name].astype(np.float64), expected[name].astype(np.float64), rtol=1e-3, atol=1e-4
        )
    return arrays


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_turns(3)
def test_no_schedule_is_correct(name: str) -> None:
    outcome(CASES[name]())


def test_equal_regions_and_schedules_give_equal_text() -> None:
    schedule = parse_schedule("split m (3 reg); split n (2 reg, 4 lane); split k (5 loop); bind m.0 grid")
    texts = {print_kernel(lower(r.matmul().region, schedule)) for _ in range(3)}
    assert len(texts) == 1


def test_a_chain_of_thousands_lowers_without_recursion() -> None:
    i = r.axis("i", 16)
    value = r.load(r.buffer("x", 16), i)
    for _ in range(1500):
        value = r.op("add", r.op("mul", value, 0.5), 1.0)
    case = Case(r.region(r.out(r.buffer("o", 16), [i], value), [i]))
    kernel = lower(case.region, parse_schedule("split i (2 reg, 8 lane)"))
    verify(kernel)
    arrays = case.arrays()
    interpret(kernel, arrays, {})
    np.testing.assert_allclose(arrays["o"], 2.0, rtol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 100])
@pytest.mark.parametrize("tail", ["shrink", "balance", "mask"])
def test_one_kernel_serves_every_size(size: int, tail: str) -> None:
    case = r.symbolic_rows(2, max(size, 1))
    for cut in (f"split c (2 reg, 4 lane) tail {tail}", f"split c (3 loop, 5 reg) tail {tail}"):
        outcome(case, f"bind r.0 grid; {cut}")


@pytest.mark.parametrize("sizes", [(0, 4, 3), (5, 0, 3), (2, 2, 1), (17, 29, 25), (6, 16, 10)])
def test_symbolic_matmul(sizes: tuple[int, int, int]) -> None:
    case = r.matmul(symbolic="mnk")
    case.integers.update(dict(zip("MNK", sizes, strict=True)))
    schedule = (
        "split m (3 reg) tail unit; split n (2 reg, 4 lane); split k (4 loop); bind n.0 m.0 grid; order n.0 m.0 k.0 k.1"
    )
    outcome(case, schedule)
    outcome(
        case,
        "split m (3 reg) tail unit; split n (2 reg, 4 lane); split k (4 loop);"
        "order k.0 n.0 m.0 k.1; stage A at k.0 (m, k)",
    )


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("rows", [5, 7, 11, 16, 23])
@pytest.mark.parametrize(
    "tiles",
    [
        "split m (3 reg) tail overlap; order k.0 m.0 n.0 k.1",
        "split m (2 loop, 3 reg) tail overlap; order m.0 k.0 m.1 n.0 k.1",
        "split m (4 reg) tail overlap; split n (2 reg, 4 lane); order n.0 k.0 m.0 k.1; stage A at m.0 (k, m)",
    ],
)
@pytest.mark.by_turns(3)
def test_tiles_that_overlap_take_up_sums_of_their_own(rows: int, tiles: str, runner: str) -> None:
    """A row of two tiles has a partial sum in each, and one of them is finished."""
    case = r.matmul(rows, 9, 13)
    outcome(case, f"split k (4 loop); apart m; {tiles}", runner)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("rows", [8, 12, 13])
@pytest.mark.parametrize("tail", ["shrink", "mask", "overlap"])
@pytest.mark.by_turns(3)
def test_copies_take_rows_of_a_tile_as_vectors(rows: int, tail: str, runner: str) -> None:
    """And rows of narrow panels together, so that lines are written whole."""
    schedule = f"split m (8 reg) tail {tail}; split n (2 loop, 2 reg, 4 lane); order n.0 m.0 n.1 k.0; "
    schedule += "stage B at n.0 (n/8, k, n%8); stage A at m.0 (k, m); apart m; transpose"
    case = r.matmul(rows, 19, 11)
    outcome(case, schedule, runner)
    loads = [s for s in statements(lower(case.region, parse_schedule(schedule)).body) if isinstance(s, Load)]
    tiles = {(load.buffer.name, *sorted((p.axis, p.kind, p.extent) for p in load.value.parts)) for load in loads}
    k, m, n = ("k", "reg", 4), [("m", "lane", 4), ("m", "reg", 2)], [("n", "lane", 4), ("n", "reg", 2)]
    assert tail == "mask" or tiles >= {("A", k, *m), ("B", k, *n)}


def test_a_copy_into_narrow_panels_walks_as_memory_lies() -> None:
    """Lines of a transposed operand are used up one after the other."""
    schedule = "split n (2 loop, 2 reg, 4 lane); order n.0 m.0 n.1 k.0; stage B at n.0 (n/8, k, n%8)"
    case = r.matmul(5, 32, 12, transposed=True)
    outcome(case, schedule)
    kernel = lower(case.region, parse_schedule(schedule))
    copies = [s for s in statements(kernel.body) if isinstance(s, For) and any(isinstance(t, Store) for t in s.body)]
    assert copies[0].count == 3  # four steps of the sum at a time, inside; panels outside


@pytest.mark.parametrize("schedule", ["", "split k (2 reg, 4 lane)", "split k (3 loop)"])
def test_a_reduction_over_nothing_is_the_identity(schedule: str) -> None:
    arrays = outcome(r.batched(2, 3, 4, 0), schedule)
    np.testing.assert_array_equal(arrays["o"], 0)


@pytest.mark.parametrize("schedule", ["", "split i (4 lane)", "bind i.0 grid", "split i (2 reg) tail unit"])
def test_an_empty_output_stores_nothing(schedule: str) -> None:
    kernel = lower(r.elementwise(0).region, parse_schedule(schedule))
    verify(kernel)
    assert count(kernel, Store) == 0
    assert kernel.tasks == 1


@pytest.mark.parametrize("schedule", ["", "split c (2 reg, 4 lane)", "online c", "split c (4 lane); online c"])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, -3.4e38])
def test_rows_of_one_value(schedule: str, value: float) -> None:
    """The maximum and the logarithm of the sum are what the reference says, also for rows of infinities."""
    case = r.log_sum_exp(2, 9)
    kernel = lower(case.region, parse_schedule(schedule))
    arrays = case.arrays()
    arrays["x"][:9] = np.float32(value)
    expected = {name: array.copy() for name, array in arrays.items()}
    evaluate_region(case.region, expected, {})
    interpret(kernel, arrays, {})
    np.testing.assert_allclose(arrays["o"], expected["o"], rtol=1e-5)
    np.testing.assert_array_equal(arrays["p"], expected["p"])


@pytest.mark.parametrize("cut", ["", "split c (2 reg, 4 lane); online c", "split r (4 lane); online c", "online c"])
@pytest.mark.parametrize("lead", ["max", "min"])
@pytest.mark.parametrize("blocks", [0, 5])
def test_the_first_of_the_best_places(cut: str, lead: str, blocks: int) -> None:
    """What follows a running maximum is the place of the first one, also of infinities and of NaN."""
    case = r.first_place(6, 13, lead, blocks)
    kernel = lower(case.region, parse_schedule(cut))
    for special in (False, True):
        arrays = case.arrays(special=special)
        arrays["x"][:] = np.round(arrays["x"])
        arrays["x"][: arrays["x"].size // 6] = np.inf if lead == "min" else -np.inf
        expected = {name: array.copy() for name, array in arrays.items()}
        evaluate_region(case.region, expected, {})
        interpret(kernel, arrays, {})
        np.testing.assert_array_equal(arrays["o"], expected["o"])


@pytest.mark.parametrize("cut", ["online c", "split c (4 lane); online c; together", "split r (2 reg); online c"])
def test_two_laws_with_one_lead(cut: str) -> None:
    outcome(r.two_laws(), cut)


def test_sums_of_products_have_no_product_tile() -> None:
    kernel = lower(r.matmul().region, parse_schedule("split m (3 reg); split n (2 reg, 4 lane)"))
    updates = [s for s in statements(kernel.body) if isinstance(s, Update)]
    assert {update.op for update in updates} == {"fma"}
    assert {len(update.accumulator.parts) for update in updates} == {3}


def test_rows_are_three_phases_and_fold_once() -> None:
    kernel = lower(r.softmax(3, 64).region, parse_schedule("split c (2 reg, 16 lane); bind r.0 grid; keep e out"))
    (grid,) = [s for s in kernel.body if isinstance(s, For)]
    assert [type(s) for s in grid.body if isinstance(s, For | Reduce)] == [For, Reduce, For, Reduce, For]
    loads = [s for s in statements(kernel.body) if isinstance(s, Load)]
    assert [load.buffer.name for load in loads] == ["x", "x", "o"]


def test_grid_loops_share_one_space_of_tasks() -> None:
    kernel = lower(r.matmul(13, 21, 4).region, parse_schedule("split m (4 reg); split n (8 lane); bind m.0 n.0 grid"))
    grids = [s for s in kernel.body if isinstance(s, For)]
    assert [str(g.count) for g in grids] == ["6", "3", "2", "1"]
    assert kernel.tasks == 12
    assert count(kernel, Let) == 2  # only where both loops have more than one iteration


def test_a_symbolic_grid_is_taken_apart_safely() -> None:
    case = r.matmul(symbolic="mn")
    schedule = "split m (4 reg) tail unit; split n (8 lane); bind m.0 n.0 grid"
    for m, n in ((0, 5), (5, 0), (1, 1), (4, 8), (9, 17)):
        case.integers.update({"M": m, "N": n})
        outcome(case, schedule)
        outcome(case, schedule, "compiled")


def test_partial_results_cover_only_what_lies_inside_the_outer_loop() -> None:
    schedule = "split m (4 reg); split n (8 lane); split k (4 loop); order n.0 k.0 m.0 k.1"
    kernel = lower(r.matmul(13, 21, 17).region, parse_schedule(schedule))
    (local,) = [s for s in kernel.body if isinstance(s, Local)]
    assert local.buffer.shape == (13, 8)  # all rows, and the columns of one task
    outcome(r.matmul(13, 21, 17), schedule)


def test_the_tail_of_a_block_stays_in_the_block() -> None:
    """A block that lanes do not divide must not count elements of the next block."""
    for schedule in (
        "split k (5 loop, 4 lane)",
        "split k (5 loop, 2 reg, 2 lane) tail mask",
        "split k (3 loop, 2 reg) tail mask",
    ):
        outcome(r.matmul(3, 2, 23), schedule)


def test_user_named_parameters_do_not_clash() -> None:
    n = r.parameter("i0", 1, 20)
    i = r.axis("a", of(n))
    value = r.op("exp", r.load(r.buffer("v1", of(n)), i))
    case = Case(r.region(r.out(r.buffer("v2", of(n)), [i], value), [i], [n]), {"i0": 11})
    outcome(case, "split a (2 reg, 4 lane)")


def test_staging_a_computed_node_fuses_a_prologue() -> None:
    m, n, k = r.axis("m", 7), r.axis("n", 9), r.axis("k", 13)
    x = r.load(r.buffer("x", 7, 13), m, k)
    mean = r.op("mul", r.reduce("add", x, k), 1 / 13)
    h = r.op("exp", r.op("sub", x, mean))
    y = r.reduce("add", r.op("mul", h, r.load(r.buffer("B", 13, 9), k, n)), k)
    case = Case(r.region(r.out(r.buffer("o", 7, 9), [m, n], y), [m, n, k], h=h))
    schedule = "split m (3 reg); split n (4 lane); stage h at m.0 (m, k)"
    outcome(case, schedule)
    kernel = lower(case.region, parse_schedule(schedule))
    exponentials = [s for s in statements(kernel.body) if getattr(s, "op", "") == "exp"]
    assert len(exponentials) == len(
        [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer.name != "o"]
    )


FLASH = (
    "split q (3 reg) tail balance; split d (2 reg, 4 lane); split k (2 reg, 4 lane);"
    "stage Kt at h.0 (e, k); online k; order h.0 q.0 d.0"
)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [5, 16, 19])
@pytest.mark.by_turns(3)
def test_flash_attention(runner: str, causal: bool, length: int) -> None:
    case = r.attention(2, length, 8, causal)
    schedule = FLASH + ("; skip k q condition" if causal else "")
    outcome(case, schedule, runner)
    kernel = lower(case.region, parse_schedule(schedule))
    exponentials = [s for s in statements(kernel.body) if getattr(s, "op", "") == "exp"]
    assert exponentials
    assert all(s.value.dtype is float32 for s in exponentials)  # type: ignore[union-attr]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("low", [-1e9, -2.0, 3.0])
@pytest.mark.parametrize("length", [5, 19, 33])
def test_masked_blocks_follow_where_they_weigh_something(runner: str, low: float, length: int) -> None:
    case = r.attention(2, length, 8, causal=True, low=low)
    outcome(case, f"{FLASH}; skip k q condition", runner)
    kernel = lower(case.region, parse_schedule(f"{FLASH}; skip k q condition"))
    assert any(isinstance(s, Ask) for s in statements(kernel.body)) == (
        length >= 8
    )  # below that there is no whole block


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("offset", [-5, 0, 3])
@pytest.mark.parametrize("length", [7, 13, 32])
@pytest.mark.by_turns(3)
def test_sums_leave_out_what_a_mask_excludes(runner: str, by_keys: bool, offset: int, length: int) -> None:
    case = r.scored(length, length + 3, 8, offset, by_keys)
    row, summed, other = ("k", "q", "Q") if by_keys else ("q", "k", "K")
    schedule = (
        f"split {row} (3 reg) tail balance; split d (2 reg, 4 lane); split {summed} (8 loop);"
        f"order {row}.0 d.0 {summed}.0 {summed}.1; stage {other} at {row}.0 ({summed}/8, e, {summed}%8);"
        f"stage slope at {summed}.0 ({row}, {summed}/8, {summed}%8); skip {summed} {row} condition"
    )
    outcome(case, schedule, runner)
    kernel = lower(case.region, parse_schedule(schedule))
    counted = {s.variable for s in statements(kernel.body) if isinstance(s, Let)}
    loops = [s for s in statements(kernel.body) if isinstance(s, For)]
    assert length == 7 or any(loop.count.variables() & counted for loop in loops)  # only the blocks that have something


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [7, 32])
@pytest.mark.by_turns(2)
def test_several_outputs_share_one_loop(runner: str, causal: bool, length: int) -> None:
    case = r.scored_twice(length, length + 3, 8, causal)
    schedule = (
        "split k (3 reg) tail balance; split d (2 reg, 4 lane); split q (8 loop); order k.0 d.0 q.0 q.1;"
        "stage Q at k.0 (q/8, e, q%8); stage p at q.0 (k, q/8, q%8); stage slope at q.0 (k, q/8, q%8);"
        "together" + ("; skip q k condition" if causal else "")
    )
    outcome(case, schedule, runner)
    kernel = lower(case.region, parse_schedule(schedule))
    products = [s for s in statements(kernel.body) if getattr(s, "op", "") == "exp"]
    alone = lower(case.region, parse_schedule(schedule.replace("together", "unroll q.1 2")))
    assert 2 * len(products) <= len([s for s in statements(alone.body) if getattr(s, "op", "") == "exp"])


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("name", ["softmax", "matmul", "layer_norm", "attention"])
def test_special_values_go_through(runner: str, name: str) -> None:
    cuts = {"softmax": "split c (2 reg, 8 lane)", "matmul": "split n (8 lane); split k (3 reg)"}
    cuts |= {"layer_norm": "split c (4 lane) tail mask; keep d local", "attention": "split k (2 reg); online k"}
    outcome(CASES[name](), cuts[name], runner, special=True)
