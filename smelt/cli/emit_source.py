"""`smelt emit-source`: the source of a function's kernels."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from smelt.cli import emitting, functions

_EXAMPLES: Final = """examples:
  smelt emit-source net.py:forward --shapes "f32[8,784], f32[784,10]"
  smelt emit-source net.py:forward --shapes "f32[8,784], f32[784,10]" --device opencl -o forward.cl
  smelt emit-source net.py:forward --shapes "f32[8,784], f32[784,10]" --json      the source, and each kernel's schedule

The function is compiled and not run: C for processors, OpenCL C for other devices.
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = emitting.parser("emit-source", "Write the source of a function's kernels.", _EXAMPLES)
    one.add_argument("--device", default="", help="for which device; smelt devices lists those that are here")
    emitting.add_output(one, "what each kernel computes, and how")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Compile, and print or write the source."""
    called = functions.called(arguments)
    graph = emitting.compiled(called, arguments.device)
    kernels = [
        {"name": one.name, "computes": one.sink, "nodes": list(one.nodes), "form": one.form, "schedule": one.schedule}
        for one in graph.kernels
    ]
    return emitting.deliver(arguments, f"{graph.source.rstrip()}\n", {"function": called.name, "kernels": kernels})
