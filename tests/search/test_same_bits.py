"""With `tuned="same-bits"` results are bit for bit those of a machine where nobody has tuned, whatever was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.device.cpu import CPU
from smelt.runtime import Runtime
from smelt.schedule import Candidate
from smelt.search.contender import Contender
from smelt.search.log import Log, user_log
from smelt.search.record import Answer, Place, Question
from smelt.search.selftest.samples import sample
from smelt.tuning import Watched, watching
from smelt.tuning.programs import questions
from tests.op_table import FAMILIES
from tests.property.programs import Array, random_program
from tests.test_op_table import cases

TABLE = ("reductions", "norms", "scans", "products", "layers")
EVERY = 2  # one function in so many of a family
STEPS = 100  # of training


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> Iterator[None]:
    with configure(cache_dir=tmp_path / "cache", disk_cache=True, data_dir=tmp_path / "data"):
        yield


def table() -> list[Array]:
    """Of some functions of the op table, what they give for their first samples."""
    specs = [spec for family in TABLE for spec in FAMILIES[family][::EVERY] if sm.float32 in spec.dtypes]
    found = [case for spec in specs for case in cases(spec, spec.samples(sm.float32)[:1], sm.float32)]
    sm.realize(*(case.tensor for case in found))
    return [case.tensor.numpy() for case in found]


def programs() -> list[Array]:
    """Random programs of twelve steps."""
    made = [random_program(seed, 12, exact=False).tensors[-1] for seed in range(8)]
    sm.realize(*made)
    return [tensor.numpy() for tensor in made]


def training() -> list[Array]:
    """A network that learns, for so many steps: a single bit that differs would grow."""
    draw = np.random.default_rng(0)
    x, y = (sm.asarray(draw.normal(size=shape).astype(np.float32)) for shape in ((64, 50), (64, 10)))
    weights = [sm.asarray(0.1 * draw.normal(size=shape).astype(np.float32)) for shape in ((50, 70), (70, 10))]

    def loss(first: sm.Tensor, second: sm.Tensor) -> sm.Tensor:
        return (((x @ first).tanh() @ second - y) ** 2).mean()

    @sm.jit
    def step(first: sm.Tensor, second: sm.Tensor) -> tuple[sm.Tensor, ...]:
        grads = sm.grad(loss, argnums=(0, 1))(first, second)
        return tuple(w - 0.05 * g for w, g in zip((first, second), grads, strict=True))

    for _ in range(STEPS):
        weights = list(step(*weights))
    return [w.numpy() for w in weights]


def computed() -> list[bytes]:
    """The bits of everything, in a process that knows nothing but what is on disk."""
    with runtime.using(Runtime()):
        return [array.tobytes() for run in (table, programs, training) for array in run()]


def log() -> Log:
    found = user_log()
    assert found is not None
    return found


def test_answers_that_change_bits_are_used_only_where_that_is_allowed() -> None:
    with runtime.using(Runtime()), watching(Watched()) as watched:
        expected = [array.tobytes() for run in (table, programs, training) for array in run()]
        asked = list(questions(watched.programs.values()))
    # No actions at all are a schedule of every region: one element after the other.
    others = [Contender.of(Candidate("other", one.region, ()), one.region, CPU()) for one in asked]
    log().add(
        sample(0)._replace(
            question=Question.of(one.text), place=Place.of(CPU()), answer=Answer(other.schedule, "sums", other.digest)
        )
        for one, other in zip(asked, others, strict=True)
    )
    assert len(log().load().records) == len(asked) > 20
    with configure(tuned="same-bits"):
        assert computed() == expected
    with runtime.using(Runtime()) as fresh:  # they are answers, and they are used
        found = [array.tobytes() for array in (*table(), *programs(), *training())]
        graphs = list(fresh.graphs.values())
    plain = sum(kernel.schedule == "" for graph in graphs for kernel in graph.kernels)
    assert plain > len(asked) / 2
    differ = sum(a != b for a, b in zip(expected, found, strict=True))
    assert differ, "other sums have other bits"
