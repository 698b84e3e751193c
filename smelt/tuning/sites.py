"""Whole programs cut into kernels otherwise: which sites are worth a try, and which make the program faster.

A site is tried in the program itself. The graph is compiled with the other way, its results are compared with those of
the way that is in use, on the program's own inputs, and then the two take turns at its calls. What wins is the
incumbent for the sites after it.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smelt import runtime
from smelt.compiler import MEASURED_AS, CompiledGraph, Compiler, graph_text, kernels_of, other_ways, question_of
from smelt.device import Memory
from smelt.errors import SmeltError
from smelt.fuse import NO_CHOICES, STEPS, Choices, Site, parse_choices, together
from smelt.graph import Op, product_of, upper
from smelt.kernel import Illegal
from smelt.plan import Stored
from smelt.search import race
from smelt.tuning.keeping import Keeper
from smelt.tuning.progress import Say
from smelt.tuning.watching import TURN, WHOLE, WORD, Overlay, Program, Run, Watched

SHARE: Final = 0.3  # of the time of a budget
LEAST_BUDGET: Final = 30.0  # seconds: with less, all of it is for kernels
WORSE: Final = 0.87  # times as fast by the cost model: what is below it is not tried
MEMORY: Final = 1.02  # times as much of it a program may need
FEW: Final = 3  # pairs of calls, after which what is far slower is left
FAR: Final = 0.95  # times as fast
TRIED: Final = 5  # pairs, after which what is not faster is left
PAIRS: Final = 9  # that count
MOST: Final = 200  # pairs
LONG: Final = 1.0  # seconds of a call, of which two pairs have to do to see that it is slower
SECONDS: Final = 0.5  # of calls, before anything is said of short ones
NEAR: Final = 2.0**11  # times the precision of a type that results may differ by, as root mean squares
WIDE: Final = 16  # times that, of the largest element, by which a single one may
_MODELLING: Final = 0.25  # of the time


@dataclass
class Found:
    """A way that was raced: in words, as choices, how much faster the program was, at least and as a median."""

    program: Program
    site: Site
    choices: Choices
    measured: str  # what all its kernels are
    modelled: float
    bits: str = "same"
    ratios: list[float] = field(default_factory=list)
    seconds: float = 0.0  # of a call before
    state: str = "timed"
    reason: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios) if self.ratios else 0.0

    @property
    def low(self) -> float:
        return race.bounds(self.ratios)[0] if self.ratios else 0.0

    @property
    def stored(self) -> bool:
        return self.state == "confirmed"

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "name": f"fusion: {self.site}",
            "choices": str(self.choices),
            "ratio": self.ratio,
            "low": self.low,
            "seconds": self.seconds / (self.ratio or 1.0),
            "before": self.seconds,
            "modelled": self.modelled,
            "bits": self.bits,
            "state": self.state,
            "reason": self.reason,
            "stored": self.stored,
        }


@dataclass(eq=False)
class Duel(Program):
    """Two versions of a program that take turns, when their results were found to agree."""

    first: CompiledGraph | None = None
    verdict: str = ""  # same, sums, or what is wrong
    arenas: dict[int, Memory] = field(default_factory=dict)
    common: list[float] = field(default_factory=list)  # seconds of calls in which both versions do the same

    def __post_init__(self) -> None:
        # What both versions do alike says nothing about them, and is most of the noise.
        assert self.first is not None and self.other is not None
        self.apart = differing(self.first, self.other), differing(self.other, self.first)

    def run(self, bases: bytes, integers: bytes) -> None:
        """Run the version whose turn it is."""
        assert self.first is not None and self.other is not None
        if not self.verdict:
            results = [self.results(which, bases, integers) for which in (0, 1)]
            self.verdict = agreement(*results)
        which = TURN[self.calls % len(TURN)] if self.verdict in ("same", "sums") else 0
        self.calls += 1
        began = time.perf_counter()
        launches = self.launch(which, bases, integers)
        taken = time.perf_counter() - began
        own = sum(launches[number] for number in self.apart[which]) if launches else taken
        self.taken[which].append(own)
        self.common.append(taken - own)

    def ratios(self) -> list[float]:
        """How much faster the other version was, for each pair of calls. What agreement was found by warmed both up."""
        common = statistics.median(self.common) if self.common else 0.0
        return [(common + a) / (common + b) for a, b in zip(*self.taken, strict=False)]

    @property
    def before(self) -> float:
        """Seconds of a call of the first version."""
        return statistics.median(self.common) + statistics.median(self.taken[0]) if self.taken[0] else 0.0

    def launch(self, which: int, bases: bytes, integers: bytes) -> list[float] | None:
        """Run a version in an arena of its own; what each launch took, if that is known."""
        compiled = self.other if which else self.first
        assert compiled is not None and compiled.program is not None
        nbytes = compiled.program.arena_bytes
        if nbytes:
            arena = self.arenas.get(which) or self.arenas.setdefault(which, self.device.allocate(nbytes))
            bases = arena.pointer + bases[WORD:]
        program = compiled.program
        was, program.is_timed = program.is_timed, True
        try:
            program.run(bases, integers)
            self.device.synchronize()
            return program.launch_seconds()
        finally:
            program.is_timed = was

    def results(self, which: int, bases: bytes, integers: bytes) -> list[NDArray[Any]]:
        """What a version computes, into memory of its own: no input is written over."""
        stored = [output for output in self.compiled.outputs if isinstance(output, Stored)]
        memories = [self.device.allocate(output.nbytes) for output in stored]
        start = len(bases) - WORD * len(stored)  # results are the last bases of a program whose homes are known
        self.launch(which, bases[:start] + b"".join(memory.pointer for memory in memories), integers)
        pairs = zip(memories, stored, strict=True)
        return [m.view(o.dtype.numpy, [int(size) for size in o.shape]).copy() for m, o in pairs]  # type: ignore[arg-type]


def differing(version: CompiledGraph, other: CompiledGraph) -> list[int]:
    """The launches of a version that another one, both compiled to be explained, does not have, with those after them,
    which find the caches as these left them.
    """
    there, found = Counter(record.region for record in other.kernels), set[int]()
    for number, record in enumerate(version.kernels):
        there[record.region] -= 1
        if there[record.region] < 0:
            found |= {number, min(number + 1, len(version.kernels) - 1)}
    return sorted(found)


def agreement(first: Sequence[NDArray[Any]], second: Sequence[NDArray[Any]]) -> str:
    """Whether results are the `same` bits, or other `sums` of the same; else where they differ.

    Two ways to cut a graph may add up in other orders. The rounding of a sum is a few units in the last place of its
    largest terms, and what is computed from it may be further off: Adam divides a gradient of nearly nothing by itself.
    So a few elements may differ more than all of them together.
    """
    verdict = "same"
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.tobytes() == b.tobytes():
            continue
        verdict = "sums"
        if a.dtype.kind in "biu":
            return f"result {number} has other integers"
        precision = float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 2.0**-7  # bfloat16 is none of NumPy's
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(x)
        if not (np.isfinite(y) == finite).all() or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return f"result {number} is finite elsewhere"
        off, values = np.abs(x[finite] - y[finite]), np.abs(x[finite])
        largest, furthest = values.max(initial=0.0), off.max(initial=0.0)
        if furthest > WIDE * NEAR * precision * largest or np.sum(off**2) > (NEAR * precision) ** 2 * np.sum(values**2):
            return f"result {number} differs by {furthest:.2g}, and its largest element is {largest:.2g}"
    return verdict


def search(
    programs: Sequence[Program], run: Run, seconds: float, say: Say, found: list[Found] | None = None
) -> list[Found]:
    """Try other ways to cut programs that have run, those that take longest first, as long as there is time. What is
    tried is in `found` at once.
    """
    found = [] if found is None else found
    until = time.monotonic() + seconds
    seen = Watched(timed=False)
    once = iter((False, True))
    run(seen, lambda: next(once))  # what runs by now: programs that waited for steady inputs do not
    running = [program for program in programs if id(program.compiled) in seen.programs]
    for program in sorted(running, key=lambda program: -program.seconds):
        if can_duel(program.compiled) and not program.key.calls_python:
            _Search(program, run, until, say, found).climb()
    return found


def recut(
    programs: Sequence[Program],
    run: Run,
    calls: int,
    seconds: float,
    keeper: Keeper,
    say: Say,
    use: Callable[[], None],
    cuts: list[Found],
) -> list[Program]:
    """Search, keep what was found whatever happens, and if something won, have the programs run so from now on. What
    was tried is added to `cuts`, also if Ctrl-C ends the search.
    """
    try:
        search(programs, run, seconds, say, cuts)
    finally:
        for cut in cuts:
            keeper.keep_fusion(cut)
        if is_changed := any(cut.stored for cut in cuts):
            use()
    if not is_changed:
        return list(programs)
    watched, turns = Watched(anew=True), iter(range(calls))
    run(watched, lambda: next(turns, None) is None)
    return list(watched.programs.values())


def can_duel(compiled: CompiledGraph) -> bool:
    """Whether versions of a graph can take turns: places of its arena and its results must not depend on dims."""
    return compiled.program is not None and not compiled.homes and not compiled.bounds


class _Search:
    """The search in one program."""

    def __init__(self, program: Program, run: Run, until: float, say: Say, tried: list[Found]) -> None:
        self.program, self.run, self.until, self.say, self.tried = program, run, until, say, tried
        self.question = question_of(graph_text(program.key))
        self.answers: dict[str, str] = {}
        current = runtime.current().compiler
        self.compiler = Compiler(Overlay(self.answers, current.choices))
        self.compiler.kernels = current.kernels
        self.default = self.incumbent = self.compiler.compile(program.key, program.device, explain=True)
        kernels = _kernels(self.default)
        self.seen = {kernels}
        text, _, measured = (dict(program.compiled.choices).get(self.question) or "").partition(MEASURED_AS)
        self.choices = parse_choices(text) if measured == kernels else NO_CHOICES  # an answer that is taken parses

    def climb(self) -> None:
        """Try what there is time for; of what won, all together is the last and confirmed."""
        won: list[Found] = []
        # Choices of an earlier step than those that are in use would change what their numbers mean.
        first = max((k for k, step in enumerate(STEPS) if any(getattr(self.choices, word) for word in step)), default=0)
        for step in range(first, len(STEPS)):
            modelling = time.monotonic() + _MODELLING * max(0.0, self.until - time.monotonic())
            ways = other_ways(
                *(self.program.key, self.program.device.profile, self.choices, step),
                lambda end=modelling: time.monotonic() < end,  # type: ignore[misc]
            )
            for way in ways:
                if way.modelled < WORSE or time.monotonic() >= self.until:
                    break
                found = self.attempt(way.site, way.modelled)
                if found is not None and found.stored:
                    won.append(found)
        if len(won) > 1:
            self.sum_up(won)

    def attempt(self, site: Site, modelled: float) -> Found | None:
        """Try one site on top of the incumbent."""
        try:
            choices = together(self.choices, site.choices)
        except Illegal:  # something else has won there
            return None
        self.answers[self.question] = str(choices)
        self.say(f"fusion: {site}")
        try:
            other = self.compiler.compile(self.program.key, self.program.device, explain=True)
        except SmeltError:  # a kernel that cannot be built is no reason to end
            return None
        found = Found(self.program, site, choices, _kernels(other), modelled)
        found.reason = self.against(other) if found.measured not in self.seen else "it gives kernels that were tried"
        self.seen.add(found.measured)
        self.tried.append(found)
        if found.reason:
            found.state = "refused"
            return found
        duel = self.duel(self.incumbent, other)
        found.ratios, found.bits = duel.ratios(), duel.verdict
        if duel.verdict not in ("same", "sums"):
            # Not `wrong`: where a program divides noise by itself, right versions differ as well.
            found.state, found.reason, found.bits = "refused", duel.verdict, "regrouped"
        elif _is_faster(found.ratios):
            found.ratios = self.duel(self.incumbent, other).ratios()  # what won once may have been lucky
            if _is_faster(found.ratios):
                found.state, self.choices, self.incumbent = "confirmed", choices, other
        found.seconds = duel.before
        return found

    def against(self, other: CompiledGraph) -> str:
        """What speaks against a version before it runs."""
        mine = self.program.compiled
        if (other.outputs, other.prepared) != (mine.outputs, mine.prepared) or not self.program.can_run(other):
            return "it cannot take the place of the other in a call"
        inputs = _input_bytes(self.program)
        peak, before = other.memory(inputs).peak, mine.memory(inputs).peak
        return f"it needs {peak} bytes, and {before} were enough" if peak > MEMORY * before else ""

    def duel(self, first: CompiledGraph, other: CompiledGraph) -> Duel:
        """Let two versions take turns until it is clear which is faster."""
        watched, began = Watched(timed=False), time.monotonic()
        program = self.program
        duel = Duel(program.key, program.device, program.compiled, other=other, first=first)
        watched.programs[id(program.compiled)] = duel

        def enough() -> bool:
            ratios = duel.ratios()
            if duel.verdict not in ("", "same", "sums") or (not duel.calls and time.monotonic() - began > 60):
                return True
            taken = sum(map(sum, duel.taken)) + sum(duel.common)
            few, far = (FEW, FAR) if taken < LONG * duel.calls else (2, 1.0)
            lost = len(ratios) >= few and statistics.median(ratios) < (WHOLE if len(ratios) >= TRIED else far)
            known = len(ratios) >= PAIRS and (_is_faster(ratios) or len(ratios) >= MOST)
            return (taken >= SECONDS and (lost or known)) or time.monotonic() > max(self.until, began + 10.0)

        self.run(watched, enough)
        return duel

    def sum_up(self, won: Sequence[Found]) -> None:
        """All that won as one choice, against the program as it was."""
        words = "; ".join(str(one.site) for one in won)
        last = won[-1]
        last.ratios = self.duel(self.default, self.incumbent).ratios() or last.ratios
        last.site = Site(words, last.choices, 0)
        last.bits = next((one.bits for one in won if one.bits != "same"), "same")
        for one in won[:-1]:
            one.state = "timed"
        if not _is_faster(last.ratios):
            last.state = "timed"


def _kernels(compiled: CompiledGraph) -> str:
    """What a version that is explained was made of."""
    return kernels_of(record.region for record in compiled.kernels)


def _is_faster(ratios: Sequence[float]) -> bool:
    return len(ratios) >= TRIED and race.bounds(ratios)[0] >= WHOLE


def _input_bytes(program: Program) -> int:
    """What a call reads."""
    leaves = [entry for entry in program.key.entries if entry[0] is Op.LEAF and entry[3].kind == "input"]
    return sum({leaf[3].number: upper(product_of(leaf[2])) * leaf[1].itemsize for leaf in leaves}.values())
