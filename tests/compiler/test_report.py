"""What `SMELT_DEBUG` prints about a graph: its own kernels, also where another process or graph made them before."""

from __future__ import annotations

from pathlib import Path

import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure


def report(level: int, capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed while a function is compiled by a process that has compiled another one."""
    runtime.current().clear_caches()
    sm.jit(lambda x: sm.sort(x.sin(), axis=0))(sm.ones((5, 3)))
    capsys.readouterr()
    with configure(debug=level):
        sm.jit(lambda x: x.cos() * 2)(sm.ones((5, 3)))
    return capsys.readouterr().err


@pytest.mark.parametrize("disk_cache", [False, True])
def test_a_report_is_about_one_graph_and_complete(
    tmp_path: Path, disk_cache: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with configure(cache_dir=tmp_path / "cache", disk_cache=disk_cache):
        for _ in range(2):  # the second time it is on disk
            texts = [report(level, capsys) for level in range(5)]
            assert texts[0] == ""
            assert [text.count("smelt: 1 kernels in ") for text in texts[1:]] == [1] * 4
            assert [text.count("<- ") for text in texts] == [0, 0, 1, 1, 1]
            assert [text.count("kernel k0") for text in texts] == [0, 0, 0, 1, 1]
            assert ["void k0(" in text for text in texts] == [False] * 4 + [True]
            assert not any("sin" in text or "sort" in text for text in texts[:4])
