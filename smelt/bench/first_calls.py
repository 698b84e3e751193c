"""What a first call costs beyond any other: with an empty disk cache, and with what an earlier process left there."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any

from smelt.bench.report import Row
from smelt.bench.timing import private_cache, run_json


@dataclass(frozen=True, slots=True)
class FirstCalls:
    """What a task of `smelt.bench.child` found in fresh processes: `first` and `median` seconds of a call, and more."""

    cold: list[dict[str, Any]]
    warm: list[dict[str, Any]]

    def rows(self, name: str, cold_bar: float | None, warm_bar: float | None) -> list[Row]:
        """The medians of the differences."""
        found = []
        for cache, results, bar in (("cold", self.cold, cold_bar), ("warm", self.warm, warm_bar)):
            extra = statistics.median(result["first"] - result["median"] for result in results)
            detail = "first calls " + ", ".join(f"{result['first']:.2f}" for result in results) + " s"
            found.append(Row(f"{name}: first call, {cache} cache", extra, "s", bar, detail=detail))
        return found

    def median(self, key: str) -> float:
        return statistics.median(float(result[key]) for result in (*self.cold, *self.warm))


def first_calls(task: str, options: dict[str, Any], rounds: int) -> FirstCalls:
    """Run a task in pairs of fresh processes, the second with the cache that the first has filled."""
    found = FirstCalls([], [])
    for _ in range(rounds):
        with private_cache() as environment:
            for results in (found.cold, found.warm):
                results.append(child_task(task, options, environment))
    return found


def child_task(name: str, options: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """What a task of `smelt.bench.child` gives in a process of its own."""
    result: dict[str, Any] = run_json(["-m", "smelt.bench.child", name, json.dumps(options)], environment)
    return result
