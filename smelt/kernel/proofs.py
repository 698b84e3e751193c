"""Proofs with the help of conditions: what the bounds of variables alone do not show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from smelt.graph import Index, Quotient, Variable, as_index, nonnegative, of, variable
from smelt.kernel.numbers import positions
from smelt.kernel.region import Less

_TRIALS = 1 << 16


def implied(expression: Index, conditions: tuple[Less, ...]) -> bool:
    """True if the conditions are proven to make the expression nonnegative.

    A condition a < b says that b - a - 1 is not negative, so an expression that exceeds a multiple of it by something
    nonnegative is not negative either. Quotients are cleared first: n*e + n - 1 >= 0 shows e >= 0. Pairs of conditions
    are tried too.
    """
    slacks = [c.b - c.a - 1 for c in conditions]
    scales = {c for c in map(abs, expression.terms.values()) if c > 1}
    fitted = [slack * scale for slack in slacks for scale in _fitting_scales(expression, slack)]
    multiples = [slack * scale for slack in slacks for scale in (1, *sorted(scales))] + fitted
    for n in (as_index(1), *_denominators(expression, slacks)):
        cleared = expression * n + (n - 1)
        if any(nonnegative(cleared - slack) for slack in (multiples if n == 1 else slacks)):
            return True
    if any(nonnegative(expression - a - b) for a, b in itertools.combinations(dict.fromkeys([*slacks, *fitted]), 2)):
        return True
    return nonnegative(_narrowed(expression, slacks)) or _tried(expression, slacks)


def _narrowed(expression: Index, slacks: list[Index]) -> Index:
    """The expression over variables that begin and end where conditions say, so that bounds of sums show the rest."""
    starts: dict[Variable, int] = {}
    ends: dict[Variable, int] = {}
    for slack in slacks:
        for v in slack.variables() & expression.variables():
            start, end = (slack - of(v)).value, (slack + of(v)).value
            if start is not None and v.low < -start <= v.high:
                starts[v] = max(-start, starts.get(v, v.low))
            if end is not None and v.low <= end < v.high:
                ends[v] = min(end, ends.get(v, v.high))
    narrowed = {v: (starts.get(v, v.first), ends.get(v, v.last)) for v in {**starts, **ends}}
    return expression.substitute({v: variable(v.name, first, last) for v, (first, last) in narrowed.items()})


def _tried(expression: Index, slacks: list[Index]) -> bool:
    """True if trying all values of the variables shows it; only where they are few."""
    variables = expression.variables()
    related = [slack for slack in slacks if slack.variables() & variables]
    for slack in related:
        variables |= slack.variables()
    ordered = sorted(variables, key=lambda v: v.name)
    sizes = [v.high - v.low + 1 for v in ordered]
    if math.prod(sizes) > _TRIALS or any(
        not bound.variables() <= variables for v in ordered for bound in (v.first, v.last)
    ):
        return False
    values = {v.name: v.low + at for v, at in zip(ordered, positions(tuple(sizes)), strict=True)}
    possible = np.ones(sizes, np.bool_)
    for condition in [*related, *(of(v) - v.first for v in ordered), *(v.last - of(v) for v in ordered)]:
        possible = possible & (np.asarray(condition.evaluate(values)) >= 0)
    return bool(np.all((np.asarray(expression.evaluate(values)) >= 0) | ~possible))


def _fitting_scales(expression: Index, slack: Index) -> Iterator[Index]:
    """Strides: what the variables of a condition are multiplied by in the expression."""
    for atom in slack.atoms():
        scale = -expression.coefficient(atom)
        if scale != 0 and slack.coefficient(atom) == -1 and nonnegative(scale):
            yield scale


def _denominators(expression: Index, slacks: list[Index]) -> list[Index]:
    """What to multiply with: the divisors of quotients, and the coefficients that conditions give the variables."""
    divisors = [atom.b for atom in expression.atoms() if isinstance(atom, Quotient)]
    shared = {abs(c) for slack in slacks for product, c in slack.terms.items() if product in expression.terms}
    return [n for n in dict.fromkeys([*divisors, *map(as_index, sorted(shared))]) if n != 1]
