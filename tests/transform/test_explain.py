"""Looking inside: every stage as text, the same as data, and nothing of the user's in the source."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.transform import examine


def block(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return (x @ w).relu().softmax(-1)


X, W = sm.asarray(np.ones((96, 32), np.float32)), sm.asarray(np.ones((32, 16), np.float32))


def test_explain_prints_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = sm.explain(block, X, W)
    text = capsys.readouterr().out
    assert text.strip() == str(explanation).strip()
    titles = [line for line in text.splitlines() if line.startswith("=== ")]
    for title in (
        "graph, as traced",
        "rewritten",
        "kernels",
        "region",
        "schedule",
        "kernel IR",
        "source",
        "memory",
        "time",
    ):
        assert any(title in line for line in titles), title
    assert "composite softmax" in text
    assert "split i0" in text
    assert "fma=" in text
    assert "void k" in text


def test_explanations_hold_the_same_as_data() -> None:
    explanation = examine(sm.jit(block), X, W)
    assert [("contract" in k.nodes, "exp" in k.nodes) for k in explanation.kernels] == [(True, False), (False, True)]
    assert explanation.kernels[0].flops >= 2 * 96 * 32 * 16
    [placed] = explanation.memory
    assert (placed.nbytes, placed.first, placed.last) == (96 * 16 * 4, 0, 1)
    assert explanation.peak_bytes >= 2 * 96 * 16 * 4
    assert {"rewrite", "fuse", "regions", "plan"} <= set(explanation.seconds)  # what is known is not compiled again
    assert "2 kernels" in repr(explanation)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_debug_levels_say_more_and_more(level: int, capsys: pytest.CaptureFixture[str]) -> None:
    with configure(debug=level, disk_cache=False):
        runtime.current().clear_caches()
        (X[:11] * 3 + 1).sum(-1).numpy()
    said = capsys.readouterr()
    assert said.out == ""
    assert "smelt: 1 kernels in" in said.err
    assert ("<- " in said.err) == (level >= 2)
    assert ("kernel k" in said.err) == (level >= 3)
    assert ("void k0" in said.err) == (level >= 4)


def test_names_of_the_user_never_reach_the_source() -> None:
    wild = 'n"; } /* \n */ #include <stdio.h>\n // ' * 300
    n = sm.Dim(wild, 1, 64)
    f = sm.jit(lambda parts: {wild: (parts[wild] * 2).softmax(-1)}, shapes=[[(n, 16)]])
    x = sm.asarray(np.ones((5, 16), np.float32))
    out = f({wild: x})
    np.testing.assert_allclose(out[wild].numpy(), np.full((5, 16), 1 / 16), rtol=1e-6)
    source = examine(f, {wild: x}).source
    assert "void k0" in source
    assert "stdio" not in source
    assert "#include" not in source


def test_every_launch_is_timed() -> None:
    x = sm.ones(300, 300)
    found = examine(lambda x: (x @ x).sort(), x)
    assert found.launch_seconds is not None and len(found.launch_seconds) >= 2
    assert all(0 < seconds < 60 for seconds in found.launch_seconds)
    assert f" ms  {found.kernels[-1].name}: " in str(found).rpartition("=== time")[2]
    assert examine(lambda x: sm.fori_loop(0, 3, lambda k, x: x + 1, x), x).launch_seconds is None  # any number of them
