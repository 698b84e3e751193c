"""Does the compiler still make the same kernels?

    python -m tests.replay                     # compare with the hashes in the repository
    python -m tests.replay --only softmax      # programs whose names contain a text
    python -m tests.replay --texts build/new   # write what is compared: regions, schedules, sources
    python -m tests.replay --update            # write the hashes anew

For each program and kind of processor there are four hashes: of the groups that fusion makes, of the kernels' regions,
their schedules, and their source. What differs is printed with the first of these that does. To see how, write the
texts of both trees and compare the folders.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

from tests.proofs.corpus import PROFILES
from tests.replay.made import PARTS, Made, made
from tests.replay.programs import programs

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "replay"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--profile", choices=list(PROFILES), help="one kind of processor")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="write the texts, a file for each program")
    parser.add_argument("--update", action="store_true", help="write the hashes anew")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on standard output")
    given = parser.parse_args()
    changed: list[dict[str, str]] = []
    count, start = 0, time.monotonic()
    for profile in [given.profile] if given.profile else PROFILES:
        known = read(profile)
        found: dict[str, list[str]] = {}
        for name, make in programs():
            if given.only not in name:
                continue
            result = made(make, PROFILES[profile])
            found[name] = result.hashes()
            count += 1
            if given.texts:
                _write(given.texts / profile, name, result)
            part = first_difference(known.get(name), found[name])
            if part is not None:
                changed.append({"profile": profile, "program": name, "first": part})
                if not given.update:
                    print(f"{profile}: {name}: {part} differ", file=sys.stderr, flush=True)
            if sys.stderr.isatty():
                print(f"\r{profile}: {count} programs, {len(changed)} differ", end="\x1b[K\r", file=sys.stderr)
        gone = [] if given.only else sorted(set(known) - set(found))
        changed += [{"profile": profile, "program": name, "first": "it is gone"} for name in gone]
        if given.update:
            write(profile, (known if given.only else {}) | found)
    report = {"programs": count, "changed": changed, "seconds": round(time.monotonic() - start, 1)}
    print(json.dumps(report, indent=1) if given.json else _text(report, given.update), flush=True)
    return int(bool(changed) and not given.update)


def read(profile: str) -> dict[str, list[str]]:
    """The hashes in the repository, by program."""
    path = GOLDEN / f"{profile}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {name: hashes.split() for name, _, hashes in (line.rpartition(": ") for line in lines)}


def write(profile: str, found: dict[str, list[str]]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    lines = [f"{name}: {' '.join(hashes)}\n" for name, hashes in sorted(found.items())]
    (GOLDEN / f"{profile}.txt").write_text("".join(lines), encoding="utf-8")


def first_difference(old: list[str] | None, new: list[str]) -> str | None:
    """The first part that is not what it was."""
    if old is None:
        return "all parts, since it is new,"
    return next((part for part, a, b in zip(PARTS, old, new, strict=True) if a != b), None)


def _write(folder: Path, name: str, result: Made) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^A-Za-z0-9_.]+", "-", name) + ".txt")
    parts = [f"--- {part}\n{text}\n" for part, text in zip(PARTS, result, strict=True)]
    path.write_text("".join(parts), encoding="utf-8")


def _text(report: dict[str, object], update: bool) -> str:
    changed = report["changed"]
    assert isinstance(changed, list)
    outcome = f"{len(changed)} {'written anew' if update else 'differ'}"
    return f"{report['programs']} programs, {outcome}, {report['seconds']} s"


if __name__ == "__main__":
    sys.exit(main())
