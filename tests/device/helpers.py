"""What the tests of devices share."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def holds_in_forked_child(check: Callable[[], bool]) -> bool:
    """Whether `check` is true in a child made by `os.fork`; whatever happens there, the child ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads is the point
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
