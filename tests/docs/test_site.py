"""The documentation as a site: it builds without a warning, every link in it leads somewhere, and its search finds."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import ROOT
from tests.docs.browser import opened

pytestmark = [pytest.mark.site, pytest.mark.xdist_group("site")]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", f"{target}-trees"]
    return subprocess.run([*command, ".", str(target)], cwd=source, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole site."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag != "a":
            self.loads += [values[name] for name in ("href", "src") if name in values]


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html")}
    assert len(pages) > 40
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            address = urlsplit(link)
            if address.scheme:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            places = pages[target].places if target in pages else {""}
            if not target.exists() or address.fragment not in {*places, "", "top"}:
                broken.append((path.name, link))
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = {link for path in site.rglob("*.html") for link in Links(path).loads}
    assert [link for link in loads if urlsplit(link).scheme or link.startswith("//")] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert "@import" not in styles and "url(http" not in styles


def test_links_that_lead_nowhere_fail_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("conf.py", "search.js"):
        (tmp_path / "docs" / name).write_text((ROOT / "docs" / name).read_text())
    for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY", "docs/README"):
        (tmp_path / f"{name}.md").write_text("# A page\n")
    (tmp_path / "README.md").write_text("# A project\n\n[the pages](docs/README.md)\n")
    assert build(tmp_path, tmp_path / "right").returncode == 0
    links = ["docs/nowhere.md", "docs/README.md#nowhere", "nowhere.py"]
    (tmp_path / "README.md").write_text("# A project\n" + "".join(f"\n[a link]({link})\n" for link in links))
    done = build(tmp_path, tmp_path / "wrong")
    assert done.returncode != 0
    assert done.stderr.count("nowhere") >= len(links)
    assert done.stderr.count("WARNING") == len(links)


def test_a_browser_shows_the_front_page_and_every_part_beside_it(site: Path) -> None:
    with opened() as page:
        page.goto((site / "index.html").as_uri())
        assert page.locator("h1").first.inner_text().startswith("smelt")
        captions = page.locator(".sidebar-tree .caption").all_text_contents()
        assert captions == ["Documentation", "Tutorial", "Guides", "Reference", "Design", "Project"]


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("cross_entropy", "docs/reference/functional.html#cross-entropy"),
        ("DataLoader", "docs/reference/data.html#dataloader"),
        ("value_and_grad", "docs/reference/transforms.html#value-and-grad"),
    ],
)
def test_the_search_leads_to_the_entry_of_the_reference(query: str, place: str, site: Path) -> None:
    with opened() as page:
        page.goto((site / "docs" / "guide" / "training.html").as_uri())
        page.fill("input[name=q]", query)
        page.press("input[name=q]", "Enter")
        first = page.locator("#search-results li a").first
        assert query in first.inner_text()
        first.click()
        page.wait_for_url(f"**/{place}")
        assert page.locator(f"#{place.partition('#')[2]} h3").first.is_visible()


def test_light_and_dark(site: Path) -> None:
    with opened() as page:
        page.goto((site / "index.html").as_uri())
        colors = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert colors[0] != colors[1]
