"""Modules and trees in files: `smelt.save` and `smelt.load`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

from smelt import tree
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.formats.safetensors import SafeTensors, write_safetensors
from smelt.formats.whole import PathLike
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.state import names_differ
from smelt.tensor import Tensor, numpy, realize

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["load", "save"]

T = TypeVar("T")

# Endings of names that stand for what `save` does not write.
_OTHERS: Final = frozenset(
    {".pt", ".pth", ".bin", ".npz", ".npy", ".pkl", ".pickle", ".h5", ".hdf5", ".keras", ".onnx", ".gguf", ".msgpack"}
)


def save(model: Any, path: PathLike, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write the tensors of a module, or of any tree, to a safetensors file.

    Names are paths joined by dots, for modules those of `state_dict`. A tensor with several names is written once,
    and the metadata says what else it is called. An older file is replaced when the new one is complete; links are
    followed, permissions stay, and what is no regular file (a folder, a pipe, a device) is refused, as are the endings
    of names that belong to other formats, such as `.pt`.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "net.safetensors")
    >>> net = sm.nn.Linear(2, 3)
    >>> sm.save(net, path)
    >>> bool((sm.load(sm.nn.Linear(2, 3), path).weight == net.weight).all())
    True
    """
    _check_order(model, path, "save")
    _check_name(path)
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentError(
                f"save: the metadata {key!r:.80} is of type {type(value).__name__}",
                rule="metadata are texts by name.",
                hint="Write str(value), or json.dumps(value).",
            )
    arrays, others = named_arrays(model, "save")
    write_safetensors(path, arrays, {**others, **(metadata or {})})


@overload
def load(model: PathLike) -> dict[str, Tensor]: ...
@overload
def load(model: T, path: PathLike) -> T: ...
def load(model: Any, path: PathLike | None = None) -> Any:
    """The tensors of a safetensors file by name; or with a module or tree in front, another one like it with the
    tensors of the file. They are read when they are used.

    Shapes must be those of the given tree, dtypes become its own. Every tensor needs a name in the file, one of several
    is enough; the file may not have others.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "pair.safetensors")
    >>> sm.save({"a": sm.arange(3), "b": [sm.ones(2)]}, path)
    >>> sorted(sm.load(path))
    ['a', 'b.0']
    >>> sm.load({"a": sm.zeros(3, dtype=sm.int64), "b": [sm.zeros(2)]}, path)["b"][0].tolist()
    [1.0, 1.0]
    """
    if path is None:
        if not isinstance(model, str | os.PathLike):
            raise ArgumentError("load: the file is missing", hint="Call sm.load(model, path) or sm.load(path).")
        return dict(SafeTensors(model))
    _check_order(model, path, "load")
    return with_tensors(model, SafeTensors(path), "load")


def _check_order(model: Any, path: Any, name: str) -> None:
    """Refuse a path in front of the model, and what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"{name}: the second argument is of type {type(path).__name__}",
            rule="it is the path of the file, and the model comes first.",
            hint='Write sm.save(model, "net.safetensors"), and model = sm.load(Net(), "net.safetensors").',
        )
    if isinstance(model, str | os.PathLike):
        raise ArgumentError(f"{name}: both arguments are paths", rule="the first is a module, or a tree of tensors.")


def _check_name(path: PathLike) -> None:
    """Refuse a name under which other programs would look for another format."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix.lower() in _OTHERS:
        raise ArgumentError(
            f"save: the name ends in {suffix}, which is that of other formats",
            rule="save writes safetensors files, as PyTorch and others read them with the package safetensors.",
            hint=f"Call it {stem}.safetensors.",
        )


def named_arrays(model: Any, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The values of all tensors of a tree by their first names; and the first names by the others."""
    named = _all_named(model, name)
    realize(*(leaf for _, leaf in named if isinstance(leaf, Tensor)))
    arrays: dict[str, NDArray[Any]] = {}
    others: dict[str, str] = {}
    first: dict[int, str] = {}
    for path, leaf in named:
        if path in arrays or path in others:
            raise ArgumentError(f"{name}: two tensors are called {path}", hint="Use keys without dots.")
        if id(leaf) in first:
            others[path] = first[id(leaf)]
        else:
            first[id(leaf)] = path
            arrays[path] = numpy(leaf) if isinstance(leaf, Tensor) else leaf
    return arrays, others


def with_tensors(model: T, tensors: Mapping[str, Tensor], name: str) -> T:
    """A tree like the given one with tensors by name, which are all checked before any is made."""
    names: dict[int, list[str]] = {}
    leaves: dict[int, Any] = {}
    for path, leaf in _all_named(model, name):
        names.setdefault(id(leaf), []).append(path)
        leaves[id(leaf)] = leaf
    chosen = {key: next((path for path in paths if path in tensors), None) for key, paths in names.items()}
    missing = [paths[0] for key, paths in names.items() if chosen[key] is None]
    known = {path for paths in names.values() for path in paths}
    unexpected = [path for path in tensors if path not in known]
    if missing or unexpected:
        hint = "What is given must be made as what was saved: the same layers, optimizer and frozen parts."
        raise names_differ(name, {"missing in the file": missing, "only in the file": unexpected}, hint)
    new = {key: _fitting(path, tensors[path], leaves[key], name) for key, path in chosen.items() if path is not None}
    return tree.map(lambda leaf: new.get(id(leaf), leaf), model)  # type: ignore[no-any-return]


def _fitting(path: str, tensor: Tensor, own: Any, name: str) -> Any:
    if tuple(tensor.shape) != tuple(own.shape):
        raise ShapeError(
            f"{name}: {path} has shape {shape_text(tensor.shape)}", rule=f"it must be {shape_text(own.shape)}."
        )
    if isinstance(own, Tensor) and own.dtype.is_complex:  # trees see its parts, which have no names in a file
        raise DTypeError(
            f"{name}: {path} is complex, and cannot be put into a tree", hint="Take it by name: sm.load(path)[name]."
        )
    if isinstance(own, np.ndarray):
        return tensor.numpy().astype(own.dtype)
    return tensor if tensor.dtype is own.dtype else tensor.astype(own.dtype)


def _all_named(model: Any, name: str) -> list[tuple[str, Any]]:
    """All tensors and arrays of a tree by all their names."""
    try:
        return list(_named(model, "", name))
    except RecursionError:
        raise tree.endless(f"{name}: the tree") from None


def _named(value: Any, path: str, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor | np.ndarray):
        yield path, value
    elif isinstance(value, Module):
        prefix = f"{path}." if path else ""
        yield from ((prefix + inner, tensor) for inner, tensor in value.named_tensors())
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _named(item, f"{path}.{key}" if path else str(key), name)
    elif isinstance(value, list | tuple):
        keys = getattr(value, "_fields", range(len(value)))
        for key, item in zip(keys, value, strict=True):
            yield from _named(item, f"{path}.{key}" if path else str(key), name)
    elif tree.is_inner(value):
        leaves, structure = tree.flatten(value)
        for step, leaf in zip(tree.paths(structure), leaves, strict=True):
            inner = step.replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").lstrip(".")
            yield from _named(leaf, f"{path}.{inner}" if path else inner, name)
    elif value is not None:
        raise ArgumentError(
            f"{name}: {path or 'the argument'} is of type {type(value).__name__}",
            rule="only trees of tensors and arrays can be written.",
        )
