"""Run one program in smelt and in JAX; say what differs, and which steps are enough for it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm
from tests.peers.programs import Array, Program, drawn

TOLERANCE = 1e-8


class Pair(NamedTuple):
    what: str
    got: Any  # smelt's
    expected: Any  # the peer's


Check = Callable[[Program], Iterable[Pair]]


def tangents(program: Program) -> list[Array]:
    return [drawn(program.seed, 100 + k, x.shape, -1, 1) for k, x in enumerate(program.inputs)]


def batches(program: Program, count: int = 3) -> list[Array]:
    """The inputs and others near them, along a new first axis."""
    return [
        x + drawn(program.seed, 200 + k, (count, *x.shape), -0.1, 0.1) * np.arange(count).reshape(-1, *[1] * x.ndim)
        for k, x in enumerate(program.inputs)
    ]


def in_smelt(arrays: Iterable[Array]) -> tuple[sm.Tensor, ...]:
    return tuple(sm.asarray(array) for array in arrays)


def agree(check: Check, program: Program) -> None:
    """Fail with a short part of the program that differs."""
    wrong = difference(check, program)
    if wrong is None:
        return
    for shorter in map(program.shortened, range(1, len(program.steps))):
        found = difference(check, shorter)
        if found is not None:
            program, wrong = shorter, found
            break
    for number in reversed(range(len(program.inputs), len(program.shapes))):
        if number not in program.unused():
            continue
        shorter = program.without(number)
        found = difference(check, shorter)
        if found is not None:
            program, wrong = shorter, found
    pytest.fail(f"seed {program.seed}, with these steps of it:\n{program}\n{wrong}", pytrace=False)


def difference(check: Check, program: Program) -> str | None:
    try:
        pairs = list(check(program))
    except Exception:
        return traceback.format_exc()
    return next((found for pair in pairs if (found := described(pair)) is not None), None)


def described(pair: Pair) -> str | None:
    """Where two arrays differ the most, if they do."""
    got, expected = np.asarray(pair.got), np.asarray(pair.expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{pair.what}: {got.dtype}{list(got.shape)}, not {expected.dtype}{list(expected.shape)}"
    assert np.isfinite(expected).all(), f"{pair.what} is not finite in the peer: the generator should avoid that"
    if not got.size:
        return None
    scale = max(1.0, float(np.abs(expected).max()))
    error = np.where(np.isfinite(got), np.abs(got - expected), np.inf)
    if (error <= TOLERANCE * scale).all():
        return None
    at = tuple(int(k) for k in np.unravel_index(np.argmax(error), error.shape))
    count = int((error > TOLERANCE * scale).sum())
    return f"{pair.what}: {count} of {got.size} differ, most at {at}: {got[at]!r}, not {expected[at]!r}"
