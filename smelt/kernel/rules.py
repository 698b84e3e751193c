"""The rules of regions, and the types that operations take and give in regions and kernels.

A region that breaks a rule is a bug in smelt, so every failure is an `InternalError`; in a text it is a `ParseError`.
"""

from __future__ import annotations

from typing import Any

from smelt.dtypes import ROUNDED_BY_FLOAT32, DType, bool_, compute_dtype, float32, int32, int64
from smelt.errors import InternalError
from smelt.graph import BINARY, REDUCTIONS, SCANS, UNARY, as_index
from smelt.kernel.ir import DOTS
from smelt.kernel.region import Expression, Output, Region, variables_of, walk


def is_typed(op: str, dtype: DType, kinds: list[DType], attribute: Any) -> bool:
    """Whether an operation takes values of these types and gives one of `dtype`, which is one to compute with."""
    if compute_dtype(dtype) is not dtype:
        return False
    match op:
        case "const":
            return not kinds and isinstance(attribute, bool | int | float)
        case "index" | "mask":
            return not kinds and dtype in ((bool_,) if op == "mask" else (int32, int64))
        case "load":
            picks = len(kinds) == len(attribute.picks) and all(kind.is_integer for kind in kinds)
            return picks and dtype is compute_dtype(attribute.buffer.dtype)
        case "where":
            return kinds == [bool_, dtype, dtype]
        case "copy":
            return kinds == [dtype]
        case "reduce":
            return kinds == [dtype] and attribute.op in REDUCTIONS
        case "scan":
            return kinds == [dtype] and attribute.op in SCANS and (attribute.op in REDUCTIONS or dtype.is_float)
        case "cast":
            return len(kinds) == 1
        case "bitcast" if len(kinds) == 1:
            source, target = attribute or (kinds[0], dtype)
            return [compute_dtype(source), compute_dtype(target)] == [*kinds, dtype] and source.bits == target.bits
        case "round16":
            return kinds == [dtype] == [float32] and compute_dtype(attribute) is float32
        case "cast_odd":
            return len(kinds) == 1 and kinds[0] in ROUNDED_BY_FLOAT32 and dtype is float32
    if op in DOTS:
        return kinds == [int32, int32] and dtype is DOTS[op].result
    function = UNARY.get(op) if len(kinds) == 1 else BINARY.get(op) if len(kinds) == 2 else None
    if function is None or kinds[0] is not kinds[-1] or not function.takes(kinds[0]):
        return False
    return dtype is (bool_ if function.boolean else kinds[0])


def verify_expression(e: Expression) -> None:
    """Raise InternalError if an operation does not fit its arguments."""
    typed = is_typed(e.op, e.dtype, [argument.dtype for argument in e.arguments], e.attribute)
    _check(typed, f"{e.op} does not take or give these types")


def verify_region(region: Region) -> None:
    """Raise InternalError if a region breaks a rule."""
    parameters, axes = set(region.parameters), set(region.axes)
    _check(len({v.name for v in (*parameters, *axes)}) == len(parameters) + len(axes), "a name is given twice")
    for axis in region.axes:
        runs = axis.first == 0 and axis.last.low >= -1 and axis.last.variables() <= parameters
        _check(runs, f"the axis {axis.name} does not run from 0 to an extent known to the caller")
    for buffer in region.buffers():
        sizes = map(as_index, (*buffer.shape, *buffer.strides, buffer.offset))
        _check(variables_of(sizes) <= parameters, f"the sizes of {buffer.name} are not known to the caller")
    for e in region.order():
        verify_expression(e)
        folded = e.attribute.axes if e.op in ("reduce", "scan") else ()
        _check(len(axes.intersection(folded)) == len(folded), f"a {e.op} takes axes of the region, each once")
        picks = e.attribute.picks if e.op == "load" else ()
        bounds = variables_of(bound for pick in picks for bound in (pick.first, pick.last))
        _check(bounds <= parameters, "what stands for an index has bounds that the caller does not know")
    for output in region.outputs:
        _verify_output(region, output)


def _verify_output(region: Region, output: Output) -> None:
    """Its axes are known, and scans walk one of them, outside of all reductions."""
    name, parallel = output.buffer.name, region.parallel_axes(output)
    _check(output.value.dtype is compute_dtype(output.buffer.dtype), f"{name} holds another type")
    known = {*parallel, *region.parameters}
    free = sorted(v.name for v in (output.value.axes | variables_of(output.index)) - known)
    _check(not free, f"{name} is stored for single elements along {', '.join(free)}, which nothing walks")
    inside = list(walk([output.value]))
    scanned = {axis for e in inside if e.op == "scan" for axis in e.attribute.axes}
    _check(len(scanned) < 2 and scanned <= known, f"the scans of {name} are not over one of its axes")
    folds = walk(argument for e in inside if e.op == "reduce" for argument in e.arguments)
    _check(all(e.op != "scan" for e in folds), f"a reduction of {name} reads a scan")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise InternalError(message)
