"""A whole training step of a transformer, as it is compiled: what it stores, and that nothing is stored in vain.

How much is stored is linear in the number of layers, since it is the same for each.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.bench.models import Transformer, forward, parameters
from smelt.compiler import driver
from smelt.device.protocol import Launch
from smelt.plan import ARENA, GraphRecord, KernelRecord, Placed
from smelt.transform.jit import Jit

BATCH, LENGTH, WIDTH, HEADS, CLASSES = 2, 256, 24, 2, 61
# The largest activation that may be stored is the hidden layer of a perceptron; the scores of one head are larger.
SCORES = LENGTH * LENGTH
assert BATCH * LENGTH * 4 * WIDTH < SCORES

MOVES = {"load", "const", "index", "mask", "cast", "where", "bitcast"}  # what computes nothing


def adam_step(layers: int) -> tuple[Any, tuple[Any, ...]]:
    """The step as a function, and its arguments."""
    size = Transformer(layers, WIDTH, HEADS, LENGTH, CLASSES)
    weights = {name: sm.from_numpy(x) for name, x in parameters(size).items()}
    tokens = sm.asarray(np.random.default_rng(0).integers(0, CLASSES, (BATCH, LENGTH)))

    def loss(w: dict[str, sm.Tensor], x: sm.Tensor, labels: sm.Tensor) -> sm.Tensor:
        logits = forward(w, w["tokens"][x], layers, HEADS)
        return sm.cross_entropy(logits.reshape((-1, CLASSES)), labels.reshape((-1,)))

    def step(w: Any, m: Any, v: Any, t: sm.Tensor, x: sm.Tensor, labels: sm.Tensor) -> Any:
        value, slopes = sm.value_and_grad(loss)(w, x, labels)
        t = t + 1
        m = {k: 0.9 * m[k] + 0.1 * g for k, g in slopes.items()}
        v = {k: 0.999 * v[k] + 0.001 * g * g for k, g in slopes.items()}
        rates = {k: (m[k] / (1 - 0.9**t)) / ((v[k] / (1 - 0.999**t)).sqrt() + 1e-8) for k in slopes}
        return {k: w[k] - 1e-3 * rates[k] for k in w}, m, v, t, value

    zeros = {name: sm.zeros(x.shape).realize() for name, x in weights.items()}
    return step, (weights, zeros, dict(zeros), sm.asarray(0.0), tokens, sm.roll(tokens, -1, 1).realize())


@dataclass(frozen=True)
class Compiled:
    """A compiled graph by its launches and the values that they touch."""

    record: GraphRecord

    @property
    def kernels(self) -> list[KernelRecord]:
        return list(self.record.kernels)

    @property
    def stored(self) -> list[Placed]:
        return list(self.record.layout)

    def held(self) -> list[Placed]:
        """What is there when the way back begins: after the logits."""
        [end] = [p.first for p in self.stored if p.text.endswith(f"float32[{BATCH}, {LENGTH}, {CLASSES}]>")]
        return [placed for placed in self.stored if placed.first <= end < placed.last]

    def launches(self) -> Iterator[tuple[Launch, KernelRecord, list[Any], list[Any]]]:
        """Each launch with what it writes and what it reads."""
        for k, (launch, kernel) in enumerate(zip(self.record.launches, self.kernels, strict=True)):
            assert isinstance(launch, Launch)
            count = max(1, kernel.region.count("\noutput "))
            written = [self.value(slot, k, written=True) for slot in launch.buffers[:count]]
            yield launch, kernel, written, [self.value(slot, k, written=False) for slot in launch.buffers[count:]]

    def value(self, slot: int, launch: int, written: bool) -> Any:
        """What lies behind a slot: an intermediate, or a place outside of the arena."""
        base, offset = self.record.slots[slot]
        if base != ARENA:
            return base, offset
        # A part of a concat begins somewhere inside.
        alive = [p for p in self.stored if p.first <= launch <= p.last and 0 <= offset - p.offset < p.nbytes]
        [found] = [p for p in alive if (p.first == launch) == written] or alive
        return found


@pytest.fixture(scope="module", params=[2, pytest.param(12, marks=pytest.mark.slow)])
def layers(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def compiled(layers: int) -> Compiled:
    step, arguments = adam_step(layers)
    records: list[GraphRecord] = []
    with pytest.MonkeyPatch.context() as patch:
        assemble = driver.assemble
        patch.setattr(driver, "assemble", lambda record, *rest: records.append(record) or assemble(record, *rest))
        runtime.current().compiler.compile(*Jit(step).graph_key(*arguments), explain=True)
    return Compiled(records[-1])


@pytest.mark.by_turns(4)
def test_nothing_is_as_large_as_the_scores_of_one_head(compiled: Compiled) -> None:
    assert all(placed.nbytes < 4 * SCORES for placed in compiled.stored)
    buffers = [line for kernel in compiled.kernels for line in kernel.ir.splitlines()]
    sizes = [re.match(r"(?:argument|local) \w+ \w+ \[([\d, ]*)\]", line) for line in buffers]
    counts = [math.prod(int(size) for size in found[1].split(", ") if size) for found in sizes if found is not None]
    assert len(counts) > len(compiled.kernels)
    assert max(counts) < SCORES


def test_no_launch_only_moves_values(compiled: Compiled) -> None:
    for kernel in compiled.kernels:
        if kernel.form.startswith("series: "):  # small kernels that move values cost no launch there
            continue
        computed = set(re.findall(r"^%\d+: \w+ = (\w+)", kernel.region, re.MULTILINE)) - MOVES
        assert computed or kernel.sink.endswith("[]>") or kernel.nodes == ("scatter",), kernel.region


def test_no_value_is_stored_twice_or_for_nobody(compiled: Compiled) -> None:
    made = Counter(
        (launch.library, launch.kernel, *read, *launch.integers) for launch, _, _, read in compiled.launches()
    )
    assert max(made.values()) == 1
    read = {value for *_, values in compiled.launches() for value in values}
    assert all(placed in read for placed in compiled.stored)


def test_what_the_way_back_is_handed(compiled: Compiled, layers: int) -> None:
    """What has to be kept, in each layer:

    - both norms: their input, its mean, and their result, the operand of the product that follows, by which the
      gradient of that product's weight is computed (what else they need is computed again);
    - queries, keys and values, side by side as their product leaves them; what attention gives, and one number per
      query and head, the logarithm of its sum of exponentials;
    - the hidden layer of the perceptron before and after its activation: the slope needs the one, the gradient of the
      second weight the other.

    After the last layer: the final norm's three, and the logits. From before the first: which tokens were looked up.
    """
    logits = f"float32[{BATCH}, {LENGTH}, {CLASSES}]"
    texts = [re.sub(r".* (\w+\[.*\])>", r"\1", placed.text) for placed in compiled.held()]
    held = Counter(text for text in texts if not text.endswith("[]"))  # but numbers
    rows = f"{BATCH}, {LENGTH}"
    each = {
        f"float32[{rows}, {WIDTH}]": 4,
        f"float32[{rows}]": 2,
        f"float32[{rows}, {3 * WIDTH}]": 1,
        f"float32[{BATCH}, {HEADS}, {LENGTH}, {WIDTH // HEADS}]": 1,
        f"float32[{BATCH}, {HEADS}, {LENGTH}, 1]": 1,
        f"float32[{rows}, {4 * WIDTH}]": 2,
    }
    expected = Counter({text: layers * count for text, count in each.items()})
    expected.update({f"float32[{rows}, {WIDTH}]": 2, f"float32[{rows}]": 1, logits: 1, f"int64[{rows}]": 1})
    assert held == expected


def test_every_update_is_written_over_what_it_replaces(compiled: Compiled, layers: int) -> None:
    assert len(compiled.record.in_place) == 3 * (4 + 12 * layers)


def test_the_way_back_lives_on_what_it_frees(compiled: Compiled) -> None:
    """Every update runs as soon as it can, so that its operands make room."""
    largest = max(placed.nbytes for placed in compiled.stored)
    assert compiled.record.arena_bytes < sum(placed.nbytes for placed in compiled.held()) + largest
