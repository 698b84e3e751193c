"""Methods that people bring along from other libraries; and what is said about those that there are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Never, Self

from smelt.derive import stopped
from smelt.device import HOST
from smelt.dtypes import DType
from smelt.errors import ShapeError, UnknownNameError
from smelt.graph import build, product_of, shape_text
from smelt.names import missing_attribute
from smelt.tensor import devices
from smelt.tensor.handle import Handle, wrap
from smelt.tensor.math import floats
from smelt.tensor.shape import movement
from smelt.tensor.types import Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


class _Told:
    """An attribute that is not there, and which people set as well as read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Never:
        raise AttributeError(self.name)  # then `__getattr__` is asked

    def __set__(self, instance: Any, value: Any) -> Never:
        raise missing_attribute(instance, self.name, "Tensor")


_CHANGED: Final = {
    "shape": "Write y = x.reshape(...).",
    "dtype": "Write y = x.astype(...).",
    "device": "Write y = x.to(...).",
    "real": "Write y = sm.complex(values, x.imag).",
    "imag": "Write y = sm.complex(x.real, values).",
}


def refuse_changes(tensor: type[Any]) -> None:
    """Have the properties of a class say that tensors never change. They stay those of Python, the fastest ones."""
    for name, value in list(vars(tensor).items()):
        if type(value) is property:

            def refused(x: Any, values: Any, name: str = name) -> Never:
                hint = _CHANGED.get(name, "Compute another tensor.")
                raise UnknownNameError(f"{name}: tensors never change", lambda: hint)

            setattr(tensor, name, value.setter(refused))


class Habits(Handle):
    """What a Tensor has for the sake of habits. It never changes, so that a copy is the tensor itself."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker must not take every name for one that is there
        requires_grad, grad, data = _Told(), _Told(), _Told()

        def __getattr__(self, name: str) -> Never:
            raise missing_attribute(self, name, "Tensor")

        def __dir__(self) -> list[str]:
            return [name for name in super().__dir__() if name not in ("requires_grad", "grad", "data")]

    def detach(self) -> Self:
        """The same values, which count as constants for every derivative: `sm.stop_gradient`."""
        return wrap(stopped(self._node))  # type: ignore[return-value]

    def clone(self) -> Self:
        """The tensor itself: nobody can change it."""
        return self

    copy = contiguous = clone

    def cpu(self) -> Self:
        """The tensor in main memory."""
        return devices.placed(self, HOST, "cpu")  # type: ignore[arg-type, return-value]

    def dim(self) -> int:
        """The number of axes: `ndim`."""
        return len(self._node.shape)

    def numel(self) -> Size:
        """The number of elements: `size`."""
        return product_of(self._node.shape)

    def view(self, *shape: Any) -> Tensor:
        """`reshape`, or `bitcast` for a dtype."""
        tensor = wrap(self._node)
        is_dtype = len(shape) == 1 and isinstance(shape[0], DType)
        return floats.bitcast(tensor, shape[0]) if is_dtype else movement.reshape(tensor, *shape)

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector as it is."""
        node = self._node
        if node.rank > 2:
            raise ShapeError(
                f"t: shape {shape_text(node.shape)} has rank {node.rank}",
                rule="t is the transpose of a matrix.",
                hint="Use mT for the last two axes, or permute_dims for any order.",
            )
        return wrap(build.permute(node, tuple(reversed(range(node.rank)))))
