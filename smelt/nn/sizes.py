"""Checks of what modules are made with."""

from __future__ import annotations

from typing import Any

from smelt.errors import ArgumentError


def count(value: Any, name: str, what: str, least: int = 0) -> int:
    """A number of features, channels, rows."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name}: {what} is {value!r}", rule=f"it must be an integer of at least {least}.")
    return value
