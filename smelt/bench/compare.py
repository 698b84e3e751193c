"""Before and after of the suites: an old tree against this one, in processes that alternate.

Every row is a ratio of speeds: above 1, this tree is faster. Rows with a contender are contests of the old tree's with
the new one's; the others come from `python -m smelt.bench` of both trees, run in turn. A row that seems slower is
measured once more with new processes, since two processes of one program differ too: it counts only if both agree.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.bench.contest import Contender, contest
from smelt.bench.core import MEASURES
from smelt.bench.cpu.cases import GRADIENTS, GROUPS
from smelt.bench.cpu.suite import THREAD_VARIABLES
from smelt.bench.op_cases import CASES as OPS
from smelt.bench.report import Row
from smelt.bench.timing import ChildError, relative_error, run_json, run_process
from smelt.errors import ArgumentError

LEAST = 0.95  # of the old tree's speed
COMPILE = "compile"  # the measure of `grad` that no contender has
_LEAST_ROUNDS = 4  # without which there is no noise to speak of
_DEVIATIONS = 2.0  # standard errors that count as noise


@dataclass(frozen=True)
class Tree:
    """A checkout, with a folder for what its processes keep: their disk cache and the reference results."""

    name: str
    path: Path
    kept: Path

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """Of a child; with byte code, as installed packages have it."""
        variables = dict.fromkeys(THREAD_VARIABLES, str(threads)) if threads else {}
        cache = str(self.kept / "cache")
        return variables | {"PYTHONPATH": str(self.path), "PYTHONDONTWRITEBYTECODE": "", "SMELT_CACHE_DIR": cache}


class TreeError(ChildError):
    """A process of one of the trees that failed."""

    def __init__(self, tree: Tree, error: ChildError) -> None:
        super().__init__(f"the {tree.name} tree: {error}".partition("\n")[0])
        self.tree = tree


def checked_tree(name: str, path: Path, folder: Path) -> Tree:
    """A tree that was seen to hold smelt and its suites."""
    found = Tree(name, path.resolve(), folder / name)
    needed = found.path / "smelt" / "bench" / "contest.py"
    if not needed.is_file():
        raise ArgumentError(
            f"bench compare: {path} is not a checkout of smelt",
            rule=f"there is no {needed.relative_to(found.path)} in it",
            hint="make one with: git worktree add ../old <commit>",
        )
    found.kept.mkdir()
    _, said = run_process(["-c", "import smelt; print(smelt.__file__)"], found.environment(), folder=found.path)
    if not Path(said.strip()).is_relative_to(found.path):
        raise ArgumentError(f"bench compare: Python takes smelt from {said.strip()}, not from {found.path}")
    return found


@dataclass(frozen=True)
class Case:
    """One thing to compare: a contender's words with what it is asked first, or a measure of a suite's command."""

    name: str
    words: tuple[str, ...]
    threads: int | None = None
    asked: str = ""  # of a contender that takes one case after another
    command: bool = False


@dataclass(frozen=True)
class Compared:
    """`ratio` is the median of the paired ratios; `noise` how far it may be off, as a share of it."""

    name: str
    ratio: float | None = None
    noise: float = 0.0
    old: float | None = None  # the medians that were compared: seconds, or a share where that is what a suite gives
    new: float | None = None
    rounds: int = 0
    problem: str = ""
    failed: str = ""  # the tree that could not do it

    @property
    def slower(self) -> bool:
        return self.ratio is not None and self.ratio * (1 + self.noise) < LEAST

    def row(self) -> Row:
        """With a bar that leaves room for the noise."""
        if self.ratio is None or self.old is None or self.new is None:
            return Row(self.name, None, "×", detail=self.problem)
        detail = f"±{100 * self.noise:.1f} % after {self.rounds} rounds; {self.old:.4g} before, {self.new:.4g} now"
        return Row(self.name, self.ratio, "×", LEAST / (1 + self.noise), at_least=True, detail=detail)


def cases(names: Sequence[str], threads: Sequence[int], quick: bool) -> list[Case]:
    """What names of suites, groups and cases stand for; everything when there is no name."""
    return [case for case, known in _cases(threads, quick) if not names or known & set(names)]


def known_names() -> set[str]:
    """Every name that `cases` knows."""
    return {name for quick in (False, True) for _, known in _cases([1], quick) for name in known}


def _cases(threads: Sequence[int], quick: bool) -> Iterator[tuple[Case, set[str]]]:
    hurried = ("quick",) if quick else ()
    for name in MEASURES:
        yield _command("core", name), {"core", name}
    for name in OPS:
        yield Case(f"ops: {name}", ("smelt.bench.op_contender", "smelt", name, *hurried)), {"ops", name}
    for suite, groups in (("cpu", GROUPS), ("grad", GRADIENTS)):
        for title, group in groups.items():
            for name in group.cases:
                known = {suite, title, name}
                if group.memory:
                    yield _command(suite, name), known
                    continue
                for count in threads:
                    words = ("smelt.bench.cpu.contender", "smelt", str(count))
                    shown = f"{suite}: {name}, {count} thread{'s' if count > 1 else ''}"
                    yield Case(shown, words, count, asked=name), known
    yield _command("grad", COMPILE), {"grad", COMPILE}
    for name in ("mlp", "gpt-small") if quick else ("mlp", "lenet", "gpt"):
        step = ("smelt.bench.train.contender", "smelt", name, str(max(threads)))
        yield Case(f"train: {name}", step, max(threads)), {"train", name}


def _command(suite: str, name: str) -> Case:
    return Case(f"{suite}: {name}", (suite, "--only", name), command=True)


def compare(old: Path, chosen: Sequence[Case], quick: bool, progress: Callable[[str], None]) -> list[Compared]:
    """A comparison for each row of the cases."""
    new = Path(__file__).parents[2]
    found: list[Compared] = []
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as folder:
        trees = checked_tree("old", old, Path(folder)), checked_tree("new", new, Path(folder))
        for number, case in enumerate(chosen, 1):
            progress(f"[{number}/{len(chosen)}] {case.name}")
            rows = _measured(trees, case, quick)
            if any(row.slower for row in rows):
                progress(f"[{number}/{len(chosen)}] {case.name} seems slower: once more")
                again = {row.name: row for row in _measured(trees, case, quick)}
                rows = [_better(row, again.get(row.name, row)) if row.slower else row for row in rows]
            found += rows
    return found


def _better(first: Compared, second: Compared) -> Compared:
    return max(first, second, key=lambda row: row.ratio or 0.0)


def _measured(trees: tuple[Tree, Tree], case: Case, quick: bool) -> list[Compared]:
    try:
        return _commands(trees, case, quick) if case.command else [_contest(trees, case, quick)]
    except ChildError as error:
        failed = error.tree.name if isinstance(error, TreeError) else "new"
        return [Compared(case.name, problem=str(error).partition("\n")[0], failed=failed)]


def _contest(trees: tuple[Tree, Tree], case: Case, quick: bool) -> Compared:
    window, most = (0.05, 5) if quick else (0.1, 25)
    with ExitStack() as stack:
        old, new = (_contender(tree, case, quick, stack) for tree in trees)
        found = contest(new, old, window=window, most=most)
    noise = _DEVIATIONS * found.error
    return Compared(case.name, found.ratio.median, noise, found.second.median, found.first.median, len(found.times))


def _contender(tree: Tree, case: Case, quick: bool, stack: ExitStack) -> Contender:
    words = [*case.words, *([str(tree.kept), *(["quick"] if quick else [])] if case.asked else [])]
    try:
        contender = stack.enter_context(Contender(words, tree.environment(case.threads), tree.path))
        if case.asked:
            contender.ask(f"case {case.asked}")
        contender.seconds(1)
    except ChildError as error:
        raise TreeError(tree, error) from error
    return contender


def _commands(trees: tuple[Tree, Tree], case: Case, quick: bool) -> list[Compared]:
    """The rows of a measure that gives seconds or shares, from the commands of both trees in turn."""
    words = ["-m", "smelt.bench", *case.words, *(["--quick"] if quick else []), "--json", "-"]
    figures: dict[str, list[tuple[float, float]]] = {}
    floors: set[str] = set()
    for _ in range(_LEAST_ROUNDS if quick else 7):
        old, new = (_results(tree, words) for tree in trees)
        before = {row["name"]: row["figure"] for row in old}
        for row in new:
            if row["unit"] in {"seconds", "ratio"} and row["name"] in before:
                figures.setdefault(row["name"], []).append((before[row["name"]], row["figure"]))
                floors |= {row["name"]} if row["bar_is"] == "floor" else set()
    return [_from_figures(f"{case.words[0]}: {name}", pairs, name in floors) for name, pairs in figures.items()]


def _results(tree: Tree, words: Sequence[str]) -> list[dict[str, Any]]:
    try:
        results: list[dict[str, Any]] = run_json(words, tree.environment(), folder=tree.path)["results"]
    except ChildError as error:
        raise TreeError(tree, error) from error
    return results


def _from_figures(name: str, pairs: Sequence[tuple[float, float]], is_floor: bool) -> Compared:
    """Of a floor more is better, of seconds less. A difference of two times may be below nothing on a busy machine."""
    pairs = [(old, new) for old, new in pairs if old > 0 and new > 0]
    if len(pairs) < _LEAST_ROUNDS:
        return Compared(name, problem="too short to be measured")
    ratios = [new / old if is_floor else old / new for old, new in pairs]
    noise = _DEVIATIONS * relative_error(ratios)
    medians = (statistics.median(old for old, _ in pairs), statistics.median(new for _, new in pairs))
    return Compared(name, statistics.median(ratios), noise, *medians, len(pairs))


def geometric_mean(found: Sequence[Compared]) -> float | None:
    """Of the ratios there are."""
    ratios = [row.ratio for row in found if row.ratio]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(found: Sequence[Compared]) -> dict[str, Any]:
    """Everything, for programs."""
    results = [
        row.row().json()
        | {"low": row.ratio and row.ratio * (1 - row.noise), "seconds": row.new}
        | asdict(row)
        | {"slower": row.slower}
        for row in found
    ]
    slower = [row.name for row in found if row.slower]
    return {"geometric_mean": geometric_mean(found), "slower": slower, "results": results}


def verdict(summary: dict[str, Any]) -> str:
    """The end of it, for people."""
    mean, slower = summary["geometric_mean"], summary["slower"]
    lines = ["nothing was compared" if mean is None else f"geometric mean: {mean:.3f} times the old speed"]
    lines += [f"below {LEAST} beyond the noise: {', '.join(slower) if slower else 'none'}"]
    return "\n".join(lines)
