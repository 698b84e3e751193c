"""Node-level functions: how the frontend, the composites and every rewrite rule make nodes.

They check their arguments and raise typed errors about the user's call; `name=` is what the message calls it. Shapes
are tuples of `int | Index`; two sizes are equal when they are structurally equal. A call that changes nothing gives
its source back.
"""

from __future__ import annotations

from smelt.graph.build_elementwise import (
    add,
    binary,
    bitcast,
    bitwise_and,
    cast,
    const,
    div,
    eq,
    erf,
    exp,
    iota,
    le,
    log,
    logical_not,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    reciprocal,
    rsqrt,
    scale,
    shift,
    sqrt,
    sub,
    tanh,
    unary,
    where,
)
from smelt.graph.build_index import gather, in_range, nonzero, scan, scatter, sort
from smelt.graph.build_movement import broadcast_to, concat, expand, pad, permute, reshape, slice_, window
from smelt.graph.build_reduce import contract, inner_products, matmul, reduce, size_node
from smelt.graph.composites import composite
from smelt.graph.shapes import broadcast_shapes, infer_reshape

__all__ = ["const", "iota", "size_node", "composite"]
__all__ += ["reshape", "infer_reshape", "permute", "expand", "broadcast_to", "broadcast_shapes"]
__all__ += ["pad", "slice_", "concat", "window"]
__all__ += ["unary", "binary", "where", "cast", "bitcast", "scale", "shift"]
__all__ += ["neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "erf", "logical_not"]
__all__ += ["add", "sub", "mul", "div", "maximum", "minimum", "bitwise_and", "eq", "ne", "lt", "le"]
__all__ += ["reduce", "contract", "matmul", "inner_products"]
__all__ += ["scan", "sort", "gather", "scatter", "in_range", "nonzero"]
