"""Proofs with the help of conditions: what the bounds of variables alone do not show."""

from __future__ import annotations

from smelt.graph.index import Index, Quotient, nonnegative
from smelt.kernel.region import Less


def implied(expression: Index, conditions: tuple[Less, ...]) -> bool:
    """True if the conditions are proven to make the expression nonnegative.

    A condition a < b says that b - a - 1 is not negative, so an expression that exceeds a multiple of it by something
    nonnegative is not negative either. Quotients are cleared first: n*e + n - 1 >= 0 shows e >= 0. Pairs of conditions
    are tried too.
    """
    slacks = [c.b - c.a - 1 for c in conditions]
    scales = {c for c in map(abs, expression.terms.values()) if c > 1}
    multiples = [slack * scale for slack in slacks for scale in (1, *sorted(scales))]
    for n in (1, *_denominators(expression, slacks)):
        cleared = expression * n + (n - 1)
        if any(nonnegative(cleared - slack) for slack in (multiples if n == 1 else slacks)):
            return True
    return any(nonnegative(expression - a - b) for at, a in enumerate(slacks) for b in slacks[at + 1 :])


def _denominators(expression: Index, slacks: list[Index]) -> list[int]:
    """What to multiply with: the divisors of quotients, and the coefficients that conditions give the variables."""
    found = {atom.b.value or 1 for atom in expression.atoms() if isinstance(atom, Quotient)}
    for slack in slacks:
        found |= {abs(c) for product, c in slack.terms.items() if product in expression.terms}
    return sorted(n for n in found if n > 1)
