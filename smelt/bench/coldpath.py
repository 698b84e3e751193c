"""Where the time of a first compilation goes."""

from __future__ import annotations

from smelt.bench.first_calls import child_task
from smelt.bench.report import Report, Row
from smelt.bench.timing import private_cache

_MEANING = {
    "build nodes": "the model's own Python code",
    "trace": "graph to key",
    "load": "a look into the disk cache",
    "rebuild": "key to a graph of its own",
    "rewrite": "rules to the fixpoint, composites written out",
    "fuse": "which nodes share a kernel",
    "regions": "index expressions of each kernel",
    "schedule": "default schedule, lowering to kernel IR",
    "verify": "kernel IR checked",
    "render": "kernel IR to C",
    "compile": "the C compiler",
    "plan": "arena offsets, launch list",
    "store": "written to the disk cache",
    "other": "between the stages",
}


def measure_coldpath(size: str) -> Report:
    """Seconds per stage of a model's first compilation, in a fresh process with a cold cache."""
    with private_cache() as environment:
        found = child_task("coldpath", {"size": size}, environment)
    stages: dict[str, float] = found["stages"]
    total = sum(stages.values())
    rows = [
        Row(name, seconds, "s", detail=f"{seconds / total:4.0%}  {_MEANING.get(name, '')}")
        for name, seconds in stages.items()
    ]
    text = (
        f"{found['nodes']} nodes, {found['kernels']} launches of {found['distinct_kernels']} distinct kernels, "
        f"{found['source_lines']} lines of C; finding and running the compiled graph: {found['run_seconds']:.3f} s"
    )
    return Report([*rows, Row("total", total, "s")], extra=found, text=text)
