"""A deep-learning compiler with a tensor library on top: `import smelt as sm`.

Takes tensor programs; gives fused kernels and their results. Always holds: nothing is computed before it is asked for,
a tensor never changes, and what this module names is the whole public surface.
"""

from __future__ import annotations

import importlib
import math as _math
from typing import TYPE_CHECKING, Any

from smelt import errors, names, tracebacks, tree
from smelt.config import VERSION as __version__
from smelt.config import configure
from smelt.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from smelt.dtypes import bool_ as bool
from smelt.graph import Dim
from smelt.tensor import (
    Tensor,
    __array_api_version__,
    __array_namespace_info__,
    aliases,
    creation,
    devices,
    interop,
    item_assignment,
    random,
    scalars,
    types,
)
from smelt.tensor.aliases import *
from smelt.tensor.creation import *
from smelt.tensor.devices import *
from smelt.tensor.index import nonzero as finding
from smelt.tensor.index import take_scatter as lookup
from smelt.tensor.index import unique as sets
from smelt.tensor.index.nonzero import *
from smelt.tensor.index.take_scatter import *
from smelt.tensor.index.unique import *
from smelt.tensor.interop import *
from smelt.tensor.math import (
    einsums,
    elementwise,
    floats,
    histograms,
    linear,
    nans,
    norms,
    ordering,
    quantiles,
    reductions,
    scans,
    special,
    trigonometry,
)
from smelt.tensor.math.einsums import *
from smelt.tensor.math.elementwise import *
from smelt.tensor.math.floats import *
from smelt.tensor.math.histograms import *
from smelt.tensor.math.linear import *
from smelt.tensor.math.nans import *
from smelt.tensor.math.norms import *
from smelt.tensor.math.ordering import *
from smelt.tensor.math.quantiles import *
from smelt.tensor.math.reductions import *
from smelt.tensor.math.scans import *
from smelt.tensor.math.special import *
from smelt.tensor.math.trigonometry import *
from smelt.tensor.networks import activations, layers
from smelt.tensor.networks.activations import *
from smelt.tensor.networks.layers import *
from smelt.tensor.scalars import *
from smelt.tensor.shape import joining, movement, padding
from smelt.tensor.shape.joining import *
from smelt.tensor.shape.movement import *
from smelt.tensor.shape.padding import *
from smelt.tensor.windows import adaptive_pooling, convolution, folding, pooling, resizing
from smelt.tensor.windows.adaptive_pooling import *
from smelt.tensor.windows.convolution import *
from smelt.tensor.windows.folding import *
from smelt.tensor.windows.pooling import *
from smelt.tensor.windows.resizing import *

if TYPE_CHECKING:
    from smelt import data as data
    from smelt import debug as debug
    from smelt import fft as fft
    from smelt import linalg as linalg
    from smelt import nn as nn
    from smelt import optim as optim
    from smelt import train as train
    from smelt.debug import profile as profile
    from smelt.doors import custom_kernel as custom_kernel
    from smelt.doors import custom_op as custom_op
    from smelt.doors import rule as rule
    from smelt.formats import load as load
    from smelt.formats import save as save
    from smelt.formats import stablehlo as stablehlo
    from smelt.frontends import from_jax as from_jax
    from smelt.frontends import to_jax as to_jax
    from smelt.nn.losses import cross_entropy as cross_entropy
    from smelt.transform.associative import associative_scan as associative_scan
    from smelt.transform.callback import callback as callback
    from smelt.transform.checkpoint import checkpoint as checkpoint
    from smelt.transform.control import cond as cond
    from smelt.transform.control import fori_loop as fori_loop
    from smelt.transform.control import scan as scan
    from smelt.transform.control import while_loop as while_loop
    from smelt.transform.custom import custom_vjp as custom_vjp
    from smelt.transform.custom import stop_gradient as stop_gradient
    from smelt.transform.explain import explain as explain
    from smelt.transform.gradients import grad as grad
    from smelt.transform.gradients import jvp as jvp
    from smelt.transform.gradients import value_and_grad as value_and_grad
    from smelt.transform.gradients import vjp as vjp
    from smelt.transform.jacobians import hessian as hessian
    from smelt.transform.jacobians import jacobian as jacobian
    from smelt.transform.jit import jit as jit
    from smelt.transform.vmap import vmap as vmap
    from smelt.tuning import tune as tune

e: float = _math.e
inf: float = _math.inf
nan: float = _math.nan
pi: float = _math.pi
newaxis = None

tracebacks.install()

# Loaded when first used, so that `import smelt` stays instant.
_LAZY = dict.fromkeys(
    (
        "associative_scan",
        "callback",
        "checkpoint",
        "cond",
        "custom_vjp",
        "explain",
        "fori_loop",
        "grad",
        "hessian",
        "jacobian",
        "jit",
        "jvp",
        "scan",
        "stop_gradient",
        "value_and_grad",
        "vjp",
        "vmap",
        "while_loop",
    ),
    "smelt.transform",
) | {
    "cross_entropy": "smelt.nn.losses",
    "from_jax": "smelt.frontends",
    "to_jax": "smelt.frontends",
    "load": "smelt.formats",
    "profile": "smelt.debug",
    "rule": "smelt.doors",
    "custom_kernel": "smelt.doors",
    "custom_op": "smelt.doors",
    "save": "smelt.formats",
    "tune": "smelt.tuning",
}

_PARTS = (
    "data",
    "debug",
    "fft",
    "linalg",
    "nn",
    "optim",
    "train",
)  # loaded when first used, as well

_INNER_PARTS = {"stablehlo": "smelt.formats.stablehlo"}

__all__ = [
    "errors",
    "tree",
    "__version__",
    "DType",
    "bfloat16",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
    "int4",
    "uint4",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "Dim",
    "Tensor",
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "jacobian",
    "hessian",
    "checkpoint",
    "custom_vjp",
    "stop_gradient",
    "jit",
    "vmap",
    "configure",
    "explain",
    "item_assignment",
    "tune",
    "cond",
    "while_loop",
    "fori_loop",
    "scan",
    "associative_scan",
    "callback",
    "custom_kernel",
    "custom_op",
    "rule",
    "random",
    "data",
    "debug",
    "fft",
    "linalg",
    "nn",
    "optim",
    "train",
    "stablehlo",
    "from_jax",
    "to_jax",
    "load",
    "profile",
    "save",
    "cross_entropy",
    "types",
    "e",
    "inf",
    "nan",
    "pi",
    "newaxis",
    "__array_api_version__",
    "__array_namespace_info__",
]
__all__ += activations.__all__
__all__ += adaptive_pooling.__all__
__all__ += aliases.__all__
__all__ += convolution.__all__
__all__ += creation.__all__
__all__ += devices.__all__
__all__ += einsums.__all__
__all__ += elementwise.__all__
__all__ += finding.__all__
__all__ += floats.__all__
__all__ += folding.__all__
__all__ += histograms.__all__
__all__ += interop.__all__
__all__ += joining.__all__
__all__ += layers.__all__
__all__ += linear.__all__
__all__ += lookup.__all__
__all__ += movement.__all__
__all__ += nans.__all__
__all__ += norms.__all__
__all__ += ordering.__all__
__all__ += padding.__all__
__all__ += pooling.__all__
__all__ += quantiles.__all__
__all__ += reductions.__all__
__all__ += resizing.__all__
__all__ += scalars.__all__
__all__ += scans.__all__
__all__ += sets.__all__
__all__ += special.__all__
__all__ += trigonometry.__all__

if not TYPE_CHECKING:  # a type checker must not take every name for one that is there
    _missing, __dir__ = names.door(__name__, __all__)

    def __getattr__(name: str) -> Any:
        if name in _PARTS:
            return importlib.import_module(f"smelt.{name}")
        if name in _INNER_PARTS:
            return importlib.import_module(_INNER_PARTS[name])
        if name in _LAZY:
            value = getattr(importlib.import_module(_LAZY[name]), name)
            globals()[name] = value
            return value
        return _missing(name)
