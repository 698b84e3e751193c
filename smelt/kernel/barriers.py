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
    """The buffers that were loaded and stored since the last barrier."""

    loaded: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    def then(self, loads: frozenset[str], stores: frozenset[str]) -> _Since:
        return _Since(self.loaded | loads, self.stored | stores)

    def conflict(self, loads: frozenset[str], stores: frozenset[str]) -> str | None:
        """A buffer for which a barrier has to come before these accesses."""
        return min((self.stored & loads) | (self.loaded & stores), default=None)


def _shared(body: Sequence[Statement]) -> frozenset[str]:
    """Memory that threads see each other's stores in: local memory, and arguments that are read back."""
    inside = list(statements(body))
    loaded = {s.buffer.name for s in inside if isinstance(s, Load)}
    stored = {s.buffer.name for s in inside if isinstance(s, Store)}
    local = {s.buffer.name for s in inside if isinstance(s, Load | Store) and s.buffer.place is Place.LOCAL}
    return frozenset(local | (loaded & stored))


def _accesses(body: Iterable[Statement], shared: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    inside = list(statements(body))
    loads = frozenset(s.buffer.name for s in inside if isinstance(s, Load))
    stores = frozenset(s.buffer.name for s in inside if isinstance(s, Store))
    return loads & shared, stores & shared


# --- putting them in


def with_barriers(body: Sequence[Statement]) -> list[Statement]:
    """The statements with the barriers that they need."""
    shared = _shared(body)
    return _placed(body, _Since(), shared)[0] if shared else list(body)


def _placed(body: Sequence[Statement], since: _Since, shared: frozenset[str]) -> tuple[list[Statement], _Since]:
    placed: list[Statement] = []
    for statement in body:
        loads, stores = _accesses([statement], shared)
        if since.conflict(loads, stores) is not None:
            placed.append(Barrier())
            since = _Since()
        if isinstance(statement, For) and (loads or stores):
            inner, after = _placed(statement.body, _Since(), shared)
            if after.conflict(loads, stores) is not None:  # the next iteration follows this one
                inner, after = [*inner, Barrier()], _Since()
            statement.body[:] = inner
            since = since.then(*after)
        elif isinstance(statement, If) and (loads or stores):
            first, after_first = _placed(statement.body, since, shared)
            second, after_second = _placed(statement.other, since, shared)
            statement.body[:], statement.other[:] = first, second
            since = after_first.then(*after_second)
        else:
            since = since.then(loads, stores)
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
                since = since.then(*around)
            case If(body=inner, other=other):
                first, after_first = _walk(inner, since, shared)
                second, after_second = _walk(other, since, shared)
                if first is not None or second is not None:
                    return first or second, since
                since = after_first.then(*after_second)
            case _:
                loads, stores = _accesses([statement], shared)
                found = since.conflict(loads, stores)
                if found is not None:
                    return found, since
                since = since.then(loads, stores)
    return None, since
