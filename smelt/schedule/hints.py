"""What every kernel may be told, whatever its form: when to ask for memory, what to transpose in registers, and how
many tasks make a chunk. What pays is seen in the lowered kernel.

Processors see streams of lines and fetch ahead by themselves, but only to the end of a page: at every page they start
anew, and a loop that computes anything between its loads waits there. No processor guesses where the next index points.
Asking costs one instruction a line, so it is for buffers that do not stay in the caches anyway. What is only written is
asked for where it would be read otherwise, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from smelt.cost import Profile
from smelt.graph import upper
from smelt.kernel import Action, Buffer, Grain, Kernel, Load, Prefetch, Transpose, statements
from smelt.schedule.access import stride
from smelt.schedule.choice import Knobs


def hints(knobs: Knobs, kernel: Kernel, profile: Profile) -> Iterator[Action]:
    """What the common knobs of a template say about a kernel. A group of threads waits for memory together."""
    large = [buffer for buffer in kernel.buffers if _nbytes(buffer) >= knobs.large]
    if profile.writes_unread:
        read = {s.buffer for s in statements(kernel.body) if isinstance(s, Load)}
        large = [buffer for buffer in large if buffer in read]
    if large and (knobs.ahead or knobs.gathered) and not profile.group_threads:
        ahead = profile.ahead(max(map(_nbytes, large))) if knobs.ahead == 1 else knobs.ahead
        yield Prefetch(ahead, knobs.gathered, tuple(buffer.name for buffer in large))
    if knobs.transpose and any(isinstance(s, Load) and _is_square(s) for s in statements(kernel.body)):
        yield Transpose()
    if knobs.grain:
        yield Grain(knobs.grain)


def _nbytes(buffer: Buffer) -> int:
    spans = [upper(extent) * abs(upper(step)) for extent, step in zip(buffer.shape, buffer.strides, strict=True)]
    return max([1, *spans]) * buffer.dtype.itemsize


def _is_square(load: Load) -> bool:
    """Whether memory lies along as many registers as there are lanes, and lanes lie elsewhere."""
    *registers, lane = load.value.parts or (None,)
    if lane is None or not lane.is_lane or stride(load, lane.variable) in (0, 1):
        return False
    return any(part.extent == lane.extent and stride(load, part.variable) == 1 for part in registers)
