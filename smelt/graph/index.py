"""Index algebra: integer expressions over bounded variables, simplified as they are built.

An `Index` is a polynomial in normal form: a sum of integer coefficients times products of *atoms*, plus a constant. An
atom is a `Variable` or an operation that the normal form cannot see through (`Quotient`, `Remainder`, `Minimum`,
`Maximum`). Division and remainder are Python's: they round down, and the divisor is always positive. Every expression
has integer bounds; `nonnegative` proves more, by putting variables at the end of their range that hurts most.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from smelt.errors import ArgumentError, InternalError
from smelt.graph import index_numbers as numbers
from smelt.graph import index_shares as shares
from smelt.graph.index_atoms import Atom, Maximum, Minimum, Operation, Quotient, Remainder, bounds_of, quoted, spell

__all__ = ["Index", "IndexLike", "Dim", "ZERO", "as_index", "variable", "of", "size_of", "least", "upper", "product_of"]
__all__ += ["Atom", "Variable", "Operation", "Quotient", "Remainder", "Minimum", "Maximum", "Monomial"]
__all__ += ["minimum", "maximum", "exact_quotient", "nonnegative", "less"]

IndexLike = Union["Index", int]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class Variable(Atom):
    """A named integer within inclusive bounds, which may themselves be expressions."""

    __slots__ = ("first", "last", "name")

    def __init__(self, name: str, first: IndexLike, last: IndexLike) -> None:
        self.name, self.first, self.last = self.parts = name, as_index(first), as_index(last)
        self.low, self.high = self.first.low, max(self.first.low, self.last.high)
        self.depth = 1 + max(self.first.depth, self.last.depth)
        self.text = name if _PLAIN_NAME.fullmatch(name) else quoted(name)
        self.hash = hash((name, self.low, self.high))


Monomial = tuple[Atom, ...]


class Index:
    """An integer expression. Immutable; `==` is structural equality of the normal forms (and works with integers)."""

    __slots__ = ("_bounds", "_hash", "_variables", "constant", "terms")

    def __init__(self, terms: dict[Monomial, int], constant: int) -> None:
        self.terms, self.constant = terms, constant
        self._hash: int | None = None
        self._bounds: tuple[int, int] | None = None
        self._variables: frozenset[Variable] | None = None

    # --- what it is

    @property
    def value(self) -> int | None:
        """The number, if this is a constant."""
        return None if self.terms else self.constant

    @property
    def low(self) -> int:
        """The smallest number that it can be."""
        return (self._bounds or self._interval())[0]

    @property
    def high(self) -> int:
        """The largest number that it can be."""
        return (self._bounds or self._interval())[1]

    def _interval(self) -> tuple[int, int]:
        self._bounds = bounds_of(self.terms, self.constant)
        return self._bounds

    @property
    def depth(self) -> int:
        """How deeply operations are nested."""
        return max((atom.depth for product in self.terms for atom in product), default=0)

    def atoms(self) -> set[Atom]:
        """The atoms of the terms, without those inside operations."""
        return {atom for product in self.terms for atom in product}

    def variables(self) -> frozenset[Variable]:
        """All variables, also inside operations."""
        if self._variables is None:
            atoms = self.atoms()
            inside = [side.variables() for atom in atoms if isinstance(atom, Operation) for side in (atom.a, atom.b)]
            self._variables = frozenset([atom for atom in atoms if isinstance(atom, Variable)]).union(*inside)
        return self._variables

    def coefficient(self, atom: Atom) -> Index:
        """What `atom` is multiplied by (occurrences inside operations do not count)."""
        rest, constant = dict[Monomial, int](), 0
        for product, coefficient in self.terms.items():
            if len(product) == 1 and product[0] == atom:
                constant = coefficient
            elif atom in product:
                at = product.index(atom)
                rest[product[:at] + product[at + 1 :]] = coefficient
        return Index(rest, constant)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Index):
            same = self is other or (self.constant == other.constant and self.terms == other.terms)
        elif isinstance(other, int | np.integer):
            same = not self.terms and self.constant == other
        else:
            return NotImplemented
        return same or numbers.equals(self, other)

    def __hash__(self) -> int:
        if self._hash is None:
            numbers.check_hash(self)
            # A constant hashes like its integer, so that sizes of either form find each other in a dictionary.
            self._hash = hash((frozenset(self.terms.items()), self.constant)) if self.terms else hash(self.constant)
        return self._hash

    def __str__(self) -> str:
        return spell(numbers.as_text(self))

    def __repr__(self) -> str:
        return f"Index({self})"

    # --- arithmetic

    def __add__(self, other: IndexLike) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        if not isinstance(other, Index):
            return numbers.mixed(operator.add, self, other)
        if not self.terms:
            return other + self.constant
        if not other.terms:
            return self + other.constant
        return recombined(term_by_term(self, other))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: IndexLike) -> Index:
        if isinstance(other, Index | int):
            return self + other * -1
        return numbers.mixed(operator.sub, self, other)

    def __rsub__(self, other: int) -> Index:
        return self * -1 + other if isinstance(other, int) else numbers.mixed(operator.sub, other, self)

    def __mul__(self, other: IndexLike) -> Index:
        if not isinstance(other, int):
            if not isinstance(other, Index):
                return numbers.mixed(operator.mul, self, other)
            if other.terms:
                return _product(self, other) if self.terms else other * self.constant
            other = other.constant
        if other == 1:
            return self
        if other == 0:
            return ZERO
        return Index({product: c * other for product, c in self.terms.items()}, self.constant * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: IndexLike) -> Index:
        return _whole(_divide, operator.floordiv, self, other)

    def __rfloordiv__(self, other: int) -> Index:
        return _whole(_divide, operator.floordiv, other, self)

    def __mod__(self, other: IndexLike) -> Index:
        return _whole(_remainder, operator.mod, self, other)

    def __rmod__(self, other: int) -> Index:
        return _whole(_remainder, operator.mod, other, self)

    # --- as a number of the user's: fractions, comparisons

    __truediv__ = numbers.divide
    __rtruediv__ = numbers.swapped(numbers.divide)
    __pow__ = numbers.power
    __rpow__ = numbers.swapped(numbers.power)
    __lt__, __le__, __gt__, __ge__ = numbers.lt, numbers.le, numbers.gt, numbers.ge
    __bool__ = numbers.truth
    __array_ufunc__ = None  # NumPy's numbers leave operators to the size
    if not TYPE_CHECKING:  # they only say why there is no such number
        __float__, __int__, __index__ = numbers.to_float, numbers.to_integer, numbers.to_integer

    # --- use

    def substitute(self, values: Mapping[Variable, IndexLike]) -> Index:
        """Replace variables, also inside operations, and simplify again."""
        kept: dict[Monomial, int] = {}
        constant, others = self.constant, []
        for product, coefficient in self.terms.items():  # what is no more than a sum takes no more than a sum
            first = product[0]
            new = values.get(first) if len(product) == 1 and isinstance(first, Variable) else self
            if new is None:
                kept[product] = coefficient
            elif isinstance(new, int):
                constant += coefficient * new
            else:
                others.append((product, coefficient))
        result = Index(kept, constant)
        for product, coefficient in others:
            factor: Index = Index({}, coefficient)
            for atom in product:
                factor = factor * _substitute_atom(atom, values)
            result = result + factor
        return result

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The number for given values of the variables by name; NumPy integer arrays work too."""
        total: Any = self.constant
        for product, coefficient in self.terms.items():
            factor: Any = coefficient
            for atom in product:
                factor = factor * _evaluate_atom(atom, values)
            total = total + factor
        return total


ZERO = Index({}, 0)


class Dim(Index):
    """A size known only when a compiled function is called: `Dim("n", 1, 4096)` stands for any n from 1 to 4096."""

    __slots__ = ("name",)

    def __init__(self, name: str, low: int = 1, high: int = 1 << 20) -> None:
        if not isinstance(name, str) or not name:
            raise ArgumentError("Dim: the name must be a non-empty string")
        if not (isinstance(low, int) and isinstance(high, int) and 0 <= low <= high):
            raise ArgumentError(f"Dim: bounds must be integers with 0 <= low <= high, got {low!r} and {high!r}")
        self.name = name
        super().__init__({(Variable(name, low, high),): 1}, 0)

    def __hash__(self) -> int:
        numbers.check_hash(self)  # in every call: the user has this very object
        return super().__hash__()

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, {self.low}, {self.high})"


def as_index(value: IndexLike) -> Index:
    """The expression for an integer, or the expression itself."""
    return value if isinstance(value, Index) else Index({}, value)


@functools.lru_cache(maxsize=4096)  # kernels by the hundred have the same axes, quickly equal when they are one object
def variable(name: str, first: IndexLike, last: IndexLike) -> Index:
    """A variable as an expression; the bounds are inclusive."""
    return of(Variable(name, first, last))


def of(atom: Atom) -> Index:
    """An atom as an expression."""
    return Index({(atom,): 1}, 0)


def minimum(a: IndexLike, b: IndexLike) -> Index:
    return _extreme(Minimum, 1, as_index(a), as_index(b))


def maximum(a: IndexLike, b: IndexLike) -> Index:
    return _extreme(Maximum, -1, as_index(a), as_index(b))


def _extreme(kind: type[Minimum], sign: int, a: Index, b: Index) -> Index:
    if nonnegative((b - a) * sign):
        return a
    if nonnegative((a - b) * sign):
        return b
    return of(kind(b, a) if str(b) < str(a) else kind(a, b))


def size_of(value: IndexLike) -> IndexLike:
    """An expression in its simplest form for a shape: a plain integer where it is constant."""
    return value if isinstance(value, int) or value.terms else value.constant


def least(size: IndexLike) -> int:
    """The smallest value that a size can take."""
    return size if isinstance(size, int) else size.low


def upper(size: IndexLike) -> int:
    """The largest value that a size can take."""
    return size if isinstance(size, int) else size.high


def product_of(sizes: Iterable[IndexLike]) -> IndexLike:
    """The product of sizes."""
    total: IndexLike = 1
    for size in sizes:
        total = size * total
    return size_of(total)


def exact_quotient(a: Index, b: Index) -> Index | None:
    """The q with a = q*b for all values of the variables, if the normal form shows it."""
    if b == 0:
        return None
    if not b.terms:
        n = b.constant
        if a.constant % n or any(c % n for c in a.terms.values()):
            return None
        return Index({product: c // n for product, c in a.terms.items()}, a.constant // n)
    whole, rest = _split_by(a, b)
    return whole if rest == 0 else None


# --- proofs


_PROOF_DEPTH = 24
_PROOF_STEPS = 400  # each minimum and maximum may double the work


def nonnegative(expression: Index) -> bool:
    """True if the expression is proven to be >= 0 for all values of its variables; False means "not proven"."""
    return _prove(expression, _PROOF_DEPTH, [_PROOF_STEPS])


def _prove(expression: Index, depth: int, steps: list[int]) -> bool:
    if expression.low >= 0:
        return True
    if expression.high < 0 or not expression.terms or depth == 0 or steps[0] == 0:
        return False
    steps[0] -= 1
    # Deepest first; an atom whose effect has no certain sign has to wait for others to be put at their bounds.
    for atom in sorted(expression.atoms(), key=lambda a: (a.depth, a.text), reverse=True):
        factor = expression.coefficient(atom)
        rising, falling = factor.low >= 0, factor.high <= 0
        if (rising or falling) and atom not in factor.atoms():
            break
    else:
        return False
    rest = Index({p: c for p, c in expression.terms.items() if atom not in p}, expression.constant)

    def at(value: IndexLike) -> bool:
        return _prove(rest + factor * value, depth - 1, steps)

    if isinstance(atom, Variable):
        return at(atom.first if rising else atom.last)
    assert isinstance(atom, Operation)
    if isinstance(atom, Maximum):
        return at(atom.a) or at(atom.b) if rising else at(atom.a) and at(atom.b)
    if isinstance(atom, Minimum):
        return at(atom.a) and at(atom.b) if rising else at(atom.a) or at(atom.b)
    if isinstance(atom, Remainder):
        if at(0 if rising else atom.b - 1) or (falling and _prove(atom.a, depth - 1, steps) and at(atom.a)):
            return True
        # a % b is a - b*(a // b), and the quotient may meet its like elsewhere in the expression
        return at(atom.a - _divide(atom.a, atom.b) * atom.b)
    if at(atom.low if rising else atom.high):
        return True
    if factor == -1 and _prove((rest + 1) * atom.b - 1 - atom.a, depth - 1, steps):  # a // b <= c means a < (c + 1)*b
        return True
    if rising and atom.low < 0 and at(0) and _prove(atom.a, depth - 1, steps):
        return True
    if falling and not atom.b.terms and (most := _at_most(atom.a)) is not atom.a and at(_divide(most, atom.b)):
        return True
    whole = [(atom.a, atom.b)]  # atom is a // b of each of these
    for other in expression.atoms():
        if not isinstance(other, Quotient) or other is atom or other.a.terms != atom.a.terms:
            continue
        apart = other.a - atom.a
        times, k = exact_quotient(atom.b, other.b), exact_quotient(apart, other.b)
        if times is not None and k is not None:
            whole.append((of(other) - k, times))
        times = exact_quotient(other.b, atom.b)
        if times is None or times.low < 1 or (times == 1 and other.text > atom.text):  # or proofs would go to and fro
            continue
        # The other one is (atom + k) // times, so times * it is atom + k, or up to times - 1 less; or that of k + 1.
        k = _divide(apart, atom.b)
        if at(times * of(other) - k - (apart != k * atom.b) if rising else times * of(other) - k + times - 1):
            return True
    for a, b in whole:
        share = exact_quotient(factor, b)
        # b * (a // b) lies in [a - b + 1, a]
        if share is not None and _prove(rest + share * (a - b + 1 if rising else a), depth - 1, steps):
            return True
    return False


def _at_most(expression: Index) -> Index:
    """What an expression can be at most, in what its variables are bounded by, where that is no number."""
    terms = sorted(expression.terms.items(), key=lambda term: (term[0][0].depth, term[0][0].text), reverse=True)
    for (atom, *others), factor in terms:
        if isinstance(atom, Variable) and not others and (end := atom.last if factor > 0 else atom.first).terms:
            return _at_most(expression + factor * (end - of(atom)))
    return expression


def less(a: IndexLike, b: IndexLike) -> bool:
    """True if a < b is proven."""
    return nonnegative(as_index(b) - a - 1)


# --- simplification


def _product(a: Index, b: Index) -> Index:
    terms: dict[Monomial, int] = {}
    constant = a.constant * b.constant
    left, right = ([*x.terms.items(), *([((), x.constant)] if x.constant else [])] for x in (a, b))
    for p, c in left:
        for q, d in right:
            key: Monomial = tuple(sorted(p + q, key=lambda atom: atom.text)) if p and q else p + q
            if key:
                total = terms.get(key, 0) + c * d
                if total:
                    terms[key] = total
                else:
                    del terms[key]
    return recombined(Index(terms, constant))


def recombined(index: Index) -> Index:
    """n*(a // n) + a % n is a, and so is the sum of all (a + k) // n for k from 0 to n - 1."""
    quotients: list[Quotient] = []
    for product, coefficient in index.terms.items():
        if len(product) != 1:
            continue
        atom = product[0]
        if type(atom) is Quotient:
            if not atom.b.terms:
                quotients.append(atom)
        elif type(atom) is Remainder:
            quotient: Atom | None = Quotient(atom.a, atom.b)
            if type(_only_atom(atom.a.terms)) is Quotient:  # (a // m) // n is written as a // (m*n)
                quotient = _only_atom(_divide(atom.a, atom.b).terms)
            whole = atom.b * coefficient
            if quotient is not None and index.coefficient(quotient) == whole and quotient not in whole.atoms():
                rest = index - of(atom) * coefficient
                return rest - of(quotient) * whole + atom.a * coefficient
    for quotient in quotients:
        if (joined := shares.joined(index, quotient, quotients)) is not None:
            return joined
    return index


def term_by_term(a: Index, b: Index) -> Index:
    """a + b, term by term."""
    terms = dict(a.terms)
    for product, coefficient in b.terms.items():
        total = terms.get(product, 0) + coefficient
        if total:
            terms[product] = total
        else:
            del terms[product]
    return Index(terms, a.constant + b.constant)


def _divide(a: Index, b: Index) -> Index:
    if b.low < 1:
        raise InternalError(f"division of {a} by {b}, which may be less than one")
    if b.terms:
        if nonnegative(a) and less(a, b):
            return ZERO
        whole, rest = _split_by(a, b)
        return whole + _divide(rest, b) if whole.terms or whole.constant else of(Quotient(a, b))
    n = b.constant
    if n == 1:
        return a
    if not a.terms:
        return Index({}, a.constant // n)
    left = {product: c for product, c in a.terms.items() if c % n}
    quotient = Index({product: c // n for product, c in a.terms.items() if c % n == 0}, a.constant // n)
    remaining = Index(left, a.constant % n)
    low = remaining.low // n
    if low == remaining.high // n:
        return quotient + low
    if (parts := _steps(remaining, n)) is not None:  # (g*s + r) // (g*m) = s // m
        return quotient + _divide(parts[1], Index({}, n // parts[0]))
    atom = _only_atom(left)
    if isinstance(atom, Quotient):  # (a // m + c) // n = (a + c*m) // (m*n)
        return quotient + _divide(atom.a + atom.b * remaining.constant, atom.b * n)
    if isinstance(atom, Remainder) and remaining.constant == 0:
        m = atom.b.value
        if m is not None and m % n == 0:  # (a % (k*n)) // n = (a // n) % k
            return quotient + _remainder(_divide(atom.a, b), Index({}, m // n))
    return quotient + of(Quotient(remaining, b))


def _steps(a: Index, n: int) -> tuple[int, Index, Index] | None:
    """g, s and r with a = g*s + r and 0 <= r < g, where g divides n: what a is within a step of g decides nothing."""
    factors = [math.gcd(n, c) for c in a.terms.values()]
    for g in sorted({*factors, math.gcd(*factors)}, reverse=True):
        within = Index({p: c for p, c in a.terms.items() if c % g}, a.constant % g)
        if 1 < g < n and within.low >= 0 and within.high < g:
            whole = {p: c // g for p, c in a.terms.items() if not c % g}
            return g, Index(whole, a.constant // g), within
    return None


def _whole(exact: Callable[[Index, Index], Index], operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Index:
    """Of integers and sizes the size, and of anything else what it is for numbers of the user's."""
    if isinstance(a, Index | int) and isinstance(b, Index | int):
        return exact(as_index(a), as_index(b))
    result: Index = numbers.mixed(operation, a, b)
    return result


def _only_atom(terms: Mapping[Monomial, int]) -> Atom | None:
    """The atom that is all of these terms."""
    if len(terms) != 1:
        return None
    ((product, coefficient),) = terms.items()
    return product[0] if len(product) == 1 and coefficient == 1 else None


def _split_by(a: Index, b: Index) -> tuple[Index, Index]:
    """a = whole * b + rest, for the terms of `a` that a one-term `b` divides."""
    if len(b.terms) != 1 or b.constant:
        return (as_index(1), ZERO) if a == b else (ZERO, a)
    ((divisor, n),) = b.terms.items()
    whole: Index = ZERO
    rest: Index = Index({}, a.constant)
    for product, coefficient in a.terms.items():
        left = list(product)
        for atom in divisor:
            if coefficient % n or atom not in left:
                rest = rest + Index({product: coefficient}, 0)
                break
            left.remove(atom)
        else:
            whole = whole + (Index({tuple(left): coefficient // n}, 0) if left else coefficient // n)
    return whole, rest


def _remainder(a: Index, b: Index) -> Index:
    if b.low < 1:
        raise InternalError(f"remainder of {a} by {b}, which may be less than one")
    if b.terms:
        if nonnegative(a) and less(a, b):
            return a
        whole, rest = _split_by(a, b)
        if whole.terms or whole.constant:
            return _remainder(rest, b)
        return of(Remainder(a, b))
    n = b.constant
    if n == 1:
        return ZERO
    rest_terms = {p: c if -n < c < n else c % n for p, c in a.terms.items() if c % n}
    rest = Index(rest_terms, a.constant % n)
    if not rest_terms:
        return rest
    low = rest.low // n
    if low == rest.high // n:
        return rest - low * n
    if (parts := _steps(rest, n)) is not None:
        step, steps, within = parts
        return _remainder(steps, Index({}, n // step)) * step + within
    atom = _only_atom(rest_terms) if rest.constant == 0 else None
    if isinstance(atom, Remainder) and atom.b.value is not None and atom.b.value % n == 0:
        return _remainder(atom.a, b)
    return of(Remainder(rest, b))


def _substitute_atom(atom: Atom, values: Mapping[Variable, IndexLike]) -> Index:
    if isinstance(atom, Variable):
        return as_index(values[atom]) if atom in values else of(atom)
    assert isinstance(atom, Operation)
    a, b = atom.a.substitute(values), atom.b.substitute(values)
    return _BUILDERS[atom.symbol](a, b)


_BUILDERS: dict[str, Callable[[Index, Index], Index]] = {"//": _divide, "%": _remainder, "min": minimum, "max": maximum}


def _evaluate_atom(atom: Atom, values: Mapping[str, Any]) -> Any:
    if isinstance(atom, Variable):
        return values[atom.name]
    assert isinstance(atom, Operation)
    return atom.evaluate(atom.a.evaluate(values), atom.b.evaluate(values))
