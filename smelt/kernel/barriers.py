"""Where the threads of a group wait for each other.

All threads of a group take the same way through a kernel: counts of loops and conditions are the same for all. So a
barrier may stand anywhere. One is needed between a store to memory that the threads share and a load of it, and between
a load and the next store. Stores that follow stores need none: what lowering stores twice, the same thread stores.

One walk finds where barriers are lacking: `with_barriers` puts them there, as far outside as they do their work, and
`missing_barrier` says whether there is such a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from smelt.kernel.ir import Barrier, For, If, Load, Statement, Store, bodies, statements
from smelt.kernel.region import Place


class _Since(NamedTuple):
    """The buffers that are loaded and stored, since the last barrier or by some statements."""

    loaded: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    def then(self, later: _Since) -> _Since:
        return _Since(self.loaded | later.loaded, self.stored | later.stored)

    def conflict(self, later: _Since) -> str | None:
        """A buffer for which a barrier has to come before these accesses."""
        return min((self.stored & later.loaded) | (self.loaded & later.stored), default=None)


def with_barriers(body: Sequence[Statement]) -> list[Statement]:
    """The statements with the barriers that they need."""
    return _placed(body, _Since(), _shared(body), [])[0]


def missing_barrier(body: Sequence[Statement]) -> str | None:
    """The name of a buffer that threads may see before, or after, they should; None if there is none."""
    lacking: list[str] = []
    _placed(body, _Since(), _shared(body), lacking)
    return min(lacking, default=None)


def _shared(body: Sequence[Statement]) -> frozenset[str]:
    """Memory that threads see each other's stores in: local memory, and arguments that are read back."""
    accesses = [s for s in statements(body) if isinstance(s, Load | Store)]
    loaded, stored = ({s.buffer.name for s in accesses if isinstance(s, kind)} for kind in (Load, Store))
    return frozenset(loaded & stored | {s.buffer.name for s in accesses if s.buffer.place is Place.LOCAL})


def _begins(body: Iterable[Statement], shared: frozenset[str]) -> _Since:
    """What statements may access before the first barrier among them."""
    found = _Since()
    for statement in body:
        if isinstance(statement, Barrier):
            break
        if isinstance(statement, Load | Store) and statement.buffer.name in shared:
            name = frozenset({statement.buffer.name})
            found = found.then(_Since(loaded=name) if isinstance(statement, Load) else _Since(stored=name))
        for inner in bodies(statement):
            found = found.then(_begins(inner, shared))
    return found


def _placed(
    body: Iterable[Statement], since: _Since, shared: frozenset[str], lacking: list[str]
) -> tuple[list[Statement], _Since]:
    """The statements with the barriers that are `lacking`, for which buffers, and what is accessed after the last."""
    placed: list[Statement] = []
    for statement in body:
        own = _begins([statement], shared)
        early = since.conflict(own)
        if early is not None:
            lacking.append(early)
            placed.append(Barrier())
            since = _Since()
        if isinstance(statement, For):
            inner, after = _placed(statement.body, _Since(), shared, lacking)
            early = after.conflict(own)  # the next iteration follows this one
            if early is not None:
                lacking.append(early)
                inner, after = [*inner, Barrier()], _Since()
            statement, since = replace(statement, body=inner), since.then(after)
        elif isinstance(statement, If):
            first, after_first = _placed(statement.body, since, shared, lacking)
            second, after_second = _placed(statement.other, since, shared, lacking)
            statement, since = replace(statement, body=first, other=second), after_first.then(after_second)
        else:
            since = _Since() if isinstance(statement, Barrier) else since.then(own)
        placed.append(statement)
    return placed, since
