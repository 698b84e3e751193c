"""Functions of layers by PyTorch's names and with its arguments: `import smelt.nn.functional as F`.

They are those of `smelt` and `smelt.nn.losses`. Functions whose arguments mean something else there are not in here:
asking for one says what to write.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from smelt.names import door, understand
from smelt.nn import losses
from smelt.nn.dropout import Dropout
from smelt.nn.losses import *
from smelt.tensor import (
    Tensor,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    celu,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    elu,
    embedding,
    fold,
    gelu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    interpolate,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    maximum,
    mish,
    norm,
    one_hot,
    prelu,
    relu,
    relu6,
    scaled_dot_product_attention,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)

hardsigmoid, hardswish, hardtanh, logsigmoid = hard_sigmoid, hard_swish, hard_tanh, log_sigmoid


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias, over the last axis.

    >>> sm.nn.functional.linear(sm.ones((2, 3)), sm.ones((5, 3))).shape
    (2, 5)
    """
    y = x @ weight.T
    return y if bias is None else y + bias


def dropout(x: Tensor, p: float = 0.5, training: bool = True, *, key: Tensor | None = None) -> Tensor:
    """Zeros with probability `p`; what stays is divided by 1 - p. Unless `training`, x itself.

    >>> sm.nn.functional.dropout(sm.ones(3), training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    result: Tensor = Dropout(p).train(training)(x, key)
    return result


def normalize(x: Tensor, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its norm along an axis, or by `eps` where the norm is less.

    >>> sm.nn.functional.normalize(sm.asarray([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    return x / maximum(norm(x, p, axis, keepdims=True), eps)


__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "scaled_dot_product_attention",
    "embedding",
    "one_hot",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "interpolate",
    "linear",
    "dropout",
    "normalize",
]
__all__ += losses.__all__

understand(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
