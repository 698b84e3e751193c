"""Doors to other libraries' programs: functions that were written for them, as functions of smelt's tensors.

Takes functions of other libraries; gives functions of tensors that `jit`, `grad` and `vmap` take. Always holds: another
library is imported when it is asked for, and only writes programs down; smelt computes.
"""

import sys

from smelt.frontends.jax import FromJax, from_jax
from smelt.names import understand

__all__ = ["FromJax", "from_jax"]

understand(sys.modules[__name__])
