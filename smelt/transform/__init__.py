"""Takes functions of tensors; gives functions of tensors: compiled (`jit`), batched (`vmap`), looked into (`explain`).

Always holds: a transformed function gives what the original gives; tracing leaves no trace on the arguments.
"""

from smelt.transform.explain import Explanation, examine, explain
from smelt.transform.jit import Jit, jit
from smelt.transform.vmap import Vmap, vmap

__all__ = ["Explanation", "Jit", "Vmap", "examine", "explain", "jit", "vmap"]
