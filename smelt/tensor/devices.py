"""Where tensors lie: the default device, and moving from one to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt import runtime
from smelt.graph import Node, Op, topological
from smelt.runtime import Storage
from smelt.tensor.arguments import check_device
from smelt.tensor.handle import wrap

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = ["get_default_device", "set_default_device"]


def set_default_device(device: str) -> None:
    """Make new tensors on this device from now on: "cpu" or "opencl".

    A computation runs where its inputs lie, and without inputs on the default device. `SMELT_DEVICE` in the environment
    says what it is at first. OpenCL needs `pip install pyopencl`.

    >>> sm.set_default_device("cpu")
    >>> sm.zeros(2).device
    'cpu'
    """
    check_device(device, "set_default_device")
    runtime.set_default(str(device), "set_default_device")


def get_default_device() -> str:
    """The device on which new tensors are made.

    >>> sm.get_default_device()
    'cpu'
    """
    return runtime.default_device().name


def device_of(node: Node) -> str:
    """Where the value of a node lies or will lie."""
    found = node if node.op is Op.LEAF else node.leaf
    if found is not None and isinstance(found.attribute, Storage):
        return found.attribute.device
    leaves = [n.leaf or n for n in topological([node]) if n.op is Op.LEAF or n.leaf is not None]
    return runtime.common_device([n.attribute for n in leaves if isinstance(n.attribute, Storage)]).name


def placed(tensor: Tensor, device: Any, name: str) -> Tensor:
    """The tensor on a device that the user named, or as it is. While a function is traced nothing moves."""
    check_device(device, name)
    if device is None or runtime.is_tracing() or runtime.is_traced(tensor._node):
        return tensor
    if str(device) == device_of(tensor._node):
        return tensor
    from smelt.tensor.interop import storage_of

    target = runtime.device(str(device), name)
    return wrap(runtime.leaf(storage_of(tensor, name).on(target.name)))
