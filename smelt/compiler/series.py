"""Launches that are small follow each other in one: see `kernel.series`.

Takes the launches of a graph in an order in which they can run; gives them with series in the place of runs of small
ones. Only where there are many: each series is compiled for its graph alone, which few launches are not worth.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from smelt.compiler.work import AnyWork, Built, Value, Work, memory_of, nbytes, written_over
from smelt.graph import Variable
from smelt.kernel import Routine, Series, pieces
from smelt.schedule import Choice

FEWEST: Final = 32  # launches of a graph whose small ones are worth a kernel of their own
LARGEST: Final = 0.5  # of what is worth waking a thread for, a part of a series
TOGETHER: Final = 1.0  # of the same, all parts
SHARED: Final = 0.2  # of the same, from which on only what can be cut into pieces is: threads that are awake share it
_OPERATIONS: Final = 20_000  # of a routine that are worth waking a thread for, about
_MOST_PARTS: Final = 16

Slot = tuple[Value, int]  # a value, and after how many bytes of it a buffer begins


def share(built: Built) -> float:
    """What a launch is of the work that is worth waking a thread for."""
    kernel, tasks = built.kernel, built.kernel.tasks.value
    if tasks is None or isinstance(kernel, Series):
        return 1.0
    if isinstance(kernel, Routine):
        # What writes over a value is taken to find it in its place, whatever it would take to copy all of that.
        updates = kernel.template == "scatter" and kernel.words["target"] == "whole"
        return kernel.operations / _OPERATIONS if tasks == 1 or updates else 1.0
    return tasks / built.choice.grain if kernel.threads == 1 else 1.0


def is_small(built: Built) -> bool:
    """Whether a launch may be part of a series."""
    return share(built) <= LARGEST


def in_series(
    work: Sequence[AnyWork], stored: Sequence[Value], known: Callable[[Series, Choice], Built]
) -> list[AnyWork]:
    """The launches, small ones that follow each other as series; `stored` are the results of the graph."""
    last = {memory_of(value): k for k, item in enumerate(work) for value in item.nodes}
    results = set(stored)
    found: list[AnyWork] = []
    run: list[Work] = []
    for k, item in enumerate(work):
        # One that had better wait for others, which read what it writes over, stays alone.
        waits = any(last[memory_of(x)] > k for x in written_over(item, results))
        if not isinstance(item, Work) or not is_small(item.built) or waits:
            found += [*_closed(run, known), item]
            run = []
            continue
        if _total((*run, item)) > TOGETHER or len(run) == _MOST_PARTS:
            found += _closed(run, known)
            run = []
        run.append(item)
    return [*found, *_closed(run, known)]


def _closed(run: Sequence[Work], known: Callable[[Series, Choice], Built]) -> list[Work]:
    """A run of small launches as series: as long as they can be, if threads can share them or need not."""
    for end in range(len(run), 1, -1):
        first = _Joined(run[:end])
        if _total(first.run) < SHARED or first.number > 1:
            return [first.work(known), *_closed(run[end:], known)]
    return [*run[:1], *_closed(run[1:], known)] if run else []


class _Joined:
    """Launches side by side: what they read and write between them, and in how many pieces they can run."""

    def __init__(self, run: Sequence[Work]) -> None:
        self.run = run
        given = [list(zip(item.nodes, (*item.starts, *[0] * len(item.nodes)), strict=False)) for item in run]
        results = (slot for item, own in zip(run, given, strict=True) for slot in own[: len(item.written)])
        self.results: list[Slot] = list(dict.fromkeys(results))
        self.slots: dict[Slot, int] = {}  # results first, as everywhere
        for slot in itertools.chain(self.results, *given):
            self.slots.setdefault(slot, len(self.slots))
        self.parts = tuple(item.built.kernel for item in run if not isinstance(item.built.kernel, Series))
        self.buffers = tuple(tuple(self.slots[slot] for slot in own) for own in given)

    @functools.cached_property
    def number(self) -> int:
        """Of pieces; parts of a value that are written apart are one."""
        sizes = {k: nbytes(value) for (value, _), k in self.slots.items()}
        whole = len({value for value, _ in self.slots}) == len(self.slots)
        return pieces(self.parts, self.buffers, sizes) if whole else 1

    def work(self, known: Callable[[Series, Choice], Built]) -> Work:
        """The launch of the series."""
        run, bounds = self.run, {item.names[v.name]: v for item in self.run for v in item.built.kernel.parameters}
        numbers = {name: k for k, name in enumerate(bounds)}
        parameters = tuple([Variable(f"p{k}", v.first, v.last) for k, v in enumerate(bounds.values())])
        integers = tuple(tuple(numbers[item.names[v.name]] for v in item.built.kernel.parameters) for item in run)
        series = Series(self.parts, self.buffers, integers, parameters, self.number)
        group = replace(
            run[-1].group,
            also=[result for item in run for result in item.group.results][: len(self.results) - 1],
            inside=[node for item in reversed(run) for node in item.group.inside],
        )
        nodes, starts = zip(*self.slots, strict=True)
        names = {f"p{k}": name for name, k in numbers.items()}
        return Work(group, known(series, self.choice()), nodes, names, self.overwritable(), starts)

    def choice(self) -> Choice:
        """What is said about a series: its parts side by side, and chunks of pieces that are worth a thread."""
        costs = [item.built.choice.work for item in self.run]
        form = "series: " + ", ".join(item.built.choice.title for item in self.run)
        choice = Choice(form, (), max(1, int(self.number / max(_total(self.run), 1e-3))))
        flops, moved = sum(cost.flops for cost in costs), sum(cost.bytes for cost in costs)
        return replace(choice, work=choice.work._replace(flops=flops, bytes=moved, tasks=self.number))

    def overwritable(self) -> list[list[Value]]:
        """For each result what it may be written over: what no other part of the series touches."""
        found: dict[Value, list[Value]] = {}
        for item in self.run:
            others = {memory_of(value) for other in self.run if other is not item for value in other.nodes}
            for written, candidates in zip(item.nodes, item.overwritable, strict=False):
                found[written] = [x for x in candidates if memory_of(x) not in others]
        return [found.get(value, []) for value, _ in self.results]


def _total(run: Iterable[Work]) -> float:
    return sum(share(item.built) for item in run)
