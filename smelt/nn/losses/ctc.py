"""Connectionist temporal classification: how likely a text is, given the shares of letters at each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smelt.dtypes import int64
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.nn.losses.checks import floats, reduced, reduction_of, tensor_of, wide
from smelt.tensor import (
    Tensor,
    arange,
    asarray,
    concat,
    cumsum,
    flag,
    full,
    integer,
    stack,
    take,
    take_along_axis,
    where,
)
from smelt.transform.control import scan
from smelt.transform.custom import stop_gradient

IMPOSSIBLE = -1e30  # the logarithm of 0: finite, so that derivatives are


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log-likelihood of texts, over all ways to spread their letters over time.

    `log_probs` has shape (time, batch, letters), or (time, letters) for one text, and holds logarithms of shares.
    Targets have shape (batch, longest), or are all in one vector, one after the other. Lengths are integers, or
    integer tensors, one for each text. Letters may go on for several times, and the letter `blank` stands between.
    A text that does not fit into its time has an infinite loss, or with `zero_infinity` none. "mean" divides each loss
    by the length of its text first.

    >>> import smelt as sm
    >>> even = sm.full((4, 1, 3), 1 / 3).log()
    >>> round(sm.nn.losses.ctc_loss(even, sm.asarray([[1, 2]]), (4,), (2,), reduction="sum").item(), 4)
    1.6864
    """
    name = "ctc_loss"
    reduction_of(reduction, name)
    scores = floats(log_probs, name, "log_probs")
    if scores.ndim not in (2, 3):
        raise ShapeError(
            f"{name}: log_probs has shape {shape_text(scores.shape)}", rule="it must be (time, batch, letters)."
        )
    labels = tensor_of(targets, name, "targets")
    if not labels.dtype.is_integer:
        raise DTypeError(f"{name}: targets is {labels.dtype}", rule="it must be integers: numbers of letters.")
    letters = scores.shape[-1]
    if not 0 <= integer(blank, name, "blank") < letters:
        raise ArgumentError(f"{name}: blank is {blank}", rule=f"it must be one of the {letters} letters.")
    single = scores.ndim == 2
    batched = scores.expand_dims(1) if single else scores
    batch = batched.shape[1]
    times = _lengths(input_lengths, batch, name, "input_lengths")
    sizes = _lengths(target_lengths, batch, name, "target_lengths")
    texts = _texts(labels, target_lengths, sizes, batch, name)
    losses = -_likelihoods(wide(batched), texts, times, sizes, blank)
    lost = losses > -0.5 * IMPOSSIBLE
    losses = where(lost, 0.0 if flag(zero_infinity, name, "zero_infinity") else math.inf, losses)
    if reduction == "mean":
        losses = losses / sizes.clip(min=1).astype(losses.dtype)
    losses = losses.astype(scores.dtype)
    return reduced(losses.squeeze(0) if single else losses, reduction)


def _likelihoods(scores: Tensor, texts: Tensor, times: Tensor, sizes: Tensor, blank: int) -> Tensor:
    """The logarithms of the likelihoods of texts, by the forward recursion over (blank, letter, blank, ..., blank)."""
    batch, longest = texts.shape
    between = full((batch, longest), blank, dtype=texts.dtype)
    places = concat([stack([between, texts], axis=2).reshape((batch, 2 * longest)), between[:, :1]], axis=1)
    places = places if longest else full((batch, 1), blank, dtype=texts.dtype)
    number = arange(places.shape[1], dtype=int64)
    # A letter may follow the one before the last blank, unless both are the same.
    skips = (number >= 2) & (number % 2 == 1) & (places != _shifted(places, 2, -1))
    started = where(number == 0, 0.0, IMPOSSIBLE).astype(scores.dtype).broadcast_to(places.shape)

    def step(paths: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        shares, time = now
        # Before the first time there is only the place in front of the first blank, from where both it and the first
        # letter can be reached: a step of 0 or 1 from place 0.
        one, two = _shifted(paths, 1, IMPOSSIBLE), where(skips, _shifted(paths, 2, IMPOSSIBLE), IMPOSSIBLE)
        largest = stop_gradient(paths.maximum(one).maximum(two))
        total = (paths - largest).exp() + (one - largest).exp() + (two - largest).exp()
        reached = largest + total.log() + take_along_axis(shares, places, 1)
        return where((time < times).expand_dims(1), reached.clip(min=2 * IMPOSSIBLE), paths), None

    moments = arange(scores.shape[0], dtype=int64)
    paths, _ = scan(step, started, (scores.clip(min=IMPOSSIBLE), moments))
    ends = (2 * sizes).expand_dims(1)
    last, before = (take_along_axis(paths, ends.clip(min=k) - k, 1).squeeze(1) for k in (0, 1))
    before = where(sizes > 0, before, IMPOSSIBLE)
    largest = stop_gradient(last.maximum(before))
    total: Tensor = largest + ((last - largest).exp() + (before - largest).exp()).log()
    return total


def _shifted(x: Tensor, by: int, value: float) -> Tensor:
    """Rows moved to the right; what comes in is one value."""
    columns = x.shape[1]
    head = full((x.shape[0], min(by, columns)), value, dtype=x.dtype)
    return concat([head, x[:, : max(0, columns - by)]], axis=1)


def _lengths(value: Any, batch: Any, name: str, what: str) -> Tensor:
    """One integer for each text."""
    lengths = value if isinstance(value, Tensor) else asarray(value)
    if not lengths.dtype.is_integer:
        raise DTypeError(f"{name}: {what} is {lengths.dtype}", rule="it must be integers.")
    if lengths.ndim == 0:
        lengths = lengths.expand_dims(0)
    if lengths.shape != (batch,):
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(lengths.shape)}", rule=f"it must be one for each of {batch} texts."
        )
    return lengths.astype(int64)


def _texts(labels: Tensor, given: Any, sizes: Tensor, batch: Any, name: str) -> Tensor:
    """The targets as (batch, longest)."""
    texts = labels.astype(int64)
    if labels.ndim == 2:
        if labels.shape[0] != batch:
            raise ShapeError(f"{name}: targets has {labels.shape[0]} rows", rule=f"there are {batch} texts.")
        return texts
    if labels.ndim != 1:
        raise ShapeError(f"{name}: targets has shape {shape_text(labels.shape)}", rule="it must be (batch, longest).")
    longest = max(given, default=0) if isinstance(given, Sequence) else labels.shape[0]
    starts = cumsum(sizes, 0) - sizes
    places = starts.expand_dims(1) + arange(longest, dtype=int64)
    return take(texts, places.clip(0, max(0, labels.shape[0] - 1)), axis=0)
