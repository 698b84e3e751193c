"""Kernels that somebody has written down, as a region and a schedule in text: read, checked, built and found right.

Takes texts; gives a kernel that runs on arrays. Whatever is wrong with the texts raises `ParseError`, `Illegal` (a
schedule that does not fit) or `ArgumentError` (what would not be safe to run, or too large to be checked).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from smelt.compiler.units import source_lines
from smelt.device import Device, Listing, pointer
from smelt.errors import ArgumentError, InternalError
from smelt.graph import row_major, upper
from smelt.kernel import Buffer, Kernel, Region, extent, lower, parse_region, parse_schedule, verify
from smelt.schedule import Choice, chosen
from smelt.search.contender import Contender, considered
from smelt.search.inputs import Array
from smelt.search.measure import described
from smelt.search.verify import Runnable, Trial

MOST_TEXT: Final = 1 << 20  # characters
MOST_ELEMENTS: Final = 1 << 26  # of all buffers
MOST_WORK: Final = 1 << 32  # elements that axes span
MOST_LINES: Final = 20_000  # of C, about
_SEED: Final = 22


class Written:
    """A kernel that was found right. Arrays are those of its buffers, dense and in row-major order."""

    def __init__(
        self, region: Region, inputs: Sequence[Buffer], kernel: Contender, runs: Runnable, device: Device
    ) -> None:
        self.region, self.inputs, self.kernel = region, tuple(inputs), kernel
        self.outputs = tuple(dict.fromkeys(output.buffer for output in region.outputs))
        self._device = device
        buffers = region.buffers()
        self._order = [buffer.name for buffer in buffers]
        launch = runs.launch(0, range(len(buffers)), 0)
        listing = Listing([launch], [(1 + k, 0) for k in range(len(buffers))], runs.workspace)
        self._program = device.load(listing, [runs.library])

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The results for arrays of the inputs."""
        results = [np.empty(_shape(buffer), buffer.dtype.numpy) for buffer in self.outputs]
        given = [np.ascontiguousarray(array) for array in arrays]
        named = {x.name: array for x, array in zip((*self.inputs, *self.outputs), (*given, *results), strict=True)}
        arena = self._device.allocate(max(1, self._program.arena_bytes))
        places = [pointer(named[name].ctypes.data) for name in self._order]
        self._program.run(arena.pointer + b"".join(places), b"")
        return results


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(size) for size in buffer.shape if isinstance(size, int))


class Read(NamedTuple):
    """What texts mean: a kernel every access of which is proven to lie inside of its buffer."""

    region: Region
    inputs: list[Buffer]
    choice: Choice
    kernel: Kernel


def read(region_text: str, schedule_text: str, device: Device) -> Read:
    """Read texts, and check all that can be seen without running anything."""
    for text in (region_text, schedule_text):
        if len(text) > MOST_TEXT:
            raise ArgumentError(f"a text of {len(text)} characters", rule=f"at most {MOST_TEXT} are read.")
    region = parse_region(region_text)
    inputs = _inputs(region, region_text)
    _check_safe(region, inputs)
    actions = parse_schedule(schedule_text)
    with _no_bug("region"):
        verify(replace(lower(region, ()), name="k0"))
    with _no_bug("schedule"):
        candidate = chosen("written", region, actions, device.profile)
        choice, kernel = considered(candidate, region, device.profile)
        verify(kernel)
    lines = source_lines(kernel)
    if lines > MOST_LINES:
        raise ArgumentError(f"the schedule makes about {lines} lines of C", rule=f"at most {MOST_LINES} are compiled.")
    return Read(region, inputs, choice, kernel)


def written(region_text: str, schedule_text: str, device: Device) -> Written:
    """The kernel that texts mean, once it has been found right."""
    region, inputs, choice, kernel = read(region_text, schedule_text, device)
    mine = Contender.rendered(choice, kernel, device)
    default = Contender.default(region, device)
    runs, usual = (_runnable(one, device) for one in (mine, default))
    trial = Trial(region, {}, _SEED, device)
    trial.prepare()
    for name, expected in trial.expected["whole"].items():
        if not expected.written.all():
            raise ArgumentError(f"{int((~expected.written).sum())} elements of {name} are never stored")
    verdict = trial.verify(runs, usual)
    if not verdict.right:
        raise ArgumentError(f"the kernel is wrong: {verdict.reason}")
    return Written(region, inputs, mine, runs, device)


def _runnable(kernel: Contender, device: Device) -> Runnable:
    [library] = device.build([kernel.source])
    told = {name: value for name, value in described(kernel, library, device).items() if name != "key"}
    return Runnable(library, **told)


def _inputs(region: Region, text: str) -> list[Buffer]:
    """What is read, in the order in which the text declares it."""
    stored = {output.buffer.name for output in region.outputs}
    read = {buffer.name: buffer for buffer in region.buffers() if buffer.name not in stored}
    names = [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["buffer"]]
    for name in names:
        if name not in read:
            raise ArgumentError(f"the buffer {name} is {'an output as well' if name in stored else 'never read'}")
    return [read[name] for name in names]


def _check_safe(region: Region, inputs: Sequence[Buffer]) -> None:
    """Raise for regions that could touch memory that is not theirs, or that are too large to be checked."""
    if region.parameters:
        raise ArgumentError("the region has parameters", rule="its sizes are numbers.")
    stored = [output.buffer for output in region.outputs]
    if len({buffer.name for buffer in stored}) != len(set(stored)):
        raise ArgumentError("an output is seen in several ways", rule="each has one shape.")
    loads = [e.attribute for e in region.order() if e.op == "load"]
    if any(access.picks for access in loads):
        raise ArgumentError("a load is at an index that is computed", rule="nothing shows that it lies inside.")
    if any(access.buffer.name in {buffer.name for buffer in stored} for access in loads):
        raise ArgumentError("an output is read", rule="inputs and outputs are apart.")
    if any(access.buffer not in inputs for access in loads):
        raise ArgumentError("a buffer is seen in several ways", rule="each has one dtype and shape.")
    for buffer in (*inputs, *stored):
        if buffer.strides != row_major(buffer.shape) or buffer.offset != 0:
            rule = f"buffers are dense: strides {list(row_major(buffer.shape))}, offset 0."
            raise ArgumentError(f"{buffer.name} has strides {list(buffer.strides)}, offset {buffer.offset}", rule=rule)
    elements = sum(math.prod(_shape(buffer)) for buffer in (*inputs, *stored))
    work = math.prod(max(1, upper(extent(axis))) for axis in region.axes)
    if elements > MOST_ELEMENTS or work > MOST_WORK:
        raise ArgumentError(
            f"its buffers have {elements} elements, its axes span {work}",
            rule=f"what is checked has at most {MOST_ELEMENTS} and {MOST_WORK}.",
        )


@contextmanager
def _no_bug(what: str) -> Iterator[None]:
    """What breaks a rule inside is a mistake of whoever wrote the text."""
    try:
        yield
    except InternalError as error:
        said = str(error).splitlines()[0].removeprefix("kernel k0: ")
        raise ArgumentError(f"the {what} is wrong: {said}") from None
