"""Routines: kernels that are no loop nest over expressions, and so have a form of their own.

Sorting, scattering and compacting are written once as templates of the renderer. A routine names the template, the
words that fill it in (types, fixed choices) and its sizes, which may be index expressions over integer parameters. It
is launched like any other kernel. Its text is complete: equal texts are the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from smelt.dtypes import DType
from smelt.graph import Index, IndexLike, Node, Variable, as_index


@dataclass(frozen=True)
class Routine:
    """One launch of a template. `operations` counts what it does about, for people to look at."""

    template: str
    dtype: DType  # of the elements that it is about
    words: Mapping[str, str | int]  # what the template leaves open
    sizes: Mapping[str, IndexLike]  # constants of the call, all of type long
    tasks: Index
    workspace: int = 0  # bytes that each thread needs
    grain: int = 1  # tasks that are worth handing to a thread at a time
    operations: int = 0
    name: str = ""
    threads: int = 1  # that run a task together

    @property
    def parameters(self) -> tuple[Variable, ...]:
        """The integers that the caller gives, in this order."""
        found = {v for size in self.sizes.values() for v in as_index(size).variables()} | self.tasks.variables()
        return tuple(sorted(found, key=lambda v: v.name))


def print_routine(routine: Routine) -> str:
    """The text of a routine, by which it is known."""
    lines = [f"routine {routine.template} {routine.dtype} tasks {routine.tasks} grain {routine.grain}"]
    lines += [f"threads {routine.threads}"] if routine.threads > 1 else []
    lines += [f"parameter {v.text} in {v.first} .. {v.last}" for v in routine.parameters]
    lines += [f"{name} {word}" for name, word in routine.words.items()]
    lines += [f"size {name} = {size}" for name, size in routine.sizes.items()]
    return "\n".join([*lines, f"workspace {routine.workspace}", ""])


@dataclass(frozen=True, eq=False)
class Temporary:
    """Memory that one launch of a node leaves for a later one."""

    dtype: DType
    shape: tuple[IndexLike, ...]

    def __repr__(self) -> str:
        return f"<temporary {self.dtype}{list(self.shape)}>"


class Step(NamedTuple):
    """One launch of a routine, and what stands behind each of its buffers."""

    routine: Routine
    buffers: tuple[Node | Temporary, ...]
