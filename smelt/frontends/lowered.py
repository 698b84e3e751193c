"""What JAX writes down of a function of arrays, as a function of tensors whose derivatives are JAX's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import numpy as np

from smelt import dtypes
from smelt.errors import ArgumentError, GradientError, UnsupportedOp
from smelt.formats import stablehlo
from smelt.formats.stablehlo import Imported, Rules
from smelt.frontends.arguments import Typed, imported_jax
from smelt.frontends.symbolic import explained
from smelt.graph import topological
from smelt.runtime import Storage, set_constant
from smelt.tensor import Tensor, asarray, interop
from smelt.transform import custom_vjp

# For processors, linear algebra is written as calls of LAPACK's routines; for others it is operations. What those lack
# is written for processors after all.
_PLATFORMS: Final = ("tpu", "cpu")
_LARGE: Final = 1024  # bytes of a constant that is handed over, and not written into the text


class Lowered:
    """A function of flat arrays that JAX has written down for some types. Called with tensors, it gives a list of them,
    which lie in the tree `structure`.
    """

    def __init__(self, function: Callable[..., Any], types: Sequence[Typed], rules: Rules) -> None:
        self._function, self._types, self._rules = function, list(types), rules
        is_open = any(not isinstance(size, int) for kind in types for size in kind.shape)
        with explained(getattr(function, "__name__", "the function"), is_open):
            written = _written(function, types, rules, is_open)
        self._program, self.structure, self._results, self._constants = written
        self._differentiable = custom_vjp(self._values)
        self._differentiable.defvjp(lambda *xs: (self._values(*xs), xs), self._pulled_back)
        self._differentiable.defjvp(self._pushed_forward)
        self._differentiable.takes_wanted = True
        self._ways_forward: dict[tuple[int, ...], Lowered] = {}
        self._ways_back: dict[tuple[int, ...], Lowered] = {}

    @property
    def text(self) -> str:
        """The StableHLO that JAX wrote."""
        return self._program.module.text

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        floats = any(one.is_float for one in self._types) and any(one.is_float for one in self._results)
        return list(self._differentiable(*tensors) if floats else self._values(*tensors))

    def _values(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        found = self._program(*self._constants, *tensors)
        return found if isinstance(found, tuple) else (found,)

    def _pulled_back(
        self, tensors: tuple[Tensor, ...], cotangents: tuple[Tensor, ...], wanted: Sequence[Sequence[bool]]
    ) -> tuple[Tensor | None, ...]:
        given = [x for x, kind in zip(cotangents, self._results, strict=True) if kind.is_float]
        moving = tuple([k for k, parts in enumerate(wanted) if any(parts)])
        found = dict(zip(moving, self._way_back(moving)(*tensors, *given), strict=True))
        return tuple([found.get(k) for k in range(len(self._types))])

    def _pushed_forward(self, tensors: tuple[Tensor, ...], tangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        moving = tuple([k for k, tangent in enumerate(tangents) if tangent is not None])
        found = iter(self._way_forward(moving)(*tensors, *(x for x in tangents if x is not None)))
        return tuple([next(found) if kind.is_float else 0 for kind in self._results])

    def _way_forward(self, moving: tuple[int, ...]) -> Lowered:
        """The tangents of float results, from all arguments and the tangents of those that change."""
        jax = imported_jax()
        count = len(self._types)

        def forward(*arrays: Any) -> Any:
            def by_moving(*chosen: Any) -> list[Any]:
                return self._floats_of(merged(arrays[:count], moving, chosen))

            return jax.jvp(by_moving, tuple([arrays[k] for k in moving]), tuple(arrays[count:]))[1]

        if moving not in self._ways_forward:
            types = [Typed(self._types[k].shape, self._types[k].dtype) for k in moving]
            try:
                self._ways_forward[moving] = Lowered(forward, [*self._types, *types], self._rules)
            except TypeError as error:
                if "custom_vjp" not in str(error):
                    raise
                name = getattr(self._function, "__name__", "the function")
                raise GradientError(
                    f"from_jax: {name} has a jax.custom_vjp inside, which has no forward derivative",
                    rule="Forward derivatives are those of JAX, as gradients are.",
                    hint="Use sm.grad or sm.vjp (in the place of sm.hessian, sm.jacobian(sm.grad(f))), or give that "
                    "function a jax.custom_jvp instead.",
                ) from None
        return self._ways_forward[moving]

    def _floats_of(self, arrays: Sequence[Any]) -> list[Any]:
        """The float results for arrays of JAX's."""
        found = imported_jax().tree.leaves(self._function(*arrays))
        return [x for x, kind in zip(found, self._results, strict=True) if kind.is_float]

    def _way_back(self, moving: tuple[int, ...]) -> Lowered:
        """The cotangents of float arguments, from all arguments and the cotangents of float results. Others may have
        none: what JAX cannot differentiate by them is no matter.

        What it computes again on its way is what the function computed: equal nodes are one node.
        """
        jax = imported_jax()
        count = len(self._types)

        def back(*arrays: Any) -> Any:
            def by_moving(*chosen: Any) -> list[Any]:
                return self._floats_of(merged(arrays[:count], moving, chosen))

            _, pull = jax.vjp(by_moving, *(arrays[k] for k in moving))
            return pull(list(arrays[count:]))

        if moving not in self._ways_back:
            results = [Typed(kind.shape, kind.dtype) for kind in self._results if kind.is_float]
            self._ways_back[moving] = Lowered(back, [*self._types, *results], self._rules)
        return self._ways_back[moving]


def merged(arrays: Sequence[Any], places: Sequence[int], chosen: Sequence[Any]) -> list[Any]:
    """Arrays with others in some places."""
    merged = list(arrays)
    for k, array in zip(places, chosen, strict=True):
        merged[k] = array
    return merged


def _written(
    function: Callable[..., Any], types: Sequence[Typed], rules: Rules, is_open: bool
) -> tuple[Imported, Any, list[Typed], list[Tensor]]:
    """A function as a program; how its results are nested, their types, and constants that it takes first."""
    jax = imported_jax()
    from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

    arguments = [jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak) for kind in types]
    # The derivative of softmax that reads nothing but its result, which JAX wants to be the only one some day.
    newer = getattr(jax, "softmax_custom_jvp", lambda _: nullcontext())
    with newer(True):
        traced = jax.jit(function).trace(*arguments)
    leaves, structure = jax.tree.flatten(traced.out_info)
    results = [Typed(x.shape, x.dtype) for x in leaves]
    closed = traced.jaxpr
    _refuse_calls(closed.jaxpr)
    large = [k for k, x in enumerate(closed.consts) if getattr(x, "nbytes", 0) >= _LARGE]

    def with_constants(constants: Sequence[Any], *arrays: Any) -> Any:
        return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, merged(closed.consts, large, constants)))(*arrays)

    constants = [closed.consts[k] for k in large]
    program = _read(jax.jit(with_constants, keep_unused=True), [constants, *arguments], rules, is_open)
    return program, structure, results, [_constant(x) for x in constants]


_CALLS: Final = {
    "debug_print": ("jax.debug.print", "Take it out, or print with sm.debug.print in what calls this function."),
    "debug_callback": ("jax.debug.callback", "Take it out, or call sm.debug.print in what calls this function."),
    "pure_callback": ("jax.pure_callback", "Call sm.callback around the parts that JAX traces, or write it with JAX."),
    "io_callback": ("jax.experimental.io_callback", "Do it in Python, before or after this function is called."),
}


def _refuse_calls(jaxpr: Any) -> None:
    """Refuse calls of Python by what the user wrote: in a text they would be a name that only JAX knows."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in _CALLS:
            asked, hint = _CALLS[name]
            rule = "What JAX writes down of a function has operations only; Python is not called while it runs."
            raise UnsupportedOp(f"from_jax: the function calls {asked}", name, 0, 0, rule=rule, hint=hint)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                body = getattr(inner, "jaxpr", inner)
                if hasattr(body, "eqns"):
                    _refuse_calls(body)


def _read(compiled: Any, arguments: Sequence[Any], rules: Rules, is_open: bool) -> Imported:
    """What JAX writes for the first platform whose text can be written and read."""
    if is_open:
        from jax import export

        # What its types leave open is computed in the text, which only those who have sizes can read.
        exported = export.export(compiled, platforms=_PLATFORMS[-1:])(*arguments)
        return stablehlo.load(exported.mlir_module(), rules=rules)
    traced = compiled.trace(*arguments)
    for platform in _PLATFORMS:
        try:
            program = stablehlo.load(traced.lower(lowering_platforms=(platform,)).as_text(), rules=rules)
            program.check()
        except (UnsupportedOp, NotImplementedError, ValueError):
            if platform == _PLATFORMS[-1]:
                raise
        else:
            return program
    raise AssertionError


def _constant(array: Any) -> Tensor:
    """An array that the function refers to: of its variables, JAX reads values when it traces."""
    tensor = tensor_of(array)
    for node in topological([tensor._node]):
        if isinstance(node.attribute, Storage):
            set_constant(node.attribute)
    return tensor


def tensor_of(array: Any) -> Tensor:
    """A tensor of an array of JAX's, whose memory it shares: neither changes."""
    jax = imported_jax()
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    if not isinstance(array, jax.Array):  # an array of NumPy's that the function refers to, as JAX keeps it
        return asarray(np.asarray(array))
    if array.is_deleted():
        raise ArgumentError(
            f"from_jax: an array of shape {array.shape} was given up",
            rule="JAX deletes an array that is donated (donate_argnums, donate_argnames) or deleted.",
            hint="Pass a copy to the function that takes it over: jnp.copy(x).",
        )
    if dtypes.as_dtype(array.dtype) in dtypes.STORAGE:  # which DLPack need not know
        return asarray(np.asarray(array))
    return interop.from_dlpack(array)
