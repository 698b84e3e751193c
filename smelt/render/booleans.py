"""How wide the masks are that boolean vectors become."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.dtypes import bool_
from smelt.kernel import Accumulator, Compute, Load, Reduce, Scan, Statement, Update

_DEFAULT = 32


def mask_bits(statements: Sequence[Statement]) -> dict[str, int]:
    """The width of each boolean value's masks, by name.

    A comparison gives masks as wide as what it compares and a load gives bytes; what could have any width takes that of
    the value that it helps to choose, or of what it is combined with.
    """
    widths: dict[str, int] = {}
    open_values: list[str] = []
    folds: list[Reduce | Scan] = []
    consumers: dict[str, list[Compute | Update]] = {}
    for statement in statements:
        if isinstance(statement, Compute | Update):
            result = (statement.accumulator,) if isinstance(statement, Update) else ()
            for value in (*statement.arguments, *result):
                consumers.setdefault(value.name, []).append(statement)
        match statement:
            case Load(value=value) if value.dtype is bool_:
                widths[value.name] = 8
            case Compute(value=value) if value.dtype is bool_ and (width := _made(statement, widths)):
                widths[value.name] = width
            case Compute(value=value) | Accumulator(value=value) if value.dtype is bool_:
                open_values.append(value.name)
            case Reduce(value=value) | Scan(value=value) if value.dtype is bool_:
                folds.append(statement)
    for name in open_values:
        widths[name] = next((w for c in consumers.get(name, ()) if (w := _wanted(c, name, widths))), _DEFAULT)
    for fold in folds:  # as wide as what is folded, which may have been open until now
        widths[fold.value.name] = widths.get(fold.source.name, _DEFAULT)
    return widths


def _made(statement: Compute, widths: dict[str, int]) -> int | None:
    """The width that the operands give, if they do."""
    for argument in statement.arguments:
        if argument.dtype is not bool_:
            return argument.dtype.bits
        if argument.name in widths:
            return widths[argument.name]
    return None


def _wanted(consumer: Compute | Update, name: str, widths: dict[str, int]) -> int | None:
    """The width of what a value helps to choose, or is combined with."""
    result = consumer.value if isinstance(consumer, Compute) else consumer.accumulator
    if result.dtype is not bool_:
        return result.dtype.bits
    others = [v for v in (*consumer.arguments, result) if v.name != name and v.name in widths]
    return widths[others[0].name] if others else None
