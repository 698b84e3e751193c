"""Takes functions of tensors; gives functions of tensors: compiled (`jit`), differentiated (`grad` and others), batched
(`vmap`), looked into (`explain`). Runs functions as the bodies of loops and branches.

Always holds: a transformed function gives what the original gives; tracing leaves no trace on the arguments.
"""

import sys

from smelt.names import understand
from smelt.transform.associative import associative_scan
from smelt.transform.callback import callback
from smelt.transform.checkpoint import checkpoint
from smelt.transform.control import cond, fori_loop, scan, while_loop
from smelt.transform.custom import custom_vjp, stop_gradient
from smelt.transform.explain import Explanation, examine, explain
from smelt.transform.gradients import grad, jvp, value_and_grad, vjp
from smelt.transform.jacobians import hessian, jacobian
from smelt.transform.jit import Jit, jit
from smelt.transform.native import NativeFunction, stand_in
from smelt.transform.vmap import Vmap, vmap

__all__ = [
    "associative_scan",
    "Explanation",
    "Jit",
    "NativeFunction",
    "Vmap",
    "callback",
    "checkpoint",
    "cond",
    "custom_vjp",
    "examine",
    "explain",
    "fori_loop",
    "grad",
    "hessian",
    "jacobian",
    "jit",
    "jvp",
    "scan",
    "stand_in",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

understand(sys.modules[__name__])
