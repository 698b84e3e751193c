"""Rules that users state: those in force, and the name that tells graphs that were planned with other ones apart.

Takes rules with a digest of what they say; gives a name for all that are in force, which is part of the key of every
graph that is traced, and the rules of such a name. So no plan and no record on disk outlives the rules it was made by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from smelt.locks import Remembered, new_lock

_SETS: Final = 64  # of rules that were in force together: a graph of one that is forgotten is planned without them


class Statement(NamedTuple):
    """Rules that come and go together, and a digest of what they say."""

    rules: tuple[Any, ...]  # of `smelt.rewrite`: this module is read before that one, by every program
    digest: str
    left_out: str = ""  # the name of a rule that is not in force meanwhile


_lock = new_lock()
_statements: tuple[Statement, ...] = ()
_name = ""  # of those in force; none: empty
_named: Remembered[str, tuple[Statement, ...]] = Remembered(_SETS)


def state(statement: Statement) -> None:
    """From now on these rules are in force."""
    with _lock:
        _put((*_statements, statement))


def retract(statement: Statement) -> None:
    """From now on they are not; nothing happens if they were not."""
    with _lock:
        _put(tuple(one for one in _statements if one is not statement))


def is_stated(statement: Statement) -> bool:
    """Whether rules are in force."""
    return any(one is statement for one in _statements)


def stated() -> str:
    """The name of all rules in force; empty if there are none."""
    return _name


def rules_of(name: str, own: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The rules of such a name, after smelt's own; without those that are left out."""
    statements = (_named.get(name) or ()) if name else ()
    left_out = {one.left_out for one in statements}
    rules = (*own, *(rule for one in statements for rule in one.rules))
    return tuple([rule for rule in rules if rule.name not in left_out])


@contextmanager
def without(rule: str) -> Iterator[None]:
    """What is traced inside is planned without a rule, to see what it is good for."""
    statement = Statement((), f"without {rule}", rule)
    state(statement)
    try:
        yield
    finally:
        retract(statement)


def _put(statements: tuple[Statement, ...]) -> None:
    global _statements, _name
    digests = "\n".join(one.digest for one in statements)
    name = hashlib.sha256(digests.encode()).hexdigest()[:32] if statements else ""
    if name:
        _named.put(name, statements)
    _statements, _name = statements, name
