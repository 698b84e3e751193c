"""The tensor library: `Tensor` and the function families that make and combine tensors.

Takes what users write: numbers, arrays, tensors, axes, shapes. Gives tensors, which are handles on graph nodes.
Always holds: nothing is computed before values are asked for, a tensor never changes, mistakes raise typed errors at
the call that made them, and a function and the method of the same name are one definition.
"""

from smelt.tensor.arguments import diagonal_number, flag, integer, keep_axes, real_number
from smelt.tensor.complexes import conjugated, imaginary
from smelt.tensor.creation import arange, full, ones, zeros
from smelt.tensor.handle import Handle, fitted, floating, is_weak, misfit, node_of, observe, pair, widened, wrap
from smelt.tensor.index.assignment import item_assignment
from smelt.tensor.index.nonzero import bincount
from smelt.tensor.index.take_scatter import embedding, one_hot, searchsorted, take, take_along_axis
from smelt.tensor.interop import array_of, asarray, from_numpy, numpy, realize, to_node
from smelt.tensor.math.einsums import einsum
from smelt.tensor.math.elementwise import abs, clip, isfinite, maximum, tanh, where
from smelt.tensor.math.linear import matmul, outer, tensordot, vecdot
from smelt.tensor.math.norms import norm, vector_norm
from smelt.tensor.math.scans import cumsum
from smelt.tensor.math.special import xlogy
from smelt.tensor.namespace import __array_api_version__, __array_namespace_info__
from smelt.tensor.networks.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
    tanhshrink,
    threshold,
)
from smelt.tensor.networks.layers import attention, layer_norm, rms_norm, scaled_dot_product_attention
from smelt.tensor.random.initializers import bounded
from smelt.tensor.scalars import finfo, result_type
from smelt.tensor.shape.joining import concat, stack
from smelt.tensor.shape.movement import broadcast_shapes, broadcast_to, flip, matrix_transpose, repeat, roll, triu
from smelt.tensor.shape.padding import pad
from smelt.tensor.tensor import Tensor
from smelt.tensor.types import DTypeLike
from smelt.tensor.windows.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from smelt.tensor.windows.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from smelt.tensor.windows.folding import fold, unfold
from smelt.tensor.windows.places import for_each
from smelt.tensor.windows.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from smelt.tensor.windows.resizing import MODES, interpolate
