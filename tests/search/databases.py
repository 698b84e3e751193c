"""The database of a test; the fixture `own_database` gives each its own."""

from __future__ import annotations

from smelt.search.log import Log, user_log


def log() -> Log:
    """The log of this test."""
    found = user_log()
    assert found is not None
    return found
