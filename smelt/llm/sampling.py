"""Which token comes next: logits to tokens, as tensor code over a batch of rows.

In this order, as llama.cpp does it: penalties and biases, top-k, top-p, min-p, temperature. A draw is a function of the
row's own logits, its seed and its position alone, so that a request gives the same tokens alone, in a batch and after a
part of it was found in the cache. Always holds: a token whose bias is minus infinity is never chosen while another is
left.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import ArgumentError

CANDIDATES: Final = 256  # the most likely tokens, which nearly always hold all that may be drawn
MOST_LOGPROBS: Final = 20
_ENDLESS: Final = 2**31 - 1

# name: least, most (both allowed)
_RANGES: Final = {
    "temperature": (0.0, 100.0),
    "top_k": (0, _ENDLESS),
    "top_p": (1e-6, 1.0),
    "min_p": (0.0, 1.0),
    "repetition": (0.01, 100.0),
    "presence": (-2.0, 2.0),
    "frequency": (-2.0, 2.0),
    "seed": (0, 2**64 - 1),
    "logprobs": (0, MOST_LOGPROBS),
}


@dataclass(frozen=True)
class Sampling:
    """How the tokens of one request are chosen. Temperature 0 takes the most likely one.

    `repetition` divides (or, below zero, multiplies) the logits of all tokens of prompt and answer; `presence` and
    `frequency` are taken off those of the answer, once and for each time. `bias` is added to logits by token.
    `logprobs` asks for the log-probabilities of so many most likely tokens, and of the chosen one.

    >>> Sampling(temperature=0.7, top_p=0.9, seed=1).top_p
    0.9
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    seed: int = 0
    bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:  # NaN is nowhere
                raise ArgumentError(f"{name} is {value}", rule=f"it is at least {least} and at most {most}.")

    @property
    def adjusts(self) -> bool:
        """Whether logits are changed before anything is chosen."""
        return bool(self.bias) or self.repetition != 1 or self.presence != 0 or self.frequency != 0


GREEDY: Final = Sampling(temperature=0.0)


class Choice(NamedTuple):
    """A token; with log-probabilities where they were asked for: its own, and those of the most likely ones."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


# --- tensor code; all arguments are over the batch


def adjusted(logits: Any, bias: Any, seen: Any, written: Any, controls: Any) -> Any:
    """Logits with penalties and biases. `controls` are rows of repetition, presence and frequency penalties; neutral
    ones change no bit.
    """
    repetition, presence, frequency = (controls[:, k : k + 1] for k in range(3))
    repeated = sm.where(logits > 0, logits / repetition, logits * repetition)
    x = sm.where(seen, repeated, logits)
    return x - sm.where(written > 0, presence, 0.0) - frequency * written + bias


def greedy(logits: Any) -> Any:
    """The most likely token of each row; the first of equal ones."""
    return sm.argmax(logits, axis=-1).astype(sm.int32)


def drawn(logits: Any, controls: Any, top_k: Any, keys: Any, positions: Any, candidates: int) -> tuple[Any, Any]:
    """A token for each row by one random number, and whether the candidates held all that could have been drawn.

    `controls` are rows of top-p, the logarithm of min-p, and temperature.
    """
    top_p, log_min_p, temperature = (controls[:, k : k + 1] for k in range(3))
    values, tokens = sm.topk(logits, candidates)
    shares = sm.exp(values - sm.logsumexp(logits, axis=-1, keepdims=True))
    before = sm.cumsum(shares, axis=-1) - shares  # of the first it is exactly zero, so that one is always left
    floor = values[:, :1] + log_min_p
    ranks = sm.arange(candidates, dtype=sm.int32)
    keep = (ranks < top_k[:, None]) & (before < top_p) & (values >= floor)
    weights = sm.where(keep, sm.exp((values - values[:, :1]) / temperature), 0.0)
    sums = sm.cumsum(weights, axis=-1)
    chance = sm.vmap(lambda key, position: sm.random.uniform((), key=sm.random.fold_in(key, position)))(keys, positions)
    at = (sums <= chance[:, None] * sums[:, -1:]).sum(axis=-1)
    at = sm.minimum(at, keep.sum(axis=-1) - 1)
    token = sm.take_along_axis(tokens, at[:, None], axis=-1)[:, 0]
    settled = (top_k <= candidates) | ~keep[:, -1]
    return token.astype(sm.int32), settled | (candidates == logits.shape[-1])


def logprobs(logits: Any, tokens: Any) -> tuple[Any, Any, Any]:
    """Log-probabilities of one token of each row, and of the most likely ones with their numbers."""
    total = sm.logsumexp(logits, axis=-1, keepdims=True)
    values, indices = sm.topk(logits, min(MOST_LOGPROBS, logits.shape[-1]))
    own = sm.take_along_axis(logits, tokens[:, None], axis=-1)
    return (own - total)[:, 0], values - total, indices


@functools.cache
def _compiled(function: Callable[..., Any], shape: tuple[int, ...], candidates: int = 0) -> Any:
    """A program for each size of a batch: the sizes are few, and known."""
    return sm.jit(functools.partial(function, candidates=candidates) if candidates else function)


# --- one request, and a batch of them


class Chooser:
    """How one request chooses, with what it has read and written so far, and the tokens that a grammar allows."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int], vocabulary: int) -> None:
        self.sampling = sampling
        self.position = len(prompt)
        self.allowed: NDArray[np.bool_] | None = None  # of the next token; None: all
        self._counts = np.zeros((2, vocabulary), np.float32) if sampling.adjusts else None
        self._bias = np.zeros(vocabulary, np.float32)
        for token, value in sampling.bias.items():
            if not 0 <= token < vocabulary:
                raise ArgumentError(f"bias: there is no token {token}", rule=f"tokens are 0 to {vocabulary - 1}.")
            self._bias[token] = value
        if self._counts is not None:
            self._counts[0, list(prompt)] = 1

    @property
    def adjusts(self) -> bool:
        """Whether logits are changed before the next token is chosen."""
        return self._counts is not None or self.allowed is not None

    def ahead(self, count: int) -> Chooser:
        """The same for `count` tokens later, where nothing but the position matters."""
        later = copy.copy(self)
        later.position += count
        return later

    def accept(self, token: int) -> None:
        """Count a token that was chosen."""
        self.position += 1
        if self._counts is not None:
            self._counts[:, token] += (1, 1)

    def fill(self, row: int, bias: NDArray[Any], seen: NDArray[Any], written: NDArray[Any]) -> None:
        """Write what `adjusted` takes into a row of its arguments."""
        bias[row] = self._bias if self.allowed is None else np.where(self.allowed, self._bias, -np.inf)
        if self._counts is not None:
            seen[row], written[row] = self._counts[0] > 0, self._counts[1]


def choose(logits: Any, choosers: Sequence[Chooser | None]) -> list[Choice | None]:
    """The next token of each row of logits, by the chooser of the row; none for rows without one."""
    rows = [(row, chooser) for row, chooser in enumerate(choosers) if chooser is not None]
    raw, shape = logits, logits.shape
    if any(chooser.adjusts for _, chooser in rows):
        logits = _compiled(adjusted, shape)(logits, *_adjustments(rows, shape))
    tokens = np.zeros(shape[0], np.int32)
    if any(chooser.sampling.temperature == 0 for _, chooser in rows):
        tokens = _compiled(greedy, shape)(logits).numpy().copy()
    random = [(row, chooser) for row, chooser in rows if chooser.sampling.temperature > 0]
    if random:
        arguments = _draws(random, shape[0])
        few = min(CANDIDATES, shape[1])
        found, settled = (result.numpy() for result in _compiled(drawn, shape, few)(logits, *arguments))
        if not all(settled[row] for row, _ in random):
            every, _ = _compiled(drawn, shape, shape[1])(logits, *arguments)
            found = np.where(settled, found, every.numpy())
        for row, _ in random:
            tokens[row] = found[row]
    choices: list[Choice | None] = [None] * len(choosers)
    wanted = any(chooser.sampling.logprobs is not None for _, chooser in rows)
    own = top = indices = None
    if wanted:
        own, top, indices = (part.numpy() for part in _compiled(logprobs, shape)(raw, sm.asarray(tokens)))
    for row, chooser in rows:
        token, count = int(tokens[row]), chooser.sampling.logprobs
        if count is None or own is None or top is None or indices is None:
            choices[row] = Choice(token)
        else:
            pairs = zip(indices[row, :count].tolist(), top[row, :count].tolist(), strict=True)
            choices[row] = Choice(token, float(own[row]), tuple(pairs))
        chooser.accept(token)
    return choices


def _adjustments(rows: Sequence[tuple[int, Chooser]], shape: tuple[int, ...]) -> tuple[Any, ...]:
    bias, written = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    seen, controls = np.zeros(shape, np.bool_), np.tile(np.array([1, 0, 0], np.float32), (shape[0], 1))
    for row, chooser in rows:
        if chooser.adjusts:
            chooser.fill(row, bias, seen, written)
            controls[row] = chooser.sampling.repetition, chooser.sampling.presence, chooser.sampling.frequency
    return tuple(map(sm.asarray, (bias, seen, written, controls)))


def _draws(rows: Sequence[tuple[int, Chooser]], batch: int) -> tuple[Any, ...]:
    controls = np.tile(np.array([math.inf, -math.inf, 1], np.float32), (batch, 1))
    top_k, positions = np.ones(batch, np.int32), np.zeros(batch, np.int32)
    keys = np.zeros((batch, 2), np.uint32)
    for row, chooser in rows:
        sampling = chooser.sampling
        # Sums of shares reach 1 too early by rounding; what should not be cut is not compared.
        top_p = sampling.top_p if sampling.top_p < 1 else math.inf
        controls[row] = top_p, math.log(sampling.min_p) if sampling.min_p else -math.inf, sampling.temperature
        top_k[row] = sampling.top_k or _ENDLESS
        keys[row] = sampling.seed & 0xFFFFFFFF, sampling.seed >> 32
        positions[row] = chooser.position
    return tuple(map(sm.asarray, (controls, top_k, keys, positions)))
