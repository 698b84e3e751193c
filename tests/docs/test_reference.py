"""The reference has everything that is public, as signatures and docstrings say it."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.conftest import ROOT
from tests.docs.scripts import script

reference = script("generate_reference")
FOLDER = ROOT / "docs" / "reference"


@pytest.mark.parametrize("page", reference.PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    written = (FOLDER / page).read_text(encoding="utf-8")
    assert reference.text(page) == written, "run: python docs/generate_reference.py"


def test_everything_public_is_on_one_page() -> None:
    shown = [
        value
        for page in reference.PAGES.values()
        for family in page.families.values()
        for value in reference.entries(family)
    ]
    assert len(shown) == len(set(shown))
    assert [names for value, names in reference.public().items() if value not in shown] == []


def test_everything_public_has_a_docstring() -> None:
    missing = [names[0] for value, names in reference.public().items() if not vars(value).get("__doc__", value.__doc__)]
    for value, (name, *_) in reference.public().items():
        members = reference.members(value) if inspect.isclass(value) else ()
        missing += [f"{name}.{member}" for member, _ in members if not inspect.getdoc(getattr(value, member))]
    assert missing == []


def lines(page: str, title: str) -> list[str]:
    """An entry of a page."""
    written = (FOLDER / page).read_text(encoding="utf-8")
    return written.partition(f"\n### `{title}`\n")[2].partition("\n#")[0].strip().splitlines()


def test_a_function_shows_its_call_its_meaning_and_an_example() -> None:
    assert lines("functional.md", "linear") == [
        "`sm.nn.functional.linear(x, weight, bias=None)`",
        "",
        "x @ weight.T + bias, over the last axis.",
        "",
        "```pycon",
        ">>> sm.nn.functional.linear(sm.ones((2, 3)), sm.ones((5, 3))).shape",
        "(2, 5)",
        "```",
    ]


def test_a_class_shows_its_constructor_and_its_methods() -> None:
    entry = lines("data.md", "DataLoader")
    assert entry[0].startswith("`sm.data.DataLoader(dataset, batch=1, *, shuffle=False, seed=0, ")
    assert [line for line in entry if line.startswith("- `.epoch`")]
    assert [line for line in entry if line.startswith("- `.load_state_dict(state)`: ")]
    assert lines("optim.md", "AdamW")[-1] == "Its other methods are those of [`sm.optim.Optimizer`](#optimizer)."


def test_the_operations_of_stablehlo_are_those_of_the_tables() -> None:
    module = script("generate_stablehlo")
    assert module.PAGE.read_text(encoding="utf-8") == module.page()


def test_other_names_are_told() -> None:
    assert lines("functional.md", "cross_entropy")[-1] == "Also: `sm.nn.losses.cross_entropy`."
    assert "`sm.cat`" in lines("functions.md", "concat")[-1]


def test_the_map_leads_to_every_page() -> None:
    folder = ROOT / "docs"
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    pages = [str(path.relative_to(folder)) for path in folder.rglob("*.md") if path.name != "README.md"]
    assert sorted(linked) == sorted(pages)
