"""`from_jax`: a function that was written with JAX, as a function of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import numpy as np

from smelt import dtypes
from smelt.errors import ArgumentError
from smelt.formats import stablehlo
from smelt.frontends.arguments import (
    NUMBERS,
    Fixed,
    Static,
    Typed,
    flat_function,
    flattened,
    imported_jax,
    is_array,
    refuse_others,
    static_arguments,
    unhashable,
)
from smelt.frontends.keys import Key, keys_are_trees
from smelt.frontends.lowered import Lowered, tensor_of
from smelt.frontends.symbolic import with_symbols
from smelt.runtime import is_weak
from smelt.tensor import Tensor, asarray, interop, wrap


@overload
def from_jax(
    function: Callable[..., Any], *args: Any, static: Static = (), rules: stablehlo.Rules = stablehlo.XLA, **others: Any
) -> FromJax: ...
@overload
def from_jax(
    *, static: Static = (), rules: stablehlo.Rules = stablehlo.XLA, **others: Any
) -> Callable[[Callable[..., Any]], FromJax]: ...
def from_jax(
    function: Any = None,
    *args: Any,
    static: Static = (),
    rules: stablehlo.Rules = stablehlo.XLA,
    **others: Any,
) -> Any:
    """A function that was written with JAX, as a function of tensors that `jit`, `grad` and `vmap` take.

    JAX traces it once for each kind of arguments (nesting, shapes, dtypes), for `args` at once, and computes nothing.
    Arguments may be nested in all ways that JAX knows, and hold tensors, arrays of JAX and others, and Python numbers.
    Those that `static` names, by position or name, are handed to the function as they are; so are strings and other
    objects. Results are nested as the function gives them, and hold tensors. A size that is a `Dim`, as under
    `sm.jit(f, shapes=...)`, is a symbolic one of `jax.export`'s: JAX traces once for all, or says what it lacks.

    Derivatives are JAX's, of any order. So are dtypes: unless `jax_enable_x64` is set, 64 bits become 32. What JAX
    does not write as StableHLO, or smelt does not read, is an error. `@sm.from_jax(static="n")` decorates a function.
    """
    refuse_others(others, "from_jax")
    if function is None and not args:
        return functools.partial(from_jax, static=static, rules=rules)
    made = FromJax(function, static, rules)
    if args:
        made.lowered(*args)
    return made


class _Given(NamedTuple):
    """A leaf that is a tensor for smelt, and an array of this type for JAX."""

    tensor: Tensor
    type: Typed


class FromJax:
    """A function that JAX traces and smelt computes; the original is `function`."""

    what_may_change = None  # what JAX has traced stays

    def __init__(self, function: Callable[..., Any], static: Any, rules: stablehlo.Rules) -> None:
        if not callable(function):
            raise ArgumentError(f"from_jax: {function!r:.80} is not a function")
        keys_are_trees(imported_jax())
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.function = function
        self._static, self._rules = static_arguments(function, static, "from_jax"), rules
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
        leaves, structure = flattened(jax, args, kwargs, self._static)
        given = [_given(leaf, jax) for leaf in leaves]
        # What stays as it is, by its type as well: 1 and True are equal.
        marks = [x.type if isinstance(x, _Given) else (type(x.value), x) for x in given]
        key = (structure, *marks, jax.config.jax_enable_x64)
        try:
            known = self._known.get(key)
        except TypeError:
            raise unhashable("from_jax") from None
        if known is None:
            types = [x.type for x in given if isinstance(x, _Given)]
            constants = [x if isinstance(x, Fixed) else None for x in given]
            function = flat_function(self.function, structure, constants)
            known = self._known[key] = Lowered(function, with_symbols(types), self._rules)
        return known, [x.tensor for x in given if isinstance(x, _Given)]


def _given(leaf: Any, jax: Any) -> _Given | Fixed:
    """A leaf of an argument: a tensor with the type that JAX sees, or what stays as it is."""
    if type(leaf) is Fixed:
        return leaf
    if isinstance(leaf, Key):
        return _Given(leaf.data, Typed(leaf.shape, leaf.dtype))
    if isinstance(leaf, jax.Array):
        kind = Typed(leaf.shape, leaf.dtype, bool(getattr(leaf, "weak_type", False)))
        return _Given(tensor_of(leaf), kind)
    if isinstance(leaf, NUMBERS):
        dtype = jax.dtypes.canonicalize_dtype(np.result_type(type(leaf)))
        return _Given(
            wrap(interop.to_node(leaf, "from_jax", dtypes.as_dtype(dtype))),
            Typed((), dtype, not isinstance(leaf, bool)),
        )
    if is_array(leaf):
        return _of_tensor(leaf if isinstance(leaf, Tensor) else asarray(leaf), jax)
    return Fixed(leaf)


def _of_tensor(x: Tensor, jax: Any) -> _Given:
    dtype = jax.dtypes.canonicalize_dtype(x.dtype.numpy)
    return _Given(x.astype(dtypes.as_dtype(dtype)), Typed(x.shape, dtype, is_weak(x._node)))
