"""From shape to shape: neighbours seed a search, and two of them on both sides of a region answer for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import NEIGHBOUR, question_of
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.kernel import Region, parse_region, print_region
from smelt.runtime import Runtime
from smelt.schedule import named, templates
from smelt.search import Tuned, transfer
from smelt.search.contender import Contender
from smelt.search.record import Answer, Evidence, Place, Question, Record, read, write
from smelt.search.selftest.database import sample
from smelt.tuning.keeping import Keeper
from smelt.tuning.outside import Live
from smelt.tuning.programs import Question as Kernel
from tests.profiles import AVX512
from tests.schedule.test_default import regions
from tests.search.databases import log

pytestmark = pytest.mark.usefixtures("own_database")

KNOBS = "rows: registers 2, grain 1"


def values(rows: int, columns: int = 96) -> np.ndarray[Any, Any]:
    return np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)


def kernel(rows: int, columns: int = 96) -> Any:
    """What is known of the only kernel of a softmax, in a process that knows nothing but what is on disk."""
    with runtime.using(Runtime()) as fresh:
        key, device = sm.jit(lambda x: x.softmax(-1)).graph_key(sm.asarray(values(rows, columns)))
        [found] = fresh.compiler.compile(key, device, explain=True).kernels
    return found


def stored(rows: int, columns: int = 96) -> str:
    """The same, from a graph that may have been stored."""
    with runtime.using(Runtime()) as fresh:
        x = values(rows, columns)
        np.testing.assert_allclose(sm.asarray(x).softmax(-1).sum(-1).numpy(), np.ones(rows), rtol=1e-5)
        sm.asarray(x).softmax(-1).realize()
        return " ".join(record.form for graph in fresh.graphs.values() for record in graph.kernels)


def tuned(text: str, knobs: str = KNOBS, ratio: float = 1.2, **changes: Any) -> Record:
    """A record of this machine: a region at some knobs was faster."""
    region = parse_region(text)
    candidate = named(region, CPU().profile, knobs)
    assert candidate is not None
    made = Contender.of(candidate, region, CPU())
    return (
        sample(0)
        ._replace(
            question=Question.of(text),
            place=Place.of(CPU()),
            answer=Answer(made.schedule, "same", made.digest, knobs),
            evidence=Evidence(ratio, ratio, 1e-3, 1e-3 / ratio, 15, 2),
        )
        ._replace(**changes)
    )


def asked(text: str) -> Kernel:
    return Kernel("softmax", text, parse_region(text), CPU(), 1, 1.0)


# --- knobs in words


def test_what_is_named_is_a_template_at_these_knobs() -> None:
    region = regions((sm.zeros(64, 96).realize() @ sm.zeros(96, 128).realize())._node)[-1]
    found = named(region, AVX512, "tiled: height 8, tail mask, row_tiles 3")
    default = next(template for template in templates(region, AVX512) if template.form == "tiled").default
    assert found is not None
    assert found.knobs == replace(default, height=8, tail="mask", row_tiles=3)  # type: ignore[call-arg]
    for wrong in ("nothing", "tiled: colour 3", "tiled: height red", "tiled: tail 3", "tiled: height -1"):
        assert named(region, AVX512, wrong) is None


def test_lines_without_knobs_are_still_read() -> None:
    record = tuned(kernel(16).region)
    assert read(write(record)[:-1]) == record
    from smelt.search.file import signed

    body = write(record)[:-1].rpartition(b" ")[0].replace(b'"knobs":"%s",' % KNOBS.encode(), b"")
    again = read(signed(body))
    assert isinstance(again, Record) and again.answer == record.answer._replace(knobs="")


# --- seeds


def test_neighbours_are_the_nearest_of_the_same_form_and_place() -> None:
    texts = {rows: kernel(rows).region for rows in (16, 24, 100, 32)}
    other = tuned(texts[16], place=Place.of(CPU())._replace(threads=77))
    slow = tuned(texts[24], ratio=1.01)
    found = transfer.near(Question.of(texts[32]), Place.of(CPU()), [other, slow])
    assert not found
    records = [tuned(texts[rows]) for rows in (100, 16, 24, 32)]
    found = transfer.near(Question.of(texts[32]), Place.of(CPU()), records)
    assert [one.records[0].question.sizes[0] for one in found] == [24, 16, 100]
    assert found[0].distance == pytest.approx(np.log2(32 / 24))
    assert transfer.distance((2, 3), (2, 3, 4)) == transfer.distance((0,), (4,)) == float("inf")


def product(rows: int, depth: int, columns: int) -> Region:
    a, b = sm.zeros(rows, depth).realize(), sm.zeros(depth, columns).realize()
    return parse_region(print_region(regions((a @ b)._node)[-1]))


def test_shares_of_an_axis_are_carried_as_such() -> None:
    there, here = product(64, 128, 256), product(64, 512, 256)
    record = tuned(print_region(there), "tiled: depth 32, unroll 4")
    other = record._replace(answer=record.answer._replace(knobs="a form that is not there: depth 3"))
    found = list(transfer.carried(transfer.Near(1.0, [other, record]), here, CPU().profile))
    assert [candidate.knobs.depth for candidate in found] == [32, 128]  # type: ignore[union-attr]
    assert all(candidate.knobs.unroll == 4 for candidate in found)  # type: ignore[union-attr]
    nameless = record._replace(answer=record.answer._replace(knobs=""))
    assert not list(transfer.carried(transfer.Near(1.0, [other, nameless]), here, CPU().profile))


def test_a_search_begins_with_what_was_good_before_and_for_neighbours() -> None:
    text, near = kernel(32).region, kernel(24).region
    log().add(
        [tuned(near, "rows: grain 2"), tuned(text, state="timed"), tuned(text, "rows: grain 4", state="imported")]
    )
    seeds = [str(seed.knobs) for seed in Keeper(0, Live()).seeds(asked(text))]
    assert len(seeds) == 3 and "grain 2" in seeds[-1]


def test_losers_are_not_tried_again() -> None:
    text = kernel(32).region
    slow, wrong = tuned(text, ratio=0.8, state="timed"), tuned(text, "rows: grain 2", state="wrong")
    elsewhere = tuned(text, "rows: grain 4", ratio=0.8, state="timed", place=slow.place._replace(cores=99))
    log().add([slow, wrong, elsewhere, tuned(text, "rows: grain 8", state="timed")])
    losers = Keeper(0, Live()).losers(asked(text))
    slowly, wrongly = (f"{one.answer.schedule}\n{one.answer.source}" for one in (slow, wrong))
    assert losers.keys() == {slowly, wrongly}
    assert losers[slowly] == pytest.approx(np.log(0.8))


# --- under jit


def test_a_region_between_two_neighbours_is_compiled_as_they_are() -> None:
    default = kernel(32).form
    log().add([tuned(kernel(rows).region) for rows in (24, 48)])
    found = kernel(32)
    assert found.form.startswith("rows, as for a neighbour (") and "registers 2" in found.form
    assert "grain 1" in found.schedule
    for rows in (20, 60, 24 * 3):  # outside
        assert "neighbour" not in kernel(rows).form
    assert "neighbour" not in kernel(32, 100).form
    with configure(tuned="same-bits"):
        assert kernel(32).form == default
    with configure(tuned="off"):
        assert kernel(32).form == default


@pytest.mark.parametrize(
    "second",
    [
        {"knobs": "rows: registers 1, grain 1"},
        {"ratio": 1.04},
        {"state": "timed"},
        {"place": Place("cpu", "0" * 32, 1, 1, "0" * 32)},
    ],
    ids=str,
)
def test_neighbours_must_agree_and_gain(second: dict[str, Any]) -> None:
    log().add([tuned(kernel(24).region), tuned(kernel(48).region, **second)])
    assert "neighbour" not in kernel(32).form


def test_neighbours_must_be_near_and_still_what_was_measured() -> None:
    log().add([tuned(kernel(15).region), tuned(kernel(48).region)])
    assert "neighbour" not in kernel(32).form
    stale = tuned(kernel(24).region)
    log().add([stale._replace(answer=stale.answer._replace(source="0" * 32))])
    assert "neighbour" not in kernel(32).form


def test_stored_graphs_know_it_without_the_text() -> None:
    log().add([tuned(kernel(rows).region) for rows in (24, 48)])
    text = kernel(32).region
    device, question = CPU(), question_of(text)
    assert Tuned().ask(device, question) == f"{NEIGHBOUR}{KNOBS}"  # noted by whoever compiled it
    assert Tuned().ask(device, "0" * 32) is None
    assert "neighbour" in stored(32) and "neighbour" in stored(32)
    log().add([tuned(kernel(48).region, state="forgotten")])
    assert Tuned().ask(device, question) is None
    assert "neighbour" not in stored(32)


def test_an_answer_of_its_own_comes_first() -> None:
    log().add([tuned(kernel(rows).region) for rows in (24, 32, 48)])
    assert kernel(32).form == "chosen"
