"""How much of what others test is computed as they expect: `python -m smelt.bench.conformance SET`.

Takes a set of programs that say what they should give; gives a table by operations. Always holds: every program runs in
a process that may hang, crash or ask for too much memory, and costs no more than its own row.
"""

from smelt.bench.conformance.command import main

__all__ = ["main"]
