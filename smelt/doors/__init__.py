"""Doors for users: equalities that the compiler plans with (`rule`), operations (`custom_op`) and kernels
(`custom_kernel`) of their own.

Takes tensor code of users; gives things that the stages of smelt take. Always holds: whatever comes in is tested
against the reference before it is used, and refused with an error that shows what is wrong with it.
"""

import sys

from smelt.doors.kernels import CustomKernel, custom_kernel
from smelt.doors.operations import CustomOp, custom_op
from smelt.doors.rules import StatedRule, rule
from smelt.names import understand

__all__ = ["rule", "StatedRule", "custom_op", "CustomOp", "custom_kernel", "CustomKernel"]

understand(sys.modules[__name__])
