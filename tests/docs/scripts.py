"""The scripts of the folder `docs`, as modules."""

from __future__ import annotations

import importlib.util
from typing import Any

from tests.conftest import ROOT


def script(name: str) -> Any:
    """A script by its name."""
    spec = importlib.util.spec_from_file_location(f"smelt_docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
