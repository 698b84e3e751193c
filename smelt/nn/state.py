"""Tensors of modules by name: taking them from a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph.shapes import shape_text
from smelt.tensor import Tensor
from smelt.tensor.interop import asarray

if TYPE_CHECKING:
    from smelt.nn.module import Module

MOST_NAMES = 8  # that a message lists


def load_tensors(module: Module, tensors: Mapping[str, Any], strict: bool) -> None:
    """Replace the tensors of a module by those of the same name. All is checked before the first is replaced."""
    own = dict(module.named_tensors())
    new: dict[int, Tensor] = {}
    for name, value in tensors.items():
        if name in own:
            new[id(own[name])] = _fitting(name, value, own[name])
    missing = [name for name, tensor in own.items() if id(tensor) not in new]
    unexpected = [name for name in tensors if name not in own]
    if strict and (missing or unexpected):
        parts = [("missing", missing), ("not in the module", unexpected)]
        raise ArgumentError(
            "load_state_dict: names differ; "
            + "; ".join(f"{what}: {_listed(names)}" for what, names in parts if names),
            hint="With strict=False they are left out.",
        )
    _replace(module, new)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _fitting(name: str, value: Any, own: Tensor) -> Tensor:
    tensor = asarray(value)  # never the given tensor itself: donating the module must leave it
    if tensor.shape != own.shape:
        raise ShapeError(
            f"load_state_dict: {name} has shape {shape_text(tensor.shape)}", rule=f"it must be {shape_text(own.shape)}."
        )
    return tensor if tensor.dtype is own.dtype else tensor.astype(own.dtype)


def _replace(value: Any, new: Mapping[int, Tensor]) -> Any:
    """A value with tensors replaced; modules, lists and dictionaries stay the same objects."""
    from smelt.nn.module import Module

    if isinstance(value, Tensor):
        return new.get(id(value), value)
    if isinstance(value, Module):
        for name, item in list(vars(value).items()):
            vars(value)[name] = _replace(item, new)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            value[key] = _replace(item, new)
    elif isinstance(value, list):
        value[:] = [_replace(item, new) for item in value]
    elif type(value) is tuple:
        return tuple([_replace(item, new) for item in value])
    return value
