"""Takes functions of tensors; gives functions of tensors: compiled (`jit`), and looked into (`explain`). Runs functions
as the bodies of loops and branches.

Always holds: a transformed function gives what the original gives; tracing leaves no trace on the arguments.
"""

from smelt.transform.control import cond, fori_loop, scan, while_loop
from smelt.transform.explain import Explanation, examine, explain
from smelt.transform.jit import Jit, jit

__all__ = ["Explanation", "Jit", "cond", "examine", "explain", "fori_loop", "jit", "scan", "while_loop"]
