"""The cost model: exact where it counts, and in proportion where it estimates."""

from __future__ import annotations

import pytest

from smelt.cost import Profile
from smelt.cost.kernel import NO_WORK, Work, chunk_nanoseconds, cost
from smelt.cost.operations import again_pays, instructions
from smelt.cost.rates import assumed
from smelt.kernel import lower, parse_region, parse_schedule
from smelt.schedule.default import choose
from tests.profiles import AMX, AVX2, AVX512, NEON

COPY = """region
axis i0 in 0 .. {last}
buffer b0 {dtype} [{size}] strides [1] offset 0
%0: {dtype} = load b0[i0]
output o {dtype} [{size}] strides [1] offset 0
store o[i0] = %0
"""
PRODUCT = """region
axis i0 in 0 .. {m}
axis i1 in 0 .. {n}
axis r0 in 0 .. {k}
buffer b0 {dtype} [{m} + 1, {k} + 1] strides [{k} + 1, 1] offset 0
buffer b1 {dtype} [{k} + 1, {n} + 1] strides [{n} + 1, 1] offset 0
%0: float32 = load b0[i0, r0]
%1: float32 = load b1[r0, i1]
%2: float32 = mul %0 %1
%3: float32 = reduce %2 add over r0
role A %0
role B %1
role y %3
output o float32 [{m} + 1, {n} + 1] strides [{n} + 1, 1] offset 0
store o[i0, i1] = %3
"""
MACHINES = pytest.mark.parametrize("machine", [AVX512, AMX, AVX2, NEON], ids=lambda machine: machine.name)


def _work(text: str, machine: Profile = NEON) -> Work:
    return choose(parse_region(text), machine)[0].work


def _copy(size: int, dtype: str = "float32") -> str:
    return COPY.format(size=size, last=size - 1, dtype=dtype)


def _product(m: int, n: int, k: int, dtype: str = "float32") -> str:
    text = PRODUCT.format(m=m - 1, n=n - 1, k=k - 1, dtype=dtype)
    for size in (m, n, k):
        text = text.replace(f"{size - 1} + 1", str(size))
    return text


@MACHINES
@pytest.mark.parametrize(("dtype", "itemsize"), [("float32", 4), ("int8", 1), ("float64", 8)])
def test_a_copy_moves_each_byte_twice(machine: Profile, dtype: str, itemsize: int) -> None:
    work = _work(_copy(100_003, dtype), machine)
    assert (work.bytes, work.flops) == (2 * 100_003 * itemsize, 0)


@MACHINES
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_has_two_operations_for_each_of_its_products(machine: Profile, dtype: str) -> None:
    work = _work(_product(96, 160, 224, dtype), machine)
    itemsize = 4 if dtype == "float32" else 2
    assert work.flops == 2 * 96 * 160 * 224
    assert work.bytes == itemsize * (96 * 224 + 224 * 160) + 4 * 96 * 160


@MACHINES
def test_what_does_more_takes_longer(machine: Profile) -> None:
    rates = assumed(machine)
    for texts in (
        [_copy(1 << k) for k in range(8, 25)],
        [_product(1 << k, 1 << k, 1 << k) for k in range(5, 11)],
    ):
        works = [_work(text, machine) for text in texts]
        alone = [work.core_nanoseconds(machine, rates) for work in works]
        assert alone == sorted(alone)
        assert alone[-1] > 1000 * alone[0]
        assert works[-1].seconds(machine, rates) > 50 * works[0].seconds(machine, rates)


@MACHINES
def test_nothing_is_faster_than_its_bounds(machine: Profile) -> None:
    rates = assumed(machine)
    work = _work(_product(512, 512, 512), machine)
    assert work.core_nanoseconds(machine, rates) >= work.flops / rates.multiply_add
    work = _work(_copy(1 << 26), machine)
    assert work.core_nanoseconds(machine, rates) >= work.bytes / max(rates.copy, rates.memory)


def test_memory_counts_where_caches_do_not_hold_it() -> None:
    assert _work(_copy(1 << 20)).beyond[2] == 0
    large = _work(_copy(1 << 24))
    assert (large.beyond[2], large.written) == pytest.approx((2 * 4 << 24, 4 << 24), rel=1e-3)


def test_packing_saves_what_rows_a_power_of_two_apart_cost() -> None:
    region = parse_region(_product(512, 512, 512))
    tile = "split i0 (6 reg) tail balance\nsplit i1 (4 reg, 4 lane)\norder i1.0 i0.0 r0.0\nbind i1.0 grid\n"
    works = [
        cost(region, lower(region, parse_schedule(tile + more)), NEON) for more in ("", "stage B at i1.0 (r0, i1)\n")
    ]
    plain, packed = (work.core_nanoseconds(NEON, assumed(NEON)) for work in works)
    assert packed < plain
    assert works[1].beyond[0] < works[0].beyond[0]


def test_sums_that_wait_for_each_other_take_longer_than_those_side_by_side() -> None:
    text = """region
axis r0 in 0 .. 65535
buffer b0 float32 [65536] strides [1] offset 0
%0: float32 = load b0[r0]
%1: float32 = reduce %0 add over r0
output o float32 [] strides [] offset 0
store o[] = %1
"""
    region = parse_region(text)
    cuts = ("split r0 (4 lane)", "split r0 (4 reg, 4 lane)")
    one, four = (cost(region, lower(region, parse_schedule(cut)), NEON) for cut in cuts)
    assert one.instructions > 2 * four.instructions
    assert one.moves == four.moves
    assert one.flops == four.flops == 65536


def test_vectors_that_no_register_holds_are_taken_apart() -> None:
    region = parse_region(_copy(4096).replace("%0\n", "%1\n").replace("output", "%1: float32 = exp %0\noutput"))
    two, four, eight = (
        cost(region, lower(region, parse_schedule(f"split i0 ({lanes} lane)")), NEON) for lanes in (2, 4, 8)
    )
    assert two.functions == 2 * four.functions  # a function takes as long for some lanes as for all of a vector
    assert eight.moves > two.moves > four.moves
    assert eight.functions > four.functions


def test_rows_that_follow_each_other_are_read_as_one() -> None:
    """Once only those that are a power of two wide were."""
    each = []
    for width in (8, 12):
        region = parse_region(_product(48, width, 4096))
        cut = parse_schedule(f"split i1 ({width // 4} reg, 4 lane)\norder i0.0 i1.0 r0.0")
        each.append(cost(region, lower(region, cut), NEON).beyond[0] / width)
    assert each[1] == pytest.approx(each[0], rel=0.3)


def test_chunks_may_be_given() -> None:
    work, rates = _work(_copy(1 << 22)), assumed(NEON)
    alone = work.seconds(NEON, rates, grain=work.tasks)
    assert alone > 1.5 * work.seconds(NEON, rates)
    assert work.seconds(NEON, rates, work.grain(NEON)) == work.seconds(NEON, rates)


def test_symbolic_sizes_count_at_their_bounds() -> None:
    text = _copy(1000).replace("axis i0 in 0 .. 999", "parameter n in 1 .. 1000\naxis i0 in 0 .. n - 1")
    text = text.replace("[1000]", "[n]")
    known, symbolic = _work(_copy(1000)), _work(text)
    assert symbolic.bytes == known.bytes
    assert symbolic.seconds(NEON, assumed(NEON)) == pytest.approx(known.seconds(NEON, assumed(NEON)), rel=0.1)


def test_no_elements_take_only_the_launch() -> None:
    text = _copy(1000).replace("0 .. 999", "0 .. -1").replace("[1000]", "[0]")
    region, rates = parse_region(text), assumed(NEON)
    work = cost(region, lower(region, ()), NEON)
    assert (work.bytes, work.flops, work.moves) == (0, 0, 0)
    assert work.seconds(NEON, rates) == NO_WORK.seconds(NEON, rates) == 1e-9 * rates.launch


def test_chunks_are_worth_a_thread() -> None:
    choice, kernel = choose(parse_region(_copy(1 << 24)), NEON)
    each = choice.work.core_nanoseconds(NEON, assumed(NEON)) / kernel.tasks.high
    assert chunk_nanoseconds(NEON) / 2 < choice.grain * each <= chunk_nanoseconds(NEON)
    choice, kernel = choose(parse_region(_copy(1 << 8)), NEON)
    assert choice.grain >= kernel.tasks.high  # too little for a second thread


def test_dear_functions_are_computed_again_only_where_memory_is_slower() -> None:
    assert instructions(["load", "exp", "add", "const", "div"]) == 3 + 10 + 1 + 0 + 6
    assert again_pays("add", 10, 40)
    assert not again_pays("exp", 10, 2)
    assert again_pays("exp", 1 << 20, 2)
    assert not again_pays("exp", 1 << 20, 3)
