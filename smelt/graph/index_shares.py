"""Shares: what (a + k) // n adds up to, when a is dealt out to n hands.

A part of the algebra of `index`, which asks for it whenever it adds.
"""

from __future__ import annotations

from smelt.graph import index  # which imports this module first: its names are there when functions are called
from smelt.graph.index_atoms import Quotient


def joined(whole: index.Index, one: Quotient, quotients: list[Quotient]) -> index.Index | None:
    """The sum of (a + k*m) // (c*m) for k from 0 to c - 1 is a // m: n items dealt out to c hands. So all shares make
    the whole, and the whole without all shares but one is that one.
    """
    n = one.b.constant
    shares = {q.a.constant: whole.terms[q,] for q in quotients if q.b == one.b and q.a.terms == one.a.terms}
    for count in range(len(shares) + 1, 1, -1):
        if n % count:
            continue
        m = n // count
        hands = range(one.a.constant % m, n, m)
        dealt_out = index.Index(one.a.terms, hands[0]) // m
        for left in (None, *hands):
            dealt = {hand: shares.get(hand, 0) for hand in hands if hand != left}
            times = min(dealt.values(), key=abs)
            if left is None:
                fits = times != 0 and all(c * times > 0 for c in dealt.values())
            else:
                fits = times != 0 and all(c == times for c in dealt.values()) and _holds(whole, dealt_out * -times)
            if fits:
                result = index.term_by_term(whole, dealt_out * times)
                for hand in hands:
                    share = index.Index(one.a.terms, hand) // n
                    result = index.term_by_term(result, share * -times)
                if _weight(result) < _weight(whole):
                    return index.recombined(result)
    return None


def _weight(whole: index.Index) -> list[tuple[int, int]]:
    """How far an expression is from its simplest form: what terms are multiplied by, by how deep they are; deepest
    first.
    """
    weights: dict[int, int] = {}
    for product, coefficient in whole.terms.items():
        depth = max(atom.depth for atom in product)
        weights[depth] = weights.get(depth, 0) + abs(coefficient)
    return sorted(weights.items(), reverse=True)


def _holds(whole: index.Index, part: index.Index) -> bool:
    """Whether each term of a part is in an expression, with the same sign and no smaller factor."""
    factors = [(whole.terms.get(product, 0), factor) for product, factor in part.terms.items()]
    return bool(factors) and all(c * factor > 0 and abs(c) >= abs(factor) for c, factor in factors)
