"""Sizes that are dims here as symbolic sizes of `jax.export`, and the other way; and what JAX cannot do with them."""

from __future__ import annotations

import ast
import math
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from smelt.errors import SmeltError, TraceError
from smelt.frontends.arguments import Typed, imported_jax
from smelt.graph import (
    Atom,
    Dim,
    Index,
    Maximum,
    Minimum,
    Operation,
    Quotient,
    Variable,
    as_index,
    maximum,
    minimum,
    size_of,
)

_PLAIN: Final = re.compile(r"[A-Za-z]\w*")
_RESERVED: Final = frozenset({"floordiv", "mod", "max", "min", "non_negative"})
_ONE_MORE: Final = "_and_1"  # at the end of the name of a symbol that stands for a dim and 1
_LESS_ONE: Final = re.compile(rf"(?<![*-])(?<![*-] )\b(\w+?){_ONE_MORE} - 1\b")


def with_symbols(types: Sequence[Typed]) -> list[Typed]:
    """The same types for JAX: one scope of symbols, each with the bounds of its dim."""
    sizes = [size for kind in types for size in kind.shape if isinstance(size, Index)]
    found: dict[Variable, None] = {}  # in the order of the arguments
    for size in sizes:
        found |= dict.fromkeys(sorted(size.variables(), key=lambda one: one.name))
    if not found:
        return list(types)
    symbols = _symbols(list(found))
    return [kind._replace(shape=tuple([_size(size, symbols) for size in kind.shape])) for kind in types]


def _symbols(dims: list[Variable]) -> dict[Variable, Any]:
    """A symbolic size for each dim. One that may be 0 is another one less 1: those of JAX are at least 1."""
    from jax import export

    names = [_name(dim.name, k) + _ONE_MORE * (dim.low == 0) for k, dim in enumerate(dims)]
    more = [int(dim.low == 0) for dim in dims]
    bounds = [
        bound
        for name, dim, extra in zip(names, dims, more, strict=True)
        for bound in (f"{name} >= {dim.low + extra}", f"{name} <= {dim.high + extra}")
    ]
    symbols = export.symbolic_shape(", ".join(names), constraints=bounds)
    return {dim: symbol - extra for dim, symbol, extra in zip(dims, symbols, more, strict=True)}


def _name(name: str, number: int) -> str:
    """A name that JAX reads; the user's, if it is one."""
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else f"dim{number}"


def _size(size: Any, symbols: dict[Variable, Any]) -> Any:
    if not isinstance(size, Index):
        return size
    products = [number * math.prod(_atom(atom, symbols) for atom in atoms) for atoms, number in size.terms.items()]
    return sum(products, size.constant)


def _atom(atom: Atom, symbols: dict[Variable, Any]) -> Any:
    if isinstance(atom, Variable):
        return symbols[atom]
    assert isinstance(atom, Operation)
    a, b = _size(atom.a, symbols), _size(atom.b, symbols)
    if isinstance(atom, Minimum):
        core = imported_jax().core
        return (core.max_dim if isinstance(atom, Maximum) else core.min_dim)(a, b)
    return a // b if isinstance(atom, Quotient) else a % b


# --- the other way

_MOST: Final = 2**31 - 1  # elements along an axis


def with_dims(shape: Sequence[Any]) -> tuple[Any, ...]:
    """A shape of JAX's with a dim for each symbol, of its name and within the bounds that JAX can prove."""
    return tuple([size if isinstance(size, int) else size_of(_index(_syntax(size), size)) for size in shape])


def as_symbols(shape: Sequence[Any], given: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """A shape with dims that were made of shapes of JAX's, as such a shape."""
    scopes = [size.scope for one in given for size in one if not isinstance(size, int)]
    variables = {variable for size in shape if isinstance(size, Index) for variable in size.variables()}
    symbols = {variable: _symbol(variable.name, scopes[0]) for variable in variables}
    return tuple([_size(size, symbols) for size in shape])


def _syntax(size: Any) -> ast.expr:
    """An expression of JAX's, which has no public form but its text."""
    return ast.parse(str(size).replace("^", "**"), mode="eval").body


_FUNCTIONS: Final[dict[str, Callable[[Index, Index], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": maximum,
    "min": minimum,
}


def _index(found: ast.expr, size: Any) -> Index:
    match found:
        case ast.Constant(value=int(number)):
            return as_index(number)
        case ast.Name(id=name):
            return _dim(name, size.scope)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -_index(x, size)
        case ast.BinOp(left=x, op=ast.Pow(), right=ast.Constant(value=int(power))):
            return as_index(math.prod([_index(x, size)] * power))
        case ast.BinOp(left=x, op=sign, right=y):
            return as_index(_FUNCTIONS[type(sign).__name__](_index(x, size), _index(y, size)))
        case ast.Call(func=ast.Name(id=name), args=[x, y]) if name in _FUNCTIONS:
            return as_index(_FUNCTIONS[name](_index(x, size), _index(y, size)))
    raise TraceError(f"to_jax: the size {size} is of a form that is not known")


def _symbol(name: str, scope: Any) -> Any:
    from jax import export

    return export.symbolic_shape(f"{name},", scope=scope)[0]


def _dim(name: str, scope: Any) -> Dim:
    symbol = _symbol(name, scope)

    def proven(compare: Callable[[Any, int], Any], bound: int) -> bool:
        try:
            return bool(compare(symbol, bound))
        except Exception:  # JAX's own, for what it cannot decide
            return False

    low = bisect_left(range(_MOST), True, key=lambda bound: not proven(operator.ge, bound + 1))
    high = bisect_left(range(_MOST), True, key=lambda bound: proven(operator.le, bound))
    return Dim(name, low, high)


# --- errors


def _in_dims(reason: str) -> str:
    """What JAX says of its symbols, said of the dims that they stand for."""
    return re.sub(rf"\b(\w+?){_ONE_MORE}\b", r"(\1 + 1)", _LESS_ONE.sub(r"\1", reason))


@contextmanager
def explained(name: str, is_open: bool) -> Iterator[None]:
    """What JAX cannot do with symbolic sizes, as an error that says so."""
    try:
        yield
    except SmeltError:
        raise
    except Exception as error:  # of many types, and JAX's own for what it cannot decide
        if not is_open:
            raise
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        reason = _in_dims(reason)
        asked = re.search(r"'(\w+)' >= '1'", reason)
        cure = "Give the Dim bounds that decide it"
        if asked:
            cure = f'Declare it with a lower bound of 1, as Dim("{asked[1]}", 1, …)'
        raise TraceError(
            f"from_jax: JAX cannot trace {name} for sizes that are not known: {reason:.300}",
            rule="A Dim is a symbolic size of jax.export to it.",
            hint=f"{cure}, write the function without conditions on that size, or call it "
            "with sizes that are known: sm.jit without shapes= compiles once for each.",
        ) from error
