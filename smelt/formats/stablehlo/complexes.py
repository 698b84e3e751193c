"""What StableHLO asks of complex numbers beyond `graph.pairs`: their parts, an order, and two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, build, pairs

Compared = Callable[[Node, Node], Node]


def compared(strictly: Compared, last: Compared, a: Node, b: Node) -> Node:
    """The lexicographic order: by the real parts, and by the imaginary parts where these are equal."""
    (a_real, a_imaginary), (b_real, b_imaginary) = pairs.parts(a), pairs.parts(b)
    tie = build.bitwise_and(build.eq(a_real, b_real), last(a_imaginary, b_imaginary))
    return build.binary("or", strictly(a_real, b_real), tie)


def cube_root(x: Node) -> Node:
    """The root whose angle is a third of the number's."""
    return build.binary("pow", x, build.const(1 / 3, x.dtype, x.shape))


def angle(a: Node, b: Node) -> Node:
    """atan2, continued to complex numbers: -i log((b + i a) / sqrt(a² + b²))."""
    i = build.const(1j, a.dtype, a.shape)
    size = build.sqrt(build.add(build.mul(a, a), build.mul(b, b)))
    turned = build.unary("log", build.div(build.add(b, build.mul(i, a)), size))
    return build.neg(build.mul(i, turned))


def _complex(call: Call) -> Node:
    real, imaginary = call.operands
    if real.shape != imaginary.shape:
        call.misfit(f"the operands have shapes {list(real.shape)} and {list(imaginary.shape)}")
    return pairs.paired(real, imaginary)


ROWS: Final = rows(
    {
        "complex": Row(_complex, (), 2),
        "real": Row(lambda call: pairs.parts(call.operands[0])[0], (), 1),
        "imag": Row(lambda call: pairs.parts(call.operands[0])[1], (), 1),
    }
)
