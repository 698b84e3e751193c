"""Lists of measured schedules: `python -m smelt.search.lists build FILE...`, then `time FILE...`. What is guessed about
speeds is judged by them, on any machine, without a clock (`search.report`).

A list is a JSON file: the text of a region, the profile of the machine, and points of the region's space, each with the
logarithms of its speed relative to the default's, on one thread and on all. `build` draws points for a region, builds
and verifies them; `time` runs all of them, in rounds, and writes down what they took. Only that needs a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from smelt.config import configure
from smelt.cost import Profile
from smelt.device import HOST, open_device
from smelt.kernel import Illegal, Region, parse_region
from smelt.search.contender import Contender
from smelt.search.inputs import usual_sizes
from smelt.search.measure import Kernel, Racer, timing_turn
from smelt.search.race import INCUMBENT
from smelt.search.space import Point, starts, steps
from smelt.search.worker import Jobs, Stopwatch

FARTHEST: Final = 6  # steps from a template's default
SINGLE: Final = 0.3  # of the points are one step from the default
HOPELESS: Final = 4.0  # times as long as the default: once is enough
EVERY: Final = 8  # contenders after which the default runs again
DIGITS: Final = 3


def drawn(region: Region, profile: Profile, rng: random.Random) -> Iterator[Point]:
    """Points at random, without end: one step from what is the default, or some from any template's, from the first
    ones more often.
    """
    pool = starts(region, profile)
    near = list(steps(pool[0]))
    while True:
        if rng.random() < SINGLE:
            yield rng.choice(near)
            continue
        point = pool[min(int(rng.expovariate(0.7)), len(pool) - 1)]
        for _ in range(rng.randint(1, FARTHEST)):
            point = rng.choice(list(steps(point)))
        yield point


class Builder(Racer):
    """Builds and verifies the points of a list."""

    def legal(self, region: Region, count: int) -> dict[Point, Contender]:
        """So many points that fit the region and give different kernels."""
        found: dict[Point, Contender] = {}
        default = Contender.default(region, self.device)
        seen = {(default.source, default.choice.grain)}
        rng, tries = random.Random(self.seed), 40 * count
        for point, _ in zip(drawn(region, self.device.profile, rng), range(tries), strict=False):
            with suppress(Illegal):
                contender = Contender.of(point.candidate, region, self.device)
                if (own := (contender.source, contender.choice.grain)) not in seen:
                    seen.add(own)
                    found[point] = contender
            if len(found) == count:
                break
        return found

    def right(self, region: Region, points: Mapping[Point, Contender]) -> tuple[Kernel, list[tuple[Point, Kernel]]]:
        """The default's kernel, and those of points that are built and right."""
        contenders = [Contender.default(region, self.device), *points.values()]
        kernels = self._built(contenders, {})
        with self:
            digests = [one.digest for one in contenders]
            right = self._verified(self.expect(region), kernels, digests, {}, ("normal",))
        named = zip(points, range(1, len(contenders)), strict=True)
        return kernels[0], [(point, kernels[at]) for point, at in named if at in right]


def build(path: Path, count: int, seed: int) -> None:
    """Draw, build and verify the points of a list, of which the file holds a name and a region at least."""
    told = json.loads(path.read_text(encoding="utf-8"))
    region, device = parse_region(told["region"]), open_device(HOST, HOST)
    builder = Builder(device, seed=seed)
    default, points = builder.right(region, builder.legal(region, count))
    told |= {"profile": _facts(device.profile), "kernels": [default, *(kernel for _, kernel in points)]}
    told |= {"mark": builder._mark, "points": [[point.form, dict(point.changes())] for point, _ in points]}
    path.write_text(json.dumps(told), encoding="utf-8")


def time(path: Path, rounds: int) -> None:
    """Run what was built, and keep how fast it was."""
    told = json.loads(path.read_text(encoding="utf-8"))
    jobs, region = Jobs(), parse_region(told["region"])
    kernels, mark = told.pop("kernels"), told.pop("mark")
    jobs.region(told["region"], usual_sizes(region), 0, is_checked=False)
    marked, runnable = jobs._marked(mark), [jobs._found(kernel) for kernel in kernels]
    speeds = []
    for threads in (1, 0):
        with configure(threads=threads), timing_turn():
            seconds, ratios = _rounds(Stopwatch(jobs.trial, runnable, jobs._sets(True), *marked), len(kernels), rounds)
        told["seconds"] = [*told.get("seconds", []), float(f"{seconds:.3g}")]
        speeds.append([round(math.log(ratio), DIGITS) for ratio in ratios])
    told["points"] = [[*point, *some] for point, *some in zip(told["points"], *speeds, strict=True)]
    path.write_text(_text(told), encoding="utf-8")


def _rounds(watch: Stopwatch, count: int, rounds: int) -> tuple[float, list[float]]:
    """The seconds of the default, and how many times as fast each of the others is: the medians of all rounds, each of
    which runs all in random order, and the default again and again. It is compared with its next neighbours, so that
    slow phases of the machine meet both.
    """
    rng, alive, seconds = random.Random(0), list(range(1, count)), list[float]()
    ratios: list[list[float]] = [[] for _ in range(count)]
    for number in range(rounds):
        rng.shuffle(alive)
        parts = [alive[at : at + EVERY] for at in range(0, len(alive), EVERY)]
        taken = iter(watch([*(each for part in parts for each in (INCUMBENT, *part)), INCUMBENT]))
        before = next(taken)
        for part in parts:
            own = [next(taken) for _ in part]
            after = next(taken)
            seconds.append(after)
            for each, its in zip(part, own, strict=True):
                ratios[each].append(min(before, after) / its)
            before = after
        if number == 0:
            alive = [each for each in alive if ratios[each][0] * HOPELESS >= 1]
    return statistics.median(seconds), [statistics.median(some) for some in ratios[1:]]


def _facts(profile: Profile) -> dict[str, Any]:
    return profile._asdict() | {"features": sorted(profile.features)}


def _text(told: Mapping[str, Any]) -> str:
    """JSON with a line for each point."""
    points = ",\n".join(json.dumps(point) for point in told["points"])
    rest = json.dumps({name: value for name, value in told.items() if name != "points"}, indent=1)
    return f'{rest[:-2]},\n "points": [\n{points}\n]}}\n'


def main(words: Sequence[str] | None = None) -> None:
    """Build or time the lists of some files."""
    parser = argparse.ArgumentParser("python -m smelt.search.lists", description=__doc__)
    parser.add_argument("stage", choices=("build", "time"))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=300, help="points of a list")
    parser.add_argument("--rounds", type=int, default=6, help="in which each of them runs")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    for path in given.files:
        build(path, given.count, given.seed) if given.stage == "build" else time(path, given.rounds)


if __name__ == "__main__":
    main()
