"""OpenCL C: the same kernels, spelled otherwise. What they compute is tested on a device."""

from __future__ import annotations

import re

from smelt.kernel import Kernel, lower, parse_schedule
from smelt.render import OPENCL, render
from tests.kernel import regions as r
from tests.kernel.regions import Case


def lowered(case: Case, schedule: str = "") -> Kernel:
    return lower(case.region, parse_schedule(schedule), "k")


def test_the_head_of_a_kernel() -> None:
    text = render([lowered(r.elementwise(5), "bind i.0 grid")], OPENCL)
    assert re.search(r"__kernel void k\(__global char \*object0, long start0, .*\) \{", text)
    assert "const long begin = get_global_id(0), end = begin + 1;" in text


def test_a_group_has_a_fixed_size() -> None:
    text = render([lowered(r.softmax(3, 17), "split c (8 thread); bind r.0 grid")], OPENCL)
    assert "__attribute__((reqd_work_group_size(8, 1, 1))) void k(" in text
    assert "const long begin = get_group_id(0), end = begin + 1;" in text
    assert "__local f32 w_f32[8];" in text


def test_what_all_threads_hold_one_of_them_stores() -> None:
    text = render([lowered(r.full("add", 3, 17), "split c (8 thread)")], OPENCL)
    assert re.search(r"if \(thread / 1 == 0\) \*b0 = \w+;", text)
    text = render([lowered(r.softmax(8, 17), "split r (2 thread); split c (8 thread); stage m at r.0 (r)")], OPENCL)
    assert re.search(r"if \(thread / 1 % 8 == 0\) \*\w+ = \w+;", text)


def test_lanes_become_registers() -> None:
    kernel = lowered(r.elementwise(16), "split i (2 reg, 4 lane)")
    text = render([kernel], OPENCL)
    assert "vector_size" not in text and "f32x4" not in text
    assert "vector_size" in render([kernel])


def test_signed_integers_wrap() -> None:
    text = render([lowered(r.wrapping(5))], OPENCL)
    assert re.search(r"\(i8\)\(\(u32\)\(\w+\) [+*-] \(u32\)\(\w+\)\)", text)


def test_no_word_of_gnu_c_is_left() -> None:
    kernels = [lowered(make()) for make in (r.softmax, r.layer_norm, r.half, r.any_true, r.log_sum_exp)]
    for k, kernel in enumerate(kernels):
        text = render([kernel], OPENCL)
        found = re.findall(r"__builtin\w+|__int128|\b\d+u?ll\b|__attribute__\(\(vector\w+", text)
        assert set(found) <= set(re.findall(r"#define (\w+)", text)), k
