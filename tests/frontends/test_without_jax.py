"""What is said where another library is missing."""

from __future__ import annotations

import sys

import pytest

import smelt as sm


def test_jax_is_needed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(sm.errors.ArgumentError, match=r"needs JAX[\s\S]*pip install jax"):
        sm.from_jax(lambda x: x)
