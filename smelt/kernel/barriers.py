"""Where the threads of a group wait for each other.

All threads of a group take the same way through a kernel: counts of loops and conditions are the same for all. So a
barrier may stand anywhere. One is needed between a store to memory that the threads share and a load of it, and between
a load and the next store. Stores that follow stores need none: what lowering stores twice, the same thread stores.

`with_barriers` puts them in, as far outside as they do their work; `missing_barrier` looks for a way without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from smelt.kernel.ir import Barrier, For, If, Load, Statement, Store, statements
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


def _accesses(body: Iterable[Statement], shared: frozenset[str]) -> _Since:
    inside = [s for s in statements(body) if isinstance(s, Load | Store) and s.buffer.name in shared]
    loads = frozenset(s.buffer.name for s in inside if isinstance(s, Load))
    return _Since(loads, frozenset(s.buffer.name for s in inside if isinstance(s, Store)))


def _shared(body: Sequence[Statement]) -> frozenset[str]:
    """Memory that threads see each other's stores in: local memory, and arguments that are read back."""
    buffers = {s.buffer.name: s.buffer for s in statements(body) if isinstance(s, Load | Store)}
    loaded, stored = _accesses(body, frozenset(buffers))
    return (loaded & stored) | {name for name, buffer in buffers.items() if buffer.place is Place.LOCAL}


# --- putting them in


def with_barriers(body: Sequence[Statement]) -> list[Statement]:
    """The statements with the barriers that they need."""
    shared = _shared(body)
    return _placed(body, _Since(), shared)[0] if shared else list(body)


def _placed(body: Sequence[Statement], since: _Since, shared: frozenset[str]) -> tuple[list[Statement], _Since]:
    placed: list[Statement] = []
    for statement in body:
        own = _accesses([statement], shared)
        if since.conflict(own) is not None:
            placed.append(Barrier())
            since = _Since()
        if isinstance(statement, For) and any(own):
            inner, after = _placed(statement.body, _Since(), shared)
            if after.conflict(own) is not None:  # the next iteration follows this one
                inner, after = [*inner, Barrier()], _Since()
            statement.body[:] = inner
            since = since.then(after)
        elif isinstance(statement, If) and any(own):
            first, after_first = _placed(statement.body, since, shared)
            second, after_second = _placed(statement.other, since, shared)
            statement.body[:], statement.other[:] = first, second
            since = after_first.then(after_second)
        else:
            since = since.then(own)
        placed.append(statement)
    return placed, since


# --- looking for a way without


def missing_barrier(body: Sequence[Statement]) -> str | None:
    """The name of a buffer that threads may see before, or after, they should; None if there is no such way."""
    shared = _shared(body)
    return _walk(body, _Since(), shared)[0]


def _walk(body: Sequence[Statement], since: _Since, shared: frozenset[str]) -> tuple[str | None, _Since]:
    for statement in body:
        match statement:
            case Barrier():
                since = _Since()
            case For(body=inner):
                around = since
                for _ in range(2):  # the second time, an iteration follows another one
                    found, around = _walk(inner, around, shared)
                    if found is not None:
                        return found, since
                since = since.then(around)
            case If(body=inner, other=other):
                first, after_first = _walk(inner, since, shared)
                second, after_second = _walk(other, since, shared)
                if first is not None or second is not None:
                    return first or second, since
                since = after_first.then(after_second)
            case _:
                own = _accesses([statement], shared)
                found = since.conflict(own)
                if found is not None:
                    return found, since
                since = since.then(own)
    return None, since
