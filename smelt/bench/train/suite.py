"""The train suite: each case's contenders are screened, smelt meets all that are nearly the fastest, itself without
`jit`, and its bars.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from smelt.bench.contest import Contender, contest
from smelt.bench.cpu.library import installed
from smelt.bench.cpu.suite import THREAD_VARIABLES
from smelt.bench.report import Row
from smelt.bench.timing import ChildError
from smelt.bench.train.cases import CASES

PEERS = ("torch", "torch.compile", "jax")
WITHOUT_JIT = 3.0  # times as long, at most
_TOLERANCE = 2e-3  # of losses, as a share
_SCREENED = 5  # steps
_NEAR = 1.6  # times the fastest at screening, which so few steps do not tell apart

Progress = Callable[[str], None]


def measure_train(
    names: Sequence[str], threads: int, peers: Sequence[str], quick: bool, progress: Progress
) -> list[Row]:
    """For each case: a step against the fastest peer and without `jit`, the first step with a cold and a warm cache."""
    rows: list[Row] = []
    for name in names:
        progress(f"{name}: {CASES[name].summary}")
        with tempfile.TemporaryDirectory(prefix="smelt-bench-") as cache, ExitStack() as stack:
            ring = _Ring(name, threads, cache, stack)
            try:
                rows += _case(ring, name, [peer for peer in peers if installed(peer)], quick, progress)
            except ChildError as error:
                rows.append(Row(name, None, "×", detail=f"smelt: {error}"))
    return rows


class _Ring:
    """Contenders of one case, which share a cache that begins empty."""

    def __init__(self, case: str, threads: int, cache: str, stack: ExitStack) -> None:
        self._case, self._threads, self._stack = case, threads, stack
        self._environment = dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"SMELT_CACHE_DIR": cache}

    def start(self, library: str) -> Contender:
        words = ["smelt.bench.train.contender", library, self._case, str(self._threads)]
        contender = self._stack.enter_context(Contender(words, self._environment))
        if "error" in contender.facts:
            raise ChildError(str(contender.facts["error"]))
        return contender


def _case(ring: _Ring, name: str, peers: Sequence[str], quick: bool, progress: Progress) -> list[Row]:
    case = CASES[name]
    bars = not quick and case.bar > 0
    smelt = ring.start("smelt")
    median = min(smelt.seconds(_SCREENED) for _ in range(3))
    cold = smelt.facts["first"] - median
    notes, times = [], {}
    running: dict[str, Contender] = {}
    for peer in peers:
        progress(f"{name}: {peer}")
        try:
            running[peer] = contender = ring.start(peer)
        except ChildError as error:
            notes.append(f"{peer}: {error}")
            continue
        _check(contender.facts["losses"], smelt.facts["losses"], peer)
        times[peer] = min(contender.seconds(_SCREENED) for _ in range(3))
    rows: list[Row] = []
    most = 5 if quick else 25
    if times:
        near = [peer for peer, seconds in times.items() if seconds <= _NEAR * min(times.values())]
        contests = {peer: contest(smelt, running[peer], most=most) for peer in near}
        fastest = min(contests, key=lambda peer: contests[peer].ratio)
        found = contests[fastest]
        notes += [f"{peer} {contests[peer].ratio:.2f} ×" for peer in near if peer != fastest]
        notes += [f"{peer} {1e3 * seconds:.2f}" for peer, seconds in times.items() if peer not in near]
        detail = f"{1e3 * found.first:.2f} ms against {fastest} {1e3 * found.second:.2f}; {', '.join(notes)}"
        rows.append(Row(f"{name}: step", found.ratio, "×", case.bar if bars else None, at_least=True, detail=detail))
    else:
        detail = f"{1e-9 * case.flops / median:.0f} GFLOP/s"
        rows.append(Row(f"{name}: step", 1e3 * median, "ms", detail=detail))
    plain = ring.start("smelt-plain")
    _check(plain.facts["losses"], smelt.facts["losses"], "without jit")
    against = contest(smelt, plain, most=most)
    rows.append(
        Row(
            f"{name}: without jit",
            against.ratio,
            "×",
            WITHOUT_JIT if bars else None,
            detail=f"{1e3 * against.second:.2f} ms, times as long as with it",
        )
    )
    rows.append(
        Row(f"{name}: first step, cold", cold, "s", case.cold if bars else None, detail="more than other steps")
    )
    warm = ring.start("smelt")
    rows.append(Row(f"{name}: first step, warm", warm.facts["first"] - median, "s", detail="in a new process"))
    return rows


def _check(found: Sequence[float], expected: Sequence[float], who: str) -> None:
    if any(abs(a - b) > _TOLERANCE * max(1.0, abs(b)) for a, b in zip(found, expected, strict=True)):
        raise ChildError(f"{who} has the losses {list(found)}, smelt {list(expected)}")
