"""A browser without a window: the system's, or the one that `make test-docs` unpacks into the virtual environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

COMMANDS = ("chromium-headless-shell", "chromium", "google-chrome")
UNPACKED = Path(sys.prefix) / "browser"


def program() -> tuple[str, dict[str, str]]:
    """The browser, and where it finds its libraries."""
    unpacked = UNPACKED / "usr" / "lib" / "chromium" / "chromium-headless-shell"
    if unpacked.exists():
        folders = {str(library.parent) for library in UNPACKED.rglob("lib*.so*")}
        return str(unpacked), {"LD_LIBRARY_PATH": ":".join([*sorted(folders), os.environ.get("LD_LIBRARY_PATH", "")])}
    found = next(filter(None, map(shutil.which, COMMANDS)), None)
    if found is None:
        pytest.skip(f"there is no browser ({', '.join(COMMANDS)}), and make test-docs could not get one from Debian")
    return found, {}


@contextmanager
def opened() -> Iterator[Any]:
    """A page in a browser. What it logs as an error, and what it asks the network for, fails the test."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make test-docs installs it)")
    command, environment = program()
    complaints: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command, env={**os.environ, **environment})
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda one: complaints.append(one.url) if not one.url.startswith("file:") else None)
        page.set_default_timeout(15_000)
        try:
            yield page
        finally:
            browser.close()
            assert complaints == []
