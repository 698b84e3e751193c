"""What the suite measures: `read`, `speed` and `compile`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from smelt.bench.contest import Contender, Contest, contest
from smelt.bench.report import Row, time_text
from smelt.bench.stablehlo.cases import CASES, STEP
from smelt.bench.timing import ChildError, private_cache, run_json

PARTS = {
    "read": "text of a training step, of 20,000 operations and of one large constant",
    "speed": "eight functions as JAX writes them, against smelt's own form and jax.jit",
    "compile": "first calls of a step of GPT-2, against XLA's",
}
_MODULE = "smelt.bench.stablehlo"
_NATIVE, _LAUNCHES, _JAX, _GEOMEAN = 1 / 1.05, 1.1, 0.85, 1.1


def measure_stablehlo(parts: Iterable[str], quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """The rows of some parts, or of some functions of `speed`."""
    chosen = list(parts)
    rows: list[Row] = []
    if "read" in chosen:
        progress(f"read: {PARTS['read']}")
        rows += _read(quick)
    functions = [name for name in CASES if name in chosen or "speed" in chosen]
    rows += _speed(functions, quick, progress)
    if "compile" in chosen:
        progress(f"compile: {PARTS['compile']}")
        rows += _compile(quick)
    return rows


def _read(quick: bool) -> Iterator[Row]:
    for layers, parse, nodes in ((12, 0.25, 0.35), (72, None, None)):
        found = run_json(["-m", f"{_MODULE}.reading", str(2 if quick else layers)])
        name = f"{found['operations']:,} operations"
        both = found["parse"] + found["nodes"]
        if parse is not None:
            yield Row(f"{name}: parse", found["parse"], "s", parse, detail=f"{found['characters']:,} characters")
            yield Row(f"{name}: nodes", found["nodes"], "s", nodes)
        else:
            yield Row(f"{name}: both", both, "s", 3.0, detail=f"parse {time_text(found['parse'])}")
    found = run_json(["-m", f"{_MODULE}.reading", "constant"])
    yield Row("constant of 100 MB", found["seconds"], "s", 1.0)
    yield Row("constant of 100 MB: memory", found["memory"], "×", 2.5, detail="beside the text")


def _speed(names: Iterable[str], quick: bool, progress: Callable[[str], None]) -> Iterator[Row]:
    ratios = []
    for name in names:
        progress(f"{name}: {CASES[name]}")
        try:
            native, jax, launches = _contests(name, quick)
        except ChildError as error:
            yield Row(name, None, "×", detail=str(error))
            continue
        bars = (None, None, None) if quick else (_NATIVE, _LAUNCHES, _JAX)
        ratios.append(jax.ratio.median)
        for peer, met, bar in (("native", native, bars[0]), ("jax.jit", jax, bars[2])):
            detail = f"{time_text(met.first.median)} against {time_text(met.second.median)}; {CASES[name]}"
            measured = met.measured(against=peer)
            yield Row(f"{name} / {peer}", met.ratio.median, "×", bar, at_least=True, detail=detail, measured=measured)
        detail = f"{launches[0]} against {launches[1]}"
        yield Row(f"{name}: launches", launches[0] / launches[1], "×", bars[1], detail=detail)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        bar = _GEOMEAN if len(ratios) == len(CASES) and not quick else None
        yield Row("geometric mean / jax.jit", mean, "×", bar, at_least=True)


def _contests(name: str, quick: bool) -> tuple[Contest, Contest, tuple[int, int]]:
    """What was imported against the native form and against JAX, and how many kernels both forms have."""
    options = ["quick"] if quick else []
    most = 5 if quick else 25
    with Contender([f"{_MODULE}.contender", "imported", name, *options]) as ours:
        met = []
        launches = []
        for way in ("native", "jax"):
            with Contender([f"{_MODULE}.contender", way, name, *options]) as theirs:
                norms = ours.facts["norm"], theirs.facts["norm"]
                if not math.isclose(*norms, rel_tol=1e-3):
                    raise ChildError(f"{name}: {way} gives results of norm {norms[1]}, and the imported {norms[0]}")
                met.append(contest(ours, theirs, most=most))
                launches.append(int(theirs.facts["launches"]))
        return met[0], met[1], (int(ours.facts["launches"]), launches[0])


def _compile(quick: bool) -> Iterator[Row]:
    words = ["-m", f"{_MODULE}.contender"]
    name, options = ("gpt", ["quick", "first"]) if quick else (STEP, ["first"])
    bars = (None, None) if quick else (5.0, 0.6)
    peer = run_json([*words, "jax", name, *options])
    beside = f"XLA: {time_text(peer['first'] - peer['later'])}"
    with private_cache() as environment:
        for cache, bar in zip(("cold", "warm"), bars, strict=True):
            found = run_json([*words, "imported", name, *options], environment)
            detail = f"a call takes {time_text(found['later'])}; {beside}"
            yield Row(f"first call, {cache} cache", found["first"] - found["later"], "s", bar, detail=detail)
