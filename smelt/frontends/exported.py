"""Functions of tensors as operations of JAX's, which are written into its programs as StableHLO.

XLA compiles them together with what is around them. Derivatives and batches are smelt's, and are such operations in
their turn. What StableHLO cannot say, as calls of Python, smelt computes while the program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.errors import ArgumentError, TraceError, UnsupportedOp
from smelt.formats import mlir, stablehlo
from smelt.frontends.jax import Fixed, flat_function, is_array
from smelt.frontends.lowered import Typed, imported_jax
from smelt.tensor import Tensor, asarray, creation, realize
from smelt.transform import vjp, vmap


def to_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors as a function of JAX's arrays, for `jax.jit`, `jax.grad` and `jax.vmap`.

    It is traced once for each kind of arguments, and written into JAX's program as StableHLO, so XLA compiles it. Its
    derivatives and batches are smelt's. What it reads from outside is part of the program, as it is when traced.
    Arguments and results are nested as JAX knows it; arguments that are no arrays are handed over as they are. What
    StableHLO cannot say (`sm.callback`, for one) is computed by smelt, in a `jax.pure_callback`. There are no forward
    derivatives (`jax.jvp`).
    """
    if not callable(function):
        raise ArgumentError(f"to_jax: {function!r:.80} is not a function")
    jax = imported_jax("to_jax")
    known: dict[Any, Exported] = {}
    name = getattr(function, "__name__", type(function).__name__)

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        constants = [None if is_array(leaf) else Fixed(leaf) for leaf in leaves]
        key = (structure, jax.config.jax_enable_x64, *((type(x.value), x) if x else None for x in constants))
        if key not in known:
            known[key] = Exported(flat_function(function, structure, constants), name)
        return known[key](*(jax.numpy.asarray(x) for x, fixed in zip(leaves, constants, strict=True) if fixed is None))

    return call


class Traced(NamedTuple):
    """What a function is for some types: types and nesting of its results, and its text, if it can be written."""

    results: list[Typed]
    structure: Any
    text: str | None


class Exported:
    """A function of flat tensors that gives a tree of them, as an operation that is equal to itself alone."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self._traced: dict[tuple[Typed, ...], Traced] = {}
        self._batched: dict[tuple[int | None, ...], Exported] = {}
        self._backward: dict[int, Exported] = {}

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *arrays: Any) -> Any:
        """The results for arrays of JAX's, or what it traces in their place."""
        return self.traced(arrays).structure.unflatten(self._differentiable(*arrays))

    def traced(self, arrays: Sequence[Any]) -> Traced:
        """What the function is for arrays of such types."""
        types = tuple([Typed(tuple(x.shape), np.dtype(x.dtype)) for x in arrays])
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
            found.append(Traced([Typed(x.shape, np.dtype(x.dtype.numpy)) for x in results], structure, None))
            return results

        samples = [creation.zeros(kind.shape, dtype=dtypes.as_dtype(kind.dtype)) for kind in types]
        try:
            text = stablehlo.export(flat, *samples, weights="inline")
        except UnsupportedOp:
            return found[-1]
        if "stablehlo.custom_call @smelt." in text:
            return found[-1]  # text has calls of Python by names that XLA does not know
        if len(mlir.parse(text).functions["main"].arguments) != len(types):
            raise TraceError(
                f"to_jax: {self.name} draws random numbers without a key",
                rule="functions of JAX's have no state: all calls would draw the same numbers.",
                hint="Take a key as an argument, and draw with key=.",
            )
        return found[-1]._replace(text=text)

    def _result(self, leaf: Any) -> Tensor:
        """A result as JAX has it: without 64 bits, unless they are turned on."""
        if not isinstance(leaf, Tensor | bool | int | float | complex):
            raise ArgumentError(f"to_jax: {self.name} gives a {type(leaf).__name__}", rule="results are tensors.")
        tensor: Tensor = asarray(leaf)  # type: ignore[arg-type]
        return tensor.astype(dtypes.as_dtype(imported_jax().dtypes.canonicalize_dtype(tensor.dtype.numpy)))

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
            types = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in results]

            def computed(*given: Any) -> list[Any]:
                found = jax.tree.leaves(self.function(*(asarray(np.asarray(x)) for x in given)))
                return [x.numpy() for x in realize(*map(self._result, found))]

            return jax.pure_callback(computed, types, *arrays)

        return call

    def batched(self, axes: tuple[int | None, ...]) -> Exported:
        """The operation for batches, which lie along these axes of the arguments, and the first one of the results."""
        if axes not in self._batched:
            self._batched[axes] = Exported(vmap(self.function, in_axes=axes), f"{self.name}, batched")
        return self._batched[axes]

    @cached_property
    def _differentiable(self) -> Any:
        jax = imported_jax()

        def values(*arrays: Any) -> Any:
            return operation().bind(*arrays, function=self)

        def pulled_back(arrays: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
            given = [x for x in cotangents if x.dtype != jax.dtypes.float0]
            found = iter(self._way_back(len(arrays))(*arrays, *given))
            return tuple([next(found) if _is_float(x) else np.zeros(x.shape, jax.dtypes.float0) for x in arrays])

        function = jax.custom_vjp(values)
        function.defvjp(lambda *arrays: (function(*arrays), arrays), pulled_back)
        return function

    def _way_back(self, count: int) -> Exported:
        """Cotangents of float arguments, from all so many arguments and the cotangents of float results."""

        @functools.wraps(self.function, updated=())
        def back(*tensors: Tensor) -> list[Tensor]:
            floats = [k for k, x in enumerate(tensors[:count]) if _is_float(x)]

            def by_floats(*chosen: Tensor) -> tuple[list[Tensor], list[Tensor]]:
                merged = list(tensors[:count])
                for k, x in zip(floats, chosen, strict=True):
                    merged[k] = x
                found = [self._result(leaf) for leaf in imported_jax().tree.leaves(self.function(*merged))]
                return [x for x in found if _is_float(x)], [x for x in found if not _is_float(x)]

            _, pull, _ = vjp(by_floats, *(tensors[k] for k in floats), has_aux=True)
            return list(pull(list(tensors[count:])))

        if count not in self._backward:
            self._backward[count] = Exported(back, f"gradient of {self.name}")
        return self._backward[count]


def _is_float(x: Any) -> bool:
    """Whether there are derivatives by an array of JAX's or a tensor."""
    dtype = x.dtype if isinstance(x, Tensor) else dtypes.as_dtype(np.dtype(x.dtype))
    return dtype.is_inexact


@cache
def operation() -> Any:
    """The operation that JAX's programs have for functions of smelt's."""
    jax = imported_jax()
    from jax.extend.core import Primitive
    from jax.interpreters import batching
    from jax.interpreters import mlir as jax_mlir

    called = Primitive("smelt")
    called.multiple_results = True

    def results(*arrays: Any, function: Exported) -> list[Any]:
        return [jax.core.ShapedArray(kind.shape, kind.dtype) for kind in function.traced(arrays).results]

    def batch(arrays: Sequence[Any], axes: Sequence[Any], *, function: Exported) -> Any:
        numbers = tuple([axis if isinstance(axis, int) else None for axis in axes])
        found = called.bind(*arrays, function=function.batched(numbers))
        return found, [0] * len(found)

    called.def_impl(lambda *arrays, function: function.compiled(*arrays))
    called.def_abstract_eval(results)
    batching.primitive_batchers[called] = batch
    jax_mlir.register_lowering(called, _lowered)
    return called


def _lowered(context: Any, *operands: Any, function: Exported) -> Any:
    """The text of a function, as a function of the module that JAX is writing, and a call of it."""
    from jax.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    text = function.traced(context.avals_in).text
    if text is None:
        return jax_mlir.lower_fun(function.on_host, multiple_results=True)(context, *operands)
    module = context.module_context
    written = ir.Module.parse(text, context=module.context)
    types = ir.SymbolTable(written.operation)["main"].type.results
    name = jax_mlir.merge_mlir_modules(module.module, "smelt", written, dst_symtab=module.symbol_table)
    return func.CallOp(types, ir.FlatSymbolRefAttr.get(name), list(operands)).results
