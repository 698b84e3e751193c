"""The devices that smelt can compute on here.

The facts of `COLUMNS` are shown in the table, as far as a device has them; `--json` shows whatever there is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from smelt.device import describe

# name in the dict -> title, for facts that all kinds of devices may have; sizes in bytes end in `_bytes`
COLUMNS: Final = {
    "device": "device",
    "name": "name",
    "cores": "cores",
    "threads": "threads",
    "vector_bytes": "vector",
    "l1_bytes": "L1",
    "l2_bytes": "L2",
    "l3_bytes": "L3",
    "memory_bytes": "memory",
    "free_bytes": "free",
}


def size_text(nbytes: int) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.4g} {unit}"
    return f"{nbytes} B"


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    return size_text(value) if name.endswith("_bytes") else str(value)


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with their columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def main(as_json: bool = False) -> int:
    """Print the devices; 0 if there is one."""
    found = describe()
    if as_json:
        print(json.dumps(found, indent=2))
        return 0 if found else 1
    rows = [list(COLUMNS.values())]
    rows += [[_text(name, facts.get(name)) for name in COLUMNS] for facts in found]
    print_table(rows)
    return 0 if found else 1
