"""Contenders on their way to libraries: compiled at a low priority, within limits, and found at fault one by one."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from smelt.device import Device, Library
from smelt.errors import CompilerError, InternalError

LIMIT: Final = 20.0  # seconds that compiling one source may take, and several on as many cores
NICE: Final = 10
_LOOK: Final = 0.005  # seconds


def built(
    sources: Sequence[str], device: Device, limit: float = LIMIT, until: float = math.inf
) -> list[Library | str | None]:
    """The library of each source, or why there is none; None for those that were not begun until it was too late."""
    stop = threading.Event()
    with ThreadPoolExecutor(1, initializer=_be_nice) as pool:
        try:
            return pool.submit(_built, list(sources), device, limit, until, stop.is_set).result()
        finally:
            stop.set()


def _be_nice() -> None:
    """What this thread starts, compilers, leaves the cores to others. On Linux the rest of the process is as before."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _built(
    sources: list[str], device: Device, limit: float, until: float, stop: Callable[[], bool]
) -> list[Library | str | None]:
    """One that does not compile, or takes too long, takes others along: all are halved until it is alone. What was
    done before is found in the cache.
    """
    if not sources:
        return []
    rounds = -(-len(sources) // max(1, device.profile.cores))
    try:
        found: list[Library | str | None] = list(_together(sources, device, limit * rounds, until, stop))
        return found + [None] * (len(sources) - len(found))
    except (InternalError, CompilerError, TimeoutError) as error:
        if len(sources) == 1 or stop():
            return [str(error) or f"compiling takes longer than {limit:g} s"] * len(sources)
        half = len(sources) // 2
        return [r for part in (sources[:half], sources[half:]) for r in _built(part, device, limit, until, stop)]


def _together(
    sources: Sequence[str], device: Device, limit: float, until: float, stop: Callable[[], bool]
) -> Sequence[Library]:
    """The libraries of as many sources as can be begun in time."""
    deadline, rest = time.monotonic() + limit, list(reversed(sources))
    with device.building() as builder:
        while rest or builder.waiting():
            # One waits for the next core that is free.
            while rest and builder.waiting() <= device.profile.cores:
                if time.monotonic() > until:
                    rest.clear()
                    break
                builder.add(rest.pop())
            builder.advance()
            if stop() or time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(_LOOK if builder.waiting() else 0.0)
        return builder.finish()
