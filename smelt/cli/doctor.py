"""What smelt finds on this machine, and whether that is enough."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from smelt.config import settings
from smelt.errors import SmeltError

_DISTRIBUTIONS = ("smelt", "numpy", "ml_dtypes", "ziglang")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> dict[str, Any]:
    from smelt.device import toolchain

    try:
        found = toolchain.compiler()
    except SmeltError as error:
        # The location is a line of this program, not of the user's.
        lines = [line.strip() for line in str(error).splitlines() if line != f"  at {error.location}"]
        return {"found": False, "problem": " ".join(lines)}
    return {"found": True, "command": " ".join(found.command), "family": found.family, "version": found.version}


def _processor() -> dict[str, Any]:
    from smelt.device.cpu import CPU

    profile = CPU().profile
    return {
        "name": profile.name,
        "cores": profile.cores,
        "vector_bytes": profile.vector_bytes,
        "vector_registers": profile.vector_registers,
        "features": sorted(profile.features),
    }


def _size(folder: Path) -> int:
    """Bytes in the files under a folder; files that vanish meanwhile, and links, count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def report() -> dict[str, dict[str, Any]]:
    """Sections of facts, ready for JSON."""
    folder = Path(settings().cache_dir)
    cache = {"directory": str(folder), "used": settings().disk_cache, "exists": folder.is_dir(), "bytes": _size(folder)}
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _DISTRIBUTIONS}},
        "system": {"platform": platform.platform(), "machine": platform.machine()},
        "compiler": _compiler(),
        "processor": _processor(),
        "cache": cache,
    }


def _text(value: object) -> str:
    if value is None:
        return "not installed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def main(as_json: bool = False) -> int:
    """Print the report; 0 when smelt can compile here, 1 when it cannot."""
    sections = report()
    if as_json:
        print(json.dumps(sections, indent=2))
    else:
        for title, facts in sections.items():
            print(title)
            for name, value in facts.items():
                print(f"  {name:<18}{_text(value)}")
    return 0 if sections["compiler"]["found"] else 1
