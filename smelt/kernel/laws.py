"""Laws: how a reduction is carried along while another one over the same axis, which it depends on, still changes.

One reduction *leads*, the other *follows*: it folds what is taken by a weight w(x, m), of each element x and of m, what
leads over all elements. The sum of exponentials follows the maximum by w(x, m) = exp(x - m); so does the place of a
maximum, the least of all places with w(x, m) = (x = m). Weights compose,

    w(x, old) o w(old, new) = w(x, new)    for x, then old, then new as what leads goes on,

and being taken by a weight distributes over the fold. So one loop is enough: whenever what leads goes from old to new,
what has been folded so far is carried over by w(old, new). Two parts of an axis, with (m, s) and (n, t), combine in the
same way: what leads both is k = lead(m, n), and fold(s o w(m, k), t o w(n, k)) follows it.

A law is a row of `LAWS`. `fuse` asks it what may be one kernel, `schedule` how that is cut into blocks, and the action
`online` how a block is taken in. Formulas are names, or an operation and its arguments; ("identity", op) is the number
with which op folds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from smelt.graph import identity
from smelt.kernel.region import Expression, walk

Formula = str | tuple[Any, ...]
T = TypeVar("T", bound=Any)


class Law(NamedTuple):
    """How what follows is made of weights, and carried over when what leads changes."""

    name: str
    leads: frozenset[str]  # folds that may lead
    follows: str  # how what follows is folded
    weights: tuple[Formula, ...]  # of x and m, in any of these forms
    taken: tuple[Formula, ...]  # what is folded: of a weight w and anything else, g, that does not depend on m
    carry: tuple[str, Formula]  # by which operation, with what of w(old, new), what has been folded is carried over
    finite: bool = False  # m is at least the lowest number while it runs; where it ends at -inf, what follows is NaN


LAWS: Final = (
    Law(
        "exponentials",
        frozenset({"max"}),
        "add",
        weights=(("exp", ("sub", "x", "m")),),
        taken=("w", ("mul", "w", "g"), ("mul", "g", "w")),
        carry=("mul", "w"),
        finite=True,
    ),
    Law(
        "places",
        frozenset({"max", "min"}),
        "min",
        weights=(("or", ("eq", "x", "m"), ("isnan", "x")), ("eq", "x", "m")),
        taken=(("where", "w", "g", ("identity", "min")),),
        # Nothing has been found yet once there is something better.
        carry=("max", ("where", "w", ("identity", "max"), ("identity", "min"))),
    ),
)


class Weight(NamedTuple):
    """A weight by a law: the form that it has, and what it is a weight of."""

    law: Law
    form: Formula
    x: Any
    m: Any


# What a value is to a formula: the name of its operation, its arguments, and its number if it is a constant.
Look = Callable[[Any], tuple[str, tuple[Any, ...], Any]]


def _look(e: Expression) -> tuple[str, tuple[Expression, ...], Any]:
    return e.op, e.arguments, e.attribute


def matched(formula: Formula, value: T, look: Look, names: dict[str, T]) -> bool:
    """Whether a value has the form of a formula; `names` takes what each name stands for."""
    if isinstance(formula, str):
        return names.setdefault(formula, value) is value
    op, arguments, attribute = look(value)
    if formula[0] == "identity":
        return op == "const" and bool(attribute == identity(formula[1], value.dtype))
    return (
        op == formula[0]
        and len(arguments) == len(formula) - 1
        and all(matched(inner, argument, look, names) for inner, argument in zip(formula[1:], arguments, strict=True))
    )


def weights(value: T, look: Look = _look) -> Iterator[Weight]:
    """The laws by which a value may be a weight."""
    for law in LAWS:
        for form in law.weights:
            names: dict[str, T] = {}
            if matched(form, value, look, names):
                yield Weight(law, form, names["x"], names["m"])


def summands(value: T, law: Law, look: Look = _look) -> Iterator[tuple[T, T | None]]:
    """The ways to see a value that is folded as something taken by a weight: the weight, and the rest."""
    for form in law.taken:
        names: dict[str, T] = {}
        if matched(form, value, look, names):
            yield names["w"], names.get("g")


# --- in regions


class Follower(NamedTuple):
    """A reduction that follows another one: by which weight, which is this expression, of what."""

    weight: Weight
    weighs: Expression
    rest: Expression | None

    @property
    def lead(self) -> Expression:
        lead: Expression = self.weight.m
        return lead


def follows(e: Expression) -> Follower | None:
    """How a reduction follows another one over the same axis, if it does."""
    if e.op != "reduce" or len(e.attribute.axes) != 1:
        return None
    for law in LAWS:
        if law.follows != e.attribute.op:
            continue
        for weighs, rest in summands(e.arguments[0], law):
            for weight in weights(weighs):
                if weight.law is law and _leads(weight, e) and (rest is None or weight.m not in walk([rest])):
                    return Follower(weight, weighs, rest)
    return None


def _leads(weight: Weight, e: Expression) -> bool:
    m: Expression = weight.m
    same = m.op == "reduce" and m.attribute.axes == e.attribute.axes
    return same and m.attribute.op in weight.law.leads and m.arguments[0] is weight.x
