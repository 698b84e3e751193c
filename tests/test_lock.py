"""The lock of what development installs: every package at one version, every file known by its hash."""

from __future__ import annotations

import re
import tomllib

from tests.conftest import ROOT

LOCKED = {
    re.sub(r"[-_.]+", "-", entry[1]).lower(): entry[0]
    for entry in re.finditer(
        r"^([\w.-]+)==\S+.*(?:\n {4}--hash=.*)*", (ROOT / "requirements/dev.lock").read_text(), re.MULTILINE
    )
}


def test_everything_that_is_asked_for_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", text)[0]).lower() for text in asked}
    assert names <= set(LOCKED)


def test_every_version_comes_with_hashes() -> None:
    assert all("--hash=sha256:" in entry for entry in LOCKED.values())
