"""Default schedules: every region has one, chosen by what it computes and by the machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import smelt as sm
from smelt.compiler.simplifying import simplify
from smelt.cost import Profile
from smelt.fuse import build_region, contiguous, merge_axes, partition, storable
from smelt.graph import without_aliases
from smelt.graph.index import Variable, of
from smelt.graph.node import Node, topological
from smelt.kernel import Access, Prefetch, Region, Transpose, verify
from smelt.kernel.actions import print_schedule
from smelt.schedule import candidates, choose
from smelt.schedule.access import fitting, stride
from smelt.schedule.nest import Axes, Nest
from tests.graph.random_graphs import random_program
from tests.kernel.regions import buffer, elementwise
from tests.profiles import AMX, AVX2, AVX512, NEON


def regions(*nodes: Node) -> list[Region]:
    groups = partition([storable(node) for node in simplify(without_aliases(list(nodes)))]).groups
    return [merge_axes(build_region(group, contiguous)[0]) for group in groups]


def schedule(tensor: sm.Tensor, machine: Profile = AVX512) -> str:
    [region] = regions(tensor._node)
    choice, _ = choose(region, machine)
    return replace(choice, actions=tuple(a for a in choice.actions if not isinstance(a, Prefetch | Transpose))).text()


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(np.zeros(shape, np.float32))


@pytest.mark.parametrize("machine", [AVX512, AVX2, NEON], ids=["avx512", "avx2", "neon"])
def test_vectors_are_as_wide_as_the_machine(machine: Profile) -> None:
    lanes = machine.vector_bytes // 4
    assert f"split i0 ({lanes} lane)" in schedule(floats(1000).exp(), machine)
    assert f"split i0 ({lanes // 2} lane)" in schedule(floats(1000).astype(sm.float64).exp(), machine)


def test_a_stride_is_known_where_an_axis_is_no_part_of_a_division() -> None:
    i, j, n = Variable("i", 0, 11), Variable("j", 0, 3), Variable("n", 1, 4)
    x = buffer("x", 12, 4)
    assert [stride(Access(x, (of(i), of(j))), axis) for axis in (i, j, n)] == [4, 1, 0]
    assert [stride(Access(x, (of(i) // 3, of(j))), axis) for axis in (i, j)] == [None, 1]
    assert [stride(Access(x, (of(i), of(j) // of(n))), axis) for axis in (i, j, n)] == [4, None, None]


def test_lanes_are_a_power_of_two_that_an_axis_more_than_half_fills() -> None:
    for size in range(1, 40):
        lanes = fitting(16, Variable("i", 0, size - 1))
        assert lanes == 16 or lanes // 2 < size <= lanes
    assert fitting(16, Variable("none", 0, -1)) == 1


def test_what_is_one_is_not_split() -> None:
    axes = Axes(elementwise(99).region, (Variable("i", 0, 98),))
    cuts = {
        (registers, lanes): print_schedule(Nest("i", lanes, registers=registers).actions(axes))
        for registers in (1, 2)
        for lanes in (1, 2)
    }
    assert cuts == {
        (1, 1): "order i.0",
        (1, 2): "split i (2 lane)\norder i.0",
        (2, 1): "split i (2 reg)\norder i.0",
        (2, 2): "split i (2 reg, 2 lane)\norder i.0",
    }


def test_small_axes_get_small_vectors() -> None:
    assert "4 lane" in schedule(floats(3).exp())
    assert "lane" not in schedule(floats(1).exp())


def test_rows_are_reduced_along_memory() -> None:
    assert schedule(floats(512, 1000).sum(-1)) == "split r0 (4 reg, 16 lane); order i0.0; bind i0.0 grid"
    assert schedule(floats(512, 100).sum(0)) == "split i0 (4 reg, 16 lane); order i0.0; bind i0.0 grid"


def test_rows_with_much_to_compute_have_fewer_registers() -> None:
    """Each register has a copy of the body, which the C compiler has to go through."""
    x = floats(512, 1000)
    y = x
    for k in range(40):
        y = (y * x + k).tanh()
    assert "split r0 (16 lane)" in schedule(y.sum(-1))


def test_columns_that_fill_no_vector_give_way_to_others() -> None:
    """The gradient of a convolution's weight: vectors of output channels, and images packed once for all windows."""
    x, ct = floats(2, 64, 56, 56), floats(2, 64, 56, 56)
    slope = sm.grad(lambda weight: (sm.conv2d(x, weight, padding=1) * ct).sum())(floats(64, 64, 3, 3))
    text = schedule(slope)
    assert "split i0 (4 reg, 16 lane)" in text
    assert "order i1.0 i0.0 r1.0 i2.0 i3.0 i1.1 r0.0 r1.1 r2.0" in text
    assert "stage A at r1.0 (r0, r1, r2, i0); stage B at i1.1 (i1, r0, r1, r2)" in text


def test_a_factor_whose_rows_lie_side_by_side_is_packed_by_tiles() -> None:
    """The gradient of a weight: a block of one factor is many panels wide, and a tile of the other meets all of it."""
    text = schedule(floats(2048, 1536).T @ floats(2048, 384))
    assert "order i0.0 i1.0 r0.0 i0.1 i1.1 r0.1; bind i0.0 i1.0 grid" in text
    assert "stage B at r0.0 (i1/64, r0, i1%64); stage A at i0.1 (r0, i0)" in text
    text = schedule(floats(128, 512).T @ floats(128, 784))
    assert "order i0.0 i1.0 i0.1 i1.1 r0.0; bind i0.0 i1.0 grid" in text
    assert "stage B at i1.0 (i1/64, r0, i1%64); stage A at i0.1 (r0, i0)" in text


def test_wide_rows_are_folded_a_page_and_a_few_at_a_time() -> None:
    assert schedule(floats(512, 1000).sum(0)) == (
        "split i0 (8 loop, 8 reg, 16 lane); split r0 (8 loop); order i0.0 r0.0 i0.1 r0.1; bind i0.0 grid; unroll r0.1 8"
    )


def test_scans_run_along_memory_or_in_columns() -> None:
    assert schedule(floats(512, 1000).cumsum(1)) == "split i1 (8 reg, 16 lane); order i0.0 i1.0; bind i0.0 grid"
    assert schedule(floats(1000).cumsum(0)) == "split i0 (8 reg, 16 lane); order i0.0"
    assert schedule(floats(512, 100).cumsum(0)) == "split i1 (7 reg, 16 lane); order i1.0 i0.0; bind i1.0 grid"
    assert schedule(floats(512, 2048).cumsum(0)) == (
        "split i1 (8 loop, 8 reg, 16 lane); split i0 (8 loop); order i1.0 i0.0 i1.1 i0.1; bind i1.0 grid"
    )
    assert "stream" in schedule(floats(4096, 4096).cumsum(1))


def test_softmax_keeps_its_exponentials_in_the_result() -> None:
    assert "keep %3 out" in schedule(floats(512, 1000).softmax(-1))


def test_matmul_packs_one_operand_and_tiles_registers() -> None:
    text = schedule(floats(512, 300) @ floats(300, 512))
    assert "split i0 (6 reg) tail overlap; split i1 (" in text
    assert "4 reg, 16 lane)" in text
    assert "stage B" in text


def test_tiles_are_finished_row_by_row_where_sums_are_long_or_much_is_made_of_them() -> None:
    assert "apart" not in schedule(floats(600, 300) @ floats(300, 512))  # whole tiles, and nothing to do
    assert "tail overlap" in schedule(floats(64, 300) @ floats(300, 512))  # one row in 32 is computed twice
    assert "tail balance" in schedule(floats(32, 300) @ floats(300, 512))  # here it would be one in 8
    assert "tail balance" in schedule(floats(512, 100) @ floats(100, 512))  # short sums
    assert "apart i0" in schedule((floats(600, 300) @ floats(300, 512)).gelu("tanh"))
    assert "apart i0" in schedule((floats(600, 300) @ floats(300, 512) + floats(512)).relu())
    assert "apart" not in schedule((floats(600, 100) @ floats(100, 512) + floats(512)).relu())  # short sums


def test_sums_that_are_stored_far_apart_are_so_from_one_place_of_the_code() -> None:
    """A vector whose lanes lie apart is taken to pieces: in a loop over rows, not once for each register."""
    text = schedule(sm.conv2d(floats(64, 32, 4, 4), floats(30, 32, 3, 3)))
    assert "apart" in text


def test_few_columns_make_tasks_of_rows() -> None:
    assert "bind i0.0 i1.0 grid" in schedule(floats(6000, 64) @ floats(64, 64))


def test_a_vector_times_a_matrix_packs_nothing() -> None:
    assert "stage" not in schedule(floats(1, 300) @ floats(300, 512))


def test_transposes_read_what_they_have_loaded() -> None:
    assert "order i1.0 i0.0" in schedule(floats(512, 256).T * 2)


@given(seed=st.integers(0, 10**9), machine=st.sampled_from([AMX, AVX512, AVX2, NEON]))
def test_every_region_has_a_schedule_that_verifies(seed: int, machine: Profile) -> None:
    program = random_program(seed)
    sizes = [size for node in topological(program.roots) for size in node.shape]
    assume(all(size if isinstance(size, int) else size.low for size in sizes))
    for region in regions(*program.roots):
        _, kernel = choose(region, machine)
        verify(kernel)
        assert list(candidates(region, machine))[-1].actions == ()
