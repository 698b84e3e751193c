"""Programs that are written out by hand, in turn with what the library has for the same: they should be as fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import smelt as sm
from smelt.bench.algebra.contender import rounds
from smelt.bench.contest import Contest
from smelt.bench.core import Measure
from smelt.bench.models import check_close
from smelt.bench.report import Row, time_text

BAR: Final = 0.95  # times as fast as the library's


class Pair(NamedTuple):
    """Both are functions of the same inputs, which `given` makes: small ones for a quick look."""

    summary: str
    contracts: str
    given: Callable[[bool, np.random.Generator], Sequence[Any]]
    by_hand: Callable[..., Any]
    library: Callable[..., Any]


def _floats(generator: np.random.Generator, *shape: int) -> Any:
    return generator.standard_normal(shape, dtype=np.float32)


def _cell_inputs(quick: bool, generator: np.random.Generator) -> list[Any]:
    rows, features = (32, 16) if quick else (256, 128)
    return [_floats(generator, *shape) for shape in ((rows, features), (rows, features), (2 * features, features))]


def _labels(quick: bool, generator: np.random.Generator) -> list[Any]:
    rows, classes = (64, 100) if quick else (1024, 8000)
    labels = generator.integers(0, classes, rows)
    return [_floats(generator, rows, classes), np.where(generator.random(rows) < 0.2, -100, labels)]


def _split_linear(x: sm.Tensor, h: sm.Tensor, weight: sm.Tensor) -> sm.Tensor:
    size = x.shape[1]
    return (x @ weight[:size] + h @ weight[size:]).tanh()


def _masked_likelihood(x: sm.Tensor, labels: sm.Tensor) -> sm.Tensor:
    shifted = x - x.max(axis=-1, keepdims=True)
    logs = shifted - shifted.exp().sum(axis=-1, keepdims=True).log()
    counts = labels != -100
    picked = sm.take_along_axis(logs, sm.where(counts, labels, 0)[:, None], axis=1)[:, 0]
    return -sm.where(counts, picked, 0.0).sum() / counts.sum()


def _largest_share(x: sm.Tensor) -> sm.Tensor:
    powers = (x - x.max(axis=-1, keepdims=True)).exp()
    return (powers / powers.sum(axis=-1, keepdims=True)).argmax(axis=-1)


PAIRS: Final[Mapping[str, Pair]] = {
    "concat_linear": Pair(
        "tanh([x | h] w), and a product for each part, as recurrent cells have it: 256 rows, 128 + 128 features",
        "reassociates",
        _cell_inputs,
        lambda x, h, weight: (sm.concat([x, h], axis=1) @ weight).tanh(),
        _split_linear,
    ),
    "masked_likelihood": Pair(
        "the mean of -log(softmax(x))[i] where i counts, and nn.losses.cross_entropy: 1024 rows, 8000 classes",
        "exact",
        _labels,
        _masked_likelihood,
        sm.nn.losses.cross_entropy,
    ),
    "argmax_softmax": Pair(
        "argmax(softmax(x)), the softmax written out, and argmax(x): 64 rows of 32000",
        "fast",
        lambda quick, generator: [_floats(generator, 64, 1000 if quick else 32000)],
        _largest_share,
        lambda x: x.argmax(axis=-1),
    ),
}


def measure_pair(name: str, quick: bool) -> list[Row]:
    """How many times as fast as the library's it is by hand."""
    pair = PAIRS[name]
    inputs = [sm.asarray(array) for array in pair.given(quick, np.random.default_rng(0))]
    by_hand, library = (sm.jit(function, contracts=pair.contracts) for function in (pair.by_hand, pair.library))
    first, second = (np.asarray(f(*inputs).numpy(), np.float64) for f in (by_hand, library))
    check_close(first, second)
    met = Contest(rounds((lambda: by_hand(*inputs), lambda: library(*inputs)), quick))
    times = f"by hand {time_text(met.first.median)}, the library's {time_text(met.second.median)}"
    bar = None if quick else BAR
    return [Row(name, met.ratio.median, "×", bar, at_least=True, detail=f"{times}; contracts={pair.contracts}")]


MEASURES: Final = {name: Measure(pair.summary, partial(measure_pair, name)) for name, pair in PAIRS.items()}
