"""How good the cost model is: for each distinct kernel of a corpus, several candidates are run and compared with what
the model says of them.

The corpus is the kernels that the cases of the other suites become, at their sizes, run on one thread: its own time can
be told from that of whoever else uses the machine. Candidates take turns, and each counts with its best run; those that
are far from the best by the model alone are left out. A row tells how far the estimate of the default kernel is off,
and the regret of the model's first choice and of the default order: how much longer what they take runs than the best.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import smelt as sm
from smelt import runtime
from smelt.bench.cpu.cases import GRADIENTS, GROUPS, Case
from smelt.bench.cpu.in_smelt import OPERATIONS
from smelt.bench.kernels import Runner, filled
from smelt.bench.report import Row
from smelt.bench.train import in_smelt as networks
from smelt.cost import Profile
from smelt.cost.kernel import Work, cost
from smelt.cost.rates import known
from smelt.device.cpu import CPU
from smelt.kernel import Illegal, Kernel, Region, parse_region, print_kernel
from smelt.schedule import candidates, lowered
from smelt.transform.jit import Jit

_CANDIDATES = 6  # of a kernel, at most
_ROUNDS = 4
_SECONDS = 0.02  # for each candidate and round
_LONG = 0.2  # seconds of a run from which on one more is enough
_HOPELESS = 5.0  # times as long as the best: once is enough
_CHANCE = 1.1  # times as long: less may be noise
_LEFT_OUT = 30.0  # the same by the model: not even once
_NETWORKS = ("lenet", "mlp", "gpt-small")
_GROUPS = ("matmul-f32", "streams", "rows", "attention")


class Tried(NamedTuple):
    """A candidate: its form, what the model counts, and the best time of a launch."""

    form: str
    work: Work
    seconds: float


def corpus(quick: bool, wanted: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Names and texts of distinct regions, of all programs or of those that are wanted."""
    seen: set[str] = set()
    for name, make in _programs(quick):
        if wanted and name not in wanted:
            continue
        jitted, arguments = make()
        compiled = runtime.current().compiler.compile(*jitted.graph_key(*arguments), explain=True)
        for number, record in enumerate(compiled.kernels):
            if record.region.startswith("region") and "parameter" not in record.region and record.region not in seen:
                seen.add(record.region)
                yield f"{name} {number}", record.region


def _programs(quick: bool) -> Iterator[tuple[str, Callable[[], tuple[Jit[..., Any], Sequence[Any]]]]]:
    """Names, and what makes a function and its arguments."""
    for group in (*(GROUPS[name] for name in _GROUPS), *GRADIENTS.values()):
        for name, case in list(group.cases.items())[: 1 if quick else None]:
            yield name, partial(_case, case, quick)
    for name in () if quick else _NETWORKS:
        yield name, partial(_network, name)


def _case(case: Case, quick: bool) -> tuple[Jit[..., Any], Sequence[Any]]:
    return Jit(OPERATIONS[case.operation]), [sm.asarray(x) for x in case.inputs(quick)]


def _network(name: str) -> tuple[Jit[..., Any], Sequence[Any]]:
    step, arguments = networks.parts(name)
    return Jit(step), arguments


class _Candidate(NamedTuple):
    form: str
    kernel: Kernel
    work: Work


def tried(text: str) -> list[Tried]:
    """The candidates for a region that are legal and differ, in the order in which they are tried by default."""
    region, device = parse_region(text), CPU()
    memory = [filled(buffer) for buffer in region.buffers()]
    found = list(_worth_trying(region, device.profile))
    libraries = device.build([device.render([each.kernel]) for each in found])
    runners = [
        Runner(each.kernel, library, max(1, each.work.tasks), 1, memory)
        for each, library in zip(found, libraries, strict=True)
    ]
    best = [runner() for runner in runners]
    for _ in range(_ROUNDS if min(best) < _LONG else 1):
        for at, runner in enumerate(runners):
            if best[at] < _HOPELESS * min(best):
                runs = max(1, min(200, int(_SECONDS / best[at])))
                best[at] = min(best[at], *(runner() for _ in range(runs)))
    return [Tried(each.form, each.work, seconds) for each, seconds in zip(found, best, strict=True)]


def _worth_trying(region: Region, profile: Profile) -> Iterator[_Candidate]:
    seen: set[str] = set()
    rates, least = known(profile), math.inf
    for candidate in candidates(region, profile):
        try:
            _, kernel = lowered(candidate, region, profile)
        except Illegal:
            continue
        work, text = cost(region, kernel, profile), print_kernel(kernel)
        guessed = work.core_nanoseconds(profile, rates)
        least = min(least, guessed)
        if text in seen or guessed > _LEFT_OUT * least:
            continue
        seen.add(text)
        yield _Candidate(candidate.form, replace(kernel, name=f"k{len(seen)}"), work)
        if len(seen) == _CANDIDATES:
            return


def ranks(values: Sequence[float]) -> list[int]:
    """The place of each value among all."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    return [order.index(at) for at in range(len(values))]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, of the ranks; 1 where there is nothing to order."""
    a, b = ranks(first), ranks(second)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (n * (n * n - 1)) if n > 1 else 1.0


def pairs(guessed: Sequence[float], taken: Sequence[float]) -> list[bool]:
    """For each two whose times differ by more than chance, whether the estimates are in the same order."""
    both = list(itertools.combinations(zip(taken, guessed, strict=True), 2))
    return [(a[0] < b[0]) == (a[1] < b[1]) for a, b in both if max(a[0], b[0]) > _CHANCE * min(a[0], b[0])]


def measure_estimates(names: Iterable[str], quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """A row for each kernel, then the sums of all."""
    profile = CPU().profile._replace(cores=1)
    rates, wanted, rows = known(CPU().profile), set(names), []
    errors: list[float] = []
    orders: list[float] = []
    regrets: list[tuple[float, float]] = []
    right: list[bool] = []
    for name, text in corpus(quick, wanted):
        progress(name)
        found = tried(text)
        guessed = [each.work.seconds(profile, rates) for each in found]
        taken = [each.seconds for each in found]
        errors.append(guessed[0] / taken[0])
        best = min(taken)
        regrets.append((taken[guessed.index(min(guessed))] / best, taken[0] / best))
        right += pairs(guessed, taken)
        if len(found) > 2:
            orders.append(correlation(guessed, taken))
        each = ", ".join(f"{x.form} {1e3 * x.seconds:.3f} ({1e3 * g:.3f})" for x, g in zip(found, guessed, strict=True))
        detail = f"regret {regrets[-1][0]:.2f}, default order {regrets[-1][1]:.2f}; ms (estimate): {each}"
        rows.append(Row(name, errors[-1], "×", detail=detail))
    return [*rows, *_summary(errors, orders, right, regrets)]


def _summary(
    errors: list[float], orders: list[float], right: list[bool], regrets: list[tuple[float, float]]
) -> list[Row]:
    logs = [abs(math.log(error)) for error in errors]
    within = sum(log <= math.log(2) for log in logs) / max(1, len(logs))
    return [
        Row("typical factor", math.exp(statistics.median(logs)), "×", detail=f"{within:.0%} of {len(logs)} within 2×"),
        Row("rank correlation", statistics.mean(orders or [1.0]), "×", detail=f"mean of {len(orders)} kernels"),
        Row("pairs in order", sum(right) / max(1, len(right)), "×", detail=f"of {len(right)} that differ by 10 %"),
        *(
            Row(f"regret, {title}", geometric_mean(each), "×", detail=f"geometric mean; worst {max(each):.2f}")
            for title, each in zip(("model", "default order"), zip(*regrets, strict=True), strict=True)
        ),
    ]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(statistics.mean(map(math.log, values)))
