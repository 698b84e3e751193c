"""`print`: values on the way, also of programs that are compiled."""

from __future__ import annotations

import builtins
import re
import string
from typing import Any

from smelt import runtime, tree
from smelt.dtypes import bool_
from smelt.errors import ArgumentError
from smelt.tensor import Tensor
from smelt.transform.callback import called
from smelt.transform.custom import stop_gradient

_NOTHING = tree.flatten(False)[1]


def print(text: Any = "", *args: Any, **kwargs: Any) -> None:
    """Print values when they are computed: a text with places as in `str.format`, or just values, one after the
    other. A text on its own is printed as it is.

    Inside `jit` it prints at every call, in loops at every iteration, and under `vmap` for every element, in the order
    in which it is written. A compiled program waits for each of them.

    >>> @sm.jit
    ... def step(x):
    ...     y = x * 2
    ...     sm.debug.print("y = {}, sum {total:.1f}", y, total=y.sum())
    ...     return y + 1
    >>> z = step(sm.asarray([1.0, 2.0]))
    y = [2. 4.], sum 6.0
    """
    form = text if isinstance(text, str) and (kwargs or (args and _has_places(text))) else None
    if form is not None:
        _check_places(form, args, kwargs)
    leaves, structure = tree.flatten(((text, *args) if form is None else args, kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]

    def show(*arrays: Any) -> bool:
        shown = list(leaves)
        for k, array in zip(places, arrays, strict=True):
            shown[k] = array
        given, named = tree.unflatten(structure, shown)
        builtins.print(*given, flush=True) if form is None else builtins.print(form.format(*given, **named), flush=True)
        return True

    before = runtime.effects()
    values = tuple(leaves[k] for k in places)
    if before is None and not any(runtime.is_traced(value._node) for value in values):
        show(*(stop_gradient(value).numpy() for value in values))
        return
    [token] = called(show, _NOTHING, [(bool_, ())], values, "debug.print", (before or [])[-1:])
    runtime.effect(token)


def _has_places(text: str) -> bool:
    try:
        return any(name is not None for _, name, _, _ in string.Formatter().parse(text))
    except ValueError:  # a single brace
        return False


def _check_places(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a text with places for which there is no value, before anything is compiled."""
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise ArgumentError(
            f"debug.print: {text!r:.80}: {error}", hint="Write {{ and }} for braces that are no places."
        ) from None
    names = [re.split(r"[.\[]", field)[0] for field in fields]
    count = max([names.count(""), *(int(name) + 1 for name in names if name.isdecimal())], default=0)
    unknown = [name for name in names if name and not name.isdecimal() and name not in kwargs]
    if count > len(args) or unknown:
        places = ", ".join(f"{{{field}}}" for field in fields)
        raise ArgumentError(
            f"debug.print: no value for one of the places {places}",
            rule=f"there are {len(args)} values by place, and {', '.join(kwargs) or 'none'} by name.",
            hint="Write {{ and }} for braces that are no places.",
        )
