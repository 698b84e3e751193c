"""`from_jax`: a function that was written with JAX, as a function of tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.errors import ArgumentError, TraceError
from smelt.formats import stablehlo
from smelt.frontends.lowered import Lowered, Typed, imported_jax, tensor_of
from smelt.graph import Index, shape_text
from smelt.runtime import is_weak
from smelt.tensor import Tensor, asarray, interop, wrap

_NUMBERS: Final = bool | int | float | complex


def from_jax(
    function: Callable[..., Any],
    *args: Any,
    static: int | str | Iterable[int | str] = (),
    rules: stablehlo.Rules = stablehlo.XLA,
) -> FromJax:
    """A function that was written with JAX, as a function of tensors that `jit`, `grad` and `vmap` take.

    JAX traces it once for each kind of arguments (nesting, shapes, dtypes), for `args` at once, and computes nothing.
    Arguments may be nested in all ways that JAX knows, and hold tensors, arrays of JAX and others, and Python numbers.
    Those that `static` names, by position or name, are handed to the function as they are; so are strings and other
    objects. Results are nested as the function gives them, and hold tensors.

    Derivatives are JAX's, of any order. So are dtypes: unless `jax_enable_x64` is set, 64 bits become 32. What JAX
    does not write as StableHLO, or smelt does not read, is an error.
    """
    made = FromJax(function, static, rules)
    if args:
        made.lowered(*args)
    return made


class Fixed(NamedTuple):
    """An argument, or a leaf of one, that the function gets as it is."""

    value: Any


class _Given(NamedTuple):
    """A leaf that is a tensor for smelt, and an array of this type for JAX."""

    tensor: Tensor
    type: Typed


class FromJax:
    """A function that JAX traces and smelt computes; the original is `function`."""

    def __init__(self, function: Callable[..., Any], static: Any, rules: stablehlo.Rules) -> None:
        if not callable(function):
            raise ArgumentError(f"from_jax: {function!r:.80} is not a function")
        imported_jax()
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self._static, self._rules = _static(function, static), rules
        self._known: dict[Any, Lowered] = {}

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", self.__name__)
        return f"from_jax({name}, traces={len(self._known)})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        lowered, tensors = self._found(args, kwargs)
        return lowered.structure.unflatten(lowered(*tensors))

    def lowered(self, *args: Any, **kwargs: Any) -> Lowered:
        """What JAX has written down for arguments like these, its `text` among others."""
        return self._found(args, kwargs)[0]

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Lowered, list[Tensor]]:
        jax = imported_jax()
        marked_args = tuple([Fixed(x) if k in self._static else x for k, x in enumerate(args)])
        marked_kwargs = {name: Fixed(x) if name in self._static else x for name, x in kwargs.items()}
        leaves, structure = jax.tree.flatten((marked_args, marked_kwargs), is_leaf=lambda x: type(x) is Fixed)
        given = [_given(leaf, jax) for leaf in leaves]
        # What stays as it is, by its type as well: 1 and True are equal.
        marks = [x.type if isinstance(x, _Given) else (type(x.value), x) for x in given]
        key = (structure, *marks, jax.config.jax_enable_x64)
        try:
            known = self._known.get(key)
        except TypeError:
            raise ArgumentError(
                f"from_jax: an argument of {self!r} is neither an array nor hashable",
                rule="what is no array is handed over as it is, and looked up by its value.",
            ) from None
        if known is None:
            types = [x.type for x in given if isinstance(x, _Given)]
            constants = [x if isinstance(x, Fixed) else None for x in given]
            known = Lowered(flat_function(self.function, structure, constants), types, self._rules)
            self._known[key] = known
        return known, [x.tensor for x in given if isinstance(x, _Given)]


def flat_function(function: Callable[..., Any], structure: Any, constants: list[Fixed | None]) -> Callable[..., Any]:
    """The function, of those leaves of its arguments that are arrays."""

    @functools.wraps(function, updated=())
    def flat(*arrays: Any) -> Any:
        left = iter(arrays)
        args, kwargs = structure.unflatten([next(left) if x is None else x.value for x in constants])
        return function(*args, **kwargs)

    return flat


def _static(function: Callable[..., Any], static: Any) -> frozenset[int | str]:
    """Static arguments by position and by name, whichever way they are named."""
    items = [static] if isinstance(static, int | str) else list(static)
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # not known
        return frozenset(items)
    found: set[int | str] = set()
    for item in items:
        if isinstance(item, str) and item not in names:
            raise ArgumentError(f"from_jax: the function has no argument {item!r}", hint=f"It has {', '.join(names)}.")
        position = names.index(item) if isinstance(item, str) else item
        found |= {position, names[position]} if position < len(names) else {position}
    return frozenset(found)


def _given(leaf: Any, jax: Any) -> _Given | Fixed:
    """A leaf of an argument: a tensor with the type that JAX sees, or what stays as it is."""
    if type(leaf) is Fixed:
        return leaf
    if isinstance(leaf, jax.Array):
        kind = Typed(leaf.shape, leaf.dtype, bool(getattr(leaf, "weak_type", False)))
        return _Given(tensor_of(leaf), kind)
    if isinstance(leaf, _NUMBERS):
        dtype = jax.dtypes.canonicalize_dtype(np.result_type(type(leaf)))
        return _Given(
            wrap(interop.to_node(leaf, "from_jax", dtypes.as_dtype(dtype))),
            Typed((), dtype, not isinstance(leaf, bool)),
        )
    if is_array(leaf):
        return _of_tensor(leaf if isinstance(leaf, Tensor) else asarray(leaf), jax)
    return Fixed(leaf)


def is_array(leaf: Any) -> bool:
    """Whether JAX and smelt take a leaf of an argument for an array."""
    return isinstance(leaf, _NUMBERS) or hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")


def _of_tensor(x: Tensor, jax: Any) -> _Given:
    if any(isinstance(size, Index) for size in x.shape):
        raise TraceError(
            f"from_jax: a tensor of shape {shape_text(x.shape)}", rule="JAX traces a function for sizes that are known."
        )
    dtype = jax.dtypes.canonicalize_dtype(x.dtype.numpy)
    return _Given(x.astype(dtypes.as_dtype(dtype)), Typed(x.shape, dtype, is_weak(x._node)))
