"""The template of tiled contractions: every value of its knobs is refused or right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from smelt.kernel import Illegal, evaluate_region, interpret, lower, parse_schedule, print_schedule
from smelt.schedule import choose
from smelt.schedule.facts import contraction_of
from smelt.schedule.tiling import DOMAINS, Tiling
from tests.kernel import regions as r
from tests.kernel.regions import Case
from tests.profiles import AVX512

DRAWS = 24
LEAST_LEGAL = 0.3


def drawn(rng: random.Random) -> Tiling:
    """Some knobs at random, the others as they are by default; tiles stay small, since they are interpreted."""
    names = [name for name in DOMAINS if name not in ("height", "width", "lanes")]
    others = {name: rng.choice(DOMAINS[name]) for name in names if rng.random() < 0.4}
    return Tiling(rng.choice((1, 2, 3, 6)), rng.choice((1, 2)), rng.choice((2, 4)), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(13, 11, 7), (6, 16, 32), (1, 5, 3), (23, 4, 1)], ids=str)
def test_what_is_drawn_is_refused_or_right(shape: tuple[int, int, int]) -> None:
    region = r.matmul(*shape).region
    contraction = contraction_of(region)
    assert contraction is not None
    expected = Case(region).arrays()
    evaluate_region(region, expected, {})
    rng, legal = random.Random(str(shape)), 0
    for _ in range(DRAWS):
        actions = drawn(rng).actions(contraction)
        assert parse_schedule(print_schedule(actions)) == actions
        try:
            kernel = lower(region, actions)
        except Illegal:
            continue
        legal += 1
        arrays = Case(region).arrays()
        interpret(kernel, arrays, {})
        for name, array in expected.items():
            np.testing.assert_allclose(arrays[name], array, rtol=1e-5, atol=1e-5)
    assert legal >= LEAST_LEGAL * DRAWS


def test_the_default_is_the_template_at_knobs_that_are_printed() -> None:
    choice, _ = choose(r.matmul(64, 128, 256).region, AVX512)
    assert choice.form == "tiled" and choice.knobs.startswith("height 6, width 4, lanes 16")


def test_every_knob_has_a_domain_with_its_default() -> None:
    knobs = Tiling(6, 4, 16)
    assert {name: getattr(knobs, name) in domain for name, domain in DOMAINS.items()} == dict.fromkeys(DOMAINS, True)
    assert set(vars(knobs)) == set(DOMAINS)
