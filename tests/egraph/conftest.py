"""Plans that tests make by their own prices are for themselves alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from smelt.config import configure


@pytest.fixture
def nothing_on_disk() -> Iterator[None]:
    """What is planned inside is not kept for later runs, nor found from earlier ones."""
    with configure(disk_cache=False):
        yield
