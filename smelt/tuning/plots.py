"""Pages that need nothing else, and plots on them: SVG without scripts."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

_WIDE, _HIGH, _EDGE = 420, 220, 34
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25em .7em; text-align: right; }
td, th { white-space: nowrap; } :is(td, th):is(:first-child, :last-child) { text-align: left; white-space: normal; }
tr + tr { border-top: 1px solid #ddd; } .kept { color: #888; } figure { display: inline-block; margin: 0 1em 1em 0; }
figcaption { font-size: 13px; color: #555; } pre { background: #f5f5f5; padding: .7em; overflow-x: auto; }
svg text { font: 11px system-ui, sans-serif; fill: #555; } details { margin: .4em 0 1.2em; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd; } pre { background: #222; } }
"""

Line = Sequence[tuple[float, float]]


class Dot(NamedTuple):
    """A point of a plot, with what is shown when the pointer rests on it."""

    x: float
    y: float
    color: str
    title: str


def document(title: str, parts: Iterable[str]) -> str:
    """A page of these parts."""
    told = html.escape(title)
    head = f'<meta charset="utf-8"><title>{told}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en">{head}<h1>{told}</h1>{"".join(parts)}</html>\n'


def table(lines: Sequence[Sequence[object]], kinds: Sequence[str] = ()) -> str:
    """Lines of cells, a heading first; `kinds` are classes of the lines below it."""

    def row(tag: str, cells: Sequence[object], kind: str) -> str:
        inner = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
        return f'<tr class="{kind}">{inner}</tr>' if kind else f"<tr>{inner}</tr>"

    given = kinds or [""] * (len(lines) - 1)
    rows = (row("td", cells, kind) for cells, kind in zip(lines[1:], given, strict=True))
    return f"<table>{row('th', lines[0], '')}{''.join(rows)}</table>"


def plot(
    title: str, dots: Sequence[Dot], lines: Sequence[Line], *, is_logarithmic: bool = False, scale: int = 1
) -> str:
    """Dots and lines in a frame that holds them all; on logarithmic axes everything is above 0."""
    bent = math.log10 if is_logarithmic else float
    wide, high = scale * _WIDE, scale * _HIGH
    places = [
        (bent(x), bent(y)) for x, y in (*((dot.x, dot.y) for dot in dots), *(at for line in lines for at in line))
    ]
    left, right = min(x for x, _ in places), max(x for x, _ in places)
    bottom, top = min(y for _, y in places), max(y for _, y in places)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (bent(x) - left) / max(right - left, 1e-9) * (wide - 2 * _EDGE) + _EDGE
        up = (bent(y) - bottom) / max(top - bottom, 1e-9) * (high - 2 * _EDGE)
        return round(across, 1), round(high - _EDGE - up, 1)

    unbent = (lambda value: 10.0**value) if is_logarithmic else float
    across = "".join(
        f'<text x="{place(value, unbent(bottom))[0]}" y="{high - 16}">{value:.4g}</text>'
        for value in _ticks(left, right, is_logarithmic)
    )
    upward = "".join(
        f'<text x="2" y="{place(unbent(left), value)[1]}">{value:.4g}</text>'
        for value in _ticks(bottom, top, is_logarithmic)
    )
    frame = f'<rect x="{_EDGE}" y="{_EDGE}" width="{wide - 2 * _EDGE}" height="{high - 2 * _EDGE}"'
    paths = "".join(
        f'<polyline points="{points}" fill="none" stroke="#3a7bd5"/>'
        for points in (" ".join("{},{}".format(*place(*at)) for at in line) for line in lines)
    )
    circles = "".join(_circle(place(dot.x, dot.y), dot) for dot in dots)
    drawn = f'{frame} fill="none" stroke="#ccc"/>{paths}{circles}{across}{upward}'
    picture = f'<svg width="{wide}" height="{high}" role="img">{drawn}</svg>'
    return f"<figure>{picture}<figcaption>{html.escape(title)}</figcaption></figure>"


def _ticks(low: float, high: float, is_logarithmic: bool) -> Iterator[float]:
    """Both ends, or the powers of ten between them."""
    if not is_logarithmic:
        yield from (low, high)
    yield from (10.0**power for power in range(math.ceil(low), math.floor(high) + 1) if is_logarithmic)


def _circle(at: tuple[float, float], dot: Dot) -> str:
    title = f"<title>{html.escape(dot.title)}</title>"
    return f'<circle cx="{at[0]}" cy="{at[1]}" r="3.5" fill="{dot.color}">{title}</circle>'
