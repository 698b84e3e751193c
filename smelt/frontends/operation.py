"""The operation that JAX's programs have for functions of smelt's, and what its transforms make of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from smelt.frontends.arguments import imported_jax
from smelt.frontends.symbolic import as_symbols

if TYPE_CHECKING:
    from smelt.frontends.exported import Exported


@cache
def operation() -> Any:
    """The operation. Its parameter `function` is an `Exported`, and so are its derivatives' and batches'."""
    imported_jax()
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching
    from jax.interpreters import mlir as jax_mlir

    called = Primitive("smelt")
    called.multiple_results = True
    called.def_impl(lambda *arrays, function: function.compiled(*arrays))
    called.def_abstract_eval(_types)
    ad.primitive_jvps[called] = _pushed_forward
    ad.primitive_transposes[called] = _transposed
    batching.primitive_batchers[called] = _batched
    jax_mlir.register_lowering(called, _lowered)
    return called


def _types(*arrays: Any, function: Exported) -> list[Any]:
    jax = imported_jax()
    results, given = function.results(arrays), [x.shape for x in arrays]
    return [jax.core.ShapedArray(as_symbols(kind.shape, given), kind.dtype, weak_type=kind.weak) for kind in results]


def _batched(arrays: Sequence[Any], axes: Sequence[Any], *, function: Exported) -> Any:
    numbers = tuple([axis if isinstance(axis, int) else None for axis in axes])
    found = operation().bind(*arrays, function=function.batched(numbers))
    return found, [0] * len(found)


def _pushed_forward(primals: Sequence[Any], tangents: Sequence[Any], *, function: Exported) -> Any:
    """The results, and how they change: by an operation that is linear in the tangents."""
    from jax.interpreters import ad

    values = operation().bind(*primals, function=function)
    moving = tuple([k for k, tangent in enumerate(tangents) if type(tangent) is not ad.Zero])
    changes = iter(operation().bind(*primals, *(tangents[k] for k in moving), function=function.forward(moving)))
    results = zip(values, function.results(primals), strict=True)
    return values, [
        next(changes) if kind.is_float else ad.Zero(imported_jax().typeof(x).to_tangent_aval()) for x, kind in results
    ]


def _transposed(cotangents: Sequence[Any], *operands: Any, function: Exported) -> list[Any]:
    """What an operation that is linear in some operands does to cotangents."""
    from jax.interpreters import ad

    places = tuple([k for k, x in enumerate(operands) if ad.is_undefined_primal(x)])
    known = [x for x in operands if not ad.is_undefined_primal(x)]
    given = [ad.instantiate_zeros(ct) for ct in cotangents]
    back = function.transposed(places, [x.aval if ad.is_undefined_primal(x) else x for x in operands])
    found: list[Any] = [None] * len(operands)
    for k, ct in zip(places, operation().bind(*known, *given, function=back), strict=True):
        found[k] = ct
    return found


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
