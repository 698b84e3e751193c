"""Calls of code outside of the text: custom_call by a table, linear algebra through NumPy while a program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smelt import linalg
from smelt.dtypes import DType, int32
from smelt.formats.mlir import Typed
from smelt.formats.stablehlo import dynamic, elementwise, lapack, sorts
from smelt.formats.stablehlo.rows import Call, Row, Value, integers_of, rows, stand_in
from smelt.graph import Hosted, Named, Node, Shape, build, pairs, values_of

Array = Any
Parameters = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class HostCall:
    """One of LAPACK's routines with its parameters: equal ones compute the same. Complex arrays come and go in two
    parts.
    """

    name: str
    parameters: Parameters
    takes: tuple[DType, ...]
    gives: tuple[DType, ...]

    def __call__(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        with np.errstate(all="ignore"):
            found = lapack.ROUTINES[self.name](*self._whole(arrays), **dict(self.parameters))
        typed = [np.asarray(x).astype(dtype.numpy) for x, dtype in zip(found, self.gives, strict=True)]
        parts = [part for x in typed for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
        return [
            np.ascontiguousarray(np.broadcast_to(part, shape)).reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    @property
    def named(self) -> Named:
        """What it is in texts, where `_own` finds it."""
        kinds = (tuple(dtype.is_complex for dtype in dtypes) for dtypes in (self.takes, self.gives))
        return Named(f"lapack.{self.name}", self.parameters, *kinds)

    def _whole(self, arrays: Sequence[Array]) -> list[Array]:
        """The operands, in types that NumPy computes in."""
        each = iter(arrays)
        whole = []
        for dtype in self.takes:
            x = next(each)
            if dtype.is_complex:
                x = pairs.joined(x, next(each))
            whole.append(x.astype(np.float32) if dtype.is_float and dtype.itemsize < 4 else x)
        return whole


Types = Sequence[tuple[DType, Shape]]


def hosted(name: str, sources: Sequence[Node], parameters: dict[str, int], types: Types) -> list[Value]:
    """A routine as a call of Python's while the program runs, with results of these types."""
    gives = tuple(dtype for dtype, _ in types)
    function = HostCall(name, tuple(sorted(parameters.items())), tuple(x.dtype for x in sources), gives)
    parts = tuple((dtype.part, shape) for dtype, shape in types for _ in range(2 if dtype.is_complex else 1))
    return list(pairs.in_pairs(gives, values_of(Hosted(function, parts), pairs.all_parts(sources))))


def _declared(call: Call) -> Types:
    """The types of the results. Sizes that are not known are operands: one for each result."""
    count, places = len(call.operation.types), _shape_operands(call)
    if not places:
        return [call.type(k) for k in range(count)]
    if len(places) != count or any(not 0 <= k < len(call.operands) for k in places):
        call.wrong("indices_of_shape_operands has an operand for each result")
    kinds = zip(places, call.operation.types, strict=True)
    return [(call.reading.dtype(call.operation, kind), tuple(dynamic.known_sizes(call, k))) for k, kind in kinds]


def _shape_operands(call: Call) -> tuple[int, ...]:
    return () if call.attribute("indices_of_shape_operands") is None else call.integers("indices_of_shape_operands")


_UPPER, _RIGHT = ord("U"), ord("R")
_TURNED: Final = {"NO_TRANSPOSE": lapack.NO, "TRANSPOSE": ord("T"), "ADJOINT": ord("C")}


def _cholesky(call: Call) -> list[Value]:
    (x,) = call.operands
    if x.rank < 2:
        call.wrong("it takes matrices")
    parameters = {"uplo": lapack.LOWER if call.flag("lower") else _UPPER}
    return hosted("potrf", [x], parameters, [(x.dtype, x.shape), (int32, x.shape[:-2])])[:1]


def _triangular_solve(call: Call) -> list[Value]:
    turned = call.word("transpose_a", "NO_TRANSPOSE")
    if turned not in _TURNED:
        call.wrong(f"transpose_a is one of {', '.join(_TURNED)}")
    parameters = {
        "side": lapack.LEFT if call.flag("left_side") else _RIGHT,
        "uplo": lapack.LOWER if call.flag("lower") else _UPPER,
        "trans_x": _TURNED[turned],
        "diag": lapack.UNIT if call.flag("unit_diagonal") else lapack.NO,
    }
    return hosted("trsm", call.operands, parameters, _declared(call))


# --- custom_call


def _configuration(call: Call) -> dict[str, Any]:
    """What a call's target is told."""
    found = call.attribute("mhlo.backend_config")
    found = call.attribute("backend_config") if found is None else found
    known = found if isinstance(found, dict) else {}
    return {name: value.value if isinstance(value, Typed) else value for name, value in known.items()}


def _check_layouts(call: Call) -> None:
    """An order of axes for each matrix. What the order is does not matter: nothing lies in memory here."""
    for name in ("operand_layouts", "result_layouts"):
        orders = call.attribute(name)
        for k, order in enumerate(orders if isinstance(orders, list | tuple) else ()):
            axes = integers_of(order, 0)
            if axes is None or sorted(axes) != list(range(len(axes))):
                call.wrong(f"entry {k} of {name} is no order of axes")


def _custom_call(call: Call) -> list[Value]:
    target = call.symbol("call_target_name")
    _check_layouts(call)
    if target in _SAME:
        return list(call.operands)
    function = _TARGETS.get(target)
    if function is not None:
        return function(call)
    if target.startswith(_OWN):
        return _own(call, target.removeprefix(_OWN))
    name = target.removeprefix("lapack_").removesuffix("_ffi")
    if target.startswith("lapack_") and name[:1] in tuple("sdcz") and name[1:] in lapack.ROUTINES:
        parameters = {k: v for k, v in _configuration(call).items() if k in lapack.PARAMETERS}
        sources = [x for k, x in enumerate(call.operands) if k not in _shape_operands(call)]
        return hosted(name[1:], sources, parameters, _declared(call))
    call.refuse(f"there is no target {target!r}")


_OWN: Final = "smelt."


def _own(call: Call, name: str) -> list[Value]:
    """What `export` writes for a call of Python's: it must be one that is known by its name."""
    told = call.attribute("smelt.options")
    options: dict[str, int] = {}
    for key, value in (told if isinstance(told, dict) else {}).items():
        option = value.value if isinstance(value, Typed) else value
        if not isinstance(option, int):
            call.wrong("smelt.options are integers")
        options[key] = option
    routine = name.removeprefix("lapack.")
    if name.startswith("lapack.") and routine in lapack.ROUTINES and options.keys() <= set(lapack.PARAMETERS):
        return hosted(routine, call.operands, options, _declared(call))
    try:
        found = linalg.by_name(name, call.operands, list(options.values()))
    except (TypeError, ValueError, IndexError):
        call.wrong(f"{name} does not take these operands and options")
    if found is None:
        call.refuse(
            f"{name} is a function of Python's, which is not in the text",
            "Export what comes before and behind it, each by itself, and call the function between the two.",
        )
    return list(found)


def _approximate_top_k(call: Call) -> list[Value]:
    """The best elements of an axis: found exactly."""
    told = _configuration(call)
    count = len(call.operands) // 2
    xs, axis = call.operands[:count], told.get("reduction_dim")
    names = call.attribute("called_computations") or (None,)
    sides = [stand_in(x.dtype, ()) for x in xs for _ in range(2)]
    [first] = call.reading.function(getattr(names[0], "name", ""), sides, call.operation)
    if not isinstance(axis, int) or call.shape[axis] != told.get("top_k"):
        call.refuse("approximate results that are not the best k")
    for direction in ("GT", "LT"):
        for kind in ("", "TOTALORDER"):
            if first is elementwise.compare(direction, sides[0], sides[1], kind):
                size = call.shape[axis]
                order = build.sort(xs[0], axis, descending=direction == "GT", indices=True, count=size)
                return [sorts.taken(x, order, axis) for x in xs]
    call.refuse("an order that is neither < nor >")


_SAME: Final = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"})
_TARGETS: Final[dict[str, Callable[[Call], list[Value]]]] = {
    "ApproxTopK": _approximate_top_k,
    "shape_assertion": dynamic.shape_assertion,
    "stablehlo.dynamic_reduce_window": dynamic.reduce_window,
    "stablehlo.dynamic_top_k": dynamic.top_k,
}

ROWS: Final = rows(
    {
        "cholesky": Row(_cholesky, ("lower",), 1, "by NumPy while the program runs; no gradient"),
        "triangular_solve": Row(
            _triangular_solve,
            ("left_side", "lower", "unit_diagonal", "transpose_a"),
            2,
            "by NumPy while the program runs; no gradient",
        ),
        "custom_call": Row(
            _custom_call, ("call_target_name", "backend_config"), None, "LAPACK's routines, shardings, ApproxTopK"
        ),
    }
)
