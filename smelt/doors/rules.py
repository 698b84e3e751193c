"""`rule`: an equality that a user states, tested and then planned with."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, ParamSpec, overload

import numpy as np

from smelt.config import CONTRACTS
from smelt.doors.matching import LeftSide, same
from smelt.doors.sides import Sides, Types, leaves_of, sides_of
from smelt.doors.tested import (
    check_applies,
    check_constants,
    check_sums,
    check_values,
    check_wide,
    other_sizes,
    widened,
)
from smelt.errors import ArgumentError, InternalError, SmeltError
from smelt.graph import Node, private_nodes
from smelt.locks import Remembered, new_lock
from smelt.rewrite import Contract, Rule, key_of, rewrite
from smelt.runtime import is_plain
from smelt.stated import Statement, is_stated, retract, state
from smelt.tensor import Tensor, node_of, wrap

P = ParamSpec("P")
Both = tuple[Tensor, Tensor]
FAMILY: Final = "stated"
_REMEMBERED: Final = 256  # sizes at which a rule was asked


class Example:
    """Arguments of a rule: their types say for which dtypes and ranks it is, and which sizes have to be equal."""

    def __init__(self, arrays: Sequence[Any], types: Types) -> None:
        self.arrays, self.types = arrays, types
        self.only_here = False  # it cannot be written for other sizes, so it was not tested there

    def fits(self, types: Types) -> bool:
        """Whether a rule was tested for such types: sizes that are equal here have to be equal, and 1 stays 1."""
        if self.only_here:
            return types == self.types
        sizes: dict[Any, Any] = {1: 1}
        for (dtype, shape), (its, actual) in zip(self.types, types, strict=True):
            if dtype is not its or len(shape) != len(actual):
                return False
            for size, found in zip(shape, actual, strict=True):
                if sizes.setdefault(size, found) != found:
                    return False
        return True


class _Matcher:
    """What the engine asks: the right side for a node that is the left one."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], example: Example, name: str) -> None:
        self.function, self.names, self.example, self.name = function, names, example, name
        self.known: Remembered[Types, Sides | tuple[()]] = Remembered(_REMEMBERED)
        sides = sides_of(function, names, example.types, name)
        self.known.put(example.types, sides)
        with private_nodes():
            variables = list(leaves_of(example.types))
            self.left = LeftSide(sides.left.over(variables)[0], variables)

    def sides(self, types: Types) -> Sides | None:
        """Both sides for these types; None where the function does not take such."""
        found = self.known.get(types)
        if found is None:
            try:
                found = sides_of(self.function, self.names, types, self.name)
            except InternalError:
                raise
            except Exception:  # whatever the user's code says of sizes that it was not written for
                found = ()
            self.known.put(types, found)
        return found or None

    def __call__(self, node: Node) -> Node | None:
        for bound in self.left.bindings(node):
            types = tuple((x.dtype, x.shape) for x in bound)
            sides = self.sides(types) if self.example.fits(types) else None
            if sides is None:
                continue
            [left] = sides.left.over(bound)
            if same(left, node) or same(rewrite([left])[0], node):
                return sides.right.over(bound)[0]
        return None


class StatedRule(Generic[P]):
    """An equality in force. Called, it gives both sides; as a context, it is in force inside."""

    __wrapped__: Callable[P, Both]

    def __init__(self, function: Callable[P, Both], contract: Contract, statement: Statement) -> None:
        functools.update_wrapper(self, function, updated=())
        self.contract = contract.value
        self._statement = statement

    @property
    def name(self) -> str:
        """What plans call it."""
        return str(getattr(self.__wrapped__, "__name__", "rule"))

    @property
    def in_force(self) -> bool:
        """Whether graphs that are compiled now are planned with it."""
        return is_stated(self._statement)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Both:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"rule({self.name}, contract={self.contract!r}{'' if self.in_force else ', removed'})"

    def remove(self) -> None:
        """Graphs that are compiled from now on are planned without it."""
        retract(self._statement)

    def __enter__(self) -> StatedRule[P]:
        if not self.in_force:
            state(self._statement)
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


# A definition takes the place of an earlier one with its name, as it does in the module: cells of notebooks run again.
_defined: dict[tuple[str, str], StatedRule[Any]] = {}
_defining = new_lock()


@overload
def rule(function: Callable[P, Both], /, *, contract: str = ..., examples: Any = ...) -> StatedRule[P]: ...
@overload
def rule(
    function: None = None, /, *, contract: str = ..., examples: Any = ...
) -> Callable[[Callable[P, Both]], StatedRule[P]]: ...
def rule(function: Any = None, /, *, contract: str = "exact", examples: Any = None) -> Any:
    """State that two programs are equal: the compiler takes the second for the first where it is cheaper.

    The function returns both, written as ordinary tensor code: what is looked for, and what it equals. Its arguments
    stand for any tensors with the dtypes and ranks of the `examples` (a list of tuples of arguments, or a function
    that gives one), of any sizes: those that are equal in an example have to be equal, and a size of 1 stays 1. The
    rule is tested on the examples and on random inputs of other sizes, and refused if both sides differ by more than
    the contract allows: "exact", "reassociates", "regroups" or "fast". It takes part in what is compiled from now on
    under that contract or a wider one, see `jit(contracts=)`, until it is removed: `remove()`, or a `with` block.

    >>> import smelt as sm
    >>> x, w, s = sm.ones((6, 5)), sm.ones((5, 7)), sm.asarray(2.0)
    >>> @sm.rule(contract="regroups", examples=[(x, w, s)])
    ... def scale_first(x, w, s):
    ...     return (x @ w) * s, (x * s) @ w
    >>> scale_first
    rule(scale_first, contract='regroups')
    >>> scale_first.remove()
    """
    if function is None:
        return functools.partial(rule, contract=contract, examples=examples)
    if not callable(function):
        raise ArgumentError(f"rule: {function!r:.80} is not a function", hint="Write @sm.rule(examples=[(x, y)]).")
    if contract not in CONTRACTS:
        raise ArgumentError(f"rule: there is no contract {contract!r:.80}", hint=f"Use one of: {', '.join(CONTRACTS)}.")
    if not is_plain():
        raise ArgumentError("rule: it is stated while a function is traced", hint="State it outside, before the call.")
    name = f"rule {getattr(function, '__name__', 'rule')}"
    names = _variables(function, name)
    matchers = [
        _tested(function, names, example, Contract(contract), name) for example in _examples(examples, names, name)
    ]
    statement = _statement(function, matchers, Contract(contract), name)
    made: StatedRule[Any] = StatedRule(function, Contract(contract), statement)
    with _defining:
        place = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", id(made)))
        if "<" not in place[1]:  # functions of functions, and lambdas, share their names
            if place in _defined:
                _defined[place].remove()
            _defined[place] = made
        state(statement)
    return made


def _variables(function: Callable[..., Any], name: str) -> list[str]:
    """The names of the arguments."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise ArgumentError(
            f"{name}: its arguments are ({', '.join(map(str, parameters))})",
            rule="each argument is a variable, given by place; there is at least one.",
        )
    return [parameter.name for parameter in parameters]


def _examples(given: Any, names: Sequence[str], name: str) -> Iterator[Example]:
    hint = f"Write examples=[({', '.join(names)}{',' if len(names) == 1 else ''})], with tensors."
    found = given() if callable(given) else given
    if not isinstance(found, list | tuple) or not found:
        raise ArgumentError(f"{name}: there are no examples", rule="they say what the rule is for.", hint=hint)
    rows = list(found) if isinstance(found[0], list | tuple) else [found]
    for number, row in enumerate(rows):
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ArgumentError(
                f"{name}: example {number} is not a tuple of {len(names)} tensors",
                rule=f"it gives {', '.join(names)}.",
                hint=hint,
            )
        arrays = [np.asarray(wrap(node_of(value, name)).numpy()) for value in row]
        nodes = [node_of(value, name) for value in row]
        for variable, node in zip(names, nodes, strict=True):
            if 0 in node.shape:
                raise ArgumentError(f"{name}: {variable} of example {number} has no elements")
        yield Example(arrays, tuple((node.dtype, node.shape) for node in nodes))


def _tested(
    function: Callable[..., Any], names: Sequence[str], example: Example, contract: Contract, name: str
) -> _Matcher:
    """The rule for one example; raises if it is none, or wrong."""
    matcher = _Matcher(function, names, example, name)
    sides = matcher.known.get(example.types)
    assert sides
    check_values(sides, example.types, [example.arrays], contract, names, name)
    check_constants(matcher.left, names, name)
    check_sums(sides, example.types, contract, name)
    others = list(other_sizes(example.types))
    taken = 0
    for types in others:
        found = matcher.sides(types)
        if found is not None:
            taken += 1
            check_values(found, types, [], contract, names, name)
    wide = widened(others[0] if taken else example.types)
    found = None if wide is None or contract is Contract.EXACT else matcher.sides(wide)
    if found is not None and wide is not None:
        check_wide(found, wide, name)
    example.only_here = taken == 0
    check_applies(_rules([matcher], contract, name), sides, example.types, name)
    return matcher


def _rules(matchers: Sequence[_Matcher], contract: Contract, name: str) -> tuple[Rule, ...]:
    """What the engine takes."""
    shown = name.removeprefix("rule ")
    return tuple(
        Rule(shown, FAMILY, (key_of(one.left.root),), contract, one, f"{shown}, stated", patterns=one.left.patterns())
        for one in matchers
    )


def _numbers(function: Any) -> list[tuple[str, Any]]:
    """The numbers and texts that a function reads from outside: other ones make another rule of the same text."""
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return []
    read = {**found.globals, **found.nonlocals}
    return sorted((word, repr(value)) for word, value in read.items() if isinstance(value, int | float | str | tuple))


def _statement(function: Any, matchers: Sequence[_Matcher], contract: Contract, name: str) -> Statement:
    """The rules with a digest of all that they say: the text, and the graphs that it gave."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError, SmeltError):
        text = ""
    parts = [name, contract.value, text, repr(_numbers(function))]
    for matcher in matchers:
        parts += [repr(matcher.example.types), repr(matcher.example.only_here)]
        parts += [repr((sides.left, sides.right)) for sides in matcher.known.values() if sides]
    return Statement(_rules(matchers, contract, name), hashlib.sha256("\n".join(parts).encode()).hexdigest())
