"""How other libraries get at a tensor: NumPy's protocols, DLPack, the array API and JAX's."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from smelt.tensor import dlpack, interop, namespace
from smelt.tensor.handle import Handle

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Protocols(Handle):
    """The part of a Tensor that other libraries ask for."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return interop.array_protocol(self, dtype, copy)  # type: ignore[arg-type]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from smelt.tensor import numpy_calls  # loaded when first used: `import smelt` stays instant

        return numpy_calls.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from smelt.tensor import numpy_calls

        return numpy_calls.call_function(function, args, kwargs)

    @property
    def __jax_array__(self) -> Callable[[], Any]:
        # JAX looks whether this is there before it says anything of its own, so the lookup refuses what has no value.
        interop.refuse_in_jax(self)  # type: ignore[arg-type]
        return lambda: interop.to_jax_array(self)  # type: ignore[arg-type]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of a copy; with `copy=False` of the tensor's own memory, marked read-only."""
        return interop.to_dlpack(self, stream, max_version, dl_device, copy)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device type and number of DLPack."""
        return dlpack.CPU

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module with the functions of the array API, if it has that version of it."""
        return namespace.module(api_version)
