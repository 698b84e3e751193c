"""One kernel at sizes of its own, with every column, as a table, as JSON and as a page."""

from __future__ import annotations

import gc
import json
import math
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from smelt.bench import command, suites
from smelt.bench.contest import Contest
from smelt.bench.core import MEASURES, Measure
from smelt.bench.cpu.cases import case_named
from smelt.bench.models import error_norms
from smelt.bench.page import page
from smelt.bench.peak import marked
from smelt.bench.report import Bounds, Measured, Report, Row, machine, table
from smelt.bench.roof import Roof
from smelt.config import settings
from smelt.device import toolchain

ROOF = Roof(2, 1e11, 0.0, 1e10, ((1e6, 4e10), (1e7, 2e10), (math.inf, 1e10)))
COLUMNS = {
    *("name", "ratio", "low", "high", "against", "seconds", "spread", "rounds", "marks", "flops_per_second"),
    *("bytes_per_second", "roofline", "error_max", "error_mean", "error_l2", "memory", "first_call", "peers"),
}


def measured(seconds: float = 1e-3, **more: object) -> Measured:
    given = {"threads": 2, "flops": 4e7, "nbytes": 2e6, "roof": 0.4, "errors": {"max": 1e-6, "mean": 1e-8, "l2": 1e-7}}
    contest = Contest([(seconds, 2 * seconds)] * 5, [seconds] * 5)
    return contest.measured(against="torch", memory=3e6, first=0.5, **given | more)


@pytest.mark.by_turns(3)
def test_a_product_is_measured_with_every_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, html = tmp_path / "report.json", tmp_path / "report.html"
    words = ["matmul", "-m", "8", "-n", "24", "-k", "16", "--quick", "--peers", "numpy", "--dump-schedule"]
    status = command.main([*words, "--threads", "1", "--json", str(file), "--html", str(html)])
    said = capsys.readouterr().out
    assert status == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    row = found["results"][-1]
    assert row["name"] == "matmul 8×24×16 float32, 1 thread"
    assert row.keys() >= COLUMNS
    assert 0 < row["low"] <= row["ratio"] and row["seconds"] > 0 and row["marks"] > 0 and row["first_call"] > 0
    assert row["against"] == "numpy" and row["flops"] == 2 * 8 * 24 * 16
    assert 0 <= row["error_mean"] <= row["error_max"] < 1e-5
    assert found["machine"]["mark"] > 0 and not found["machine"]["tuned"]
    assert "\nk0: " in said and "split" in said
    assert "matmul 8×24×16" in html.read_text(encoding="utf-8")


def test_kernels_are_named_with_their_sizes() -> None:
    case = case_named("matmul 3 5 7 int8")
    assert [array.shape for array in case.inputs(False)] == [(3, 7), (7, 5)]
    assert (case.flops, case.nbytes, case.operation) == (210.0, 21 + 35 + 60, "int matmul")
    assert case_named("softmax 4 6 float32").nbytes == 8 * 24
    assert case_named("causal-attention 2 8 4 float32").flops == case_named("attention 2 8 4 float32").flops / 2
    assert "numpy" not in case.peers and not case.meets("numpy", asked=True)
    assert case.meets("torch.compile", asked=True) and not case.meets("torch.compile", asked=False)


_NOWHERE = ["--json", "/no/such/folder/report.json"]


@pytest.mark.parametrize(
    "words", [_NOWHERE, ["-m", "0"], ["-m", "many"], ["--tune", "long"], ["--peers", "torch,nobody"]]
)
def test_wrong_words_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["matmul", *words])
    assert stop.value.code == 2
    if "--peers" in words:
        assert "torch.max-autotune, jax, numpy, tvm" in capsys.readouterr().err


def test_who_is_not_installed_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def measure(*given: object) -> Report:
        asked.append(list(given[3].peers))  # type: ignore[attr-defined]
        return Report([])

    monkeypatch.setattr(command, "installed", lambda name: name != "tvm")
    monkeypatch.setattr(suites, "measure_kernel", measure)
    command.main(["matmul", "--peers", "tvm,torch", "numpy"])
    assert asked == [["torch", "numpy"]]
    assert capsys.readouterr().err.startswith("smelt bench: tvm is not installed here, and left out\n")


@pytest.mark.parametrize(("words", "wanted"), [([], "off"), (["--tuned"], "on")])
def test_tuned_choices_are_used_only_when_asked(
    words: list[str], wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def run(quick: bool) -> list[Row]:
        seen.extend((settings().tuned, os.environ["SMELT_TUNED"]))
        return []

    monkeypatch.setitem(MEASURES, "node", Measure("a fake", run))
    before = settings().tuned, os.environ.get("SMELT_TUNED")
    command.main(["core", "--only", "node", *words])
    assert seen == [wanted, wanted]
    assert (settings().tuned, os.environ.get("SMELT_TUNED")) == before


def test_a_regression_fails_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, seconds = str(tmp_path / "old.json"), [1e-3]
    rows = lambda quick: [Row("thing", 2.0, "×", measured=measured(seconds[0], marks=None, ratio=None))]  # noqa: E731
    monkeypatch.setitem(MEASURES, "node", Measure("a fake", rows))
    monkeypatch.setattr(command, "marked", lambda: lambda: 1e-3)
    assert command.main(["core", "--only", "node", "--json", file]) == 0
    assert command.main(["core", "--only", "node", "--baseline", file]) == 0
    seconds[0] = 2e-3
    assert command.main(["core", "--only", "node", "--baseline", file, "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out.partition("slower beyond noise: none\n")[2])
    assert [(change["name"], change["verdict"]) for change in found["differences"]] == [("thing", "slower")]
    assert command.main(["core", "--only", "node", "--quick", "--baseline", file]) == 1
    assert "--anyway" in capsys.readouterr().err


def test_rounds_have_bounds_and_marks() -> None:
    found = Contest([(1.0, 2.0), (2.0, 2.0), (1.0, 3.0), (1.0, 2.0), (1.0, 2.0)], [0.5, 1.0, 0.5, 0.5, 0.5])
    assert found.ratio == Bounds(2.0, 1.0, 3.0)
    known = found.measured()
    assert known.marks == Bounds(2.0, 2.0, 2.0)  # the slow round was one of a slow machine
    assert known.seconds == Bounds(1.0, 1.0, 2.0)
    assert known.rounds == 5


def test_error_norms_are_shares() -> None:
    found = error_norms(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    assert found == {"max": 0.125, "mean": 0.0625, "l2": 0.1}


def test_the_share_of_the_roof_is_the_least_time_over_the_time() -> None:
    assert ROOF.share(1e-3, 5e7, 0.0) == pytest.approx(0.5)
    assert ROOF.share(1e-3, 0.0, 1e7) == pytest.approx(0.5)  # in the third-level cache
    assert ROOF.share(1e-2, 0.0, 5e7) == pytest.approx(0.5)  # in memory
    assert ROOF.share(1e-3, 5e7, 0.0, "int8") is None


def test_a_mark_outlives_what_others_build() -> None:
    mark = marked(1)
    gc.collect()
    toolchain.build(["int smelt_bench_other(void) { return 1; }\n"])  # unloads what nobody holds
    assert mark() > 0


class Parser(HTMLParser):
    """Counts tags, and collects what titles say."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.counts: dict[str, int] = {}
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.opened.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] == "title":
            self.titles.append(data)


def test_a_page_has_a_roofline_with_a_dot_for_each_row() -> None:
    rows = [
        Row("a <product>, 2 threads", 2.0, "×", measured=measured()),
        Row("another, 1 thread", 2.0, "×", measured=measured(threads=1)),
        Row("a transpose, 2 threads", 2.0, "×", measured=measured(flops=0.0)),
        Row("a time", 0.5, "s"),
    ]
    text = page("cpu", Report(rows, roofs=[ROOF], text="k0: tiled"), machine(), "slower: none")
    parser = Parser()
    parser.feed(text)
    assert (parser.counts["svg"], parser.counts["circle"], parser.counts["polyline"]) == (1, 1, 3)
    assert parser.counts["tr"] == 1 + len(rows)
    assert parser.titles == ["smelt bench cpu", "a <product>, 2 threads: 1 ms, 40.0 GFLOP/s, 40% of the roof"]
    assert "http" not in text and "<script" not in text and "<product>" not in text
    assert "<svg" not in page("core", Report([rows[-1]]), machine())


def test_the_table_has_the_columns_of_what_was_measured() -> None:
    lines = table([Row("thing", 2.0, "×", measured=measured()), Row("other", 1.0, "s")]).splitlines()
    assert "GFLOP/s" in lines[0] and "roof" in lines[0]
    assert lines[2].split() == [
        *("thing", "2.000", "×", "-", "2.00", "1", "ms", "±0%", "40.0", "2.0", "40%", "1e-06", "1e-08", "1e-07"),
        *("3.0", "MB", "500", "ms"),
    ]
