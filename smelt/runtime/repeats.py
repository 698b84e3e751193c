"""Programs outside of `jit` that are compiled again and again for other sizes: after a few, a note says how one can
serve all.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from smelt.errors import TraceWarning, user_location
from smelt.graph import shape_text
from smelt.runtime.state import current

if TYPE_CHECKING:
    from smelt.compiler import Traced

ENOUGH: Final = 10
_MOST: Final = 4096  # lines and programs to remember


def note_compiled(traced: Traced) -> None:
    """Note a program that is compiled because somebody asks for a value; warn when enough differ in sizes only."""
    place = user_location()
    if place is None:
        return
    entries = traced.key[0]
    common = hash(tuple([_without_sizes(*entry) for entry in entries]))
    known = current().sizes
    if len(known) >= _MOST:
        known.clear()
    seen = known.setdefault((place, common), {})
    shapes = tuple([entry[2] for entry in entries])
    *_, before = shapes, *seen  # at once: another thread may note something meanwhile
    seen[shapes] = None
    if len(seen) != ENOUGH:
        return
    last, now = next((pair for pair in zip(before, shapes, strict=True) if pair[0] != pair[1]), ((), ()))
    warnings.warn_explicit(
        f"{ENOUGH} programs were compiled at this line that differ in sizes only, such as {shape_text(last)} and "
        f"{shape_text(now)}. One can serve all of them: put the computation into a function f, and call "
        "sm.jit(f, dynamic=True).",
        TraceWarning,
        *place,
    )


def _without_sizes(op: Any, dtype: Any, shape: Any, attribute: Any, *sources: Any) -> tuple[Any, ...]:
    """An entry of a key without what may be sizes."""
    return op, dtype, len(shape), attribute if isinstance(attribute, str) else type(attribute), sources
