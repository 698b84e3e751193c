"""A compiled function over nodes, for those who have nodes and memory rather than tensors: readers of other formats,
and doors to other libraries.

It is made of stand-ins for the inputs, in order, and of roots over them. A call takes storages and gives storages; or
it takes addresses, and writes the results to addresses, where others have memory for them. Of each result it can be
said in which order its axes lie in memory. Always holds: only results are written, and inputs only where they share an
address with one that `in_place` names.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import runtime
from smelt.compiler import trace
from smelt.device import HOST, NOWHERE, Memory, pointer
from smelt.errors import ArgumentError
from smelt.graph import DONE, Node, build, row_major
from smelt.plan import Alias, Stored, concrete
from smelt.runtime import Placeholder, Storage
from smelt.transform.jit import numbered_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

Order = tuple[int, ...]  # of axes in memory, the one with the longest strides first


def stand_in(dtype: Any, shape: Any, strides: Any = None) -> Node:
    """A node for an input of these sizes, which lies in memory in row-major order, or with these strides."""
    return Placeholder(dtype, shape, row_major(shape) if strides is None else strides).node()


class NativeFunction:
    """Roots over stand-ins, compiled. `orders` has an order of axes for each result, or None."""

    def __init__(
        self,
        inputs: Sequence[Node],
        roots: Sequence[Node],
        *,
        orders: Sequence[Order | None] | None = None,
        contracts: str | None = None,
    ) -> None:
        self.orders = [None] * len(roots) if orders is None else list(orders)
        self._types = [(root.dtype, root.shape) for root in roots]
        for (_, shape), order in zip(self._types, self.orders, strict=True):
            if order is not None and sorted(order) != list(range(len(shape))):
                raise ArgumentError(f"a result with {len(shape)} axes cannot have them in the order {order}")
        # Stored in row-major order, the axes of a result lie in the order that is wanted of them.
        turned = [x if order is None else build.permute(x, order) for x, order in zip(roots, self.orders, strict=True)]
        traced = trace(turned, contracts, once=True)
        numbers = {node: k for k, node in enumerate(inputs)}
        self._count = len(inputs)
        self._inputs, self._captured = numbered_inputs(traced, numbers, {}, 0)
        self.device = runtime.common_device(self._captured)
        self._fixed = runtime.Fixed.of(traced, self.device)
        self._scalars = NOWHERE if self._fixed.scalars is None else self._fixed.scalars.pointer
        self._dims = [v.name for v in traced.dims]
        self.compiled = runtime.find(traced.key, self.device)
        # For calls with addresses: of each input its number and how many bytes behind, or where it is once and for all.
        starts = [view.offset * view.leaf.dtype.itemsize for view in traced.inputs]
        fixed = [storage.memory.address + storage.offset * storage.dtype.itemsize for storage in self._captured]
        self._reads = [(k, at if k >= 0 else fixed[-1 - k] + at) for k, at in zip(self._inputs, starts, strict=True)]
        stored = [n for n, output in enumerate(self.compiled.outputs) if isinstance(output, Stored)]
        self._stored = {n: k for k, n in enumerate(stored)}
        self._nbytes = () if self._dims else self.compiled.sizes({})
        first = {n: r for r, n in reversed(list(enumerate(self.compiled.results[: len(roots)])))}
        self._writes = {k: first[n] for n, k in self._stored.items() if n in first}
        self._copies = sorted(set(range(len(roots))) - set(self._writes.values()))

    def __call__(self, storages: Sequence[Storage], dims: Mapping[str, int] | None = None) -> list[Storage]:
        """The results. Dims are given by the names that the stand-ins' sizes have."""
        given = [storages[k] if k >= 0 else self._captured[-1 - k] for k in self._inputs]
        given = [storage.on(self.device.name) for storage in given]
        sizes = self._sizes(dims)
        found = runtime.run(self.compiled, self._fixed.pointers(given), given, self._fixed, sizes)
        return [
            x if order is None else x.view(*_turned(x.shape, x.strides, order), 0)
            for x, order in zip(found, self.orders, strict=True)
        ]

    @property
    def in_place(self) -> list[tuple[int, int]]:
        """Results that may be written over inputs, by their numbers: an address may be given for both."""
        pairs = [(self._writes[k], self._inputs[n]) for k, n in self.compiled.in_place if k in self._writes]
        return [(r, n) for r, n in pairs if n >= 0]

    def write(self, inputs: Sequence[int], results: Sequence[int], dims: Mapping[str, int] | None = None) -> None:
        """Read inputs that begin at these addresses, and write each result to one. Nothing looks whether there is
        memory: whoever calls knows the types of the stand-ins.
        """
        compiled, sizes = self.compiled, self._sizes(dims)
        if self.device.name != HOST:
            raise ArgumentError(f"addresses are of main memory, and this is computed on {self.device.name}")
        if len(inputs) != self._count or len(results) != len(self._types):
            due = f"{self._count} and {len(self._types)} are due."
            raise ArgumentError(f"{len(inputs)} inputs and {len(results)} results", rule=due)
        addresses = [inputs[k] + shift if k >= 0 else shift for k, shift in self._reads]
        nbytes = compiled.sizes(sizes) if sizes else self._nbytes
        into = {k: Memory(results[r], pointer(results[r]), nbytes[k], None) for k, r in self._writes.items()}
        memories = compiled.run(
            [struct.pack(f"{len(addresses)}q", *addresses)], self._scalars, self._fixed.starts, sizes, into
        )
        for r in self._copies:
            self._copy(r, results[r], addresses, memories, sizes)
        for check, n in zip(self._fixed.checks, compiled.results[len(results) :], strict=True):
            if check is not DONE:
                check.report(int(memories[self._stored[n]].view(np.dtype(np.int64), ()).item()))

    def _copy(
        self, r: int, address: int, inputs: Sequence[int], memories: Sequence[Memory], sizes: dict[str, int]
    ) -> None:
        """Write a result that no launch has written there: it is as an input is, or as another result."""
        output = self.compiled.outputs[self.compiled.results[r]]
        shape, size = concrete(output.shape, sizes), self._types[r][0].itemsize
        if isinstance(output, Alias):
            strides = concrete(output.strides, sizes)
            source = inputs[output.input] + output.offset * size
        else:
            strides = concrete(row_major(shape), sizes)
            source = memories[self._stored[self.compiled.results[r]]].address
        target = _array(address, self._types[r][0], shape, row_major(shape), writeable=True)
        target[...] = _array(source, self._types[r][0], shape, strides)

    def _sizes(self, dims: Mapping[str, int] | None) -> dict[str, int]:
        """The values of the dims by the names that the compiled graph has for them."""
        return {f"d{k}": (dims or {})[name] for k, name in enumerate(self._dims)}


def _turned(shape: Sequence[int], strides: Sequence[int], order: Order) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of what is stored with its axes in another order."""
    where = [order.index(axis) for axis in range(len(order))]
    return tuple([shape[k] for k in where]), tuple([strides[k] for k in where])


def _array(address: int, dtype: Any, shape: Any, strides: Any, writeable: bool = False) -> NDArray[Any]:
    """Elements in memory from an address on, with strides in elements."""
    reach = [stride * (size - 1) for stride, size in zip(strides, shape, strict=True)] if 0 not in shape else []
    low, high = sum(min(0, x) for x in reach), sum(max(0, x) for x in reach)
    size = dtype.itemsize
    memory = Memory(address + low * size, NOWHERE, (high - low + 1) * size, None)
    return memory.view(np.dtype(dtype.numpy), shape, [stride * size for stride in strides], -low * size, writeable)
