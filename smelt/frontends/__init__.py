"""Doors to other libraries' programs: functions that were written for them, as functions of smelt's tensors.

Takes functions of other libraries; gives functions of tensors that `jit`, `grad` and `vmap` take; and the other way.
Always holds: another library is imported when it is asked for; what is taken from it smelt computes, and the other way.
"""

import sys

from smelt.frontends.exported import to_jax
from smelt.frontends.jax import FromJax, from_jax
from smelt.names import understand

__all__ = ["FromJax", "from_jax", "to_jax"]

understand(sys.modules[__name__])
