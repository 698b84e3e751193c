"""Generated pages are current, and the examples in the documents run."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("smelt_docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["design/worked-example.md"])
def test_generated_pages_are_current(page: str) -> None:
    written = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert generator().PAGES[page]() == written, "run: python docs/generate.py"


EXAMPLES = [
    (path, number, code)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize(("path", "number", "code"), EXAMPLES, ids=[f"{p.stem}-{n}" for p, n, _ in EXAMPLES])
def test_examples_run(path: Path, number: int, code: str, tmp_path: Path) -> None:
    script = tmp_path / f"{path.stem}_{number}.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script))
