"""One self-contained page about a tuning: what changed, every contender over time, guesses against measurements, and
how far kernels are from what the machine can do. It needs no network and no scripts.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from smelt.cost.rates import known
from smelt.tuning.plots import Dot, document, plot, table
from smelt.tuning.report import STATES

if TYPE_CHECKING:
    from smelt.tuning.report import Row, Tuning

_COLORS = {"timed": "#7a8794", "best": "#1f8a4c", "wrong": "#c0392b", "hung": "#c0392b", "crashed": "#c0392b"}


def page(tuning: Tuning) -> str:
    """The page as text."""
    parts = (_summary(tuning), _table(tuning), _roofline(tuning), *map(_kernel, tuning.rows))
    return document("smelt tune", parts)


def _summary(tuning: Tuning) -> str:
    profile = "" if tuning.profile is None else f"{tuning.profile.name}, {tuning.profile.cores} cores"
    whole = tuning.whole
    told = "Nothing was kept: what runs is what ran before."
    if tuning.kept:
        told = "What was kept is used from now on."
    if whole is not None and tuning.stored:
        told = (
            f"All calls together are {whole.ratio:.3f} times as fast (at least {whole.low:.3f}, {whole.pairs} pairs)."
        )
    counts = ", ".join(f"{tuning.states[state]} {state}" for state in STATES)
    notes = "".join(f"<br>{html.escape(line.strip())}" for line in (*tuning.rest(), tuning.note) if line)
    taken = f"budget {tuning.budget}, seed {tuning.seed}, {tuning.seconds:.1f} s"
    return f"<p>{html.escape(profile)}; {taken}.<br>{told}<br>Contenders: {counts}.{notes}</p>"


def _table(tuning: Tuning) -> str:
    lines: list[tuple[object, ...]] = [
        ("kernel", "runs", "share", "before", "after", "gain", "at least", "bits", "what changed")
    ]
    cuts = [cut for cut in tuning.cuts if cut.stored]
    for cut in cuts:
        times = f"{1e3 * cut.seconds:.3f} ms", f"{1e3 * cut.seconds / cut.ratio:.3f} ms"
        gain = f"{cut.ratio:.2f}", f"{cut.low:.2f}", cut.bits
        lines.append(("the whole program", "", "", *times, *gain, f"fusion: {cut.site}"))
    for row in tuning.rows:
        data = row.json()
        head = row.question.name, data["launches"], f"{row.share:.1%}", f"{1e3 * data['before']:.3f} ms"
        found = f"{1e3 * data['seconds']:.3f} ms", f"{row.gain:.2f}", f"{data['low']:.2f}", row.bits, data["changed"]
        # What was faster alone, or only at times, does not run: nothing about it is said to be so.
        lines.append((*head, *(found if row.stored else (head[-1], "", "", "", "stays as it is"))))
    return table(lines, [*("" for _ in cuts), *("" if row.stored else "kept" for row in tuning.rows)])


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
    plots = plot("contenders in turn; speed relative to the default", over_time, [line])
    plots += plot("guessed and measured speed", guessed, [[(0.0, 0.0), (1.5, 1.5)]])
    return f"<h2>{html.escape(row.question.name)}</h2>{plots}{texts}"


def _roofline(tuning: Tuning) -> str:
    """Operations per second over operations per byte, against what the machine was measured to do."""
    if tuning.profile is None or not tuning.rows:
        return ""
    rates, cores = known(tuning.profile), tuning.profile.cores
    peak, memory = rates.multiply_add * cores, max(rates.memory, rates.memory_all)
    dots = []
    for row in tuning.rows:
        work = row.found.default.choice.work
        seconds = row.question.seconds / max(1, row.question.launches)
        if work.flops and work.bytes and seconds:
            for gain, color in ((1.0, _COLORS["timed"]), (row.gain, _COLORS["best"])):
                speed = 1e-9 * work.flops * gain / seconds
                dots.append(Dot(work.flops / work.bytes, speed, color, row.question.name))
    end = max([peak / memory, *(dot.x for dot in dots)]) * 3
    roof = [(0.01, 0.01 * memory), (peak / memory, peak), (end, peak)]
    return plot("roofline: GFLOP/s over operations per byte", dots, [roof], is_logarithmic=True)
