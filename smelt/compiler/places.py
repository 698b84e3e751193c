"""Where values lie while a program runs, those of a loop among them: a base and an offset each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from smelt.compiler.trace import Argument
from smelt.compiler.work import LoopWork, Value
from smelt.device.protocol import REGISTER
from smelt.fuse import Walk, base
from smelt.graph import IndexLike, Loop
from smelt.kernel import Temporary
from smelt.plan import ARENA, INPUTS, SCALARS

WORD = 8  # bytes of a scalar, counter or register
Place = tuple[int, int]  # a base and an offset
Places = Mapping[Value, Place]


def place_of(node: Value, place: Places) -> Place:
    """Where a value lies: given, or an argument of the call."""
    at = place.get(node)
    if at is not None or isinstance(node, Temporary):
        return at or place[node]
    argument: Argument = node.attribute
    return (SCALARS, WORD * argument.number) if argument.kind == "scalar" else (INPUTS + argument.number, 0)


def moved(place: Place, start: int) -> Place:
    """So many bytes further on."""
    return place[0], place[1] + start


class Turns(NamedTuple):
    """Two places of a state that take turns, `first` being written first, and registers that say which is which."""

    now: Place
    following: Place
    first: Place
    second: Place


class StatePlace(NamedTuple):
    """A state: where it comes from, where its last value goes, and its bytes. Without turns it stays there."""

    source: Place
    result: Place
    nbytes: IndexLike
    turns: Turns | None

    @property
    def before(self) -> Place:
        """Where an iteration reads it."""
        return self.result if self.turns is None else self.turns.now

    @property
    def after(self) -> Place:
        """Where an iteration writes it."""
        return self.result if self.turns is None else self.turns.following


class WalkPlace(NamedTuple):
    """An x or y: where it lies, the register that points to its slice, and how that moves."""

    whole: Place
    register: Place
    walk: Walk


@dataclass(frozen=True)
class LoopPlaces:
    """Where everything lies that a loop reads, writes and remembers."""

    counter: Place
    states: list[StatePlace]
    constants: list[Place]
    xs: list[WalkPlace]
    ys: list[WalkPlace]

    @classmethod
    def of(cls, item: LoopWork, place: Places) -> LoopPlaces:
        """Registers lie behind the counter. If the number of iterations is known, the last one writes the results."""
        loop: Loop = item.node.attribute
        first = loop.states + loop.constants
        at = place[item.memory][1]
        sources = [place_of(base(source), place) for source in item.node.sources]
        results = [place[value] for value in item.values]
        registers = iter([(REGISTER, at + item.counters + WORD * (1 + k)) for k in range(item.registers)])
        spare = iter(item.spare)
        even = isinstance(loop.length, int) and loop.length % 2 == 0
        states: list[StatePlace] = []
        for j in range(loop.states):
            turns = None
            if j not in item.in_place:
                pair = (results[j], (ARENA, at + next(spare)))
                turns = Turns(next(registers), next(registers), *(pair[::-1] if even else pair))
            states.append(StatePlace(sources[j], results[j], item.sizes.states[j], turns))
        xs, ys = (
            [WalkPlace(whole, next(registers), walk) for whole, walk in zip(wholes, walks, strict=True)]
            for wholes, walks in (
                (sources[first : first + loop.xs], item.sizes.xs),
                (results[loop.states :], item.sizes.ys),
            )
        )
        return cls((ARENA, at + item.counters), states, sources[loop.states : first], xs, ys)
