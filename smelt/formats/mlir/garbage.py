"""A pause of Python's search for unreachable objects, while much is built that stays."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """No search inside: it would walk again and again through a tree that grows and of which nothing can go yet. What
    dies without a cycle goes as always.
    """
    if not gc.isenabled():  # nor is it begun by an inner block, or one of another thread
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
