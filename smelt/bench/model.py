"""How good the cost model is: for each distinct kernel of a corpus, several candidates are run and compared with what
the model says of them.

The corpus is the kernels that the cases of the other suites become, at their sizes, run on one thread: its own time can
be told from that of whoever else uses the machine. Candidates take turns, and each counts with its best run. A row tells how far the estimate of the default kernel
is off, how well the model orders the candidates (rank correlation), and the regret of its first choice and of the
default order: how much longer what they take runs than the best.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import smelt as sm
from smelt.bench.cpu.cases import GRADIENTS, GROUPS
from smelt.bench.cpu.in_smelt import OPERATIONS
from smelt.bench.kernels import Runner, filled
from smelt.bench.report import Row
from smelt.bench.train import in_smelt as networks
from smelt.compiler import compile_graph
from smelt.cost.kernel import Work, cost
from smelt.cost.rates import Rates, known
from smelt.device.cpu import CPU
from smelt.kernel import Illegal, Kernel, Region, lower, parse_region, print_kernel
from smelt.schedule.default import candidates
from smelt.transform.jit import Jit

_CANDIDATES = 6  # of a kernel, at most
_ROUNDS = 4
_SECONDS = 0.02  # for each candidate and round
_LONG = 0.2  # seconds of a run from which on one more is enough
_HOPELESS = 5.0  # times as long as the best: once is enough
_LARGEST = 1 << 29  # bytes that a kernel may take
_NETWORKS = ("lenet", "mlp", "gpt-small")
_GROUPS = ("matmul-f32", "streams", "rows", "attention")


class Tried(NamedTuple):
    """A candidate: its form, what the model counts, and the best time of a launch."""

    form: str
    work: Work
    seconds: float


def corpus(quick: bool) -> Iterator[tuple[str, str]]:
    """Names and texts of distinct regions."""
    seen: set[str] = set()
    for name, jitted, arguments in _programs(quick):
        compiled = compile_graph(*jitted.graph_key(*arguments), explain=True)
        for number, record in enumerate(compiled.kernels):
            if record.region.startswith("region") and "parameter" not in record.region and record.region not in seen:
                seen.add(record.region)
                yield f"{name} {number}", record.region


def _programs(quick: bool) -> Iterator[tuple[str, Jit[..., Any], Sequence[Any]]]:
    for group in (*(GROUPS[name] for name in _GROUPS), *GRADIENTS.values()):
        for name, case in list(group.cases.items())[: 1 if quick else None]:
            yield name, Jit(OPERATIONS[case.operation]), [sm.asarray(x) for x in case.inputs(quick)]
    for name in () if quick else _NETWORKS:
        step, arguments = networks.parts(name)
        yield name, Jit(step), arguments


def tried(text: str) -> list[Tried]:
    """The candidates for a region that are legal and differ, in the order in which they are tried by default."""
    region, device = parse_region(text), CPU()
    found: dict[str, tuple[str, Kernel, Work]] = {}
    for form, program, actions in candidates(region, device.profile):
        try:
            kernel = lower(program, actions)
        except Illegal:
            continue
        kernel = replace(kernel, buffers=tuple(region.buffers()))
        found.setdefault(print_kernel(kernel), (form, kernel, cost(region, kernel, device.profile)))
        if len(found) == _CANDIDATES:
            break
    named = [(form, replace(kernel, name=f"k{at}"), work) for at, (form, kernel, work) in enumerate(found.values())]
    libraries = device.build([device.render([kernel]) for _, kernel, _ in named])
    memory = [filled(buffer) for buffer in region.buffers()]
    if sum(x.nbytes for x in memory) > _LARGEST:
        return []
    runners = [
        Runner(kernel, library, max(1, work.tasks), 1, memory)
        for (_, kernel, work), library in zip(named, libraries, strict=True)
    ]
    best = [runner() for runner in runners]
    for _ in range(_ROUNDS if min(best) < _LONG else 1):
        for at, runner in enumerate(runners):
            if best[at] < _HOPELESS * min(best):
                runs = max(1, min(200, int(_SECONDS / best[at])))
                best[at] = min(best[at], *(runner() for _ in range(runs)))
    return [Tried(form, work, seconds) for (form, _, work), seconds in zip(named, best, strict=True)]


def ranks(values: Sequence[float]) -> list[int]:
    """The place of each value among all."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    return [order.index(at) for at in range(len(values))]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, of the ranks; 1 where there is nothing to order."""
    a, b = ranks(first), ranks(second)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (n * (n * n - 1)) if n > 1 else 1.0


def measure_model(names: Iterable[str], quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """A row for each kernel, then the sums of all."""
    profile = CPU().profile._replace(cores=1)
    rates, wanted, rows = known(CPU().profile), set(names), []
    errors: list[float] = []
    orders: list[float] = []
    regrets: list[tuple[float, float]] = []
    for name, text in corpus(quick):
        if wanted and name.split()[0] not in wanted:
            continue
        progress(name)
        found = tried(text)
        if not found:
            continue
        guessed = [each.work.seconds(profile, rates) for each in found]
        taken = [each.seconds for each in found]
        errors.append(guessed[0] / taken[0])
        best = min(taken)
        regrets.append((taken[guessed.index(min(guessed))] / best, taken[0] / best))
        if len(found) > 2:
            orders.append(correlation(guessed, taken))
        each = ", ".join(f"{x.form} {1e3 * x.seconds:.3f} ({1e3 * g:.3f})" for x, g in zip(found, guessed, strict=True))
        detail = f"regret {regrets[-1][0]:.2f}, default order {regrets[-1][1]:.2f}; ms (estimate): {each}"
        rows.append(Row(name, errors[-1], "×", detail=detail))
    return [*rows, *_summary(errors, orders, regrets)]


def _summary(errors: list[float], orders: list[float], regrets: list[tuple[float, float]]) -> list[Row]:
    logs = [abs(math.log(error)) for error in errors]
    within = sum(log <= math.log(2) for log in logs) / max(1, len(logs))
    return [
        Row("typical factor", math.exp(statistics.median(logs)), "×", detail=f"{within:.0%} of {len(logs)} within 2×"),
        Row("rank correlation", statistics.mean(orders), "×", detail=f"mean of {len(orders)} kernels"),
        *(
            Row(f"regret, {title}", geometric_mean(each), "×", detail=f"geometric mean; worst {max(each):.2f}")
            for title, each in zip(("model", "default order"), zip(*regrets, strict=True), strict=True)
        ),
    ]


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.mean(map(math.log, values)))
