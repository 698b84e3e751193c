"""The templates of schedules: every value of their knobs is refused or right."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from smelt.cost import Profile
from smelt.kernel import (
    Illegal,
    interpret,
    lower,
    parse_kernel,
    parse_schedule,
    print_kernel,
    print_schedule,
)
from smelt.schedule import Template, choose, templates
from smelt.schedule.blockwise import Blocks
from smelt.schedule.choice import Knobs
from smelt.schedule.facts import contraction_of
from smelt.schedule.tiling import Tiling
from tests.kernel import regions as r
from tests.kernel.regions import Case
from tests.kernel.runners import evaluate_region
from tests.profiles import AVX512
from tests.proofs.corpus import PROFILES

DRAWS = 24
LEAST_LEGAL = 0.25
GROUPS = PROFILES["groups"]
CONTRACTION = {"tiled", "turned", "streamed", "rows"}


def transposed(rows: int = 9, columns: int = 17) -> Case:
    i, j = r.axis("i", rows), r.axis("j", columns)
    x = r.load(r.buffer("x", columns, rows), j, i)
    return Case(r.region(r.out(r.buffer("o", rows, columns), [i, j], x), [i, j]))


def weighed(case: Case) -> Case:
    """A sum of products with names for its factors, as regions that are made of graphs have them."""
    y = dict(case.region.roles)["y"]
    a, b = y.arguments[0].arguments
    return Case(replace(case.region, roles=(*case.region.roles, ("A", a), ("B", b))), case.integers)


def joined(keys: int = 9) -> Case:
    """Two products with what is made of one other product, as the gradients of keys and values are."""
    made = r.scored_twice(7, keys, 4).region
    return weighed(Case(replace(made, outputs=made.outputs[:2])))


def logarithms(queries: int = 7, keys: int = 9, width: int = 4) -> Case:
    """The logarithm of the sum of exponentials of each row of scores."""
    q, k, e = (r.axis(name, size) for name, size in zip("qke", (queries, keys, width), strict=True))
    a, b = r.load(r.buffer("Q", queries, width), q, e), r.load(r.buffer("K", keys, width), k, e)
    s = r.reduce("add", r.op("mul", a, b), e)
    m = r.reduce("max", s, k)
    z = r.reduce("add", r.op("exp", r.op("sub", s, m)), k)
    value = r.op("add", m, r.op("log", z))
    return Case(r.region(r.out(r.buffer("o", queries), [q], value), [q, k, e], A=a, B=b, y=s))


# Each region with the forms that are worth trying for it, but for the last, which has no actions.
CASES: dict[str, tuple[Callable[[], Case], Profile, set[str]]] = {
    "elementwise": (lambda: r.elementwise(77), AVX512, {"elementwise"}),
    "a bias": (lambda: r.bias(5, 19), AVX512, {"elementwise"}),
    "transposed": (transposed, AVX512, {"elementwise"}),
    "rows": (lambda: r.softmax(3, 37), AVX512, {"rows"}),
    "statistics": (lambda: r.layer_norm(3, 33), AVX512, {"rows"}),
    "columns": (lambda: r.column_sums(17, 300), AVX512, {"columns", "rows"}),
    "a scan": (lambda: r.running(rows=5, columns=21), AVX512, {"scan"}),
    "a scan of columns": (lambda: r.running(rows=33, columns=40, first=True), AVX512, {"scan"}),
    "few rows": (lambda: r.matmul(2, 40, 24), AVX512, {"streamed", "rows"}),
    "a product": (lambda: r.matmul(13, 11, 7), AVX512, CONTRACTION),
    "a product by lane": (lambda: r.matmul(13, 11, 7), PROFILES["arm"], {"by lane", *CONTRACTION}),
    "a product of whole tiles": (lambda: r.matmul(6, 16, 32), AVX512, CONTRACTION),
    "a thin product": (lambda: r.matmul(23, 4, 1), AVX512, CONTRACTION),
    "attention": (lambda: weighed(r.attention(2, 7, 4)), AVX512, {"attention", *CONTRACTION}),
    "causal attention": (lambda: weighed(r.attention(1, 11, 5, causal=True)), AVX512, {"attention", *CONTRACTION}),
    "wide attention": (
        lambda: weighed(r.attention(1, 9, 30)),
        PROFILES["arm"],
        {"attention", "few rows", "by lane", *CONTRACTION},
    ),
    "a window": (lambda: weighed(r.windowed()), AVX512, {"attention", *CONTRACTION}),
    "a chain": (lambda: weighed(r.scored()), AVX512, {"chain", *CONTRACTION}),
    "a chain by keys": (lambda: weighed(r.scored(by_keys=True)), AVX512, {"chain", *CONTRACTION}),
    "two chains": (joined, AVX512, {"chain"}),
    "logarithms": (logarithms, AVX512, {"chain", "streamed", "rows"}),
    "elementwise, by groups": (lambda: r.bias(5, 19), GROUPS, {"group"}),
    "rows, by groups": (lambda: r.softmax(3, 37), GROUPS, {"group"}),
    "a scan, by groups": (lambda: r.running(rows=5, columns=21), GROUPS, {"group"}),
    "a product, by groups": (lambda: r.matmul(17, 18, 5), GROUPS, {"group"}),
}


def drawn(template: Template, rng: random.Random) -> Knobs:
    """Some knobs at random, the others as they are by default; tiles stay small, since they are interpreted."""
    names = [name for name in template.domains if rng.random() < 0.25]
    changes = {name: rng.choice(template.domains[name]) for name in names}
    small = {name: min(getattr(template.default, name), 4) for name in ("height", "lanes")}
    return replace(template.default, **small | changes)  # type: ignore[arg-type]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_is_refused_or_right(name: str) -> None:
    make, profile, forms = CASES[name]
    region = make().region
    found = templates(region, profile)
    assert {template.form for template in found if not template.form.startswith("exchanged")} == forms
    # Where reductions are consumed block by block, other templates say little that other regions do not.
    found = [template for template in found if isinstance(template.default, Blocks)] or found
    expected = Case(region).arrays()
    evaluate_region(region, expected, {})
    rng, legal = random.Random(name), 0
    draws = DRAWS // len(found)
    for template in found * draws:
        candidate = template.at(drawn(template, rng))
        assert parse_schedule(print_schedule(candidate.actions)) == candidate.actions
        try:
            kernel = lower(candidate.region, candidate.actions)
        except Illegal as refusal:
            assert str(refusal)
            continue
        legal += 1
        arrays = Case(region).arrays()
        interpret(kernel, arrays, {})
        for buffer, array in expected.items():
            np.testing.assert_allclose(arrays[buffer], array, rtol=1e-4, atol=1e-4)
    assert legal >= LEAST_LEGAL * draws * len(found)


@pytest.mark.parametrize("name", CASES)
def test_the_default_is_a_template_at_its_default_knobs(name: str) -> None:
    make, profile, _ = CASES[name]
    region = make().region
    for template in templates(region, profile):
        domains = template.domains
        assert set(domains) == {field.name for field in fields(template.default)}
        assert [knob for knob in domains if getattr(template.default, knob) not in domains[knob]] == []
    choice, _ = choose(region, profile)
    assert choice.knobs in {str(template.default) for template in templates(region, profile)}


def test_a_search_may_exchange_rows_and_columns() -> None:
    """No default does: where few columns are not worth a vector, these run along the rows instead."""
    for columns in (7, 300):
        found = {one.form: one for one in templates(r.matmul(266, columns, 64).region, PROFILES["arm"])}
        assert {"exchanged tiled", "exchanged by lane", "exchanged turned"} <= set(found)
        own, other = (found[form].facts.n.name for form in ("tiled", "exchanged tiled"))  # type: ignore[attr-defined]
        assert (own, other) == ("n", "m")
    for name, keeps in (("n", True), ("m", False)):
        few = contraction_of(r.matmul(266, 7, 64).region, keeps)
        assert few is not None and few.n.name == name


def test_knobs_are_printed_where_they_are_not_what_they_always_are() -> None:
    choice, _ = choose(r.matmul(64, 128, 256).region, AVX512)
    assert choice.form == "tiled" and choice.knobs.startswith("height 6, width 4, lanes 16")
    choice, _ = choose(r.softmax(3, 37).region, AVX512)
    assert choice.title == "rows (vector c, lanes 16, registers 3, tasks 1, keep e out)"


def test_a_grain_that_is_said_is_taken() -> None:
    region = r.bias(5, 19).region
    (template,) = templates(region, AVX512)
    first = template.at(template.default)
    choice, _ = choose(region, AVX512, [first._replace(actions=(*first.actions, *parse_schedule("grain 3")))])
    assert choice.grain == 3 and choice.text().endswith("grain 3")
    with pytest.raises(Illegal, match="one task at least"):
        lower(region, parse_schedule("grain 0"))


def test_what_all_kernels_may_be_told_are_knobs_as_well() -> None:
    region = transposed(1024, 512).region
    template, *_ = templates(region, AVX512)
    square = replace(template.default, registers=16, across="i")  # type: ignore[call-arg]
    choice, kernel = choose(region, AVX512, [template.at(square)])
    assert choice.text().endswith("prefetch 4096 8 o x; transpose")
    assert parse_kernel(print_kernel(kernel)) == kernel
    assert kernel == replace(lower(region, choice.actions), buffers=kernel.buffers)
    silent = replace(square, ahead=0, gathered=0, transpose=0, grain=4)
    choice, _ = choose(region, AVX512, [template.at(silent)])
    assert "prefetch" not in choice.text() and "transpose" not in choice.text() and choice.grain == 4


def test_every_knob_has_a_domain() -> None:
    domains = Tiling(6, 4, 16).domains(None)
    assert [name for name, domain in domains.items() if len(domain) < 2] == ["instruction"]
    assert domains["width"] == (4, 1, 2, 3) and domains["grain"][0] == 0
