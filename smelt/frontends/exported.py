"""Functions of tensors as operations of JAX's, which are written into its programs as StableHLO.

XLA compiles them together with what is around them. Derivatives (in both directions) and batches are smelt's, and are
such operations in their turn. What StableHLO cannot say, as calls of Python, smelt computes while the program runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.derive import Variable
from smelt.errors import ArgumentError, TraceError, UnsupportedOp
from smelt.formats import mlir, stablehlo
from smelt.frontends.arguments import (
    Fixed,
    Static,
    Typed,
    flat_function,
    flattened,
    imported_jax,
    is_array,
    is_key,
    refuse_others,
    static_arguments,
    unhashable,
)
from smelt.frontends.lowered import merged
from smelt.frontends.operation import operation
from smelt.frontends.symbolic import with_dims
from smelt.graph import Index, IndexLike, alias, pairs, topological
from smelt.runtime import as_number, as_tensor, is_weak
from smelt.tensor import Tensor, asarray, creation, realize, wrap
from smelt.transform import jvp, vjp, vmap

_KEYS: Final = "threefry2x32"


_CALLS_PYTHON: Final = re.compile(r'stablehlo\.custom_call @"?smelt\.')


def to_jax(function: Callable[..., Any] | None = None, *, static: Static = (), **others: Any) -> Callable[..., Any]:
    """A function of tensors as a function of JAX's arrays, for `jax.jit`, `jax.grad`, `jax.jvp` and `jax.vmap`.

    It is traced once for each kind of arguments, and written into JAX's program as StableHLO, so XLA compiles it. Its
    derivatives and batches are smelt's. What it reads from outside is part of the program, as it is when traced.
    Arguments and results are nested as JAX knows it. Those that `static` names, by position or name, are handed over as
    they are; so are strings and other objects. Python numbers take the dtype of what they meet, and keys are those of
    `jax.random.key`, `PRNGKey` or `key_data`. What StableHLO cannot say (`sm.callback`, for one) is computed by smelt,
    in a `jax.pure_callback`.
    """
    refuse_others(others, "to_jax")
    if function is None:
        return functools.partial(to_jax, static=static)
    if not callable(function):
        raise ArgumentError(f"to_jax: {function!r:.80} is not a function")
    jax = imported_jax("to_jax")
    known: dict[Any, Exported] = {}
    fixed_places = static_arguments(function, static, "to_jax")
    name = getattr(function, "__name__", type(function).__name__)

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flattened(jax, args, kwargs, fixed_places)
        leaves = [leaf if type(leaf) is Fixed or is_array(leaf) else Fixed(leaf) for leaf in leaves]
        arrays = [_array(leaf, jax) for leaf in leaves if type(leaf) is not Fixed]
        # What stays as it is, by its type as well: 1 and True are equal.
        marks = [(type(leaf.value), leaf) if type(leaf) is Fixed else None for leaf in leaves]
        numbers = tuple([k for k, x in enumerate(arrays) if x.shape == () and getattr(x, "weak_type", False)])
        key = (structure, jax.config.jax_enable_x64, numbers, *marks)
        try:
            found = known.get(key)
        except TypeError:
            raise unhashable("to_jax") from None
        if found is None:
            constants = [leaf if type(leaf) is Fixed else None for leaf in leaves]
            found = known[key] = Exported(_weakly(flat_function(function, structure, constants), numbers), name)
        return found(*arrays)

    return call


def _array(leaf: Any, jax: Any) -> Any:
    """A leaf as an array of JAX's, or what it traces in its place; a key as the numbers that it consists of."""
    if not is_key(leaf, jax):
        return jax.numpy.asarray(leaf)
    if str(jax.random.key_impl(leaf)) != _KEYS:
        raise ArgumentError(
            f"to_jax: a key of the kind {jax.random.key_impl(leaf)}",
            rule=f"random numbers of smelt's are those of {_KEYS}.",
            hint=f'Make it with jax.random.key(seed, impl="{_KEYS}").',
        )
    return jax.random.key_data(leaf)


def _weakly(function: Callable[..., Any], numbers: tuple[int, ...]) -> Callable[..., Any]:
    """A function some of whose tensors take the dtype of what they meet, as Python numbers do."""

    @functools.wraps(function, updated=())
    def weakly(*tensors: Tensor) -> Any:
        return function(*(wrap(as_number(x._node)) if k in numbers else x for k, x in enumerate(tensors)))

    return weakly if numbers else function


class Traced(NamedTuple):
    """What a function is for some types: types and nesting of its results, and its text, if it can be written."""

    results: list[Typed]
    structure: Any
    text: str | None


class Exported:
    """A function of flat tensors that gives a tree of them, as an operation that is equal to itself alone."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        declared: Callable[[Sequence[Any]], list[Typed]] | None = None,
    ) -> None:
        self.function, self.name, self._declared = function, name, declared
        self._traced: dict[tuple[Typed, ...], Traced] = {}
        self._batched: dict[tuple[int | None, ...], Exported] = {}
        self._forward: dict[tuple[int, ...], Exported] = {}
        self._backward: dict[tuple[int, tuple[int, ...]], Exported] = {}
        # The function whose forward derivative this is, by the arguments at some places.
        self._linear_of: tuple[Exported, tuple[int, ...]] | None = None

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *arrays: Any) -> Any:
        """The results for arrays of JAX's, or what it traces in their place."""
        return self.traced(arrays).structure.unflatten(operation().bind(*arrays, function=self))

    def traced(self, arrays: Sequence[Any]) -> Traced:
        """What the function is for arrays of such types."""
        types = tuple([_type(x) for x in arrays])
        known = self._traced.get(types)
        if known is None:
            known = self._traced[types] = self._trace(types)
        return known

    def _trace(self, types: Sequence[Typed]) -> Traced:
        jax = imported_jax()
        found: list[Traced] = []

        @functools.wraps(self.function, updated=())  # whose names are looked through for what it reads
        def flat(*tensors: Tensor) -> list[Tensor]:
            leaves, structure = jax.tree.flatten(self.function(*tensors))
            results = [self._result(leaf) for leaf in leaves]
            kinds = [Typed(x.shape, np.dtype(x.dtype.numpy), weak) for x, weak in results]
            found.append(Traced(kinds, structure, None))
            return [x for x, _ in results]

        shapes = _open_shapes(types)
        try:
            text = stablehlo.export(flat, *map(_sample, types), shapes=shapes, weights="inline")
        except UnsupportedOp:
            return found[-1]
        if _CALLS_PYTHON.search(text):
            return found[-1]  # text has calls of Python by names that XLA does not know
        if len(mlir.parse(text).functions["main"].arguments) != len(types):
            raise TraceError(
                f"to_jax: {self.name} draws random numbers without a key",
                rule="functions of JAX's have no state: all calls would draw the same numbers.",
                hint="Take a key as an argument, and draw with key=.",
            )
        if shapes is not None:  # XLA does not find the sizes of composites
            text = stablehlo.without_composites(text)
        return found[-1]._replace(text=text)

    def _result(self, leaf: Any) -> tuple[Tensor, bool]:
        """A result as JAX has it, without 64 bits unless they are turned on; whether it is weak, as a number is."""
        if not isinstance(leaf, Tensor | bool | int | float | complex):
            raise ArgumentError(f"to_jax: {self.name} gives a {type(leaf).__name__}", rule="results are tensors.")
        tensor: Tensor = asarray(leaf)  # type: ignore[arg-type]
        weak = is_weak(leaf._node) if isinstance(leaf, Tensor) else not isinstance(leaf, bool)
        kept = wrap(as_tensor(tensor._node)) if weak else tensor
        return kept.astype(dtypes.as_dtype(imported_jax().dtypes.canonicalize_dtype(kept.dtype.numpy))), weak

    # --- what JAX makes of it

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The operation outside of programs of JAX's."""
        compiled: Callable[..., Any] = imported_jax().jit(lambda *arrays: operation().bind(*arrays, function=self))
        return compiled

    @cached_property
    def on_host(self) -> Callable[..., Any]:
        """The operation as a call of smelt's while a program of JAX's runs."""
        jax = imported_jax()

        def call(*arrays: Any) -> Any:
            results = self.traced(arrays).results
            if any(not isinstance(size, int) for x in (*arrays, *results) for size in x.shape):
                raise TraceError(
                    f"to_jax: {self.name} is computed by Python, and its sizes are not known",
                    rule="linear algebra and sm.callback have no text; such a program has calls of smelt's instead.",
                    hint="Export it with sizes that are known, or take that part out of what is exported.",
                )
            types = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in results]

            def computed(*given: Any) -> list[Any]:
                found = jax.tree.leaves(self.function(*(asarray(np.asarray(x)) for x in given)))
                return [x.numpy() for x in realize(*(self._result(leaf)[0] for leaf in found))]

            return jax.pure_callback(computed, types, *arrays)

        return call

    def batched(self, axes: tuple[int | None, ...]) -> Exported:
        """The operation for batches, which lie along these axes of the arguments, and the first one of the results."""
        if axes not in self._batched:
            self._batched[axes] = Exported(vmap(self.function, in_axes=axes), f"{self.name}, batched")
        return self._batched[axes]

    # --- derivatives

    def results(self, arrays: Sequence[Any]) -> list[Typed]:
        """The types of the results. Those of derivatives are known before any is traced, and need not exist."""
        return self.traced(arrays).results if self._declared is None else self._declared(arrays)

    def forward(self, moving: tuple[int, ...]) -> Exported:
        """The tangents of float results, from all arguments and the tangents of those that change."""

        @functools.wraps(self.function, updated=())
        def pushed(*tensors: Tensor) -> list[Tensor]:
            given, tangents = tensors[: -len(moving)], tensors[-len(moving) :]
            by_moving = self._floats_by(moving, given)
            _, changes, _ = jvp(by_moving, tuple([given[k] for k in moving]), tangents, has_aux=True)
            return list(changes)

        if moving not in self._forward:
            made = Exported(pushed, f"forward derivative of {self.name}", lambda arrays: self._floats(arrays, moving))
            made._linear_of = (self, moving)
            self._forward[moving] = made
        return self._forward[moving]

    def way_back(self, count: int, moving: tuple[int, ...]) -> Exported:
        """The cotangents of some of all so many arguments, from these and the cotangents of float results."""

        @functools.wraps(self.function, updated=())
        def back(*tensors: Tensor) -> list[Tensor]:
            given = tensors[:count]
            _, pull, _ = vjp(self._floats_by(moving, given), *(given[k] for k in moving), has_aux=True)
            return list(pull(list(tensors[count:])))

        if (count, moving) not in self._backward:
            name = f"gradient of {self.name}"
            self._backward[count, moving] = Exported(back, name, lambda arrays: [_type(arrays[k]) for k in moving])
        return self._backward[count, moving]

    def transposed(self, places: tuple[int, ...], arrays: Sequence[Any]) -> Exported:
        """What is linear in the arguments at some places, done to cotangents of results: the cotangents of those, from
        the other arguments and the cotangents of all results.
        """
        if self._linear_of is not None:
            original, moving = self._linear_of
            first = len(arrays) - len(moving)
            if min(places) >= first:
                return original.way_back(first, tuple([moving[k - first] for k in places]))
        types = [_type(arrays[k]) for k in places]
        known = [k for k in range(len(arrays)) if k not in places]

        @functools.wraps(self.function, updated=())
        def back(*tensors: Tensor) -> list[Tensor]:
            given: list[Any] = [None] * len(arrays)
            for k, x in zip(known, tensors, strict=False):
                given[k] = x
            for k, kind in zip(places, types, strict=True):
                given[k] = wrap(alias(_zeros(kind)._node, Variable()))
            made = {part for k in places for part in pairs.all_parts([given[k]._node])}
            _, pull, _ = vjp(self._floats_by(places, given), *(given[k] for k in places), has_aux=True)
            found = list(pull(list(tensors[len(known) :])))
            if not made.isdisjoint(topological(pairs.all_parts([x._node for x in found]))):
                raise TraceError(f"to_jax: {self.name} is transposed", rule="what is transposed is linear.")
            return found

        return Exported(back, f"{self.name}, transposed", lambda arrays: types)

    def _floats(self, arrays: Sequence[Any], moving: tuple[int, ...]) -> list[Typed]:
        """The types of float results, for arrays and tangents."""
        results = self.results(arrays[: len(arrays) - len(moving)])
        return [Typed(kind.shape, kind.dtype) for kind in results if kind.is_float]

    def _floats_by(self, moving: tuple[int, ...], given: Sequence[Tensor]) -> Callable[..., Any]:
        """The float results as a function of some of the arguments; the others come along."""

        def floats(*chosen: Tensor) -> tuple[list[Tensor], list[Tensor]]:
            found = imported_jax().tree.leaves(self.function(*merged(given, moving, chosen)))
            results = [self._result(leaf)[0] for leaf in found]
            return [x for x in results if x.dtype.is_inexact], [x for x in results if not x.dtype.is_inexact]

        return floats


def _type(x: Any) -> Typed:
    """The type of an array of JAX's, of one that it traces, or of an abstract one; symbolic sizes are dims."""
    return Typed(with_dims(x.shape), np.dtype(x.dtype))


def _open_shapes(types: Sequence[Typed]) -> list[tuple[Any, ...]] | None:
    """The shapes to export for, if some have dims."""
    is_open = any(isinstance(size, Index) for kind in types for size in kind.shape)
    return [kind.shape for kind in types] if is_open else None


def _sample(kind: Typed) -> Tensor:
    """Zeros of a type, where it is open of the size for the least dims."""
    return _zeros(kind._replace(shape=tuple([_at_least(size) for size in kind.shape])))


def _at_least(size: IndexLike) -> int:
    if not isinstance(size, Index):
        return size
    found: int = size.evaluate({variable.name: variable.low for variable in size.variables()})
    return found


def _zeros(kind: Typed) -> Tensor:
    return creation.zeros(kind.shape, dtype=dtypes.as_dtype(kind.dtype))
