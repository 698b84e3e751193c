"""What traced functions set in objects: seen, put back, and handed over to whom it is meant for."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from typing import Any, Final

from smelt import tree
from smelt.tensor import Tensor, wrap

Attributes = list[dict[str, Any]]  # of several objects

NOTHING: Final = object()


def own_attributes(value: Any) -> dict[str, Any]:
    """What an object keeps under names, in its dictionary or in slots."""
    kind: Any = type(value)
    slots = {name: getattr(value, name) for name in _slots(kind) if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **slots}


def computed_attribute(value: Any, name: str) -> Any:
    """What a class's own `__getattr__` gives, as PyTorch's modules do for their weights; `NOTHING` if there is none."""
    kind = type(value)
    if not hasattr(kind, "__getattr__") or hasattr(kind, name):
        return NOTHING
    try:
        return getattr(value, name, NOTHING)
    except Exception:  # whatever the class raises: the function may never ask
        return NOTHING


@functools.lru_cache(maxsize=4096)
def _slots(kind: type) -> tuple[str, ...]:
    listed = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    names = [name for slots in listed for name in ((slots,) if isinstance(slots, str) else slots)]
    return tuple([name for name in names if name not in ("__dict__", "__weakref__")])


def attributes_of(holders: Sequence[Any]) -> Attributes:
    return [own_attributes(holder) for holder in holders]


def changed_attributes(holders: Sequence[Any], before: Attributes) -> dict[tuple[int, str], Any]:
    """What a function has set: the number of the object, the name of the attribute, and its value now."""
    return {
        (k, name): value
        for k, (holder, old) in enumerate(zip(holders, before, strict=True))
        for name, value in own_attributes(holder).items()
        if value is not old.get(name, NOTHING)
    }


def put(holder: Any, name: str, value: Any) -> None:
    """Set an attribute to what it was set to before: whatever its class checks or computes has been done, and frozen
    ones have their ways.
    """
    object.__setattr__(holder, name, value)


def prepared(holders: Sequence[Any], counts: Sequence[tuple[int, str]], stored: Container[str]) -> Attributes:
    """Attributes as they must be for changes to be seen: counts are zero, so that what comes of them is what is added,
    and no two that a function may set are the same object, or setting one to the other would go unnoticed.
    """
    for k, name in counts:
        put(holders[k], name, type(getattr(holders[k], name))())
    seen: set[int] = set()
    for holder in holders:
        for name, value in own_attributes(holder).items():
            if name in stored and id(value) in seen and isinstance(value, Tensor):
                put(holder, name, wrap(value._node))
            elif name in stored and id(value) in seen and tree.is_inner(value):
                leaves, structure = tree.flatten(value)
                put(holder, name, tree.unflatten(structure, leaves))
            seen.add(id(value))
    return attributes_of(holders)


def hand_over(inner: Sequence[Any], before: Attributes, outer: Sequence[Any]) -> None:
    """Set what a function has changed in stand-ins in what they stand for."""
    for (k, name), value in changed_attributes(inner, before).items():
        setattr(outer[k], name, value)


def put_back(holders: Sequence[Any], before: Attributes) -> None:
    """Objects as they were."""
    for (k, name), _ in changed_attributes(holders, before).items():
        if name in before[k]:
            put(holders[k], name, before[k][name])
        else:
            object.__delattr__(holders[k], name)
