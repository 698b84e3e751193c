"""A report as one page that needs nothing else: the machine, the roofline with a dot for each row, and the table."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from smelt.bench.report import Report, Verdict, cells, machine_text, threads_text, time_text
from smelt.bench.roof import Roof
from smelt.tuning import plots

_COLORS = {Verdict.PASS: "#1f8a4c", Verdict.MISS: "#c0392b", Verdict.NONE: "#7a8794"}
_LEVELS = ("second-level cache", "third-level cache", "memory")


def page(suite: str, report: Report, facts: dict[str, Any], differences: str = "") -> str:
    """The page as text."""
    texts = [f"<pre>{html.escape(text)}</pre>" for text in (differences, report.text) if text]
    words = html.escape(machine_text(facts)).replace("\n", "<br>")
    parts = (f"<p>{words}</p>", *(_roofline(report, roof) for roof in report.roofs), *texts)
    return plots.document(f"smelt bench {suite}", (*parts, plots.table(cells(report.rows))))


def _roofline(report: Report, roof: Roof) -> str:
    """Operations per second over operations per byte, for one number of threads."""
    dots = list(_dots(report, roof))
    if not dots:
        return ""
    lines = list(_lines(roof, min(dot.x for dot in dots) / 2, max(dot.x for dot in dots) * 2))
    told = ", ".join(f"{name} {1e-9 * rate:.0f}" for name, (_, rate) in zip(_LEVELS, roof.levels, strict=True))
    title = (
        f"{threads_text(roof.threads)}: GFLOP/s over operations per byte. Roofs: {1e-9 * roof.flops:.0f} GFLOP/s in "
        f"float32; {told} GB/s. What has no operations, as a transpose, is not shown."
    )
    return plots.plot(title, dots, lines, is_logarithmic=True, scale=2)


def _dots(report: Report, roof: Roof) -> Iterator[plots.Dot]:
    for row in report.rows:
        known = row.measured
        if known is None or not (known.flops and known.nbytes) or known.threads != roof.threads:
            continue
        speed = 1e-9 * known.flops / known.seconds.median
        share = "" if known.roof is None else f", {known.roof:.0%} of the roof"
        title = f"{row.name}: {time_text(known.seconds.median)}, {speed:.1f} GFLOP/s{share}"
        yield plots.Dot(known.flops / known.nbytes, speed, _COLORS[row.verdict], title)


def _lines(roof: Roof, left: float, right: float) -> Iterator[plots.Line]:
    """A line for each level of memory, up to where operations are what limits."""
    peak = 1e-9 * max(roof.flops, roof.words)
    for _, rate in roof.levels:
        edge = peak / (1e-9 * rate)
        begin = min(left, edge / 2)
        yield [(begin, 1e-9 * rate * begin), (edge, peak), (max(right, 2 * edge), peak)]
    if roof.words > roof.flops:
        yield [(left, 1e-9 * roof.flops), (right, 1e-9 * roof.flops)]
