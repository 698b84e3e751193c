"""Runs the programs in the pages of the tutorial and the guide, and writes what they print into the pages.

`python docs/run_pages.py` writes them; a test checks that they are current. A page is one program: its blocks of Python
run in order and share their names.

- A block of `text` right after a block of Python is what that block prints.
- A block of `python error` has to fail, and what it prints is the error.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))  # the pages are about the smelt beside them
PAGES = [path for kind in ("tutorial", "guide") for path in sorted((FOLDER / kind).glob("*.md"))]

_END = "--- end of block ---"
_BLOCK = re.compile(
    r"^```python(?P<error> error)?\n(?P<code>.*?)^```\n(?:\n*^```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A block of Python in a page."""

    line: int  # of its first line of code
    code: str
    fails: bool
    shown: tuple[int, int] | None  # where the page says what it prints


def blocks(page: str) -> list[Block]:
    """The blocks of Python in a page."""
    return [
        Block(
            page.count("\n", 0, found.start("code")) + 1,
            found["code"],
            found["error"] is not None,
            None if found["shown"] is None else found.span("shown"),
        )
        for found in _BLOCK.finditer(page)
    ]


def program(page: str) -> str:
    """One program of all blocks, with each line where it is in the page."""
    lines = [""] * (page.count("\n") + 1)
    for block in blocks(page):
        code = block.code.splitlines()
        first, after = block.line - 1, block.line - 1 + len(code)
        lines[first:after] = [f"    {line}" for line in code] if block.fails else code
        lines[after] = f"print({_END!r})"
        if block.fails:
            lines[first - 1] = "try:"
            lines[after] = f"except Exception as _e: print(f'{{type(_e).__name__}}: {{_e}}'); {lines[after]}"
            lines[after + 1] = f"else: raise AssertionError('the block at line {block.line} does not fail')"
    return "\n".join(lines)


def executed(path: Path) -> str:
    """A page with what its programs really print."""
    page = path.read_text(encoding="utf-8")
    name = path.stem.replace("-", "_") + ".py"
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        script = Path(folder) / name
        script.write_text(program(page), encoding="utf-8")
        runpy.run_path(str(script))
    outputs = printed.getvalue().split(_END + "\n")
    found = blocks(page)
    if len(outputs) != len(found) + 1:
        raise AssertionError(f"{path.name}: {len(found)} blocks, but {len(outputs) - 1} of them ended")
    for block, output in reversed(list(zip(found, outputs, strict=False))):
        if block.shown is not None:
            start, end = block.shown
            page = page[:start] + _renumbered(output, name, block.line) + page[end:]
        elif block.fails:
            raise AssertionError(f"{path.name}: no text after the block at line {block.line}, which fails")
    return page


def _renumbered(output: str, name: str, first: int) -> str:
    """Lines that errors name, counted from the start of their block: edits elsewhere in the page do not change them."""
    return re.sub(rf"\bat {re.escape(name)}:(\d+):", lambda found: f"at train.py:{int(found[1]) - first + 1}:", output)


if __name__ == "__main__":
    chosen = [path for path in PAGES if not sys.argv[1:] or path.stem in sys.argv[1:]]
    for path in chosen:
        path.write_text(executed(path), encoding="utf-8")
        print(path.relative_to(FOLDER.parent))
