"""`sm.profile()`: what each kernel takes, and when it ran."""

from __future__ import annotations

import json
from pathlib import Path

import smelt as sm


def test_a_table_says_what_each_kernel_takes() -> None:
    x, w = sm.random.normal((32, 16)).realize(), sm.random.normal((16, 8)).realize()
    step = sm.jit(lambda x, w: (x @ w).relu().sum(axis=0))
    with sm.profile() as p:
        for _ in range(3):
            step(x, w)
    assert sum(kernel.calls for kernel in p.kernels) % 3 == 0
    assert any("contract" in kernel.name and kernel.flops >= 3 * 2 * 32 * 16 * 8 for kernel in p.kernels)
    seconds = [kernel.seconds for kernel in p.kernels]
    assert seconds == sorted(seconds, reverse=True) and 0 < sum(seconds) < p.seconds
    text = str(p)
    assert "GFLOP/s" in text.splitlines()[1] and "in kernels" in text and len(text.splitlines()) == 2 + len(p.kernels)


def test_compiling_is_told_apart() -> None:
    function = sm.jit(lambda x: sm.sin(x) * 3 + x[::2].sum())
    x = sm.random.normal((26,)).realize()
    with sm.profile() as p:
        function(x)
    assert p.compiling > 0
    with sm.profile() as again:
        function(x)
    assert again.compiling == 0


def test_a_trace_for_the_browser(tmp_path: Path) -> None:
    x = sm.random.normal((8,)).realize()
    with sm.profile(tmp_path / "trace.json") as p:
        sm.scan(lambda total, one: (total * 0.5 + one, total), sm.asarray(0.0), x)[0].realize()
        (x * 2 + 1).realize()
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    graphs = [event for event in events if "graph of" in event["name"]]
    assert len(graphs) == 2 and all("test_profiling.py" in event["args"]["asked for at"] for event in graphs)
    assert any("loops" in kernel.name for kernel in p.kernels)


def test_programs_run_as_before_afterwards() -> None:
    x = sm.random.normal((8,)).realize()
    with sm.profile() as p:
        (x + 5).realize()
    before = len(p.kernels)
    (x * 7).realize()
    assert len(p.kernels) == before
