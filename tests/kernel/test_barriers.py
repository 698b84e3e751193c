"""Barriers: put where threads need each other's stores, missed where one is taken out."""

from __future__ import annotations

import re

import pytest

from smelt.errors import InternalError
from smelt.kernel import lower, parse_kernel, parse_schedule, print_kernel, verify
from tests.kernel import regions as r

TILED = (
    "split m (2 reg, 4 thread); split n (2 reg, 4 thread); split k (4 loop); order m.0 n.0 k.0 k.1; bind m.0 n.0 grid;"
    "stage A at k.0 (m, k); stage B at k.0 (k, n)"
)
STAGED = """
    store s5[4*m.reg + m.thread4, k.thread1] = v6
    v8: float32<n.reg:2, n.thread1:4, k.thread4:4> = load B[4*i4 + k.thread4, 8*i1 + 4*n.reg + n.thread1]
    store s7[k.thread4, 4*n.reg + n.thread1] = v8
    barrier
    loop i9 < 4
      v10: float32<m.reg:2, m.thread4:4> = load s5[4*m.reg + m.thread4, i9]
      v11: float32<n.reg:2, n.thread1:4> = load s7[i9, 4*n.reg + n.thread1]
      a3 fma= v10 v11
    barrier
"""


def tiled() -> str:
    return print_kernel(lower(r.matmul(16, 16, 8).region, parse_schedule(TILED)))


def test_one_after_the_copies_and_one_before_the_next() -> None:
    text = tiled()
    assert text.startswith("kernel k tasks 4 threads 16\n")
    assert STAGED in text


def test_a_group_that_shares_nothing_does_not_wait() -> None:
    for schedule in ("split c (8 thread)", "split c (8 thread); bind r.0 grid", "split r (2 thread)"):
        assert "barrier" not in print_kernel(lower(r.softmax(3, 17).region, parse_schedule(schedule)))


def test_every_barrier_inside_the_loop_is_needed() -> None:
    text = tiled()
    verify(parse_kernel(text))
    for place in re.finditer(r"    barrier\n", text):
        with pytest.raises(InternalError, match="without waiting for each other"):
            verify(parse_kernel(text[: place.start()] + text[place.end() :]))


def test_kernels_of_single_threads_have_no_barriers() -> None:
    text = print_kernel(lower(r.elementwise(5).region))
    with pytest.raises(InternalError, match="a barrier without a group"):
        verify(parse_kernel(f"{text}barrier\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threads 8", "threads 4"),  # more threads than the group has
        (".thread1:8", ".thread1:7"),
    ],
)
def test_thread_parts_are_slices_of_the_group(old: str, new: str) -> None:
    text = print_kernel(lower(r.softmax(3, 16).region, parse_schedule("split c (8 thread)")))
    with pytest.raises(InternalError):
        verify(parse_kernel(text.replace(old, new)))
