"""What devices do together, where there is one: nothing, or nothing at all."""

from __future__ import annotations

from typing import Final

from smelt.dtypes import uint32
from smelt.formats.stablehlo.rows import Call, Row, Value, integers_of, rows
from smelt.graph import Node, build


def _alone(call: Call, name: str) -> tuple[int, ...]:
    """The devices that an attribute names: number 0, or places that nobody takes (-1)."""
    value = call.attribute(name)
    found = () if value is None else integers_of(value, 1)
    if found is None:
        call.wrong(f"{name} is no row of integers")
    if max(found, default=0) > 0:
        call.refuse(f"{name} has device {max(found)}", "There is one device: its number is 0.")
    return found


def _together(call: Call) -> list[Value]:
    """Gathered from, reduced over, shared by one device."""
    _alone(call, "replica_groups")
    for k, x in enumerate(call.operands):
        if isinstance(x, Node) and call.type(k) != (x.dtype, x.shape):
            call.refuse(f"a result of another shape than {list(x.shape)}, which needs several devices")
    return list(call.operands)


def _received(call: Call, senders: int, name: str) -> Node:
    """The operand if device 0 is sent it, or zeros."""
    (x,) = call.operands
    sent = 0 in _alone(call, name)[::senders]
    return x if sent else build.const(0, x.dtype, x.shape)


_NOTE: Final = "with one device"
_GROUPS: Final = ("replica_groups",)

ROWS: Final = rows(
    {
        "all_gather": Row(_together, _GROUPS, None, _NOTE),
        "all_reduce": Row(_together, _GROUPS, None, _NOTE),
        "all_to_all": Row(_together, _GROUPS, None, _NOTE),
        "cross-replica-sum": Row(_together, _GROUPS, None, _NOTE),
        "reduce_scatter": Row(_together, _GROUPS, None, _NOTE),
        "collective_broadcast": Row(lambda call: _received(call, 1, "replica_groups"), _GROUPS, 1, _NOTE),
        "collective_permute": Row(
            lambda call: _received(call, 2, "source_target_pairs"), ("source_target_pairs",), 1, _NOTE
        ),
        "replica_id": Row(lambda call: build.const(0, uint32), (), 0, "there is one device"),
        "partition_id": Row(lambda call: build.const(0, uint32), (), 0, "there is one device"),
    }
)
