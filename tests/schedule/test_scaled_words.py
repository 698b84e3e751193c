"""Products with matrices of codes: which schedule and which instruction each processor gets."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.cost import Profile
from smelt.kernel import Kernel, Region, print_kernel
from smelt.schedule import choose
from tests.profiles import AVX2, AVX512, NEON
from tests.schedule.test_default import regions

DOTPROD = NEON._replace(features=NEON.features | {"asimddp"})


def product(bits: int, rows: int) -> Region:
    zero = 1 << (bits - 1)
    codes = np.tile(np.arange(1 << bits, dtype=np.uint8), (48 * 96 >> bits) + 1)[: 48 * 96].reshape(48, 96)
    weight = sm.nn.QuantizedWeight(codes, zero, np.full((48, 3), 0.5, np.float32))
    return regions(weight.product(sm.asarray(np.zeros((rows, 96), np.float32)))._node)[-1]


def kernel(region: Region, machine: Profile) -> tuple[str, Kernel]:
    choice, made = choose(region, machine)
    return choice.text(), made


@pytest.mark.parametrize(("machine", "op"), [(AVX512, "dot4_low"), (AVX2, "dot4_low"), (DOTPROD, "dot4_ss")])
def test_small_codes_are_unsigned_where_that_is_what_a_processor_multiplies(machine: Profile, op: str) -> None:
    for bits in (4, 5, 6):
        _, made = kernel(product(bits, 1), machine)
        assert f" {op}= " in print_kernel(made)


def test_codes_of_eight_bits_are_not_taken_for_small_ones() -> None:
    for machine in (AVX512, AVX2, DOTPROD):
        assert "dot4_low" not in print_kernel(kernel(product(8, 1), machine)[1])


@pytest.mark.parametrize("machine", [AVX512, AVX2, DOTPROD])
def test_many_rows_find_a_panel_unpacked_and_few_read_it_as_it_lies(machine: Profile) -> None:
    assert "stage" in kernel(product(4, 64), machine)[0]
    assert "stage" not in kernel(product(4, 4), machine)[0]


def test_terms_of_a_block_are_added_one_by_one() -> None:
    """A sum of two products is two fused steps: no vector holds the sum of both."""
    text = print_kernel(kernel(product(4, 12), AVX512)[1])
    assert text.count(" fma= ") == 2


def test_without_instructions_for_dots_nothing_is_tiled() -> None:
    plain = AVX512._replace(features=frozenset())
    assert "2 reg, 16 lane" not in kernel(product(4, 16), plain)[0]
