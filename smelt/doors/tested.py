"""What a rule has to pass before it is in force: it is true, is found where it was written, and comes to an end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from smelt.doors.compared import KINDS, Array, difference, drawn
from smelt.doors.matching import LeftSide, same
from smelt.doors.sides import Sides, Types, interpreted, leaves_of
from smelt.dtypes import float64
from smelt.egraph import DEPTH, Fuel, tried
from smelt.errors import ArgumentError
from smelt.graph import Node, Op, constant_value, private_nodes, topological
from smelt.rewrite import Contract, Rule

_SIZES: Final = (1, 2, 3, 5, 7, 4)
_TRIES: Final = 4  # other sizes
_SEED: Final = 20
_FUEL: Final = Fuel(turns=12, forms=300, matches=60)
_WIDE: Final = 1 << 22  # units of float64 by which two sides may differ that are equal on paper: 1e-9


def other_sizes(types: Types) -> Iterator[Types]:
    """The same types with other sizes: equal ones stay equal, and 1 stays 1."""
    rng = np.random.default_rng(_SEED)
    found = dict.fromkeys(size for _, shape in types for size in shape if size != 1)
    for attempt in range(_TRIES):
        if attempt == 0:  # each another one, and none that is special
            pool = itertools.chain((3, 5, 7, 2, 4, 6), itertools.count(8))
            chosen: list[Any] = [next(pool) for _ in found]
        else:
            chosen = [int(size) for size in rng.choice(_SIZES, len(found))]
        sizes = dict(zip(found, chosen, strict=True)) | {1: 1}
        yield tuple((dtype, tuple(sizes[size] for size in shape)) for dtype, shape in types)


def check_values(
    sides: Sides,
    types: Types,
    rows: Sequence[Sequence[Array]],
    contract: Contract,
    names: Sequence[str],
    name: str,
) -> None:
    """Raise unless both sides are equal on these inputs and on random ones, as far as a contract goes."""
    rng = np.random.default_rng(_SEED)
    picks = any(op in (Op.GATHER, Op.SCATTER) for side in sides.written for op, *_ in side.nodes)
    for row in rows:
        _compared(sides, types, row, contract, names, name, "the example")
    for kind in KINDS[contract]:
        # Indices beyond their axes are mistakes of whoever calls.
        kinds = ["whole" if picks and dtype.is_integer else kind for dtype, _ in types]
        row = [drawn(dtype, _plain(shape), one, rng) for (dtype, shape), one in zip(types, kinds, strict=True)]
        _compared(sides, types, row, contract, names, name, "random inputs")


def _plain(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _compared(
    sides: Sides, types: Types, row: Sequence[Array], contract: Contract, names: Sequence[str], name: str, what: str
) -> None:
    left, right = (interpreted(side, types, row)[0] for side in sides.written)
    found = difference(left, right, contract)
    if found is None:
        return
    shapes = ", ".join(f"{n} {dtype}{list(shape)}" for n, (dtype, shape) in zip(names, types, strict=True))
    raise ArgumentError(
        f"{name}: the sides differ on {what} of {shapes}\n  {found}",
        rule=f"the contract {contract.value!r} does not allow that.",
        hint="State a wider contract if only rounding differs." if _is_close(left, right) else "",
    )


def _is_close(left: Array, right: Array) -> bool:
    return left.dtype.kind not in "biu" and difference(left, right, Contract.FAST) is None


def widened(types: Types) -> Types | None:
    """The types with all floats as float64, in which two sides that are equal on paper are nearly equal; None if they
    are such already.
    """
    wide = tuple((float64 if dtype.is_float else dtype, shape) for dtype, shape in types)
    return None if wide == types else wide


def check_sums(sides: Sides, types: Types, contract: Contract, name: str) -> None:
    """Raise for a rule that would be exact with sums of its own: the reference is too precise to show a difference."""
    if contract is not Contract.EXACT:
        return
    with private_nodes():
        leaves = list(leaves_of(types))
        left, right = (set(filter(_is_sum, topological(side.over(leaves)))) for side in (sides.left, sides.right))
    if not right <= left:
        raise ArgumentError(
            f"{name}: the right side sums floats that the left side does not sum",
            rule="a sum that is taken in another order is not exact.",
            hint='State the contract "reassociates", or a wider one.',
        )


def _is_sum(node: Node) -> bool:
    if not node.dtype.is_float or node.op not in (Op.REDUCE, Op.SCAN, Op.CONTRACT, Op.SCATTER):
        return False
    return node.op is Op.CONTRACT or node.attribute.op not in ("max", "min", "set")


def check_wide(sides: Sides, types: Types, name: str) -> None:
    """Raise unless both sides are nearly equal in float64: what narrow floats hide shows there."""
    if any(dtype.is_float and dtype is not float64 for side in sides.written for _, dtype, *_ in side.nodes):
        return  # a side asks for a narrow type by name
    rng = np.random.default_rng(_SEED)
    row = [drawn(dtype, _plain(shape), "whole" if dtype.is_integer else "normal", rng) for dtype, shape in types]
    left, right = (interpreted(side, types, row)[0] for side in sides.written)
    found = difference(left, right, Contract.FAST, _WIDE)
    if found is not None:
        raise ArgumentError(f"{name}: the sides differ, computed in float64\n  {found}", rule="they are not equal.")


def check_constants(left: LeftSide, names: Sequence[str], name: str) -> None:
    """Raise for a left side that cannot be found in any program: what changes from call to call is not in graphs."""
    if left.root in left.variables or left.root not in left.reading:
        raise ArgumentError(
            f"{name}: the left side is only {'a variable' if left.root in left.variables else 'a constant'}",
            rule="it must be an operation, or the rule would apply everywhere.",
        )
    for number in left.missing:
        raise ArgumentError(
            f"{name}: {names[number]} does not matter on the left side",
            rule="rewriting leaves it out, so nothing says what it stands for.",
        )
    for node in topological([left.root]):
        value = constant_value(node) if node.op is Op.CONST and node.dtype.is_float else 0
        if value not in (0, 1, -1) and np.isfinite(value):
            raise ArgumentError(
                f"{name}: the left side has the number {value:g} in it",
                rule="compiled programs take their float constants as inputs: only 0, 1 and -1 can be looked for.",
                hint="Make the number an argument of the rule. Means have one inside: write x.sum(axis) * s.",
            )
        if node.op is Op.SLICE and any(
            span.size != size for span, size in zip(node.attribute, node.sources[0].shape, strict=True)
        ):
            raise ArgumentError(
                f"{name}: the left side takes a part of a tensor",
                rule="compiled programs take where slices start as inputs, so it cannot be looked for.",
                hint="Make the part an argument of the rule.",
            )


def check_applies(rules: Sequence[Rule], sides: Sides, types: Types, name: str) -> None:
    """Raise unless a rule is found in its own left side, says something there, and comes to an end."""
    with private_nodes():
        variables = list(leaves_of(types))
        [root], [other] = sides.left.over(variables), sides.right.over(variables)
        if same(root, other):
            rule = "smelt takes one for the other anyway."
            raise ArgumentError(f"{name}: both sides are the same program", rule=rule)
        shown, report = tried(root, rules, _FUEL)
        unseen = set(topological([root], known=set(variables))) - set(shown)
    spent = report.rules.get(rules[0].name)
    if unseen or spent is None or not spent.matches:
        raise ArgumentError(
            f"{name}: it is not found in its own left side",
            rule=f"patterns are at most {DEPTH} operations deep, without sorting, scattering or loops.",
        )
    if report.end != "saturated":
        raise ArgumentError(
            f"{name}: it applies to what it makes, again and again",
            rule="a rule has to come to an end: its right side must not hold its left side in a new form.",
        )
