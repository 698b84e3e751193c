"""What smelt finds on this machine, and whether that is enough."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from smelt.cli.devices import size_text
from smelt.config import settings
from smelt.errors import SmeltError

_DISTRIBUTIONS = ("smelt", "numpy", "ml_dtypes", "ziglang")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _problem(error: SmeltError) -> str:
    """What an error says. Its location is a line of this program, not of the user's."""
    return " ".join(line.strip() for line in str(error).splitlines() if line != f"  at {error.location}")


def _compiler() -> dict[str, Any]:
    from smelt.device import toolchain

    try:
        found = toolchain.compiler()
    except SmeltError as error:
        return {"found": False, "problem": _problem(error)}
    return {"found": True, "command": " ".join(found.command), "family": found.family, "version": found.version}


def _processor() -> dict[str, Any]:
    from smelt.device.cpu import CPU, threads

    profile = CPU().profile
    return {
        "name": profile.name,
        "cores": profile.cores,
        "threads": threads(),
        "vector_bytes": profile.vector_bytes,
        "vector_registers": profile.vector_registers,
        "features": sorted(profile.features),
    }


def _devices() -> dict[str, Any]:
    """The facts about each device by name; of kinds of which there is none, why."""
    from smelt.device import registry

    found: dict[str, Any] = {facts["device"]: facts for facts in registry.describe()}
    for kind in registry.MODULES:
        if kind not in found:
            try:
                registry.open_device(kind, "doctor")
            except SmeltError as error:
                found[kind] = {"problem": _problem(error)}
    return found


def _rates(measure: bool) -> dict[str, Any]:
    """How fast the processor is, as the cost model has it."""
    from smelt.cost.rates import assumed, remember, stored
    from smelt.device.cpu import CPU

    profile = CPU().profile
    if measure:
        from smelt.bench.rates import measured

        found = measured()
        kept = remember(profile, found)
        return {"source": "measured now" if kept else "measured now, and not kept", **found._asdict()}
    known = stored(profile)
    if known is None:
        return {"source": "assumed; smelt doctor --measure measures them", **assumed(profile)._asdict()}
    return {"source": "measured before", **known._asdict()}


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


def _cache() -> dict[str, Any]:
    from smelt.diskcache import DiskCache, nearest_folder

    if not settings().cache_dir:
        problem = "there is no home directory; SMELT_CACHE_DIR can name a folder"
        return {"directory": None, "used": False, "exists": False, "writable": False, "problem": problem, "bytes": 0}
    folder = Path(settings().cache_dir)
    problem_found = DiskCache(folder).problem()
    return {
        "directory": str(folder),
        "used": settings().disk_cache,
        "exists": folder.is_dir(),
        "writable": problem_found is None,
        "problem": problem_found,
        "bytes": _size(folder),
        "free_bytes": shutil.disk_usage(nearest_folder(folder)).free,
    }


def _tuned() -> dict[str, Any]:
    """Where tuned choices are kept, which are used, and how many there are for this machine, or came with smelt."""
    from smelt.cli.choices import counts
    from smelt.device import open_device
    from smelt.search import log, tuned

    found, shipped, known = log.user_log(), tuned.shipped(), {"used": settings().tuned, "shipped": 0}
    with contextlib.suppress(SmeltError):  # without a compiler nothing is for anybody
        known["shipped"] = 0 if shipped is None else shipped.count(open_device("cpu", "doctor"))
    if found is None:
        return {"directory": None, **known, "answers_here": 0, "answers_elsewhere": 0, "hints": 0, "bytes": 0}
    return {"directory": str(found.root), **known, **counts(found), "bytes": _size(found.root)}


def _memory() -> dict[str, Any]:
    from smelt.device import available_bytes, machine_bytes

    return {"machine_bytes": machine_bytes(), "free_bytes": available_bytes()}


def report(measure: bool = False) -> dict[str, dict[str, Any]]:
    """Sections of facts, ready for JSON. Rates are per nanosecond: bytes, operations or elements."""
    compiler = _compiler()
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _DISTRIBUTIONS}},
        "system": {"platform": platform.platform(), "machine": platform.machine()},
        "compiler": compiler,
        "processor": _processor(),
        "devices": _devices(),
        "rates": _rates(measure and compiler["found"]),
        "memory": _memory(),
        "cache": _cache(),
        "tuned": _tuned(),
    }


def _text(name: str, value: object) -> str:
    if value is None:
        return "none" if name in {"directory", "problem"} else "not installed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):  # a device
        return str(value.get("name") or value["problem"])
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and name.endswith("bytes"):
        return size_text(value)
    return str(value)


def main(as_json: bool = False, measure: bool = False) -> int:
    """Print the report; 0 when smelt can compile here, 1 when it cannot."""
    sections = report(measure)
    if as_json:
        print(json.dumps(sections, indent=2))
    else:
        for title, facts in sections.items():
            print(title)
            for name, value in facts.items():
                print(f"  {name:<18}{_text(name, value)}")
    return 0 if sections["compiler"]["found"] else 1
