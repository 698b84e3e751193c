"""The reference page says what the docstrings say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", DOCS / "generate_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    page = generator().page()
    assert (DOCS / "reference" / "functions.md").read_text(encoding="utf-8") == page, "run docs/generate_reference.py"


def test_every_public_function_is_on_the_page() -> None:
    import smelt as sm

    page = generator().page()
    functions = [name for name in sm.__all__ if type(getattr(sm, name)).__name__ == "function"]
    assert [name for name in functions if f"`{name}(" not in page and f"`{name}`" not in page] == []
