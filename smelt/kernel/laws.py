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
from typing import Any, Final, NamedTuple

from smelt.graph import identity
from smelt.kernel.region import Expression, walk

Formula = str | tuple[Any, ...]


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


class Follower(NamedTuple):
    """How a reduction follows another one: by which law and form of weights, of which x and m, in regions or graphs."""

    law: Law
    form: Formula
    x: Any
    m: Any
    weights: Any  # of x and m
    rest: Any  # what they take; None if they are folded themselves


# What a value is to a formula: the name of its operation, its arguments, and its number if it is a constant.
Look = Callable[[Any], tuple[str, tuple[Any, ...], Any]]


def matched(formula: Formula, value: Any, look: Look, names: dict[str, Any]) -> bool:
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


def followers(op: str, summand: Any, look: Look) -> Iterator[Follower]:
    """The ways in which a fold of something may follow what the law calls m; whether that leads, the caller knows."""
    for law in LAWS:
        for taken in law.taken if law.follows == op else ():
            found: dict[str, Any] = {}
            if not matched(taken, summand, look, found):
                continue
            for form in law.weights:
                names: dict[str, Any] = {}
                if matched(form, found["w"], look, names):
                    yield Follower(law, form, names["x"], names["m"], found["w"], found.get("g"))


def follows(e: Expression) -> Follower | None:
    """How a reduction of a region follows another one over the same axis, if it does."""
    if e.op != "reduce" or len(e.attribute.axes) != 1:
        return None
    for found in followers(e.attribute.op, e.arguments[0], lambda e: (e.op, e.arguments, e.attribute)):
        m: Expression = found.m
        leads = m.op == "reduce" and m.attribute.op in found.law.leads and m.attribute.axes == e.attribute.axes
        if leads and m.arguments[0] is found.x and (found.rest is None or m not in walk([found.rest])):
            return found
    return None
