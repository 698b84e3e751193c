"""Matrix instructions: which kernels have them, and what they compute.

Where the processor lacks them, the generated code runs with functions in the place of the instructions.
"""

from __future__ import annotations

import ctypes
import platform
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.cost import profile
from smelt.device.toolchain import build
from smelt.dtypes import DType, bfloat16, int8, int32, uint8
from smelt.errors import InternalError
from smelt.kernel import Illegal, Kernel, Region, interpret, lower, parse_schedule, verify
from smelt.kernel.ir import Store, Update, statements
from smelt.render import render, workspace_bytes
from smelt.schedule import choose
from tests.kernel.regions import Case, dots, storage
from tests.kernel.runners import evaluate_region
from tests.profiles import AMX as MACHINE
from tests.schedule.test_default import regions

AMX = frozenset({"avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"})
HAS_AMX = profile().features >= AMX
SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_long, ctypes.c_long)
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86_64")

PRODUCT = """static void {name}(int b, int a, int c) {{
  for (int m = 0; m < 16; m++) for (int n = 0; n < 16; n++) for (int k = 0; k < 16; k++) {{
    {left} *x = ({left} *)tile[a][m] + {count} * k; {right} *y = ({right} *)tile[b][k] + {count} * n;
    for (int j = 0; j < {count}; j++) (({sum} *)tile[c][m])[n] += {factors};
  }}
}}
"""
BYTES = {"s": "signed char", "u": "unsigned char"}
EMULATION = (
    "static unsigned char tile[8][16][64];\n"
    "static float wide(unsigned short h) { union { unsigned i; float f; } u = {(unsigned)h << 16}; return u.f; }\n"
    "static void tilezero(int t) { for (int i = 0; i < 1024; i++) ((volatile char *)tile[t])[i] = 0; }\n"
    "static void tileloadd(const void *p, long s, int t) {\n"
    "  for (int i = 0; i < 16; i++) __builtin_memcpy(tile[t][i], (const char *)p + s * i, 64); }\n"
    "static void tilestored(int t, void *p, long s) {\n"
    "  for (int i = 0; i < 16; i++) __builtin_memcpy((char *)p + s * i, tile[t][i], 64); }\n"
    + PRODUCT.format(
        name="tdpbf16ps", left="unsigned short", right="unsigned short", count=2, sum="float",
        factors="wide(x[j]) * wide(y[j])",
    )
    + "".join(
        PRODUCT.format(name=f"tdpb{a}{b}d", left=BYTES[a], right=BYTES[b], count=4, sum="int", factors="x[j] * y[j]")
        for a in "su"
        for b in "su"
    )
)  # fmt: skip


def emulated(text: str) -> str:
    """The text with functions in the place of instructions."""
    tile, ends = r"%+tmm(\d)", r'" : : "r"\((.*)\), "r"\((.*)\) : "memory"\);'
    text = re.sub(r'__asm__ volatile\("(?:ldtilecfg|tilerelease)[^;]*;', "", text)
    text = re.sub(rf'__asm__ volatile\("tilezero {tile}"\);', r"tilezero(\1);", text)
    text = re.sub(rf'__asm__ volatile\("(tdp\w+) {tile}, {tile}, {tile}"\);', r"\1(\2, \3, \4);", text)
    text = re.sub(rf'__asm__ volatile\("tileloadd \(%0,%1,1\), {tile}{ends}', r"tileloadd(\2, \3, \1);", text)
    text = re.sub(rf'__asm__ volatile\("tilestored {tile}, \(%0,%1,1\){ends}', r"tilestored(\1, \2, \3);", text)
    assert "tmm" not in text
    return EMULATION + text


def run(kernel: Kernel, arrays: dict[str, Any], text: str) -> None:
    """Run a compiled kernel in two ranges of tasks, with a poisoned workspace."""
    if "avx512f" not in profile().features:
        # Vectors wider than the processor's, inlined a thousand times, take the compiler ten seconds.
        text = text.replace("inline __attribute__((always_inline))", "__attribute__((noinline, unused))")
        assert "always_inline" not in text
    (library,) = build([text])
    pointers = (ctypes.c_void_p * len(kernel.buffers))(*[arrays[b.name].ctypes.data for b in kernel.buffers])
    room = np.full(workspace_bytes(kernel) + 64, 0xFF, np.uint8)
    start = room.ctypes.data + -room.ctypes.data % 64
    function, tasks = SIGNATURE(library.address(kernel.name)), kernel.tasks.value
    assert tasks is not None
    for begin, end in ((tasks // 2, tasks), (0, tasks // 2)):
        function(ctypes.addressof(pointers), 0, start, begin, end)


def outcomes(region: Region, kernel: Kernel) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What a kernel stores, by its instructions where there are such, and what the region says."""
    arrays, expected = Case(region).arrays(), Case(region).arrays()
    for b in region.buffers()[1:]:
        if b.dtype.bits == 8:
            limits = np.iinfo(b.dtype.numpy)
            drawn = np.random.default_rng(7).integers(limits.min, limits.max + 1, storage(b, {}))
            arrays[b.name], expected[b.name] = drawn.astype(b.dtype.numpy), drawn.astype(b.dtype.numpy)
    text = render([kernel], features=AMX)
    run(kernel, arrays, text if HAS_AMX else emulated(text))
    evaluate_region(region, expected, {})
    name = region.outputs[0].buffer.name
    return arrays[name].astype(np.float64), expected[name].astype(np.float64)


def product(m: int, n: int, k: int, left: DType, right: DType, layout: str = "", bias: bool = False) -> Region:
    a = sm.zeros((k, m) if "a" in layout else (m, k), dtype=left).realize()
    b = sm.zeros((n, k) if "b" in layout else (k, n), dtype=right).realize()
    a, b = a.T if "a" in layout else a, b.T if "b" in layout else b
    y = a @ b if left is bfloat16 else a.astype(int32) @ b.astype(int32)
    if bias:
        y = (y + sm.zeros((n,), dtype=y.dtype).realize()).maximum(0)
    [region] = regions(y._node)
    return region


def is_matrix(kernel: Kernel) -> bool:
    return "tdp" in render([kernel], features=AMX)


SCHEDULE = "split m (16 reg)\nsplit n (16 lane)\nsplit k (16 reg)\nmatrix y tdpbusd"
SHAPES = [(32, 32, 64), (16, 16, 32), (48, 64, 128), (100, 70, 96), (33, 35, 77), (17, 200, 1600), (64, 96, 2048)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", ["", "a", "b"])
@pytest.mark.by_turns(6)
def test_products_of_bfloat16(shape: tuple[int, int, int], layout: str) -> None:
    region = product(*shape, bfloat16, bfloat16, layout)
    _, kernel = choose(region, MACHINE)
    verify(kernel)
    assert is_matrix(kernel)
    got, expected = outcomes(region, kernel)
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2 * shape[2] ** 0.5)


@pytest.mark.parametrize("left", [int8, uint8], ids=str)
@pytest.mark.parametrize("right", [int8, uint8], ids=str)
@pytest.mark.parametrize("shape", [(32, 32, 64), (40, 50, 130), (16, 33, 2048), (64, 64, 129)], ids=str)
@pytest.mark.by_turns(5)
def test_products_of_bytes_of_all_signs(shape: tuple[int, int, int], left: DType, right: DType) -> None:
    region = product(*shape, left, right)
    _, kernel = choose(region, MACHINE)
    verify(kernel)
    assert f"tdpb{'su'[left is uint8]}{'su'[right is uint8]}d" in render([kernel], features=AMX)
    np.testing.assert_array_equal(*outcomes(region, kernel))


@pytest.mark.parametrize("kind", [bfloat16, int8], ids=str)
@pytest.mark.by_turns(2)
def test_what_follows_a_product_reads_its_vectors(kind: DType) -> None:
    region = product(50, 64, 96, kind, kind, bias=True)
    _, kernel = choose(region, MACHINE)
    assert is_matrix(kernel)
    np.testing.assert_allclose(*outcomes(region, kernel), rtol=1e-2, atol=0.1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.by_turns(2)
def test_batches_of_products(shared: bool) -> None:
    a = sm.zeros((3, 20, 40), dtype=sm.bfloat16).realize()
    b = sm.zeros((40, 33) if shared else (3, 40, 33), dtype=sm.bfloat16).realize()
    [region] = regions((a @ b)._node)
    _, kernel = choose(region, MACHINE)
    verify(kernel)
    assert is_matrix(kernel)
    np.testing.assert_allclose(*outcomes(region, kernel), rtol=1e-2, atol=0.1)


@pytest.mark.parametrize("shape", [(33, 35, 77), (32, 32, 64), (16, 20, 1600)], ids=str)
@pytest.mark.parametrize("kind", [bfloat16, uint8], ids=str)
@pytest.mark.by_turns(3)
def test_the_interpreter_agrees(shape: tuple[int, int, int], kind: DType) -> None:
    region = product(*shape, kind, kind, bias=True)
    _, kernel = choose(region, MACHINE)
    arrays, expected = Case(region).arrays(), Case(region).arrays()
    interpret(kernel, arrays, {})
    evaluate_region(region, expected, {})
    name = region.outputs[0].buffer.name
    got, wanted = (found[name].astype(np.float64) for found in (arrays, expected))
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-2)


def test_the_same_kernel_runs_with_vectors() -> None:
    region = product(16, 16, 64, bfloat16, bfloat16)
    _, kernel = choose(region, MACHINE)
    text = render([kernel])
    assert "tmm" not in text
    arrays, expected = Case(region).arrays(), Case(region).arrays()
    run(kernel, arrays, text)
    evaluate_region(region, expected, {})
    np.testing.assert_allclose(arrays["o"].astype(float), expected["o"].astype(float), rtol=1e-2, atol=1e-2)


@x86
def test_the_instructions_compile() -> None:
    for kinds in ((bfloat16, bfloat16), (int8, uint8)):
        _, kernel = choose(product(40, 40, 64, *kinds), MACHINE)
        build([render([kernel], features=AMX)])  # loaded, not run


def test_tiles_are_shaped_and_given_back() -> None:
    text = render([choose(product(32, 32, 64, bfloat16, bfloat16), MACHINE)[1]], features=AMX)
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1
    assert text.index("ldtilecfg") < text.index("tilezero") < text.index("tdpbf16ps") < text.index("tilerelease")
    assert "ldtilecfg" not in render([lower(dots(32, 32, 32).region)], features=AMX)


def test_few_rows_need_no_matrix_instructions() -> None:
    assert not is_matrix(choose(product(15, 64, 64, bfloat16, bfloat16), MACHINE)[1])
    assert not is_matrix(choose(product(64, 15, 64, int8, int8), MACHINE)[1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("", None),
        ("m (16 reg)->m (32 reg)", None),
        ("m (16 reg)->m (8 reg)", "has 16 rows"),
        ("m (16 reg)->m (48 reg)", "registers for 2 by 2 tiles"),
        ("n (16 lane)->n (2 reg, 16 lane)", None),
        ("n (16 lane)->n (8 lane)", "takes no vectors of 8"),
        ("k (16 reg)->k (8 reg)", "sums 16 words"),
        ("k (16 reg)->k (32 reg)", "sums 16 words"),
        ("tdpbusd->tdpbsud", "multiplies other numbers"),
        ("tdpbusd->tdpbssd", "no sum of what tdpbssd multiplies"),
    ],
)
def test_a_row_applies_or_is_refused_with_a_reason(change: str, reason: str | None) -> None:
    old, _, new = change.partition("->")
    schedule = parse_schedule(SCHEDULE.replace(old, new) if old else SCHEDULE)
    if reason is None:
        assert is_matrix(lower(dots(48, 32, 32).region, schedule))
    else:
        with pytest.raises(Illegal, match=reason):
            lower(dots(48, 32, 32).region, schedule)


def test_without_the_action_there_are_no_matrix_instructions() -> None:
    assert not is_matrix(lower(dots(48, 32, 32).region, parse_schedule(SCHEDULE.partition("\nmatrix")[0])))


def test_masked_loads_and_strided_rows_do_not_fit() -> None:
    schedule = parse_schedule(SCHEDULE)
    for shape in ((16, 9, 32), (9, 16, 32)):
        with pytest.raises(Illegal, match="matrix: "):
            lower(dots(*shape).region, schedule)
    kernel = lower(dots(16, 16, 32).region, schedule)
    assert is_matrix(kernel)
    other = kernel.buffers[2]
    wide = replace(other, strides=(64, 2))

    def spread(s: Any) -> Any:
        if getattr(s, "buffer", None) == other:
            s.buffer = wide
        return s

    for s in statements(kernel.body):
        spread(s)
    with pytest.raises(InternalError, match="do not lie side by side"):
        verify(replace(kernel, buffers=(*kernel.buffers[:2], wide)))


def test_plain_results_are_stored_from_tiles() -> None:
    kernel = lower(dots(16, 16, 16).region, parse_schedule(SCHEDULE))
    assert [type(s) for s in statements(kernel.body)][-2:] == [Update, Store]
    text = render([kernel], features=AMX)
    assert text.count("tilestored") == 1 and "b0" in text.partition("tilestored")[2].partition(";")[0]
