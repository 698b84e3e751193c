"""Settings of the site that `make docs` builds with Sphinx. The sources are the Markdown pages as forges show them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT_PAGES = ["CONTRIBUTING", "CHANGELOG", "SECURITY"]

project = "smelt"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", *(f"{page}.md" for page in PROJECT_PAGES), "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "smelt", "tests"]  # folders that need not be searched

myst_heading_anchors = 4  # with the names that forges give them
smartquotes = False  # quotes in these pages are mostly those of values
nitpicky = True  # with -W, a link that leads nowhere ends the build

html_theme = "furo"
html_title = "smelt"
html_search_scorer = str(ROOT / "docs" / "search.js")
html_show_search_summary = False  # browsers do not let pages on a disk read one another
html_use_index = False
html_copy_source = False
html_show_copyright = False
pygments_dark_style = "monokai"


def navigation() -> str:
    """What stands beside every page: the parts of `docs/README.md`, and the pages that each of them links to."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    captions = {"Documentation": ["docs/README"]}
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        captions[title] = [f"docs/{page}" for page in re.findall(r"\]\(([\w/-]+)\.md\)", part)]
    captions["Project"] = PROJECT_PAGES
    trees = [
        "\n".join(["```{toctree}", ":hidden:", ":titlesonly:", f":caption: {title}", "", *pages, "```"])
        for title, pages in captions.items()
        if pages
    ]
    return "\n\n".join(["", *trees, ""])


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """The front page has directives here only: forges would show them as text."""
    if name == root_doc:
        source[0] += navigation()


def name_front_page(app: Any, failure: Exception | None) -> None:
    """Servers look for `index.html`."""
    if failure is None:
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", name_front_page)
