"""Figures of the engine in the text form that Prometheus reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smelt.llm.engine import Engine, Handle

_FIRST: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_EACH: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """How many values were at most so large."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self.bounds = name, about, bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[sum(value > bound for bound in self.bounds)] += 1
        self.sum += value

    def lines(self) -> list[str]:
        """Its text."""
        lines = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} histogram"]
        total = 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            lines.append(f'{self.name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{self.name}_sum {self.sum:.6f}", f"{self.name}_count {total}"]


class Metrics:
    """What is known of an engine, and of the requests that it has ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._first = Histogram("smelt_time_to_first_token_seconds", "From submission to the first token.", _FIRST)
        self._each = Histogram("smelt_time_per_token_seconds", "Between tokens of an answer, on average.", _EACH)
        engine.on_end = self._ended

    def _ended(self, handle: Handle) -> None:
        figures = handle.figures
        if figures.first:
            self._first.add(figures.first - figures.submitted)
        if figures.tokens > 1:
            self._each.add((figures.finished - figures.first) / (figures.tokens - 1))

    def text(self) -> str:
        """All figures."""
        engine = self._engine
        rows: list[tuple[str, str, str, float]] = [
            ("smelt_requests_waiting", "gauge", "Requests in the queue.", len(engine.waiting)),
            ("smelt_requests_running", "gauge", "Requests that are being answered.", len(engine.running)),
            ("smelt_requests_rejected_total", "counter", "Requests refused by a full queue.", engine.rejected),
            ("smelt_prompt_tokens_total", "counter", "Tokens of prompts.", engine.done.prompt_tokens),
            ("smelt_reused_tokens_total", "counter", "Of these, found in the cache.", engine.done.reused_tokens),
            ("smelt_generated_tokens_total", "counter", "Tokens of answers.", engine.done.tokens),
            ("smelt_guessed_tokens_total", "counter", "Tokens guessed by speculation.", engine.done.guessed_tokens),
            ("smelt_right_tokens_total", "counter", "Of these, right.", engine.done.right_tokens),
            ("smelt_slots", "gauge", "Requests that can be answered at once.", engine.programs.slots),
            ("smelt_slots_free", "gauge", "Of these, free.", engine.programs.slots - len(engine.running)),
            ("smelt_cache_bytes", "gauge", "Memory of keys and values.", engine.programs.cache_bytes),
            ("smelt_pages", "gauge", "Pages of the cache.", len(engine.pages)),
            ("smelt_pages_held", "gauge", "Of these, parts of what is being answered.", engine.pages.held),
        ]
        lines = []
        for name, kind, about, value in rows:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value}"]
        lines += ["# HELP smelt_requests_total Requests that ended.", "# TYPE smelt_requests_total counter"]
        lines += [f'smelt_requests_total{{reason="{name}"}} {count}' for name, count in dict(engine.finished).items()]
        return "\n".join([*lines, *self._first.lines(), *self._each.lines()]) + "\n"
