"""What the two reference evaluators share: memory, and elementwise functions and reductions on NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.dtypes import DType, cast_array, float32, round_to_odd
from smelt.errors import InternalError
from smelt.graph import BINARY, UNARY, Index, IndexLike, Variable, as_index, elementwise_rules, function_array
from smelt.kernel.ir import DOTS, Load
from smelt.kernel.region import Access, Buffer, Mask

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def elementwise(op: str, dtype: DType, arguments: list[Array], attribute: Any) -> Array:
    """One elementwise operation of a region or kernel; floats are computed in float64 and rounded to the dtype."""
    match op:
        case "where":
            return np.where(*arguments)
        case "copy":
            return arguments[0]
        case "cast":
            return cast_array(arguments[0], dtype)
        case "cast_odd":
            return round_to_odd(arguments[0])
        case "round16":
            return cast_array(cast_array(arguments[0], attribute), float32)
        case "bitcast":
            return _bitcast(arguments[0], dtype, attribute)
    if op in DOTS:
        return cast_array(dot(op, *arguments), dtype)
    if op not in {1: UNARY, 2: BINARY}.get(len(arguments), {}):
        raise InternalError(f"{op} of {len(arguments)} arguments is not an elementwise function")
    return function_array(op, dtype, arguments)


def dot(op: str, a: Array, b: Array) -> Array:
    """The inner products of the numbers in words, floats in float64."""
    row = DOTS[op]
    wide = np.float64 if row.result.is_float else row.result.numpy
    return elementwise_rules.dot(a, b, row.first.numpy, row.second.numpy, wide)


def _bitcast(x: Array, dtype: DType, attribute: Any) -> Array:
    """The same bits. `attribute` names the stored types: 16-bit floats are wider while they are computed with."""
    source, target = attribute if attribute is not None else (None, dtype)
    stored = x if source is None else cast_array(x, source)
    return cast_array(np.ascontiguousarray(stored).view(target.numpy).reshape(x.shape), dtype)


@functools.lru_cache(1024)
def positions(sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """For each axis the position along it, shaped to broadcast with the others."""
    return np.indices(sizes, sparse=True)


class Memory:
    """The storage of buffers by name, one-dimensional, and the integers by which indices are computed: numbers, or
    arrays that have one for every element of `shape` or broadcast with it.
    """

    def __init__(self, arrays: Mapping[str, Array], integers: Mapping[str, int]) -> None:
        self.memory: dict[str, Array] = dict(arrays)
        self.integers: dict[str, Any] = dict(integers)
        self.shape: tuple[int, ...] = ()

    def value(self, op: str, dtype: DType, attribute: Any, arguments: list[Array]) -> Array:
        """What an operation gives that neither reads memory nor combines elements of one array."""
        match op:
            case "const":
                return np.full(self.shape, attribute, dtype.numpy)
            case "index":
                number = np.asarray(self.number(attribute)).astype(dtype.numpy)
                return number if number.ndim else np.full(self.shape, number)
            case "mask":
                return self.condition(attribute)
        return elementwise(op, dtype, arguments, attribute)

    def number(self, index: IndexLike) -> Any:
        return as_index(index).evaluate(self.integers)

    def condition(self, mask: Mask) -> Array:
        result = np.ones(self.shape, np.bool_)
        for c in mask:
            result = result & (self.number(c.a) < self.number(c.b))
        return result

    def address(self, buffer: Buffer, index: tuple[Index, ...], mask: Mask) -> tuple[Array, Array]:
        """Element numbers, 0 where the mask does not hold, and where it does."""
        inside = self.condition(mask)
        total = self.number(buffer.offset)
        for i, size, stride in zip(index, buffer.shape, buffer.strides, strict=True):
            at = self.number(i)
            if not np.all((at >= 0) & (at < self.number(size)) | ~inside):
                raise InternalError(f"{buffer.name}: index {i} leaves [0, {size})")
            total = total + at * self.number(stride)
        where = np.where(inside, total, 0)
        return where, np.broadcast_to(inside, where.shape)

    def read(self, dtype: DType, access: Access | Load, picks: Iterable[tuple[Variable, Array]]) -> Array:
        """Elements in a type, zeros where the mask does not hold; `picks` are integers of this index alone."""
        buffer, mask = access.buffer, access.mask
        for variable, chosen in picks:
            chosen = chosen.astype(np.int64)
            allowed = (chosen >= self.number(variable.first)) & (chosen <= self.number(variable.last))
            if not np.all(allowed | ~self.condition(mask)):
                raise InternalError(f"{buffer.name}: {variable.name} leaves its bounds")
            self.integers[variable.name] = chosen
        where, inside = self.address(buffer, access.index, mask)
        memory = self.memory[buffer.name]
        if memory.dtype != buffer.dtype.numpy:  # a view in words
            whole = memory.nbytes // buffer.dtype.itemsize * buffer.dtype.itemsize // memory.dtype.itemsize
            memory = np.ascontiguousarray(memory[:whole]).view(buffer.dtype.numpy)
        result = np.zeros(where.shape, dtype.numpy)
        result[inside] = cast_array(memory[where[inside]], dtype)
        return result
