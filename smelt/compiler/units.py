"""Translation units: kernels that are compiled together, while the compiler goes on to make others.

A unit is given away as soon as it has enough lines, so that the C compiler is at work on the first kernels of a graph
before the last ones are known. Few large units share more; many small ones keep all cores busy to the end.
"""

from __future__ import annotations

import math
from dataclasses import replace

from smelt.compiler.compile import Stages
from smelt.compiler.progress import Progress
from smelt.compiler.work import Built
from smelt.device import Builder, Device
from smelt.kernel import Ask, Barrier, For, If, Kernel, Let, Local, Routine, Series, Statement, Update

UNIT_LINES = 1000  # of a unit that is worth a run of the C compiler of its own
FIRST_LINES = 400  # of those for which cores wait that have nothing to do yet
LEAST_LINES = 200  # of each part when what is left at the end is shared among the cores
ROUTINE_LINES = 50  # their text is known only to the renderer


class Units:
    """The units of one graph."""

    def __init__(self, device: Device, builder: Builder, stages: Stages, progress: Progress) -> None:
        self.device, self.builder, self.stages, self.progress = device, builder, stages, progress
        self.count = 0
        self.open: list[tuple[int, Built]] = []  # kernels that wait for others, with their lines
        self.given: list[tuple[list[Built], str]] = []  # units that are being compiled, with their source

    def add(self, built: Built) -> None:
        """Have a kernel compiled."""
        built.kernel = replace(built.kernel, name=f"k{self.count}")
        built.workspace = self.device.workspace_bytes(built.kernel)
        self.count += 1
        self.open.append((source_lines(built.kernel), built))
        enough = UNIT_LINES if len(self.given) >= self.device.profile.cores else min(FIRST_LINES, UNIT_LINES)
        if sum(lines for lines, _ in self.open) >= enough:
            self._give([built for _, built in self.open])
            self.open = []

    def advance(self) -> None:
        """A launch has its kernel. Let the next unit begin where one is done."""
        self.progress.launch()
        if self.given:
            self.builder.advance()
        self._tell()

    def _tell(self) -> None:
        self.progress.tell(self.count, len(self.given), self.builder.waiting())

    def finish(self) -> None:
        """Wait for all libraries, and tell each kernel where it is found."""
        total = sum(lines for lines, _ in self.open)
        parts: list[list[Built]] = [[] for _ in range(max(1, min(self.device.profile.cores, total // LEAST_LINES)))]
        weights = [0] * len(parts)
        for lines, built in sorted(self.open, key=lambda pair: -pair[0]):
            lightest = weights.index(min(weights))
            weights[lightest] += lines
            parts[lightest].append(built)
        for part in parts:
            if part:
                self._give(part)
        if not self.given:
            return
        with self.stages.stage("compile"):
            libraries = self.builder.finish(self._tell)
        for (part, source), library in zip(self.given, libraries, strict=True):
            for built in part:
                built.source, built.library = source, library

    def _give(self, part: list[Built]) -> None:
        with self.stages.stage("render"):
            source = self.device.render([built.kernel for built in part])
        with self.stages.stage("compile"):
            self.builder.add(source)
        self.given.append((part, source))


def source_lines(kernel: Kernel | Routine | Series) -> int:
    """About how many lines the C compiler has to deal with."""
    if isinstance(kernel, Series):
        return sum(map(source_lines, kernel.parts))
    return ROUTINE_LINES if isinstance(kernel, Routine) else sum(map(_copies, kernel.body))


def _copies(statement: Statement) -> int:
    """Statements are written once for each register of a tile, and once more for each time that a loop is unrolled."""
    if isinstance(statement, For):
        return statement.unroll * sum(map(_copies, statement.body))
    if isinstance(statement, If):
        return sum(map(_copies, (*statement.body, *statement.other)))
    if isinstance(statement, Let | Ask | Barrier | Local):
        return 1
    value = statement.accumulator if isinstance(statement, Update) else statement.value
    return math.prod(part.extent for part in value.parts if not part.is_lane)
