"""Sizes that are dims here as symbolic sizes of `jax.export`, and what JAX cannot do with them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from smelt.errors import SmeltError, TraceError
from smelt.frontends.arguments import Typed, imported_jax
from smelt.graph import Atom, Index, Maximum, Minimum, Operation, Quotient, Variable

_PLAIN: Final = re.compile(r"[A-Za-z]\w*")
_RESERVED: Final = frozenset({"floordiv", "mod", "max", "min", "non_negative"})


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

    names = [_name(dim.name, k) + "_and_1" * (dim.low == 0) for k, dim in enumerate(dims)]
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
        raise TraceError(
            f"from_jax: JAX cannot trace {name} for sizes that are not known: {reason:.300}",
            rule="A Dim is a symbolic size of jax.export to it.",
            hint="Give the Dim bounds that decide it, write the function without conditions on that size, or call it "
            "with sizes that are known: sm.jit without shapes= compiles once for each.",
        ) from error
