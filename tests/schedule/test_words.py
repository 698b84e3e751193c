"""Products by words: of 8-bit integers, exact for every rule of signs, shape and layout, and of bfloat16."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt.config import configure
from smelt.kernel import print_kernel, verify
from smelt.render import render
from smelt.schedule import choose
from tests.device.helpers import holds_in_forked_child
from tests.kernel.regions import Case
from tests.kernel.runners import RUNNERS, evaluate_region
from tests.profiles import AVX2, AVX512, here
from tests.schedule.test_default import regions
from tests.turns import one_in

VNNI = AVX512._replace(features=frozenset({"avx512f", "avx512_vnni"}))
BF16 = VNNI._replace(features=frozenset({"avx512f", "avx512_bf16"}))
SHAPES = [(1, 70, 9), (7, 64, 64), (8, 64, 64), (33, 100, 35), (12, 16, 4), (64, 333, 129), (20, 200, 4100), (9, 5, 3)]


def product(a: sm.Tensor, b: sm.Tensor) -> sm.Tensor:
    return a.astype(sm.int32) @ b.astype(sm.int32)


def bytes_of(kind: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(kind)
    return np.random.default_rng(3).integers(limits.min, limits.max + 1, shape).astype(kind)


@pytest.mark.parametrize("kinds", list(itertools.product((np.int8, np.uint8), repeat=2)), ids=str)
@pytest.mark.parametrize("transposed", ["", "a", "b"])
@pytest.mark.by_turns(16)
def test_products_are_exact(kinds: tuple[type, type], transposed: str) -> None:
    for m, n, k in SHAPES:
        a, b = bytes_of(kinds[0], m, k), bytes_of(kinds[1], k, n)
        x = sm.from_numpy(np.ascontiguousarray(a.T)).T if transposed == "a" else sm.from_numpy(a)
        y = sm.from_numpy(np.ascontiguousarray(b.T)).T if transposed == "b" else sm.from_numpy(b)
        np.testing.assert_array_equal(sm.jit(product)(x, y).numpy(), a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("kinds", list(itertools.product((np.int8, np.uint8), repeat=2)), ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.by_turns(4)
def test_products_with_a_weight_in_panels_are_exact(kinds: tuple[type, type], turned: bool) -> None:
    columns = 1100  # the last panel is filled up
    b = bytes_of(kinds[1], columns, 1024) if turned else bytes_of(kinds[1], 1024, columns)
    weight, matrix = sm.asarray(b, copy=True), b.T if turned else b
    compiled = sm.jit(lambda x, w: product(x, w.mT) if turned else product(x, w))
    for rows in (1, 2, 7, 65):
        a = bytes_of(kinds[0], rows, 1024)
        expected, x = a.astype(np.int64) @ matrix.astype(np.int64), sm.asarray(a, copy=True)
        for _ in range(5):  # then the weight has been the same for a while, and is packed
            np.testing.assert_array_equal(compiled(x, weight).numpy(), expected)


def test_extremes_neither_saturate_nor_overflow() -> None:
    for kinds in itertools.product((np.int8, np.uint8), repeat=2):
        for pick in itertools.product((np.iinfo(kinds[0]).min, np.iinfo(kinds[0]).max), repeat=1):
            a, b = np.full((16, 256), pick[0], kinds[0]), np.full((256, 32), np.iinfo(kinds[1]).min, kinds[1])
            got = sm.jit(product)(sm.from_numpy(a), sm.from_numpy(b)).numpy()
            np.testing.assert_array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


def test_words_are_used_where_the_processor_has_the_instruction() -> None:
    x = product(sm.asarray(np.zeros((64, 64), np.int8)), sm.asarray(np.zeros((64, 64), np.int8)))
    [region] = regions(x._node)
    assert "dot4" in str(choose(region, VNNI)[1])
    assert "dot4" not in str(choose(region, VNNI._replace(features=frozenset()))[1])


def test_vectors_of_32_bytes_have_an_instruction_of_their_own() -> None:
    [region] = regions(product(*(sm.asarray(np.zeros((64, 64), np.int8)) for _ in range(2)))._node)
    choice, kernel = choose(region, AVX2._replace(features=AVX2.features | {"avx_vnni"}))
    assert "matrix y vpdpbusd_vex" in choice.text()
    assert choice.knobs.startswith("height 6, width 2, lanes 8,")  # what sixteen registers hold
    assert "__AVXVNNI__" in render([kernel])


@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.uint8, np.int16), (np.int16, np.int16)], ids=str)
def test_pairs_of_16_bits_serve_where_there_are_no_dots_of_bytes(kinds: tuple[type, type]) -> None:
    [region] = regions(product(*(sm.asarray(np.zeros((64, 64), kind)) for kind in kinds))._node)
    wide = AVX512._replace(features=frozenset({"avx2", "avx512f", "avx512bw"}))
    for machine, name in ((AVX2, "vpmaddwd"), (wide, "vpmaddwd_512")):
        choice, kernel = choose(region, machine)
        assert choice.text().endswith(f"matrix y {name}") or f"matrix y {name};" in choice.text()
        assert "pmaddwd" in render([kernel])


@pytest.mark.parametrize("kinds", [(np.int8, np.int16), (np.int16, np.uint8), (np.int16, np.int16)], ids=str)
def test_products_of_16_bits_wrap(kinds: tuple[type, type]) -> None:
    for m, n, k in [(1, 70, 9), (8, 64, 64), (33, 100, 35)]:
        a, b = bytes_of(kinds[0], m, k), bytes_of(kinds[1], k, n)
        a[0], b[:, 0] = np.iinfo(kinds[0]).min, np.iinfo(kinds[1]).min
        got = sm.jit(product)(sm.from_numpy(a), sm.from_numpy(b)).numpy()
        np.testing.assert_array_equal(got, (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32))


def test_zeros_stand_beyond_the_end_whatever_is_computed() -> None:
    a, b = np.full((16, 5), 3, np.int8), np.full((5, 16), 4, np.int8)
    got = sm.jit(lambda x, y: product(x + 1, y + 1))(sm.from_numpy(a), sm.from_numpy(b)).numpy()
    np.testing.assert_array_equal(got, np.full((16, 16), 100))


def bfloats(*shape: int) -> sm.Tensor:
    return sm.from_numpy(np.random.default_rng(5).standard_normal(shape).astype(np.float32)).astype(sm.bfloat16)


def pair(m: int, n: int, k: int, transposed: str) -> tuple[sm.Tensor, sm.Tensor]:
    a = bfloats(k, m).realize().T if transposed == "a" else bfloats(m, k).realize()
    b = bfloats(n, k).realize().T if transposed == "b" else bfloats(k, n).realize()
    return a, b


@pytest.mark.parametrize("transposed", ["", "a", "b"])
@pytest.mark.by_turns(3)
def test_products_of_bfloat16(transposed: str) -> None:
    for m, n, k in one_in(2, SHAPES):
        a, b = pair(m, n, k, transposed)
        exact = a.astype(sm.float64).numpy() @ b.astype(sm.float64).numpy()
        got = sm.jit(sm.matmul)(a, b).astype(sm.float64).numpy()
        np.testing.assert_allclose(got, exact, rtol=1e-2, atol=1e-2 * k**0.5)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("transposed", ["", "a", "b"])
@pytest.mark.by_turns(4)
def test_words_of_bfloat16_compute_what_the_region_says(runner: str, transposed: str) -> None:
    jobs, expected = [], []
    for m, n, k in [(1, 20, 64), (3, 17, 30), (8, 32, 34), (13, 35, 77)]:
        a, b = pair(m, n, k, transposed)
        [region] = regions((a @ b)._node)
        kernel = choose(region, BF16)[1]
        verify(kernel)
        jobs.append((kernel, Case(region).arrays(), {}))
        expected.append(Case(region).arrays())
        evaluate_region(region, expected[-1], {})
    RUNNERS[runner](jobs)
    for (_, arrays, _), wanted in zip(jobs, expected, strict=True):
        np.testing.assert_allclose(arrays["o"].astype(float), wanted["o"].astype(float), rtol=1e-2, atol=1e-2)


def test_words_are_read_where_they_lie() -> None:
    def text(m: int, n: int, k: int, transposed: str) -> str:
        a, b = pair(m, n, k, transposed)
        [region] = regions((a @ b)._node)
        return print_kernel(choose(region, BF16)[1])

    assert "load b0:int32[" in text(64, 48, 64, "")
    assert "load b1:int32[" in text(64, 48, 64, "b")
    odd = text(64, 48, 63, "")
    assert "dot2" in odd and "load b0:int32[" not in odd
    assert "dot2" not in text(1, 48, 64, "")  # widening is as good
    assert "dot2" in text(1, 48, 64, "b")


@pytest.mark.skipif("amx_bf16" not in here().features, reason="the processor has no matrix instructions")
class TestMatrixInstructions:
    """On a processor that has them: in every thread, and in forked processes."""

    def check(self, multiply: Callable[[sm.Tensor, sm.Tensor], sm.Tensor]) -> None:
        a, b = pair(300, 500, 700, "")
        exact = a.astype(sm.float64).numpy() @ b.astype(sm.float64).numpy()
        np.testing.assert_allclose(multiply(a, b).astype(sm.float64).numpy(), exact, rtol=1e-2, atol=0.3)

    def test_they_are_chosen(self) -> None:
        [region] = regions((pair(64, 64, 64, "")[0] @ pair(64, 64, 64, "")[1])._node)
        assert "stage B" in choose(region, here())[0].text() and "16 reg" in choose(region, here())[0].text()

    @pytest.mark.parametrize("threads", [1, 2, 5])
    def test_all_threads_may_use_them(self, threads: int) -> None:
        with configure(threads=threads):
            self.check(sm.jit(lambda a, b: a @ b))

    def test_forked_processes_may_use_them(self) -> None:
        multiply = sm.jit(sm.matmul)
        self.check(multiply)
        assert holds_in_forked_child(lambda: self.check(multiply) is None)
