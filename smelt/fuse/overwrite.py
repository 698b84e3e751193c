"""Which inputs of a region each of its outputs may take the place of.

Every action of a schedule visits each element of an output once, on whichever thread, and stores after all values are
there. So where an input is only ever read at the very element that is being written, and not inside of what is folded
or carried along an axis, it does not matter whether the two are the same memory.
"""

from __future__ import annotations

from smelt.kernel import Output, Region, walk


def overwritable(region: Region) -> list[list[int]]:
    """For each output the positions, in calling order, of the inputs that may lie in its memory."""
    expressions = region.order()
    if any(e.op == "scan" for e in expressions):
        return [[] for _ in region.outputs]
    folded = [e.arguments[0] for e in expressions if e.op == "reduce"]
    inside = {e.attribute.buffer.name for e in walk(folded) if e.op == "load"}
    return [_for_output(region, output, inside) for output in region.outputs]


def _for_output(region: Region, output: Output, folded: set[str]) -> list[int]:
    written = output.buffer.address(output.index)
    elsewhere = set(folded)
    for e in region.order():
        if e.op == "load":
            buffer, index, mask, picks = e.attribute
            # Of the same type: compilers take it that memory of two types is not the same.
            same = buffer.dtype == output.buffer.dtype and buffer.address(index) == written
            if mask or picks or not same:
                elsewhere.add(buffer.name)
    first = len(region.outputs)
    return [k for k, buffer in enumerate(region.buffers()) if k >= first and buffer.name not in elsewhere]
