"""The train suite: each case's contenders are screened, smelt meets all that are nearly the fastest, itself without
`jit`, and its bars.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from smelt.bench.contest import Contender, alone, contest
from smelt.bench.cpu.library import installed
from smelt.bench.cpu.suite import THREAD_VARIABLES, Asked, machine_report
from smelt.bench.models import error_norms
from smelt.bench.report import Report, Row, time_text
from smelt.bench.roof import Roof
from smelt.bench.timing import ChildError
from smelt.bench.train.cases import CASES
from smelt.bench.tuning import task

PEERS = ("torch", "torch.compile", "jax")
WITHOUT_JIT = 3.0  # times as long, at most
EXACT = "torch.float64"  # whose losses are what those of the others are held against, where it is installed
_TOLERANCE = 2e-3  # of losses, as a share
_SCREENED = 5  # steps
_NEAR = 1.6  # times the fastest at screening, which so few steps do not tell apart


def measure_train(names: Sequence[str], asked: Asked) -> Report:
    """For each case: a step against the fastest peer and without `jit`, the first step with a cold and a warm cache."""
    threads = max(asked.threads)
    found = machine_report(replace(asked, threads=[threads]))
    for name in names:
        asked.progress(f"{name}: {CASES[name].summary}")
        # Compilers of others may still be at work there when it goes.
        kept = tempfile.TemporaryDirectory(prefix="smelt-bench-", ignore_cleanup_errors=True)
        with kept as cache, ExitStack() as stack:
            ring = _Ring(name, threads, cache, stack, asked.choices(cache))
            try:
                tuned = ring.tune(asked.tune) if asked.tune else ""
                step, *others = _case(ring, name, asked, found.roofs[0])
                found.rows += [replace(step, detail="; ".join(filter(None, (tuned, step.detail)))), *others]
            except ChildError as error:
                found.rows.append(Row(name, None, "×", detail=f"smelt: {error}"))
    return found


class _Ring:
    """Contenders of one case, which share caches that begin empty."""

    def __init__(self, case: str, threads: int, cache: str, stack: ExitStack, more: Mapping[str, str]) -> None:
        self._case, self._threads, self._stack = case, threads, stack
        caches = {"SMELT_CACHE_DIR": f"{cache}/smelt", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
        self._environment = dict.fromkeys(THREAD_VARIABLES, str(threads)) | caches | dict(more)

    def tune(self, budget: str) -> str:
        """Search for faster choices, which smelt's contenders use from now on; gives what is to be said of it."""
        options = {"case": self._case, "budget": budget, "threads": self._threads}
        found = task("tune_training", options, self._environment)
        return f"tuned for {found['seconds']:.1f} s: {len(found['changed']) or 'no'} kernels changed"

    def start(self, library: str) -> Contender:
        words = ["smelt.bench.train.contender", library, self._case, str(self._threads)]
        contender = self._stack.enter_context(Contender(words, self._environment))
        if "error" in contender.facts:
            raise ChildError(str(contender.facts["error"]))
        return contender


def _case(ring: _Ring, name: str, asked: Asked, roof: Roof) -> list[Row]:
    case, most = CASES[name], 5 if asked.quick else 25
    bars = not asked.quick and case.bar > 0
    smelt = ring.start("smelt")
    median = min(smelt.seconds(_SCREENED) for _ in range(3))
    first = _step(ring, name, smelt, asked, roof)
    plain = ring.start("smelt-plain")
    check_losses(plain.facts["losses"], smelt.facts["losses"], "without jit")
    against = contest(smelt, plain, most=most)
    warm = ring.start("smelt").facts["first"]
    without = f"{time_text(against.second.median)}, times as long as with it"
    cold = smelt.facts["first"] - median
    return [
        replace(first, bar=case.bar if bars and first.unit == "×" else None),
        Row(f"{name}: without jit", against.ratio.median, "×", WITHOUT_JIT if bars else None, detail=without),
        Row(f"{name}: first step, cold", cold, "s", case.cold if bars else None, detail="more than other steps"),
        Row(f"{name}: first step, warm", warm - median, "s", detail="in a new process"),
    ]


def _step(ring: _Ring, name: str, smelt: Contender, asked: Asked, roof: Roof) -> Row:
    """A step against all peers that are nearly the fastest."""
    case, most = CASES[name], 5 if asked.quick else 25
    running, times, notes = _screen(ring, name, smelt, asked)
    if times:
        near = [peer for peer, seconds in times.items() if seconds <= _NEAR * min(times.values())]
        contests = {peer: contest(smelt, running[peer], most=most) for peer in near}
        fastest = min(contests, key=lambda peer: contests[peer].ratio.median)
        found = contests[fastest]
        notes += [f"{peer} {contests[peer].ratio.median:.2f} ×" for peer in near if peer != fastest]
        notes += [f"{peer} {time_text(seconds)}" for peer, seconds in times.items() if peer not in near]
        notes = [f"against {time_text(found.second.median)} ({fastest})", *notes]
    else:
        found, fastest, notes = alone(smelt, most=most), "", ["nobody to compete with", *notes]
    facts = smelt.facts
    measured = found.measured(
        threads=roof.threads,
        against=fastest,
        flops=case.flops,
        nbytes=facts["nbytes"],
        roof=roof.share(found.first.median, case.flops, facts["nbytes"]),
        errors=_errors(ring, facts["losses"]),
        memory=facts["memory"],
        first=facts["first"],
        peers={peer: {"seconds": seconds} | _facts(running[peer]) for peer, seconds in times.items()},
    )
    detail = "; ".join([*notes, case.summary])
    if not times:
        return Row(f"{name}: step", found.first.median, "ms", detail=detail, measured=replace(measured, ratio=None))
    return Row(f"{name}: step", found.ratio.median, "×", at_least=True, detail=detail, measured=measured)


def _screen(
    ring: _Ring, name: str, smelt: Contender, asked: Asked
) -> tuple[dict[str, Contender], dict[str, float], list[str]]:
    """The peers that run, their seconds, and what is to be said of others."""
    running: dict[str, Contender] = {}
    times: dict[str, float] = {}
    notes: list[str] = []
    able = {name.partition(".")[0] for name in PEERS}
    for peer in (peer for peer in asked.peers if peer.partition(".")[0] in able and installed(peer)):
        asked.progress(f"{name}: {peer}")
        try:
            running[peer] = contender = ring.start(peer)
        except ChildError as error:
            notes.append(f"{peer}: {error}")
            continue
        check_losses(contender.facts["losses"], smelt.facts["losses"], peer)
        times[peer] = min(contender.seconds(_SCREENED) for _ in range(3))
    return running, times, notes


def _facts(contender: Contender) -> dict[str, Any]:
    return {key: contender.facts[key] for key in ("first", "memory")}


def _errors(ring: _Ring, losses: Sequence[float]) -> dict[str, float] | None:
    """How far the losses are from those of another library in float64."""
    if not installed(EXACT):
        return None
    return error_norms(np.asarray(losses), np.asarray(ring.start(EXACT).facts["losses"]))


def check_losses(found: Sequence[float], expected: Sequence[float], who: str) -> None:
    """Refuse those that are not the same training."""
    if any(abs(a - b) > _TOLERANCE * max(1.0, abs(b)) for a, b in zip(found, expected, strict=True)):
        raise ChildError(f"{who} has the losses {list(found)}, smelt {list(expected)}")
