"""`custom_kernel`: a region and a schedule that a user has written, as a function of tensors."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from smelt import runtime
from smelt.device import HOST
from smelt.doors.compared import Array
from smelt.errors import ArgumentError, DTypeError, GradientError, ParseError, ShapeError
from smelt.graph import Hosted, shape_text, values_of
from smelt.kernel import Buffer, Illegal, print_region
from smelt.search.written import Written, written
from smelt.tensor import Tensor, node_of, wrap
from smelt.transform import custom_vjp


class CustomKernel:
    """A kernel of a user's own. Called on tensors, it gives a tensor, or a tuple of them."""

    def __init__(self, kernel: Written) -> None:
        self._kernel = kernel
        self.__name__ = self.__qualname__ = "custom_kernel"

        def value(*tensors: Tensor) -> Any:
            return self._value(*tensors)

        value.__name__ = value.__qualname__ = "custom_kernel"
        self._with_gradient = custom_vjp(value)
        self._with_gradient.defvjp(lambda *args: (self._value(*args), None), _no_gradient)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs, in the order of a call."""
        return tuple(buffer.name for buffer in self._kernel.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its results."""
        return tuple(buffer.name for buffer in self._kernel.outputs)

    @property
    def region(self) -> str:
        """What it computes, as text."""
        return print_region(self._kernel.region)

    @property
    def source(self) -> str:
        """The C that was generated."""
        return self._kernel.kernel.source

    def __repr__(self) -> str:
        given = ", ".join(map(_shown, self._kernel.inputs))
        return f"custom_kernel({given} -> {', '.join(map(_shown, self._kernel.outputs))})"

    def __call__(self, *args: Any) -> Any:
        wanted = self._kernel.inputs
        if len(args) != len(wanted):
            raise ArgumentError(f"custom_kernel: {len(args)} inputs", rule=f"it takes {', '.join(self.inputs)}.")
        tensors = [wrap(node_of(arg, "custom_kernel")) for arg in args]
        for tensor, buffer in zip(tensors, wanted, strict=True):
            node = tensor._node
            if node.shape != buffer.shape:
                raise ShapeError(
                    f"custom_kernel: {buffer.name} has shape {shape_text(node.shape)}",
                    rule=f"its region says {shape_text(buffer.shape)}.",
                )
            if node.dtype is not buffer.dtype:
                raise DTypeError(
                    f"custom_kernel: {buffer.name} is {node.dtype}", rule=f"its region says {buffer.dtype}."
                )
        return self._with_gradient(*tensors)

    def _value(self, *tensors: Tensor) -> Any:
        types = tuple((buffer.dtype, buffer.shape) for buffer in self._kernel.outputs)
        nodes = values_of(Hosted(self._run, types), [tensor._node for tensor in tensors])
        return wrap(nodes[0]) if len(nodes) == 1 else tuple(wrap(node) for node in nodes)

    def _run(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        return self._kernel(arrays)


def _shown(buffer: Buffer) -> str:
    return f"{buffer.name} {buffer.dtype}{list(buffer.shape)}"


def _no_gradient(kept: Any, cotangent: Any) -> Any:
    raise GradientError(
        "custom_kernel: it has no gradient",
        hint="Give it one with sm.custom_vjp, or let its result count as a constant with sm.stop_gradient.",
    )


def custom_kernel(region: str, schedule: str = "") -> CustomKernel:
    """A kernel of your own, in smelt's text forms: a region says what is computed, and a schedule how.

    `sm.explain` prints both for its own kernels. The texts are read, the kernel is verified, compiled, and compared
    with a reference that is no kernel, on whole, normal and special inputs; whatever is wrong raises an error. Inputs
    are the buffers of the region in the order in which it declares them: dense, with sizes that are numbers.

    >>> import smelt as sm
    >>> twice = sm.custom_kernel('''
    ... region
    ... axis i in 0 .. 7
    ... buffer x float32 [8] strides [1] offset 0
    ... %0: float32 = load x[i]
    ... %1: float32 = add %0 %0
    ... output y float32 [8] strides [1] offset 0
    ... store y[i] = %1
    ... ''', "split i (4 lane)")
    >>> twice
    custom_kernel(x float32[8] -> y float32[8])
    >>> twice(sm.arange(8, dtype=sm.float32)).tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    """
    for name, text in (("region", region), ("schedule", schedule)):
        if not isinstance(text, str):
            raise ArgumentError(f"custom_kernel: the {name} is {type(text).__name__}", rule="it is text.")
    try:
        text = textwrap.dedent(region)
        made = written(text, schedule, runtime.device(HOST, "custom_kernel"))
    except Illegal as error:
        raise ArgumentError(f"custom_kernel: the schedule does not fit: {error}") from None
    except (ArgumentError, ParseError) as error:
        said = [line for line in str(error).splitlines() if not line.startswith("  at ")]
        raise type(error)(f"custom_kernel: {said[0]}", hint="\n".join(line.strip() for line in said[1:])) from None
    return CustomKernel(made)
