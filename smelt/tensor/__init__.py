"""The tensor library: `Tensor` and the function families that make and combine tensors.

Takes what users write: numbers, arrays, tensors, axes, shapes. Gives tensors, which are handles on graph nodes.
Always holds: nothing is computed before values are asked for, a tensor never changes, mistakes raise typed errors at
the call that made them, and a function and the method of the same name are one definition.
"""

from smelt.tensor.handle import wrap
from smelt.tensor.tensor import Tensor

__all__ = ["Tensor", "wrap"]
