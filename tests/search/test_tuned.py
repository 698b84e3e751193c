"""What the compiler is told: confirmed answers for this region and machine, while they are what was measured."""

from __future__ import annotations

import dataclasses
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import CompiledGraph, measured_as
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.kernel import Kernel, lower, parse_region, parse_schedule
from smelt.plan.compiled import KernelRecord
from smelt.render import c
from smelt.runtime import Runtime
from smelt.search import Tuned
from smelt.search.answers import Answers
from smelt.search.log import Log
from smelt.search.record import Answer, Place, Question, Record
from smelt.search.selftest.samples import sample
from tests.search.databases import log

pytestmark = pytest.mark.usefixtures("own_database")

X = np.linspace(-1, 1, 6 * 10, dtype=np.float32).reshape(6, 10)
SCHEDULE, OTHER = "split i0 (2 reg)", "split i0 (3 reg)"


def compiled() -> CompiledGraph:
    """A graph of one kernel, in a process that knows nothing but what is on disk."""
    with runtime.using(Runtime()) as fresh:
        x = sm.asarray(X)
        np.testing.assert_allclose((x * 3 + x.exp()).numpy(), X * 3 + np.exp(X), rtol=1e-5, atol=1e-6)
        [graph] = fresh.graphs.values()
    return graph


def schedule() -> str:
    return compiled().kernels[0].schedule


def explained() -> KernelRecord:
    with runtime.using(Runtime()) as fresh:
        key, device = sm.jit(lambda x: x * 3 + x.exp()).graph_key(sm.asarray(X))
        [kernel] = fresh.compiler.compile(key, device, explain=True).kernels
    return kernel


def region() -> str:
    return explained().region


def answer(text: str, chosen: str = SCHEDULE, **changes: Any) -> Record:
    """A record that this machine might have."""
    source = measured_as(CPU(), lower(parse_region(text), parse_schedule(chosen)))
    record = sample(0)._replace(
        question=Question.of(text), place=Place.of(CPU()), answer=Answer(chosen, "same", source)
    )
    return record._replace(**changes)


def test_a_confirmed_answer_is_taken_and_others_are_not() -> None:
    text = region()
    default = schedule()
    for state in ("timed", "refused", "wrong", "hung", "crashed", "imported", "forgotten"):
        log().add([answer(text, state=state)])
        assert schedule() == default
    log().add([answer(text)])
    assert schedule() == SCHEDULE
    log().add([answer(text, OTHER)])
    assert schedule() == OTHER  # the stored graph was made with another answer
    log().add([answer(text, OTHER, state="refused")])
    assert schedule() == SCHEDULE
    log().compact()
    assert schedule() == SCHEDULE


@pytest.mark.parametrize("field", Place._fields)
def test_an_answer_counts_at_its_place_only(field: str) -> None:
    text, here = region(), Place.of(CPU())
    value = getattr(here, field)
    log().add([answer(text, place=here._replace(**{field: value + 1 if isinstance(value, int) else "0" * 32}))])
    assert schedule() != SCHEDULE


def test_an_answer_counts_for_as_many_threads() -> None:
    log().add([answer(region())])
    with configure(threads=Place.of(CPU()).threads + 1):
        assert schedule() != SCHEDULE


def test_what_keeps_bits_and_what_is_switched_off() -> None:
    text = region()
    default = schedule()
    log().add([answer(text), answer(text, OTHER)._replace(answer=answer(text, OTHER).answer._replace(bits="sums"))])
    assert schedule() == OTHER
    with configure(tuned="same-bits"):
        assert schedule() == SCHEDULE
    with configure(tuned="off"):
        assert schedule() == default
    with configure(data_dir=""):
        assert schedule() == default


def test_an_answer_counts_while_it_renders_to_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    text = region()
    default = schedule()
    log().add([answer(text)])
    assert schedule() == SCHEDULE
    true_render = c.render

    def render(kernels: Any, *arguments: Any, **named: Any) -> str:
        return true_render(kernels, *arguments, **named) + "/* as a later version has it */\n"

    # Other code for the same kernel: the answer is a hint.
    with monkeypatch.context() as patch, configure(disk_cache=False):
        patch.setattr("smelt.render.render", render)
        assert schedule() == default
        assert "chosen: it is not what was measured" in explained().refused
        log().add([answer(text)])  # measured once more
        assert schedule() == SCHEDULE


def test_a_new_measurement_of_a_stale_answer_is_seen_by_stored_graphs() -> None:
    text = region()
    right = answer(text)
    log().add([right._replace(answer=right.answer._replace(source="0" * 32))])
    assert schedule() != SCHEDULE
    log().add([right])
    assert schedule() == SCHEDULE


@pytest.mark.parametrize(
    "hostile",
    [
        "split nowhere (4 lane)",
        "no action at all",
        'prefetch 1 1 "); system(\\"x\\"); (\\""',
        "split i0 (4000000 reg)",
        "split i0 (9999999 loop, 60 reg)\nunroll i0.1 9999999",
        "grain 9999999",
    ],
)
def test_a_hostile_answer_is_passed_over(hostile: str) -> None:
    record = answer(region())
    log().add([record._replace(answer=Answer(hostile, "same", "0" * 32))])
    assert hostile not in schedule()


def test_names_of_a_record_do_not_reach_the_source() -> None:
    text = region().replace("b0", '"b0; system(x)"')
    source = CPU().render([dataclasses.replace(lower(parse_region(text)), name="k0")])
    assert "system" not in source


def test_a_process_reads_the_log_once_and_again_when_told() -> None:
    text, tuned = region(), Tuned()
    question = Question.of(text).digest
    assert tuned.ask(CPU(), question) is None
    log().add([answer(text)])
    assert tuned.ask(CPU(), question) is None
    tuned.refresh()
    said = tuned.ask(CPU(), question)
    assert said is not None and said.startswith(SCHEDULE + "\nmeasured as ")
    assert tuned.ask(CPU(), "0" * 32) is None


def test_the_index_is_found_again_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    text = region()
    question = Question.of(text).digest
    log().add([*(sample(k) for k in range(50)), answer(text)])
    assert Tuned().ask(CPU(), question)
    index = log().root / "index" / ("0" * 32)
    before = index.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("smelt.search.index.make", None)  # nobody asks for them
        assert Tuned().ask(CPU(), question)
    index.write_bytes(before[:-3])
    with pytest.warns(UserWarning, match="made anew"):
        assert Tuned().ask(CPU(), question)
    assert index.read_bytes() == before
    log().add([answer(text, state="forgotten")])
    assert Tuned().ask(CPU(), question) is None
    assert Tuned().ask(CPU(), sample(7).question.digest) is None  # it is of another place


def test_the_index_of_a_log_that_grows_is_the_one_that_is_made_anew(tmp_path: Path) -> None:
    draw, root, other = random.Random(3), log().root, Log(tmp_path / "other")
    states = ("confirmed", "confirmed", "timed", "refused", "forgotten", "imported", "wrong")
    for turn in range(60):
        some = [sample(draw.randrange(6), draw.choice(states)) for _ in range(draw.randint(1, 4))]
        answers = [Answer(f"grain {draw.randint(1, 3)}", draw.choice(("same", "sums")), "0" * 32) for _ in some]
        log().add(one._replace(answer=its) for one, its in zip(some, answers, strict=True))
        if turn % 9 == 8:
            log().compact()
        if turn % 5 == 4:
            with log().path.open("ab") as file:  # a line that is torn, or still being written
                file.write(b"torn")
        if turn % 7 == 6:
            Answers(root)
            log().path.write_bytes(log().path.read_bytes().replace(b"exp", b"log", 1))  # by somebody else
        if turn % 11 == 10:
            (root / "index" / ("1" * 32)).unlink()
        grown = bytes(Answers(root).rows)
        other.add([sample(0)])
        shutil.rmtree(other.root / "index", ignore_errors=True)
        other.path.write_bytes(log().path.read_bytes())
        assert grown == bytes(Answers(other.root).rows), turn
    assert len(grown) > 0


def test_without_a_log_no_file_is_made(tmp_path: Path) -> None:
    schedule()
    assert not (tmp_path / "data").exists()


def test_kernels_are_measured_under_one_name() -> None:
    kernel = lower(parse_region(region()))
    assert isinstance(kernel, Kernel)
    assert measured_as(CPU(), kernel) == measured_as(CPU(), dataclasses.replace(kernel, name="other"))
