"""Arguments at the doors to JAX: nested as JAX knows it, with arrays among what is handed over as it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from smelt.errors import ArgumentError
from smelt.names import listed

Static = int | str | Iterable[int | str]
NUMBERS: Final = bool | int | float | complex


def imported_jax(asked: str = "from_jax") -> ModuleType:
    """JAX, which is needed now."""
    try:
        import jax
    except ImportError as missing:
        raise ArgumentError(f"{asked} needs JAX", hint="pip install jax") from missing
    found: ModuleType = jax
    return found


class Typed(NamedTuple):
    """The type of an array as JAX sees it. A weak one takes the dtype of what it meets, as Python numbers do."""

    shape: tuple[Any, ...]  # of integers, and of smelt's or JAX's expressions of sizes that are not known
    dtype: Any
    weak: bool = False

    @property
    def is_float(self) -> bool:
        """Whether there are derivatives by it."""
        jax = imported_jax()
        return bool(jax.dtypes.issubdtype(self.dtype, jax.numpy.inexact))


class Fixed(NamedTuple):
    """An argument, or a leaf of one, that the function gets as it is."""

    value: Any


def static_arguments(function: Callable[..., Any], static: Static, name: str) -> frozenset[int | str]:
    """Static arguments by position and by name, whichever way they are named."""
    items = [static] if isinstance(static, int | str) else list(static)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # not known
        return frozenset(items)
    names, kinds = list(parameters), [p.kind for p in parameters.values()]
    found: set[int | str] = set()
    for item in items:
        if isinstance(item, str) and item not in names:
            raise ArgumentError(f"{name}: the function has no argument {item!r}", hint=f"It has {', '.join(names)}.")
        is_open = inspect.Parameter.VAR_POSITIONAL in kinds
        if isinstance(item, int) and (item < 0 or (item >= len(names) and not is_open)):
            raise ArgumentError(
                f"{name}: the function has no argument {item}", hint=f"It has {listed(names)}, counted from 0."
            )
        position = names.index(item) if isinstance(item, str) else item
        found |= {position, names[position]} if position < len(names) else {position}
    return frozenset(found)


def refuse_others(others: Mapping[str, Any], name: str) -> None:
    """Refuse what a door does not take, which may be what `jax.jit` calls it."""
    for other, value in others.items():
        known = other in ("static_argnums", "static_argnames")
        hint = f"Write static={value!r:.80}: positions, names, or both." if known else ""
        raise ArgumentError(f"{name}: there is no {other}=", rule="it takes static=.", hint=hint)


def flattened(jax: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], static: frozenset[int | str]) -> Any:
    """The leaves of arguments and how they are nested; a static argument is one leaf."""
    marked_args = tuple([Fixed(x) if k in static else x for k, x in enumerate(args)])
    marked_kwargs = {name: Fixed(x) if name in static else x for name, x in kwargs.items()}
    return jax.tree.flatten((marked_args, marked_kwargs), is_leaf=lambda x: type(x) is Fixed)


def flat_function(function: Callable[..., Any], structure: Any, constants: list[Fixed | None]) -> Callable[..., Any]:
    """The function, of those leaves of its arguments that are arrays."""

    @functools.wraps(function, updated=())
    def flat(*arrays: Any) -> Any:
        left = iter(arrays)
        args, kwargs = structure.unflatten([next(left) if x is None else x.value for x in constants])
        return function(*args, **kwargs)

    return flat


def unhashable(name: str) -> ArgumentError:
    """What is said about an argument that cannot be looked up."""
    return ArgumentError(
        f"{name}: an argument is neither an array nor hashable",
        rule="what is no array is handed over as it is, and looked up by its value.",
    )


def is_array(leaf: Any) -> bool:
    """Whether JAX and smelt take a leaf of an argument for an array."""
    return isinstance(leaf, NUMBERS) or hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")


def is_key(leaf: Any, jax: Any) -> bool:
    """Whether a leaf is a key of `jax.random.key`, whose dtype says of which kind it is."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
