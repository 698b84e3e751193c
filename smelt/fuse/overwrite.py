"""Which inputs of a region its output may take the place of.

Every action of a schedule visits each element of the output once, on whichever thread. So where an input is only ever
read at the very element that is being written, and nothing is folded or carried along an axis, it does not matter
whether the two are the same memory.
"""

from __future__ import annotations

from smelt.kernel.region import Region


def overwritable(region: Region) -> list[int]:
    """Positions, in calling order, of the inputs that may lie in the output's memory."""
    if len(region.outputs) != 1:
        return []
    [output] = region.outputs
    expressions = region.order()
    if any(e.op in ("reduce", "scan") for e in expressions):
        return []
    written = output.buffer.address(output.index)
    elsewhere: set[str] = set()
    for e in expressions:
        if e.op == "load":
            buffer, index, mask, picks = e.attribute
            # Of the same type: compilers take it that memory of two types is not the same.
            same = buffer.dtype == output.buffer.dtype and buffer.address(index) == written
            if mask or picks or not same:
                elsewhere.add(buffer.name)
    return [k for k, buffer in enumerate(region.buffers()) if k > 0 and buffer.name not in elsewhere]
