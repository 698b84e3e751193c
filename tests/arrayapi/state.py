"""How far smelt is with the standard: what is missing and what differs, each with its reason.

The tests fail when something is missing and not listed, and when something is listed and no longer so. The page
`docs/reference/array-api.md` is written from the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import smelt as sm

# Functions, dtypes, extensions and `array.` methods of the standard that smelt does not have.
MISSING: dict[str, str] = {}


@dataclass(frozen=True)
class Deviation:
    """Something that smelt has, but not as the standard says; `holds` tells whether that is still so."""

    what: str
    reason: str
    holds: Callable[[], bool]


def _refuses_assignment() -> bool:
    try:
        sm.zeros(2)[0] = 1
    except sm.errors.ArgumentError:
        return True
    return False


def _copies() -> bool:
    array = np.zeros(2)
    return not np.shares_memory(sm.asarray(array).numpy(), array)


DEVIATIONS = [
    Deviation(
        "`x[key] = values` is refused unless `sm.item_assignment(True)` has allowed it, and changes x alone, no "
        "tensor that was made from it",
        "tensors never change, and who reads `y = x` need not look for what happens to x later",
        _refuses_assignment,
    ),
    Deviation(
        "`asarray(x)` with `copy=None` copies the memory of other libraries, although it could be shared",
        "tensors never change, and that memory might; `copy=False` shares it",
        _copies,
    ),
]

# Defaults that are spelled otherwise and mean the same: None, where PyTorch's name for the argument may be used.
SPELLED_OTHERWISE = {("vecdot", "axis"), ("diff", "axis"), ("sort", "axis"), ("argsort", "axis")}
