"""One self-contained page about a tuning: what changed, every contender over time, guesses against measurements, and
how far kernels are from what the machine can do. It needs no network and no scripts.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from smelt.cost.rates import known

if TYPE_CHECKING:
    from smelt.tuning.report import Row, Tuning

_WIDE, _HIGH, _EDGE = 420, 220, 34
_COLORS = {"timed": "#7a8794", "best": "#1f8a4c", "wrong": "#c0392b", "hung": "#c0392b", "crashed": "#c0392b"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25em .7em; text-align: right; }
td, th { white-space: nowrap; } :is(td, th):is(:first-child, :last-child) { text-align: left; white-space: normal; }
tr + tr { border-top: 1px solid #ddd; } .kept { color: #888; } figure { display: inline-block; margin: 0 1em 1em 0; }
figcaption { font-size: 13px; color: #555; } pre { background: #f5f5f5; padding: .7em; overflow-x: auto; }
svg text { font: 11px system-ui, sans-serif; fill: #555; } details { margin: .4em 0 1.2em; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd; } pre { background: #222; } }
"""


class Dot(NamedTuple):
    """A point of a plot, with what is shown when the pointer rests on it."""

    x: float
    y: float
    color: str
    title: str


def page(tuning: Tuning) -> str:
    """The page as text."""
    parts = (_summary(tuning), _table(tuning), _roofline(tuning), *map(_kernel, tuning.rows))
    head = f'<meta charset="utf-8"><title>smelt tune</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en">{head}<h1>smelt tune</h1>{"".join(parts)}</html>\n'


def _summary(tuning: Tuning) -> str:
    profile = "" if tuning.profile is None else f"{tuning.profile.name}, {tuning.profile.cores} cores"
    whole = tuning.whole
    told = "Nothing was kept: what runs is what ran before."
    if whole is not None and tuning.stored:
        told = (
            f"All calls together are {whole.ratio:.3f} times as fast (at least {whole.low:.3f}, {whole.pairs} pairs)."
        )
    counts = ", ".join(f"{count} {state}" for state, count in sorted(tuning.states.items()))
    taken = f"budget {tuning.budget}, seed {tuning.seed}, {tuning.seconds:.1f} s"
    return f"<p>{html.escape(profile)}; {taken}.<br>{told}<br>Contenders: {counts}.</p>"


def _table(tuning: Tuning) -> str:
    names = ("kernel", "runs", "share", "before", "after", "gain", "at least", "bits", "what changed")
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = []
    for row in tuning.rows:
        data = row.json()
        cells = (
            *(row.question.name, data["launches"], f"{row.share:.1%}", f"{1e3 * data['before']:.3f} ms"),
            *(f"{1e3 * data['seconds']:.3f} ms", f"{row.gain:.2f}", f"{data['low']:.2f}", row.bits),
            data["changed"] if row.stored else "stays as it is",
        )
        kind = "" if row.stored else ' class="kept"'
        lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _kernel(row: Row) -> str:
    """Plots and texts of one kernel."""
    over_time: list[Dot] = []
    guessed: list[Dot] = []
    best, line = 1.0, [(0.0, 1.0)]
    for number, one in enumerate(row.found.tried, 1):
        timed = one.outcome.timed
        ratio = 0.0 if timed is None else timed.ratio
        state = "best" if ratio > best else one.outcome.state
        best = max(best, ratio)
        line.append((float(number), best))
        title = f"{one.label}: {one.outcome.state} {ratio:.3f} {one.outcome.reason}"
        over_time.append(Dot(number, ratio, _COLORS.get(state, "#bbb"), title))
        if timed is not None:
            guessed.append(Dot(min(one.guessed, 3.0), ratio, _COLORS["timed"], title))
    texts = (
        f"<details><summary>schedules</summary><pre>{html.escape(row.found.default.schedule)}</pre>"
        f"<pre>{html.escape(row.chosen.schedule)}</pre></details>"
    )
    plots = _plot("contenders in turn; speed relative to the default", over_time, line)
    plots += _plot("guessed and measured speed", guessed, [(0.0, 0.0), (1.5, 1.5)])
    return f"<h2>{html.escape(row.question.name)}</h2>{plots}{texts}"


def _roofline(tuning: Tuning) -> str:
    """Operations per second over operations per byte, against what the machine was measured to do."""
    if tuning.profile is None or not tuning.rows:
        return ""
    rates, cores = known(tuning.profile), tuning.profile.cores
    peak, memory = rates.multiply_add * cores, max(rates.memory, rates.memory_all)
    dots, line = [], []
    for row in tuning.rows:
        work = row.found.default.choice.work
        seconds = row.question.seconds / max(1, row.question.launches)
        if work.flops and work.bytes and seconds:
            for gain, color in ((1.0, _COLORS["timed"]), (row.gain, _COLORS["best"])):
                speed = 1e-9 * work.flops * gain / seconds
                dots.append(Dot(math.log10(work.flops / work.bytes), math.log10(speed), color, row.question.name))
    for tenth in range(-20, 41):
        line.append((tenth / 10, math.log10(min(peak, memory * 10 ** (tenth / 10)))))
    line = [point for point in line if not dots or point[0] <= max(dot.x for dot in dots) + 0.5]
    return _plot("roofline: log10 of GFLOP/s over log10 of operations per byte", dots, line)


def _plot(title: str, dots: Sequence[Dot], line: Sequence[tuple[float, float]]) -> str:
    """Dots and a line in a frame that holds them all."""
    places = [*((dot.x, dot.y) for dot in dots), *line]
    xs, ys = [x for x, _ in places], [y for _, y in places]
    left, right, bottom, top = min(xs), max(xs), min(ys), max(ys)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - left) / max(right - left, 1e-9) * (_WIDE - 2 * _EDGE) + _EDGE
        return round(across, 1), round(_HIGH - _EDGE - (y - bottom) / max(top - bottom, 1e-9) * (_HIGH - 2 * _EDGE), 1)

    circles = "".join(_circle(place(dot.x, dot.y), dot) for dot in dots)
    points = " ".join(f"{x},{y}" for x, y in (place(*point) for point in line))
    labels = "".join(
        f'<text x="{x}" y="{y}">{value:.3g}</text>'
        for value, (x, y) in (
            *((bottom, (2, _HIGH - _EDGE)), (top, (2, _EDGE))),
            *((left, (_EDGE, _HIGH - 10)), (right, (_WIDE - _EDGE, _HIGH - 10))),
        )
    )
    size = f'width="{_WIDE - 2 * _EDGE}" height="{_HIGH - 2 * _EDGE}"'
    frame = f'<rect x="{_EDGE}" y="{_EDGE}" {size} fill="none" stroke="#ccc"/>'
    drawn = f'{frame}<polyline points="{points}" fill="none" stroke="#3a7bd5"/>{circles}{labels}'
    picture = f'<svg width="{_WIDE}" height="{_HIGH}" role="img">{drawn}</svg>'
    return f"<figure>{picture}<figcaption>{title}</figcaption></figure>"


def _circle(at: tuple[float, float], dot: Dot) -> str:
    title = f"<title>{html.escape(dot.title)}</title>"
    return f'<circle cx="{at[0]}" cy="{at[1]}" r="3.5" fill="{dot.color}">{title}</circle>'
