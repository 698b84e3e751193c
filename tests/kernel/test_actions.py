"""The table of actions, the hook points and the statements: all of them have a text, and the design page names them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from smelt.kernel import text
from smelt.kernel.actions import ACTIONS, Action
from smelt.kernel.ir import Compute, Load, Statement
from smelt.kernel.lowering.hooks import Handler

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "design" / "kernels.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_action_has_a_row_in_the_design(kind: type[Action]) -> None:
    word = kind.form.split()[0]
    assert f"`{word}`" in PAGE or f"`{word} " in PAGE
    assert f"`{kind.__module__.rpartition('.')[2]}.py`" in PAGE


def test_the_design_lists_the_hook_points() -> None:
    hooks = [name for name in vars(Handler) if not name.startswith("_")]
    rows = PAGE.partition("| hook |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("`")[1].partition("(")[0] for row in rows] == hooks


def test_every_statement_has_a_form() -> None:
    operations = {Load, Compute}  # whose text depends on what is computed
    assert {*get_args(Statement)} == {*text._FORMS, *operations}
