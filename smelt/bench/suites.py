"""All suites: what each measures, and with which words it is asked. A new one is one more entry of `suites`."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from smelt.bench import compare, linalg, nearby, planning, tuned
from smelt.bench.algebra import by_hand
from smelt.bench.algebra.each_rule import measure_rules
from smelt.bench.algebra.programs import PROGRAMS
from smelt.bench.algebra.suite import CONTRACTS, measure_algebra
from smelt.bench.algebra.suite import PEERS as ALGEBRA_PEERS
from smelt.bench.coldpath import measure_coldpath
from smelt.bench.compare import COMPILE
from smelt.bench.compiling import SUMMARY as COMPILE_SUMMARY
from smelt.bench.compiling import measure_compile
from smelt.bench.core import MEASURES, Measure
from smelt.bench.cpu.cases import GRADIENTS, GROUPS, KERNELS, Group, Kernel
from smelt.bench.cpu.library import PEERS, versions
from smelt.bench.cpu.suite import Asked, Progress, cores, measure_cpu, measure_kernel
from smelt.bench.estimates import measure_estimates
from smelt.bench.feel import MEASURES as FEEL
from smelt.bench.op_cases import CASES as OPS
from smelt.bench.ops import measure_ops
from smelt.bench.quantized import FORMATS, measure_quantized
from smelt.bench.report import Report, Row
from smelt.bench.stablehlo.cases import CASES as IMPORTED
from smelt.bench.stablehlo.suite import PARTS as READ
from smelt.bench.stablehlo.suite import measure_stablehlo
from smelt.bench.starts import measure_starts
from smelt.bench.train.cases import CASES as NETWORKS
from smelt.bench.train.suite import PEERS as TRAINED
from smelt.bench.train.suite import measure_train

Arguments = argparse.Namespace
Words = tuple[tuple[str, ...], dict[str, Any]]  # of an option: its names, and how argparse takes it

_ROUGH = "few rounds: a rough look, without bars"
_CONTRACTS = "how far results may differ, and which programs take part; regroups unless given"
_RULES = "each rule instead: programs with it and with all others, against no peer"
_TRAINED = ("mlp", "lenet", "gpt")
_TRAINED_QUICKLY = ("mlp", "gpt-small")
_FORWARD = ("gpt2", "decode-f32", "decode-bf16")  # networks of the cpu suite


@dataclass(frozen=True)
class Suite:
    """What a suite measures, and what it is asked with on the command line."""

    help: str
    run: Callable[[Arguments, Progress], Report]
    quick: str = ""  # what --quick means
    only: Iterable[str] | None = None  # what --only may name; None: nothing, empty: any name
    listed: str = ""  # what those are, below the options
    strict: bool = False  # there are bars
    threads: Sequence[int] = ()  # those that are taken unless others are given
    peers: Sequence[str] = ()  # the same
    words: Sequence[Words] = field(default=())  # options that only this suite has
    description: str = ""


def suites() -> dict[str, Suite]:
    """By name, in the order in which they are listed."""
    kernels = {name: _kernel_suite(name, kernel) for name, kernel in KERNELS.items()}
    return {**kernels, **_with_others(), **_of_equal_programs(), **_alone()}


def _with_others() -> dict[str, Suite]:
    """Those in which other libraries take part."""
    both, every = range(1, min(2, cores()) + 1), {**GROUPS, **GRADIENTS}
    common: dict[str, Any] = {"quick": _ROUGH, "strict": True, "peers": PEERS}
    tune = _tune("search for faster schedules of each case first, with a database of its own")
    return {
        "suite": Suite(
            "every row of cpu, grad and train",
            _suite,
            words=[tune],
            only=[*_names(every), *NETWORKS],
            listed=_listed(_group_lines(every), NETWORKS),
            threads=both,
            **common,
        ),
        "model": Suite(
            "a whole network: a forward pass, or a training step",
            _model,
            listed=_listed((), _networks()),
            threads=[max(both)],
            words=[(("network",), {"choices": list(_networks()), "metavar": "NAME", "help": "which one"}), tune],
            **common,
        ),
        "cpu": Suite(
            "products, norms, reductions, attention and networks against NumPy, PyTorch, JAX and the machine",
            _cpu,
            words=[tune],
            only=_names(GROUPS),
            listed=_listed(_group_lines(GROUPS)),
            threads=both,
            **common,
        ),
        "grad": Suite(
            "values with gradients against PyTorch and JAX, and what compiling them costs",
            _grad,
            words=[tune],
            only=[*_names(GRADIENTS), COMPILE],
            listed=_listed((*_group_lines(GRADIENTS), f"  {COMPILE}: {COMPILE_SUMMARY}")),
            threads=both,
            **common,
        ),
        "train": Suite(
            "whole training steps against PyTorch and JAX",
            _train,
            only=NETWORKS,
            words=[tune],
            listed=_listed((), NETWORKS),
            threads=[max(both)],
            **common | {"quick": f"small networks and {_ROUGH}", "peers": TRAINED},
        ),
        "compile": Suite(
            "first calls and first losses with cold and warm caches, against JAX and torch.compile",
            _compile,
            quick="small models: a rough look",
            strict=True,
        ),
    }


def _of_equal_programs() -> dict[str, Suite]:
    """Those of the search for equal programs."""
    return {
        "algebra": Suite(
            "programs that algebra makes cheaper: with the search for equal ones, without, and against PyTorch and JAX",
            _algebra,
            only=PROGRAMS,
            words=[
                (("--contracts",), {"choices": CONTRACTS, "default": "regroups", "help": _CONTRACTS}),
                (("--rules",), {"action": "store_true", "help": _RULES}),
            ],
            listed=_listed((), PROGRAMS),
            threads=[cores()],
            quick=f"small inputs and {_ROUGH}",
            strict=True,
            peers=ALGEBRA_PEERS,
        ),
        "by-hand": Suite(
            "programs that are written out by hand, in turn with what the library has for the same",
            lambda arguments, progress: _measures(by_hand.MEASURES, arguments, progress),
            quick=f"small inputs and {_ROUGH}",
            only=by_hand.MEASURES,
            listed=_listed((), by_hand.MEASURES),
            strict=True,
        ),
        "planning": Suite(
            "how long the search for equal programs takes: a training step, random graphs, first calls",
            _planning,
            quick="small graphs and a small model: a rough look, without bars",
            only=planning.MEASURES,
            listed=_listed((), planning.MEASURES),
            strict=True,
            words=[
                (("--nodes",), {"type": _size, "default": 5000, "metavar": "N", "help": "of the training step, about"})
            ],
        ),
    }


def _alone() -> dict[str, Suite]:
    """Those of smelt and NumPy alone."""
    return {
        "tuned": Suite(
            "kernels that are drawn from a seed, by default and tuned",
            _tuned,
            quick="six kernels, the budget quick: a rough look",
            only=(),
            listed=tuned.LISTED,
            strict=True,
            words=[
                (("--draw",), {"type": int, "default": 60, "metavar": "N", "help": "how many; 60 unless given"}),
                (("--seed",), {"type": int, "required": True, "metavar": "S", "help": "what they are drawn from"}),
                (("--budget",), {"default": "max", "help": "of each: quick, max (the default), or seconds"}),
            ],
        ),
        "nearby": _nearby_suite(),
        "core": _table(
            "calls, nodes, imports, first compilations, fused matmul: each with its bar",
            partial(_measures, MEASURES),
            MEASURES,
            "fewer rounds and a smaller model: a rough look",
        ),
        "ops": _table(
            "indexing, order, scans, convolution and pooling against NumPy", _ops, OPS, f"small inputs and {_ROUGH}"
        ),
        "linalg": _table(
            "factors, solutions and inverses against NumPy's", _linalg, linalg.CASES, f"small inputs and {_ROUGH}"
        ),
        "fft": _table("Fourier transforms against NumPy's", _fft, linalg.FFT_CASES, f"small inputs and {_ROUGH}"),
        "stablehlo": _stablehlo_suite(),
        "quantized": _quantized_suite(),
        "feel": _table(
            "what a user waits for outside of jit: an op, a draw, a layer",
            partial(_measures, FEEL),
            FEEL,
            "few rounds: a rough look",
        ),
        "coldpath": Suite(
            "seconds per stage of a first compilation, with a cold cache", _coldpath, quick="a small model"
        ),
        "estimates": Suite(
            "the cost model against kernels in several forms, on one thread",
            _estimates,
            quick="one case of each group: a rough look",
            only=(),
            listed="kernels of any case may be named: softmax, gpt",
        ),
        "compare": Suite(
            "an old checkout against this one: every row of core, ops, cpu, grad and train before and after",
            _compare,
            quick="few rounds and small inputs: a rough look",
            only=compare.known_names(),
            listed="example:\n  git worktree add ../old HEAD~1\n  smelt bench compare ../old --only ops cpu",
            threads=range(1, min(2, cores()) + 1),
            words=[(("old",), {"type": Path, "metavar": "OLD_TREE", "help": "the checkout to compare with"})],
            description="Figures are ratios of speeds, above 1 where this tree is faster.\nExits with 1 when a row is "
            f"below {compare.LEAST} of the old speed beyond its noise, or does not run here.",
        ),
    }


def _quantized_suite() -> Suite:
    return Suite(
        "products with matrices of a few bits a weight, against the speed of memory",
        _quantized,
        quick=_ROUGH,
        only=FORMATS,
        listed="formats of GGUF files may be named: " + ", ".join(FORMATS),
        threads=range(1, min(2, cores()) + 1),
        strict=True,
    )


def _table(help: str, run: Callable[[Arguments, Progress], Report], cases: Mapping[str, Any], quick: str) -> Suite:
    """A suite of cases with bars."""
    return Suite(help, run, quick=quick, only=cases, listed=_listed((), cases), strict=True)


def _kernel_suite(name: str, kernel: Kernel) -> Suite:
    words: list[Words] = []
    for size, (default, meaning) in kernel.sizes.items():
        told = f"{meaning}; {default} unless given"
        option = f"-{size}" if len(size) == 1 else f"--{size}"
        words.append(((option,), {"type": _size, "default": default, "metavar": "N", "help": told}))
    if len(kernel.dtypes) > 1:
        told = f"{', '.join(kernel.dtypes)}; float32 unless given"
        words.append((("--dtype",), {"choices": kernel.dtypes, "default": "float32", "metavar": "DTYPE", "help": told}))
    words += [
        (("--dump-schedule",), {"action": "store_true", "help": "print form, knobs and schedule of what runs"}),
        _tune("once more after a search"),
    ]
    run = partial(_kernel, name, list(kernel.sizes))
    return Suite(kernel.summary, run, quick="few rounds: a rough look", threads=[cores()], peers=PEERS, words=words)


def _tune(told: str) -> Words:
    return ("--tune",), {"metavar": "BUDGET", "default": "", "help": f"{told}: quick, max, or seconds"}


def _size(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 1 << 20):
        raise argparse.ArgumentTypeError(f"{text!r:.20} is no size")
    return int(text)


def _names(groups: Mapping[str, Group]) -> list[str]:
    return [*groups, *(name for group in groups.values() for name in group.cases)]


def _networks() -> dict[str, Any]:
    """Whole networks, with what they are."""
    forward = {name: case for group in GROUPS.values() for name, case in group.cases.items() if name in _FORWARD}
    return {**forward, **NETWORKS}


def _listed(lines: Iterable[str], more: Mapping[str, Any] | None = None) -> str:
    width = max([18, *(len(name) + 2 for name in more or ())])
    named = [f"  {name:<{width}}{one.summary}" for name, one in (more or {}).items()]
    return "\n".join(["what may be named:", *lines, *named])


def _group_lines(groups: Mapping[str, Group]) -> Iterator[str]:
    for name, group in groups.items():
        yield f"  {name}: {group.summary}"
        yield from (f"    {case:<18}{facts.summary}" for case, facts in group.cases.items())


# --- how they are run


def _asked(arguments: Arguments, progress: Progress, peers: Sequence[str] = PEERS) -> Asked:
    given: Sequence[str] | None = arguments.peers
    chosen, tune = peers if given is None else given, getattr(arguments, "tune", "")
    return Asked(arguments.threads, chosen, given is not None, arguments.quick, tune, progress)


def _kernel(name: str, sizes: Sequence[str], arguments: Arguments, progress: Progress) -> Report:
    numbers = [getattr(arguments, size) for size in sizes]
    dtype, asked = getattr(arguments, "dtype", "float32"), _asked(arguments, progress)
    return _with_peers(measure_kernel(name, numbers, dtype, asked, arguments.dump_schedule), arguments)


def _cpu(arguments: Arguments, progress: Progress) -> Report:
    return _with_peers(measure_cpu(arguments.only or [], _asked(arguments, progress)), arguments)


def _grad(arguments: Arguments, progress: Progress) -> Report:
    names = [name for name in arguments.only or () if name != COMPILE]
    found = Report([])
    if names or not arguments.only:
        found = _with_peers(measure_cpu(names, _asked(arguments, progress), GRADIENTS), arguments)
    if not arguments.only or COMPILE in arguments.only:
        progress(f"{COMPILE}: {COMPILE_SUMMARY}")
        found.rows += measure_compile(arguments.quick)
    return found


def _train(arguments: Arguments, progress: Progress) -> Report:
    names = arguments.only or (_TRAINED_QUICKLY if arguments.quick else _TRAINED)
    return _with_peers(measure_train(names, _asked(arguments, progress, TRAINED)), arguments)


def _suite(arguments: Arguments, progress: Progress) -> Report:
    """The rows of cpu, grad and train, without those that were not asked for."""
    only, asked = arguments.only, _asked(arguments, progress)
    every = {**GROUPS, **GRADIENTS}
    kernels = [name for name in only or _names(every) if name in _names(every)]
    networks = [name for name in only or (_TRAINED_QUICKLY if arguments.quick else _TRAINED) if name in NETWORKS]
    found = measure_cpu(kernels, asked, every) if kernels else Report([])
    if networks:
        trained = measure_train(networks, asked)
        seen = {row.name for row in found.rows}
        found.rows += [row for row in trained.rows if row.name not in seen]
        found.facts, found.roofs = trained.facts | found.facts, found.roofs or trained.roofs
    return _with_peers(found, arguments)


def _model(arguments: Arguments, progress: Progress) -> Report:
    asked = _asked(arguments, progress)
    is_forward = arguments.network in _FORWARD
    found = measure_cpu([arguments.network], asked, _only(arguments.network)) if is_forward else None
    return _with_peers(found or measure_train([arguments.network], asked), arguments)


def _only(name: str) -> dict[str, Group]:
    """The group of one case: its name may be that of another group."""
    return {title: group for title, group in GROUPS.items() if name in group.cases}


def _tuned(arguments: Arguments, progress: Progress) -> Report:
    budget, count = ("quick", 6) if arguments.quick else (arguments.budget, arguments.draw)
    kept = None if arguments.json in (None, "-") else Path(arguments.json).with_suffix(".jsonl")
    return tuned.measure_drawn(count, arguments.seed, arguments.only or (), budget, kept, progress)


def _nearby_suite() -> Suite:
    return Suite(
        "what tuning some sizes does for those between them, and for symbolic ones",
        _nearby,
        quick="two sizes and kernels, the budget quick: a rough look",
        only=nearby.CASES,
        listed=nearby.LISTED,
        strict=True,
        words=[
            (
                ("--draw",),
                {"type": int, "default": 20, "metavar": "N", "help": "how many of each; 20 unless given"},
            ),
            (("--seed",), {"type": int, "required": True, "metavar": "S", "help": "what they are drawn from"}),
            (("--budget",), {"default": "20", "help": "of each: quick, max, or seconds; 20 unless given"}),
        ],
    )


def _nearby(arguments: Arguments, progress: Progress) -> Report:
    budget, count = ("quick", 2) if arguments.quick else (arguments.budget, arguments.draw)
    return nearby.measure_nearby(arguments.only or nearby.CASES, count, arguments.seed, budget, progress)


def _compile(arguments: Arguments, progress: Progress) -> Report:
    progress(COMPILE_SUMMARY)
    rows = measure_compile(arguments.quick)
    return Report(rows + measure_starts(arguments.quick, progress), {"peers": versions()})


def _with_peers(found: Report, arguments: Arguments) -> Report:
    """With the versions of those who took part."""
    found.facts["peers"] = versions(arguments.peers or PEERS)
    return found


def _measures(measures: Mapping[str, Measure], arguments: Arguments, progress: Progress) -> Report:
    rows: list[Row] = []
    names = arguments.only or list(measures)
    for number, name in enumerate(names, 1):
        progress(f"[{number}/{len(names)}] {name}: {measures[name].summary}")
        try:
            rows += measures[name].run(arguments.quick)
        except Exception as error:
            traceback.print_exc()
            rows.append(Row(name, None, "s", detail=f"{type(error).__name__}, see stderr"))
    return Report(rows)


def _ops(arguments: Arguments, progress: Progress) -> Report:
    return Report(measure_ops(arguments.only or list(OPS), arguments.quick, progress))


def _fft(arguments: Arguments, progress: Progress) -> Report:
    return Report(linalg.measure_linalg(arguments.only or list(linalg.FFT_CASES), arguments.quick, progress))


def _linalg(arguments: Arguments, progress: Progress) -> Report:
    return Report(linalg.measure_linalg(arguments.only or list(linalg.CASES), arguments.quick, progress))


def _stablehlo_suite() -> Suite:
    return Suite(
        "reading StableHLO, and functions of JAX's through it against smelt's own and jax.jit",
        _stablehlo,
        quick=f"small networks and {_ROUGH}",
        only=[*READ, *IMPORTED],
        listed=_listed(f"  {name:<18}{told}" for name, told in {**READ, **IMPORTED}.items()),
        strict=True,
    )


def _stablehlo(arguments: Arguments, progress: Progress) -> Report:
    return Report(measure_stablehlo(arguments.only or READ, arguments.quick, progress), {"peers": versions(["jax"])})


def _quantized(arguments: Arguments, progress: Progress) -> Report:
    return Report(measure_quantized(arguments.only or FORMATS, arguments.threads, arguments.quick, progress))


def _algebra(arguments: Arguments, progress: Progress) -> Report:
    asked = _asked(arguments, progress, ALGEBRA_PEERS)
    if arguments.rules:
        return measure_rules(arguments.only or (), arguments.contracts, asked)
    return _with_peers(measure_algebra(arguments.only or (), arguments.contracts, asked), arguments)


def _planning(arguments: Arguments, progress: Progress) -> Report:
    measures = {
        name: Measure(measure.summary, partial(measure.run, arguments.nodes))
        for name, measure in planning.MEASURES.items()
    }
    return _measures(measures, arguments, progress)


def _coldpath(arguments: Arguments, progress: Progress) -> Report:
    progress("compiling a GPT-2-sized forward pass in a fresh process with a cold cache")
    return measure_coldpath("tiny" if arguments.quick else "gpt2")


def _estimates(arguments: Arguments, progress: Progress) -> Report:
    return Report(measure_estimates(arguments.only or (), arguments.quick, progress))


def _compare(arguments: Arguments, progress: Progress) -> Report:
    chosen = compare.cases(arguments.only or [], arguments.threads, arguments.quick)
    found = compare.compare(arguments.old, chosen, arguments.quick, progress)
    failed = any(row.slower or row.failed == "new" for row in found)
    summary = compare.summary(found)
    return Report([row.row() for row in found], {}, summary, compare.verdict(summary), failed)
