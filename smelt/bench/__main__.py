"""`python -m smelt.bench`."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from smelt import runtime
from smelt.bench import compare, tuned
from smelt.bench.coldpath import coldpath_table, measure_coldpath
from smelt.bench.compare import COMPILE
from smelt.bench.compiling import SUMMARY as COMPILE_SUMMARY
from smelt.bench.compiling import measure_compile
from smelt.bench.core import MEASURES
from smelt.bench.cpu.cases import GRADIENTS, GROUPS, Group
from smelt.bench.cpu.library import PEERS, TUNING_PEERS, versions
from smelt.bench.cpu.suite import cores, measure_cpu
from smelt.bench.feel import MEASURES as FEEL
from smelt.bench.feel import measure_feel
from smelt.bench.model import measure_model
from smelt.bench.op_cases import CASES
from smelt.bench.ops import measure_ops
from smelt.bench.report import Row, Verdict, machine, machine_text, table, to_json
from smelt.bench.train.cases import CASES as NETWORKS
from smelt.bench.train.suite import PEERS as TRAINED
from smelt.bench.train.suite import measure_train
from smelt.errors import SmeltError

_EXAMPLES = """\
examples:
  python -m smelt.bench core                            every measure: a few minutes
  python -m smelt.bench core --only dispatch matmul     two of them
  python -m smelt.bench core --quick --json -           a rough look, as JSON on stdout
  python -m smelt.bench core --json report.json         the table on stdout, JSON in a file
  python -m smelt.bench ops                             sort, scan, gather, scatter, convolution against NumPy
  python -m smelt.bench cpu                             kernels and networks against NumPy, PyTorch and JAX
  python -m smelt.bench cpu --only matmul-f32 softmax   some groups or cases of it
  python -m smelt.bench grad                            values with gradients against PyTorch and JAX
  python -m smelt.bench train                           whole training steps against PyTorch and JAX
  python -m smelt.bench train --only mlp --against jax  one of them against one peer
  python -m smelt.bench grad --only compile             what compiling a training step costs
  python -m smelt.bench coldpath                        where the time of a first compilation goes
  python -m smelt.bench model                           how good the cost model is: kernels in several forms
  python -m smelt.bench feel                            an op, a draw, a layer outside of jit, and first losses
  python -m smelt.bench tuned --draw 12 --seed 7        what tuning gains for kernels that are drawn
  python -m smelt.bench compare ../old                  every row of core, ops, cpu, grad and train before and after
  python -m smelt.bench compare ../old --only ops mlp   some suites, groups or cases of them
"""

_AGAINST = (*PEERS, *TUNING_PEERS)


def main(words: Sequence[str] | None = None, program: str = "python -m smelt.bench") -> int:
    """Run one suite: 0 when everything ran, 1 when something failed (with --strict: or missed a bar), 130 on Ctrl-C."""
    arguments = _parser(program).parse_args(words)
    try:
        return _SUITES[arguments.suite](arguments)
    except SmeltError as error:
        print(f"smelt.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


class _Suite(NamedTuple):
    """What a suite is asked with on the command line."""

    help: str
    quick: str  # what --quick means
    only: Iterable[str] | None = None  # what --only may name; None: nothing, empty: any name
    listed: str = ""  # what those are, below the options
    strict: bool = False  # there are bars
    threads: str = ""  # what stands for none given: "1 and 2", or one number
    against: Sequence[str] = ()  # peers


def _suites() -> dict[str, _Suite]:
    measures = [f"  {name:<10}{measure.summary}" for name, measure in MEASURES.items()]
    cases = [f"  {name:<16}{case.summary}" for name, case in CASES.items()]
    networks = [f"  {name:<17}{case.summary}" for name, case in NETWORKS.items()]
    feelings = [f"  {name:<10}{measure.summary}" for name, measure in FEEL.items()]
    gradients = [*_group_lines(GRADIENTS), f"  {COMPILE}: {COMPILE_SUMMARY}"]
    rough = "few rounds: a rough look, without bars"

    def listed(title: str, lines: Sequence[str]) -> str:
        return "\n".join([f"{title}:", *lines])

    def names(groups: Mapping[str, Group]) -> list[str]:
        return [*groups, *(name for group in groups.values() for name in group.cases)]

    return {
        "core": _Suite(
            "calls, nodes, imports, first compilations, fused matmul: each with its bar",
            "fewer rounds and a smaller model: a rough look",
            *(MEASURES, f"{listed('measures', measures)}\n\n{_EXAMPLES}", True),
        ),
        "ops": _Suite(
            "indexing, order, scans, convolution and pooling against NumPy",
            "small inputs and few rounds: a rough look, without bars",
            *(CASES, listed("cases", cases), True),
        ),
        "cpu": _Suite(
            "products, norms, reductions, attention and networks against NumPy, PyTorch, JAX and the machine",
            *(rough, names(GROUPS), listed("groups and cases", list(_group_lines(GROUPS))), True, "1 and 2", _AGAINST),
        ),
        "grad": _Suite(
            "values with gradients against PyTorch and JAX, and what compiling them costs",
            *(rough, [*names(GRADIENTS), COMPILE], listed("groups and cases", gradients), True, "1 and 2", _AGAINST),
        ),
        "train": _Suite(
            "whole training steps against PyTorch and JAX",
            "few rounds and small networks: a rough look, without bars",
            *(NETWORKS, listed("cases", networks), True, "2", TRAINED),
        ),
        "coldpath": _Suite("seconds per stage of a first compilation, with a cold cache", "a small model"),
        "feel": _Suite(
            "what a user waits for outside of jit: an op, a draw, a layer",
            *("few rounds: a rough look", FEEL, listed("measures", feelings), True),
        ),
        "model": _Suite(
            "estimates of the cost model against kernels in several forms, on one thread",
            *("one case of each group: a rough look", (), "kernels of any case may be named: softmax, gpt"),
        ),
        "tuned": _Suite(
            "kernels that are drawn from a seed, by default and tuned",
            *("six kernels, the budget quick: a rough look", (), tuned.EPILOG, True),
        ),
        "compare": _Suite(
            "an old checkout against this one: every row of core, ops, cpu, grad and train before and after",
            *("few rounds and small inputs: a rough look", compare.known_names(), "", False, "1 and 2"),
        ),
    }


def _parser(program: str) -> argparse.ArgumentParser:
    layout, counts = argparse.RawDescriptionHelpFormatter, range(1, cores() + 1)
    parser = argparse.ArgumentParser(
        prog=program, description="Measure smelt.", epilog=_EXAMPLES, formatter_class=layout
    )
    added = parser.add_subparsers(title="suites", dest="suite", metavar="suite", required=True)
    for name, suite in _suites().items():
        one = added.add_parser(name, help=suite.help, epilog=suite.listed, formatter_class=layout)
        if name == "compare":
            one.description = (
                "Figures are ratios of speeds, above 1 where this tree is faster.\nExits with 1 when a row is below "
                f"{compare.LEAST} of the old speed beyond its noise, or does not run here."
            )
            one.epilog = f"example:\n  git worktree add ../old HEAD~1\n  {program} compare ../old --only ops cpu"
            one.add_argument("old", type=Path, metavar="OLD_TREE", help="the checkout to compare with")
        if name == "tuned":
            one.add_argument("--draw", type=int, default=60, metavar="N", help="how many kernels; 60 unless given")
            one.add_argument("--seed", type=int, required=True, metavar="S", help="what they are drawn from")
            one.add_argument("--budget", default="max", help="of each: quick, max (the default), or seconds")
        if suite.only is not None:
            choices = list(suite.only) or None
            one.add_argument("--only", nargs="+", choices=choices, default=None, metavar="NAME", help="only these")
        if suite.threads:
            several: dict[str, Any] = {"nargs": "+"} if suite.threads == "1 and 2" else {"default": min(2, cores())}
            told = f"{suite.threads} unless given"
            one.add_argument("--threads", type=int, choices=counts, metavar="N", help=told, **several)
        if suite.against:
            told = f"only these: {', '.join(suite.against)}"
            one.add_argument("--against", nargs="+", choices=suite.against, metavar="PEER", help=told)
        one.add_argument("--quick", action="store_true", help=suite.quick)
        if suite.strict:
            one.add_argument("--strict", action="store_true", help="exit with 1 when a bar is missed")
        one.add_argument("--json", metavar="FILE", help="write JSON too; '-' prints it instead of the table")
    return parser


def _group_lines(groups: Mapping[str, Group]) -> Iterator[str]:
    for name, group in groups.items():
        yield f"  {name}: {group.summary}"
        yield from (f"    {case:<18}{facts.summary}" for case, facts in group.cases.items())


def _core(arguments: argparse.Namespace) -> int:
    facts = machine()
    names = arguments.only or list(MEASURES)
    rows: list[Row] = []
    for number, name in enumerate(names, 1):
        _progress(f"[{number}/{len(names)}] {name}: {MEASURES[name].summary}")
        try:
            rows += MEASURES[name].run(arguments.quick)
        except Exception as error:
            traceback.print_exc()
            rows.append(Row(name, None, "s", detail=f"{type(error).__name__}, see stderr"))
    return _reported("core", rows, facts, arguments)


def _ops(arguments: argparse.Namespace) -> int:
    facts = machine()
    rows = measure_ops(arguments.only or list(CASES), arguments.quick, _progress)
    return _reported("ops", rows, facts, arguments)


def _cpu(arguments: argparse.Namespace) -> int:
    facts = machine() | {"peers": versions()}
    threads = arguments.threads or range(1, min(2, cores()) + 1)
    rows = measure_cpu(arguments.only or [], threads, arguments.against or PEERS, arguments.quick, _progress)
    return _reported("cpu", rows, facts, arguments)


def _grad(arguments: argparse.Namespace) -> int:
    facts = machine() | {"peers": versions()}
    threads = arguments.threads or range(1, min(2, cores()) + 1)
    peers = arguments.against or PEERS
    names = [name for name in arguments.only or () if name != COMPILE]
    rows: list[Row] = []
    if names or not arguments.only:
        rows += measure_cpu(names, threads, peers, arguments.quick, _progress, GRADIENTS)
    if not arguments.only or COMPILE in arguments.only:
        _progress(f"{COMPILE}: {COMPILE_SUMMARY}")
        rows += measure_compile(arguments.quick)
    return _reported("grad", rows, facts, arguments)


def _train(arguments: argparse.Namespace) -> int:
    facts = machine() | {"peers": versions()}
    names = arguments.only or (["mlp", "gpt-small"] if arguments.quick else ["mlp", "lenet", "gpt"])
    peers = TRAINED if arguments.against is None else arguments.against
    return _reported(
        "train", measure_train(names, arguments.threads, peers, arguments.quick, _progress), facts, arguments
    )


def _feel(arguments: argparse.Namespace) -> int:
    facts = machine()
    return _reported("feel", measure_feel(arguments.only or list(FEEL), arguments.quick, _progress), facts, arguments)


def _model(arguments: argparse.Namespace) -> int:
    facts = machine()
    return _reported("model", measure_model(arguments.only or (), arguments.quick, _progress), facts, arguments)


def _reported(suite: str, rows: list[Row], facts: dict[str, Any], arguments: argparse.Namespace) -> int:
    _write(arguments.json, f"{machine_text(facts)}\n\n{table(rows)}", to_json(suite, rows, facts))
    verdicts = {row.verdict for row in rows}
    strict = getattr(arguments, "strict", False)
    return int(Verdict.FAILED in verdicts or (strict and Verdict.MISS in verdicts))


def _tuned(arguments: argparse.Namespace) -> int:
    facts, budget = machine(), "quick" if arguments.quick else arguments.budget
    count = 6 if arguments.quick else arguments.draw
    kernels = tuned.chosen(count, arguments.seed, arguments.only or (), runtime.default_device().profile)
    found: list[tuned.Result] = []
    kept = None if arguments.json in (None, "-") else Path(arguments.json).with_suffix(".jsonl")
    status = 0
    try:
        for result in tuned.measure_tuned(kernels, budget, kept, _progress):
            found.append(result)
    except KeyboardInterrupt:
        status = 130
    text = tuned.to_json(found, budget, arguments.seed, facts)
    _write(arguments.json, f"{machine_text(facts)}\n\n{table(tuned.rows(found, budget))}", text)
    missed = any(one.failed for one in found) or (arguments.strict and not tuned.is_good(found, budget))
    return status or int(missed)


def _coldpath(arguments: argparse.Namespace) -> int:
    _progress("compiling a GPT-2-sized forward pass in a fresh process with a cold cache")
    facts = machine()
    found = measure_coldpath("tiny" if arguments.quick else "gpt2")
    text = json.dumps({"suite": "coldpath", "machine": facts, **found}, indent=2, ensure_ascii=False)
    _write(arguments.json, f"{machine_text(facts)}\n\n{coldpath_table(found)}", text)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    facts = machine()
    threads = arguments.threads or range(1, min(2, cores()) + 1)
    chosen = compare.cases(arguments.only or [], threads, arguments.quick)
    found = compare.compare(arguments.old, chosen, arguments.quick, _progress)
    summary = compare.summary(found)
    text = f"{machine_text(facts)}\n\n{table([row.row() for row in found])}\n\n{compare.verdict(summary)}"
    _write(arguments.json, text, json.dumps({"suite": "compare", "machine": facts, **summary}, indent=2))
    return int(any(row.slower or row.failed == "new" for row in found))


_SUITES = {
    "core": _core,
    "ops": _ops,
    "cpu": _cpu,
    "grad": _grad,
    "train": _train,
    "coldpath": _coldpath,
    "feel": _feel,
    "model": _model,
    "tuned": _tuned,
    "compare": _compare,
}


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _write(target: str | None, table_text: str, json_text: str) -> None:
    if target == "-":
        print(json_text)
        return
    if target is not None:
        Path(target).write_text(json_text + "\n", encoding="utf-8")
    print(table_text)


if __name__ == "__main__":
    sys.exit(main())
