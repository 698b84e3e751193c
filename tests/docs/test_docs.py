"""Generated pages are current, and the examples in the documents run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from smelt.device import MODULES
from tests.conftest import ROOT
from tests.docs.scripts import script


@pytest.mark.parametrize("page", ["design/worked-example.md"])
def test_generated_pages_are_current(page: str) -> None:
    written = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert script("generate").PAGES[page]() == written, "run: python docs/generate.py"


PROGRAMS = script("run_pages").PAGES


@pytest.mark.parametrize("page", PROGRAMS, ids=[path.stem for path in PROGRAMS])
@pytest.mark.by_turns(20)
def test_pages_show_what_their_programs_print(page: Path) -> None:
    written, devices = page.read_text(encoding="utf-8"), set(MODULES)
    try:
        assert script("run_pages").executed(page) == written, "run: python docs/run_pages.py"
    finally:
        for kind in set(MODULES) - devices:  # a page that adds a kind of devices takes its module along
            del MODULES[kind]


EXAMPLES = [
    (path, number, code)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path not in PROGRAMS
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize(("path", "number", "code"), EXAMPLES, ids=[f"{p.stem}-{n}" for p, n, _ in EXAMPLES])
@pytest.mark.by_turns(2)
def test_examples_run(path: Path, number: int, code: str, tmp_path: Path) -> None:
    file = tmp_path / f"{path.stem}_{number}.py"
    file.write_text(code, encoding="utf-8")
    runpy.run_path(str(file))


LINKS = [
    (path, target)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("path", "target"), LINKS, ids=[f"{p.stem}-{t}" for p, t in LINKS])
def test_links_lead_somewhere(path: Path, target: str) -> None:
    assert (path.parent / target).exists()


FAILS = "```python error\nx = 1 / 0\n```\n\n```text\nold\n```\n"
PRINTS = "# A page\n\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\nold\n```\n\nMore.\n"


@pytest.mark.parametrize(
    ("page", "line"), [(PRINTS, "1"), (FAILS, "ZeroDivisionError: division by zero")], ids=["prints", "fails"]
)
def test_a_page_is_one_program(page: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf-8")
    assert script("run_pages").executed(path) == page.replace("old", line)


def test_a_block_that_should_fail_has_to(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(FAILS.replace("1 / 0", "1"), encoding="utf-8")
    with pytest.raises(AssertionError, match="line 2 does not fail"):
        script("run_pages").executed(path)


def test_the_glossary_names_files_that_there_are() -> None:
    text = (ROOT / "docs/design/glossary.md").read_text(encoding="utf-8")
    named = re.findall(
        r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py)?)`", "".join(line.rpartition("| ")[2] for line in text.splitlines())
    )
    places = [name for name in named if "/" in name]
    assert len(places) > 30
    assert [name for name in places if not (ROOT / "smelt" / name).exists()] == []
