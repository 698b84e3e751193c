"""CHLO's operations that broadcast, as NumPy does or by named axes; and its constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smelt.formats.mlir import Typed
from smelt.formats.stablehlo import elementwise, movement, special
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, broadcast_shapes, build, pairs

Function = Callable[..., Node]


def _spread(call: Call) -> list[Node]:
    """The operands in one shape. The axes of the smaller one may be named."""
    operands: list[Node] = list(call.operands)
    if call.attribute("broadcast_dimensions") is not None:
        small, large = sorted(range(2), key=lambda k: operands[k].rank)
        rank = operands[large].rank
        axes = call.axes("broadcast_dimensions", rank, operands[small].rank)
        sizes = dict(zip(axes, operands[small].shape, strict=True))
        turned = build.permute(operands[small], sorted(range(len(axes)), key=lambda k: axes[k]))
        operands[small] = build.reshape(turned, tuple(sizes.get(k, 1) for k in range(rank)))
    shape = operands[0].shape
    for x in operands:
        shape = broadcast_shapes(shape, x.shape, call.operation.name)
    return [build.broadcast_to(x, shape) for x in operands]


def _row(function: Function, operands: int = 2) -> Row:
    return Row(lambda call: function(*_spread(call)), ("broadcast_dimensions",), operands)


def _compare(call: Call) -> Node:
    direction = call.word("comparison_direction")
    if direction not in elementwise.DIRECTIONS:
        call.wrong(f"there is no direction {direction!r}")
    a, b = _spread(call)
    return elementwise.compare(direction, a, b, call.word("compare_type"))


def _constant_like(call: Call) -> Node:
    (x,) = call.operands
    value = call.attribute("value")
    value = value.value if isinstance(value, Typed) else value
    if not isinstance(value, bool | int | float):
        call.refuse("a value that is no number")
    return build.const(value, x.dtype, x.shape)


_PLAIN: Final = (
    *("add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder"),
    *("shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"),
)

ROWS: Final = rows(
    {
        **{f"broadcast_{name}": _row(elementwise.FUNCTIONS[name]) for name in _PLAIN},
        "broadcast_complex": _row(pairs.paired),
        "broadcast_next_after": _row(special.next_after),
        "broadcast_polygamma": _row(special.widened(special.polygamma)),
        "broadcast_zeta": _row(special.widened(special.zeta)),
        "broadcast_select": _row(elementwise.select, 3),
        "broadcast_compare": Row(_compare, ("broadcast_dimensions", "comparison_direction", "compare_type"), 2),
        "constant": Row(movement.read_constant, ("value",), 0),
        "constant_like": Row(_constant_like, ("value",), 1),
    },
    "chlo",
)
