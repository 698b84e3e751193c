"""What a template makes of a region can be written down as actions, read back, and gives the same kernel: so what was
measured is what runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import smelt as sm
from smelt.cost import Profile
from smelt.cost.kernel import cost
from smelt.kernel import Illegal, Region, parse_region, parse_schedule, print_kernel, print_region, print_schedule
from smelt.render import OPENCL, render
from smelt.schedule import Choice, chosen, lowered, templates
from smelt.search.space import Point, steps
from tests.profiles import AMX, AVX2, AVX512
from tests.proofs.corpus import PROFILES, drawn_up
from tests.replay.programs import programs
from tests.schedule.test_default import regions
from tests.schedule.test_templates import CASES

VEX = AVX2._replace(features=AVX2.features | {"avx_vnni"})
BYTES = [(a, b) for a in (np.int8, np.uint8) for b in (np.int8, np.uint8)]


def product_of_bytes(kinds: tuple[type, type], rows: int, depth: int = 70) -> Region:
    a, b = np.zeros((rows, depth), kinds[0]), np.zeros((depth, 48), kinds[1])
    return regions((sm.asarray(a).astype(sm.int32) @ sm.asarray(b).astype(sm.int32))._node)[-1]


def product_of_bfloats(rows: int, transposed: bool = False) -> Region:
    a, b = sm.zeros(rows, 64, dtype=sm.bfloat16), sm.zeros(48, 64, dtype=sm.bfloat16)
    return regions(
        (a.realize() @ (b.realize().T if transposed else sm.zeros(64, 48, dtype=sm.bfloat16).realize()))._node
    )[-1]


WORDS: dict[str, tuple[Callable[[], Region], Profile]] = {
    f"words of {kinds[0].__name__} and {kinds[1].__name__}, {rows} rows, {name}": (
        lambda kinds=kinds, rows=rows: product_of_bytes(kinds, rows),  # type: ignore[misc]
        profile,
    )
    for kinds in BYTES
    for rows in (2, 32)
    for name, profile in (("matrices", AMX), ("vectors", AVX512), ("short vectors", VEX))
} | {
    f"words of bfloat16, {rows} rows, {name}": (
        lambda rows=rows: product_of_bfloats(rows, rows < 8),  # type: ignore[misc]
        profile,
    )
    for rows in (2, 32)
    for name, profile in (("matrices", AMX), ("vectors", AVX512))
}
EVERY = {name: (lambda make=make: make().region, profile) for name, (make, profile, _) in CASES.items()} | WORDS  # type: ignore[misc]


def points(region: Region, profile: Profile, count: int, rng: random.Random) -> Iterator[Point]:
    """Every template of a region at its default, and some of what is one step away."""
    for template in templates(region, profile):
        yield (first := Point(template, template.default))
        near = list(steps(first))
        yield from rng.sample(near, min(count, len(near)))


def check(region: Region, profile: Profile, count: int, rng: random.Random) -> set[str]:
    """Whether what is written down gives what it was written down for; the forms that there were."""
    dialect = {"dialect": OPENCL} if profile.group_threads else {"features": profile.features}
    region, forms = parse_region(print_region(region)), set()
    for point in points(region, profile, count, rng):
        try:
            taken, kernel = lowered(point.candidate, region, profile)
        except Illegal:
            continue
        again, same = lowered(
            chosen("chosen", region, parse_schedule(print_schedule(taken.actions)), profile), region, profile
        )
        assert print_kernel(same) == print_kernel(kernel), str(point)
        first, second = (
            Choice.of(each, cost(region, made, profile), profile, ()) for each, made in ((taken, kernel), (again, same))
        )
        assert (first.grain, first.keeps, first.actions) == (second.grain, second.keeps, second.actions)
        if point.knobs == point.template.default:
            assert render([same], **dialect) == render([kernel], **dialect)  # type: ignore[arg-type]
        forms.add(point.form)
    return forms


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.by_turns(6)
def test_what_is_written_down_gives_the_same_kernel(name: str) -> None:
    make, profile = EVERY[name]
    forms = check(make(), profile, 6, random.Random(name))
    assert forms and ("matrices" not in name or "32 rows" not in name or "matrix" in forms)
    assert "vectors" not in name or "words" in forms


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("kind", PROFILES)
def test_the_same_holds_for_functions(kind: str) -> None:
    rng = random.Random(kind)
    for _, make in rng.sample(list(programs()), 3):
        key = make()
        for built in drawn_up(key, PROFILES[kind]) if key is not None else ():
            if built.text.startswith("region"):
                check(parse_region(built.text), PROFILES[kind], 2, rng)


def test_what_names_no_instruction_for_words_is_about_the_region_itself() -> None:
    region = product_of_bytes(BYTES[0], 32)
    assert chosen("chosen", region, parse_schedule("split i0 (4 reg)"), AVX512).region is region
    assert chosen("chosen", region, parse_schedule("matrix y fma"), AVX512).region is region
    plain = CASES["elementwise"][0]().region  # what an instruction cannot be about is refused when it is lowered
    with pytest.raises(Illegal):
        lowered(chosen("chosen", plain, parse_schedule("matrix y vpdpbusd"), AVX512), plain, AVX512)


def test_what_the_processor_does_not_have_is_refused() -> None:
    region = parse_region(print_region(product_of_bytes(BYTES[0], 32)))
    found = [template for template in templates(region, AMX) if template.form == "matrix"]
    actions = found[0].at(found[0].default).actions
    assert lowered(chosen("chosen", region, actions, AMX), region, AMX)
    with pytest.raises(Illegal, match="the region has no axis"):
        lowered(chosen("chosen", region, actions, AVX512), region, AVX512)
