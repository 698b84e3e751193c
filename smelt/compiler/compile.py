"""A compiled graph for a key: read back from disk, or compiled. The stages themselves are only loaded when they are
needed.
"""

from __future__ import annotations

import sys

from smelt.compiler.record import graph_digest, load_graph
from smelt.compiler.stages import Stages
from smelt.compiler.trace import GraphKey, calls_python
from smelt.config import settings
from smelt.device.protocol import Device
from smelt.plan import CompiledGraph


def compile_graph(key: GraphKey, device: Device, explain: bool = False) -> CompiledGraph:
    """Compile the graph of a key, or load it where an earlier process did.

    With `explain`, every stage is run and its text is kept.
    """
    stages = Stages()
    compiled, digest = None, ""
    if settings().disk_cache and not explain and not calls_python(key):
        with stages.stage("load"):
            digest = graph_digest(key, device)
            compiled = load_graph(key, digest, device)
    if compiled is None:
        with stages.stage("import"):
            from smelt.compiler.driver import compile_key
        compiled = compile_key(key, device, stages, digest, explain)
    compiled.seconds = stages.seconds
    if settings().debug:
        _report(compiled)
    return compiled


def _report(compiled: CompiledGraph) -> None:
    """What `SMELT_DEBUG` asked for, on stderr."""
    level = settings().debug
    total = sum(compiled.seconds.values())
    spent = ", ".join(f"{name} {1e3 * s:.1f}" for name, s in compiled.seconds.items())
    print(f"smelt: {len(compiled.kernels)} kernels in {1e3 * total:.1f} ms ({spent})", file=sys.stderr)
    if level >= 2:
        for record in compiled.kernels:
            print(f"  {record.name} {record.sink} <- {' '.join(record.nodes)}", file=sys.stderr)
            print(f"    {record.schedule}", file=sys.stderr)
    if level >= 3:
        from smelt.compiler.driver import print_kernels

        print(*print_kernels(), sep="\n", file=sys.stderr)
    if level >= 4:
        print(compiled.source, file=sys.stderr)
