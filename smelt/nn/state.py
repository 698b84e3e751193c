"""Tensors of modules by name: taking them from a dictionary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.tensor import Tensor, to_node, wrap

if TYPE_CHECKING:
    from smelt.nn.module import Module

MOST_NAMES = 8  # that a message lists


def load_tensors(module: Module, tensors: Mapping[str, Any], strict: bool) -> None:
    """Replace the tensors of a module by those of the same name. All is checked before the first is replaced."""
    if not isinstance(tensors, Mapping):
        raise _no_dictionary(tensors)
    own = dict(module.named_tensors())
    new: dict[int, Tensor] = {}
    for name, value in tensors.items():
        if name in own:
            new[id(own[name])] = _fitting(name, value, own[name])
    missing = [name for name, tensor in own.items() if id(tensor) not in new]
    unexpected = [name for name in tensors if name not in own]
    if strict and (missing or unexpected):
        hint = "With strict=False they are left out."
        raise names_differ("load_state_dict", {"missing": missing, "not in the module": unexpected}, hint)
    if unexpected and not new:
        raise names_differ("load_state_dict", {"missing": missing, "not in the module": unexpected})
    _replace(module, new, set())


def names_differ(name: str, parts: Mapping[str, list[str]], hint: str = "") -> ArgumentError:
    """The error for names that are missing, and for those that nobody wants, by what to call them."""
    lists = "; ".join(f"{what}: {_listed(names)}" for what, names in parts.items() if names)
    return ArgumentError(f"{name}: names differ; {lists}", hint=_renaming(*parts.values()) or hint)


def _renaming(missing: list[str], unexpected: list[str]) -> str:
    """What to write where something in front of all names is all that makes them differ."""
    for name, other in product(missing[:1], unexpected):
        if other.endswith(name) and set(missing) <= {n.removeprefix(other.removesuffix(name)) for n in unexpected}:
            front = other.removesuffix(name)
            return f"Without {front!r} they fit: {{name.removeprefix({front!r}): t for name, t in tensors.items()}}."
        if name.endswith(other) and set(missing) <= {name.removesuffix(other) + n for n in unexpected}:
            front = name.removesuffix(other)
            return f"With {front!r} in front they fit: {{{front!r} + name: t for name, t in tensors.items()}}."
    return ""


def _no_dictionary(value: Any) -> ArgumentError:
    hint = "Give tensors by name, as state_dict() does."
    if hasattr(value, "state_dict"):
        hint = "Give its state_dict()."
    elif isinstance(value, str | os.PathLike):
        hint = "For a safetensors file, use sm.load(module, path)."
    return ArgumentError(f"load_state_dict: a {type(value).__name__} is no dictionary of tensors", hint=hint)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _fitting(name: str, value: Any, own: Tensor) -> Tensor:
    # Never the given tensor itself: donating the module must leave it.
    tensor = wrap(to_node(value, f"load_state_dict: {name}"))
    if tensor.shape != own.shape:
        raise ShapeError(
            f"load_state_dict: {name} has shape {shape_text(tensor.shape)}", rule=f"it must be {shape_text(own.shape)}."
        )
    return tensor if tensor.dtype is own.dtype else tensor.astype(own.dtype)


def _replace(value: Any, new: Mapping[int, Tensor], seen: set[int]) -> Any:
    """A value with tensors replaced; modules, lists and dictionaries stay the same objects."""
    from smelt.nn.module import Module

    if isinstance(value, Tensor):
        return new.get(id(value), value)
    if isinstance(value, Module | dict | list):
        if id(value) in seen:
            return value
        seen.add(id(value))
    if isinstance(value, Module):
        for name, item in list(vars(value).items()):
            vars(value)[name] = _replace(item, new, seen)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            value[key] = _replace(item, new, seen)
    elif isinstance(value, list):
        value[:] = [_replace(item, new, seen) for item in value]
    elif type(value) is tuple:
        return tuple([_replace(item, new, seen) for item in value])
    return value
