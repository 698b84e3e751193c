"""Where the time of a first compilation goes."""

from __future__ import annotations

import json
from typing import Any

from smelt.bench.timing import private_cache, run_json

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


def measure_coldpath(size: str) -> dict[str, Any]:
    """Seconds per stage of a model's first compilation, in a fresh process with a cold cache."""
    with private_cache() as environment:
        found: dict[str, Any] = run_json(
            ["-m", "smelt.bench.child", "coldpath", json.dumps({"size": size})], environment
        )
    return found


def coldpath_table(found: dict[str, Any]) -> str:
    """What `measure_coldpath` found, for people."""
    stages: dict[str, float] = found["stages"]
    total = sum(stages.values())
    lines = [f"{'stage':<12}  {'seconds':>7}  {'share':>6}"]
    lines += [
        f"{name:<12}  {seconds:>7.3f}  {100 * seconds / total:>4.0f} %  {_MEANING.get(name, '')}".rstrip()
        for name, seconds in stages.items()
    ]
    lines.append(f"{'total':<12}  {total:>7.3f}")
    lines.append("")
    lines.append(
        f"{found['nodes']} nodes, {found['kernels']} launches of {found['distinct_kernels']} distinct kernels, "
        f"{found['source_lines']} lines of C; finding and running the compiled graph: {found['run_seconds']:.3f} s"
    )
    return "\n".join(lines)
